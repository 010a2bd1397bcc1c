#!/usr/bin/env bash
# Three nodes whose store keeps its data on disk. All of them are killed at once under load, repeatedly, and must
# restart with all acknowledged data, once without the third of them. The history of all clients is checked. Finally one
# node loses its disk. Then the same nodes answer writes before they are on disk: what was answered a second before all
# are killed must be there again.
set -euo pipefail
cd "$(dirname "$0")/.."
weft=${WEFT:-$PWD/target/release/weft}
rounds=${ROUNDS:-5}
work=$(mktemp -d)
config=$work/weft.toml
nodes=()
load=
finish() {
    kill -9 "${nodes[@]}" $load 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

# Waits until node $1 reports `as full`. The limit is two minutes, for busy machines.
await() {
    for _ in {1..2400}; do
        grep -q 'as full' "$work/node$1.log" && return
        kill -0 "${nodes[$1]}" 2>/dev/null || break
        sleep 0.05
    done
    echo "node $1 is not full:" >&2
    cat "$work/node$1.log" >&2
    exit 1
}

start() {
    "$weft" start --config "$config" --node "$1" >"$work/node$1.log" 2>&1 &
    nodes[$1]=$!
    disown
}

# Kills these nodes at once, and waits until they have ended.
crash() {
    local processes=()
    for node in "$@"; do processes+=("${nodes[$node]}"); done
    kill -9 "${processes[@]}"
    for process in "${processes[@]}"; do
        while kill -0 "$process" 2>/dev/null; do sleep 0.01; done
    done
}

kv() { "$weft" kv --config "$config" --give-up-ms 20000 "$@"; }

# The store alone, with short values and few keys, so that the files stay small.
"$weft" init --nodes 3 --dir "$work" >/dev/null
sed -i '/^\[kv\]/,$d' "$config"
cat >>"$config" <<TOML
[kv]
value_bytes = 256
capacity_keys = 4096
data_dir = "data"
TOML
for node in 0 1 2; do start "$node"; done
for node in 0 1 2; do await "$node"; done

"$weft" bench cluster --config "$config" --seconds 600 --json "$work/load.json" >"$work/load.txt" 2>&1 &
load=$!
for ((round = 1; round <= rounds; round++)); do
    sleep 1
    kv put "power$round" "$round" >/dev/null
    crash 0 1 2
    for node in 0 1 2; do start "$node"; done
    for node in 0 1 2; do await "$node"; done
    for ((earlier = 1; earlier <= round; earlier++)); do
        kv get "power$earlier" | grep -q "$earlier" || {
            echo "tests/durable.sh: what was written before power cut $earlier is lost after $round" >&2
            exit 1
        }
    done
done

# Two of three nodes are enough: together they have on disk whatever was acknowledged.
kv put half "all of it" >/dev/null
crash 0 1 2
for node in 0 1; do start "$node"; done
for node in 0 1; do await "$node"; done
kv get half | grep -q "all of it" || {
    echo "tests/durable.sh: two of three nodes have lost a write" >&2
    exit 1
}
start 2
await 2

# A node without its disk starts a new incarnation, which gets the data from the other nodes.
crash 2
rm "$work/data/node2.weft"
start 2
await 2
kill -INT "$load" 2>/dev/null || true
code=0
wait "$load" || code=$?
load=
cat "$work/load.txt"
if ((code != 0)); then
    echo "tests/durable.sh: the load ended with $code" >&2
    exit 1
fi

# A second cluster with lagging disks: a client counts up, and the nodes may lose its last steps only.
crash 0 1 2
rm -r "$work/data" "$work"/*membership.toml
sed -i 's/^data_dir.*/&\ndurability = "async"\nlag_ms = 200/' "$config"
for node in 0 1 2; do start "$node"; done
for node in 0 1 2; do await "$node"; done
for ((round = 1; round <= rounds; round++)); do
    answered=0
    for ((step = 1; step <= 40; step++)); do
        kv put count "$((100 * round + step))" >/dev/null
        if ((step == 20)); then
            answered=$((100 * round + step))
            sleep 1
        fi
    done
    crash 0 1 2
    for node in 0 1 2; do start "$node"; done
    for node in 0 1 2; do await "$node"; done
    found=$(kv get count)
    found=${found##*: }
    if ((found < answered || found > 100 * round + 40)); then
        echo "tests/durable.sh: $found was found after $answered was answered a second before all nodes were killed" >&2
        exit 1
    fi
    grep -q 'continues after epoch' "$work/node0.log" || {
        echo "tests/durable.sh: node 0 does not tell what it has found" >&2
        exit 1
    }
done
echo "all nodes killed at once $rounds times under load, one disk lost: nothing acknowledged is lost"
