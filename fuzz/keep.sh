#!/usr/bin/env bash
# Replaces fuzz/corpus by the smallest set of inputs with the coverage of the corpus and of all inputs that
# fuzz/run.sh found: fuzz/keep.sh [TARGET...]. If a target would keep more than 150 inputs, a selection that is even
# over all sizes is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
source fuzz/build.sh
build_fuzzer

targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
    mapfile -t targets < <(ls fuzz/corpus)
fi
for target in "${targets[@]}"; do
    kept=$(mktemp -d)
    mkdir -p "fuzz/corpus/$target" "$output/found/$target"
    WEFT_FUZZ_TARGET=$target "$fuzzer" -set_cover_merge=1 "$kept" "fuzz/corpus/$target" "$output/found/$target" \
        >"$output/$target.keep.log" 2>&1
    rm -f "fuzz/corpus/$target"/*
    step=$((($(ls "$kept" | wc -l) + 149) / 150))
    find "$kept" -type f -printf '%s %p\n' | sort -rn | awk -v step="$step" '(NR - 1) % step == 0 { print $2 }' |
        xargs -I '{}' cp '{}' "fuzz/corpus/$target/"
    rm -rf "$kept"
    echo "$target: $(ls "fuzz/corpus/$target" | wc -l) inputs, $(du -sb "fuzz/corpus/$target" | cut -f 1) bytes"
done
