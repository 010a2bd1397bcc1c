#!/usr/bin/env bash
# A node that is killed leaves the view at once, and its successor joins at once, although leases last 20 seconds: the
# node's watcher notifies the membership service. Without the watcher, the lease is waited for.
set -euo pipefail
cd "$(dirname "$0")/.."
weft=${WEFT:-$PWD/target/release/weft}
work=$(mktemp -d)
nodes=()
finish() {
    kill -9 "${nodes[@]}" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

fail() {
    echo "tests/exits.sh: $1" >&2
    tail -n 20 "$work"/*/node*.log >&2
    exit 1
}

start() {
    "$weft" start --config "$config" --node "$1" >>"$(dirname "$config")/node$1.log" 2>&1 &
    nodes[$1]=$!
    disown
}

# Repeats a command until it succeeds. The limit is two minutes, for busy machines.
until_done() {
    for _ in {1..1200}; do
        "$@" && return
        sleep 0.1
    done
    fail "in vain: $*"
}

is_well() {
    "$weft" status --config "$config" >/dev/null 2>&1
}

put() {
    "$weft" kv --config "$config" --give-up-ms "$1" put "$2" value >/dev/null 2>"$work/error"
}

# Prints the process of the watcher of node $1, or of those of all nodes.
watcher() {
    local process
    for process in /proc/[0-9]*; do
        # A process may end meanwhile.
        if { tr '\0' ' ' <"$process/cmdline"; } 2>/dev/null | grep -qF "watch-exit --config $config --node ${1-}"; then
            echo "${process#/proc/}"
        fi
    done
}

has_no_watcher() {
    [[ -z $(watcher) ]]
}

# Sets holder to the node that holds the membership service. Without keepers, it is node 0.
learn_holder() {
    holder=0
    [[ $options != --keepers ]] || holder=$("$weft" status --config "$config" --json - 2>/dev/null | grep -oP '"holder": \K[0-9]+')
}

for options in '' --sealed --keepers; do
    config=$work/with$options/weft.toml
    "$weft" init $options --nodes 3 --dir "$(dirname "$config")" >/dev/null
    sed -i 's/^lease_ms = [0-9]*/lease_ms = 20000/' "$config"
    grep -q '^lease_ms = 20000' "$config" || fail "weft init writes no lease_ms"
    for node in 0 1 2; do start "$node"; done
    until_done is_well
    put 10000 before || fail "no write before a node is killed: $(cat "$work/error")"
    until_done learn_holder
    killed=$(((holder + 1) % 3)) unwatched=$(((holder + 2) % 3))

    kill -9 "${nodes[killed]}"
    put 10000 after || fail "no write after node $killed was killed: $(cat "$work/error")"
    start "$killed"
    until_done is_well

    # Without its watcher, a node serves as before, and its lease is waited for.
    kill -9 "$(watcher "$unwatched")" || fail "node $unwatched has no watcher"
    put 10000 without || fail "no write while node $unwatched has no watcher: $(cat "$work/error")"
    kill -9 "${nodes[unwatched]}"
    if put 3000 lease; then fail "a write succeeded during the lease of node $unwatched, which was killed"; fi

    for node in "$killed" "$holder"; do
        kill "${nodes[node]}"
        while kill -0 "${nodes[node]}" 2>/dev/null; do sleep 0.01; done
    done
    until_done has_no_watcher
    nodes=()
done

# A node with its data on disk that starts again continues where it was. It has no watcher.
config=$work/disk/weft.toml
"$weft" init --nodes 3 --dir "$work/disk" >/dev/null
sed -i 's/^\[kv\]/[kv]\ndata_dir = "data"/; /^\[transactions\]/,$d' "$config"
for node in 0 1 2; do start "$node"; done
until_done is_well
has_no_watcher || fail "a node with its data on disk has a watcher"
