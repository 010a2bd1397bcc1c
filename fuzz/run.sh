#!/usr/bin/env bash
# Fuzzes every target for SECONDS seconds each: fuzz/run.sh SECONDS [TARGET...]
#
# Prints a table and ends with status 1 if an input violates a property. Needs a C++ compiler for libFuzzer, but
# neither cargo-fuzz nor a nightly toolchain, because stable rustc can run LLVM's coverage pass. There is no address
# sanitizer: nearly all code under test is safe Rust, and overflow checks and debug assertions are on.
#
# Inputs with new coverage are stored in target/fuzz/found; fuzz/keep.sh moves the best of them to fuzz/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
source fuzz/build.sh

if ! [[ ${1:-} =~ ^[1-9][0-9]*$ ]]; then
    echo "error: usage: fuzz/run.sh SECONDS [TARGET...]" >&2
    exit 2
fi
seconds=$1
shift
build_fuzzer
mkdir -p "$output"
started=$output/started
touch "$started"

targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
    mapfile -t targets < <(ls fuzz/corpus)
fi

status=0
printf '%-14s %12s %9s %9s %9s\n' target executions coverage features findings
for target in "${targets[@]}"; do
    found=$output/found/$target
    findings=$output/findings/$target
    log=$output/$target.log
    mkdir -p "$found" "$findings"
    corpora=("$found")
    [[ -d fuzz/corpus/$target ]] && corpora+=("fuzz/corpus/$target")
    # A fuzzer that ends with an error has found a violation, or could not start.
    outcome=0
    WEFT_FUZZ_TARGET=$target "$fuzzer" "${corpora[@]}" -max_total_time="$seconds" -artifact_prefix="$findings/" \
        -print_final_stats=1 -timeout=10 -max_len=2048 >"$log" 2>&1 || outcome=$?
    executions=$(awk '/^stat::number_of_executed_units/ { print $2 }' "$log")
    coverage=$(awk '{ for (i = 1; i < NF; i++) if ($i == "cov:") last = $(i + 1) } END { print last }' "$log")
    features=$(awk '{ for (i = 1; i < NF; i++) if ($i == "ft:") last = $(i + 1) } END { print last }' "$log")
    count=$(find "$findings" -type f -newer "$started" | wc -l)
    printf '%-14s %12s %9s %9s %9s\n' "$target" "${executions:-0}" "${coverage:--}" "${features:--}" "$count"
    if [[ $outcome -ne 0 || $count -ne 0 ]]; then
        status=1
        grep -m 2 -A 2 -E 'panicked at|ERROR: libFuzzer|WEFT_FUZZ_TARGET' "$log" || tail -n 5 "$log"
        find "$findings" -type f -newer "$started" -exec \
            echo "replay: cargo run --package weft-fuzz -- $target" {} \;
    fi
done
exit $status
