#!/usr/bin/env bash
# Three nodes from examples/ as a user starts them: written to, one killed, read, returned.
set -euo pipefail
cd "$(dirname "$0")/.."
weft=$PWD/target/release/weft
work=$(mktemp -d)
nodes=()
finish() {
    kill -9 "${nodes[@]}" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

# Waits until the log of node $1 has a line that matches $2: a minute, for machines that are busy with other things.
await() {
    for _ in {1..1200}; do
        grep -q "$2" "$work/node$1.log" && return
        sleep 0.05
    done
    echo "node $1 does not say '$2':" >&2
    cat "$work/node$1.log" >&2
    exit 1
}

start() {
    "$weft" start --config "examples/node$1.toml" >"$work/node$1.log" 2>&1 &
    nodes[$1]=$!
    disown
}

# Kills node $1 and waits until it is gone.
crash() {
    kill -9 "${nodes[$1]}"
    while kill -0 "${nodes[$1]}" 2>/dev/null; do sleep 0.01; done
}

# Fails unless `weft kv $@` prints a line that matches the first argument.
expect() {
    local pattern=$1 answer
    shift
    answer=$("$weft" kv --config examples/node0.toml --give-up-ms 20000 "$@")
    if ! grep -qx "$pattern" <<<"$answer"; then
        echo "weft kv $*: '$answer' instead of '$pattern'" >&2
        exit 1
    fi
}

for node in 0 1 2; do start "$node"; done
for node in 0 1 2; do await "$node" 'as full'; done
for key in a b c d e f; do expect 'done, version [0-9]*' put "$key" "value of $key"; done
expect 'found, version [0-9]*: value of a' get a
"$weft" kv --config examples/node0.toml --json - get a 2>/dev/null | grep -q '"outcome": "found"'
expect 'mismatch, version [0-9]*' compare-and-set a 1 other
expect 'not found' get nothing
expect 'done, version [0-9]*' delete f
expect 'not found' get f

crash 2
for key in a b c d e; do expect "found, version [0-9]*: value of $key" get "$key"; done
expect 'done, version [0-9]*' put a 'written by two'
start 2
await 2 'as full'
crash 1
expect 'found, version [0-9]*: written by two' get a
for key in b c d e; do expect "found, version [0-9]*: value of $key" get "$key"; done
echo "three nodes, two killed in turn: nothing lost"
