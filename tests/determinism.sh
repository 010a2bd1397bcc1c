#!/usr/bin/env bash
# The same seed must give the same run, bit for bit: twice in a release build and once in a debug build, with faults
# too.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
release=${WEFT:-target/release/weft}
# The debug build is that of the tests. Cargo reuses it only if a test is built as well, so that the features are the
# same. Its planted bugs, which the release build lacks, are inactive by default.
"${CARGO:-cargo}" build --quiet --locked --workspace --all-features --bin weft --test real_cluster
debug=${CARGO_TARGET_DIR:-target}/debug/weft

cat >"$folder/faults.toml" <<'TOML'
[[fault]]
kind = "loss"
from_us = 7000
until_us = 30000
probability = 0.02

[[fault]]
kind = "crash"
at_us = 7500
machine = "node1"

[[fault]]
kind = "restart"
at_us = 16000
machine = "node1"
TOML

# The log hash in the JSON result of `weft OPTIONS`.
log_hash() {
    "$@" --json - 2>"$folder/stderr" | sed -n 's/^  "log_hash": "\([0-9a-f]*\)",\{0,1\}$/\1/p'
}

same() {
    local first second third
    first=$(log_hash "$release" "$@")
    second=$(log_hash "$release" "$@")
    third=$(log_hash "$debug" "$@")
    if [[ -z $first || $first != "$second" || $first != "$third" ]]; then
        echo "weft $*: release $first, release again $second, debug $third" >&2
        return 1
    fi
    echo "weft $*: $first three times"
}

same bench kv --ops 5000 --seed 7
same bench kv --workload mixed --seconds 0.02 --seed 8 --faults "$folder/faults.toml"
same bench rdma --op write --size 4096 --qps 4 --iterations 500
same sim kv --nodes 5 --seeds 3..3 --faults all
same sim rounds --nodes 5 --seeds 1..4 --faults all
# The same with the gateware, cycle by cycle.
same bench kv --nic rtl --ops 300 --value-bytes 100 --seed 7
same bench kv --nic rtl --workload mixed --open-loop 20000 --seconds 0.02 --seed 8 --faults "$folder/faults.toml"
same bench rdma --nic rtl --op write --size 4096 --qps 4 --iterations 50

# The hash must depend on the seed, or the comparison would prove nothing.
if [[ $(log_hash "$release" bench kv --ops 2000 --seed 1) == $(log_hash "$release" bench kv --ops 2000 --seed 2) ]]; then
    echo "two seeds gave one hash" >&2
    exit 1
fi
