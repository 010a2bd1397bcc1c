#!/usr/bin/env bash
# Three nodes whose store keeps its data on disk. All of them are killed at once under load, repeatedly, and must
# restart with all acknowledged data, once without the third of them. The history of all clients is checked. Finally one
# node loses its disk. Then the same nodes answer writes before they are on disk: what was answered a second before all
# are killed must be there again. Finally, the same with transactions instead of the store, also with single nodes that
# are killed or stopped, and whose disk fails, is damaged or lost.
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

# The nodes ignore the signal of a file that may not grow, so that `fail_disk` makes their writes fail.
start() {
    (trap '' XFSZ; exec "$weft" start --config "$config" --node "$1" >"$work/node$1.log" 2>&1) &
    nodes[$1]=$!
    disown
}

# Waits until process $1 has ended.
ended() {
    while kill -0 "$1" 2>/dev/null; do sleep 0.01; done
}

# Makes all writes of node $1 to its disk fail from now on. The node must end and say so.
fail_disk() {
    prlimit --pid "${nodes[$1]}" --fsize=4096
    ended "${nodes[$1]}"
    grep -q 'data_dir: the disk failed to write' "$work/node$1.log" || fail "node $1 does not tell that its disk fails"
}

# Ends these nodes at once with signal $1, and waits until they have ended.
end() {
    local signal=$1 processes=()
    for node in "${@:2}"; do processes+=("${nodes[$node]}"); done
    kill "-$signal" "${processes[@]}"
    for process in "${processes[@]}"; do ended "$process"; done
}

crash() { end KILL "$@"; }

# Starts all nodes, and waits until they are full.
start_all() {
    for node in 0 1 2; do start "$node"; done
    for node in 0 1 2; do await "$node"; done
}

# Removes all data of a cluster that does not run.
remove_data() { rm -r "$work/data" "$work"/*membership.toml; }

# Puts all engines of the cluster under load, until `end_load` checks the answers.
begin_load() {
    "$weft" bench cluster --config "$config" --seconds 600 --json "$work/load.json" >"$work/load.txt" 2>&1 &
    load=$!
}

end_load() {
    kill -INT "$load" 2>/dev/null || true
    local code=0
    wait "$load" || code=$?
    load=
    cat "$work/load.txt"
    ((code == 0)) || fail "the load ended with $code"
}

fail() {
    echo "tests/durable.sh: $1" >&2
    exit 1
}

kv() { "$weft" kv --config "$config" --give-up-ms 20000 "$@"; }
txn() { "$weft" txn --config "$config" call --give-up-ms 20000 "$@"; }

# The store alone, with short values and few keys, so that the files stay small.
"$weft" init --nodes 3 --dir "$work" >/dev/null
sed -i '/^\[kv\]/,$d' "$config"
cat >>"$config" <<TOML
[kv]
value_bytes = 256
capacity_keys = 4096
data_dir = "data"
TOML
start_all
begin_load
for ((round = 1; round <= rounds; round++)); do
    sleep 1
    kv put "power$round" "$round" >/dev/null
    crash 0 1 2
    start_all
    for ((earlier = 1; earlier <= round; earlier++)); do
        kv get "power$earlier" | grep -q "$earlier" ||
            fail "what was written before power cut $earlier is lost after $round"
    done
done

# Two of three nodes are enough: together they have on disk whatever was acknowledged.
kv put half "all of it" >/dev/null
crash 0 1 2
for node in 0 1; do start "$node"; done
for node in 0 1; do await "$node"; done
kv get half | grep -q "all of it" || fail "two of three nodes have lost a write"
start 2
await 2

# A node without its disk starts a new incarnation, which gets the data from the other nodes.
crash 2
rm "$work/data/node2.weft"
start 2
await 2
end_load

# A second cluster with lagging disks: a client counts up, and the nodes may lose its last steps only.
crash 0 1 2
remove_data
sed -i 's/^data_dir.*/&\ndurability = "async"\nlag_ms = 200/' "$config"
start_all
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
    start_all
    found=$(kv get count)
    found=${found##*: }
    if ((found < answered || found > 100 * round + 40)); then
        fail "$found was found after $answered was answered a second before all nodes were killed"
    fi
    grep -q 'continues after epoch' "$work/node0.log" || fail "node 0 does not tell what it has found"
done
echo "all nodes killed at once $rounds times under load, one disk lost: nothing acknowledged is lost"

# Transactions: account 7 of shard 1 counts the answered deposits of this script. The load moves money between others.
crash 0 1 2
remove_data
sed -i '/^\[kv\]/,$d' "$config"
cat >>"$config" <<TOML
[transactions]
procedures = "ledger"
size = 100
data_dir = "data"
TOML
balance=1000
deposit() {
    balance=$((balance + 1))
    txn deposit 1/7 --input 1 | grep -q "committed: $balance\$" || fail "an answered deposit is lost before $balance"
}
start_all
begin_load
for ((round = 1; round <= rounds; round++)); do
    sleep 1
    deposit
    crash 0 1 2
    start_all
    grep -q 'continues after epoch' "$work"/node*.log || fail "no node tells what it has found"
done
deposit
# One node comes back within its lease, and then after it.
for pause in 0 3; do
    crash 2
    sleep "$pause"
    start 2
    await 2
    deposit
done
# Any node is enough, because all replicas have on disk whatever was acknowledged.
crash 0 1 2
start 0
await 0
deposit
for node in 1 2; do start "$node"; done
for node in 1 2; do await "$node"; done
# Nodes that are stopped leave the view, so all but the last one copy the data when they start again.
for node in 2 1 0; do end TERM "$node"; done
start_all
deposit
# A disk that fails ends its node, which goes on once the disk works again.
fail_disk 2
start 2
await 2
deposit
# A node whose file is damaged, and then one without its disk, get the data from the others.
crash 2
dd if=/dev/urandom of="$work/data/node2.weft" bs=1M count=4 conv=notrunc status=none
start 2
await 2
grep -q 'begins with nothing' "$work/node2.log" || fail "node 2 does not tell that its file is damaged"
deposit
crash 2
rm "$work/data/node2.weft"
start 2
await 2
deposit
end_load

# The history of all clients and the final state of every replica, with another membership service.
crash 0 1 2
"$weft" bench txn-net --size 2000 --clients 12 --seconds 12 --data-dir "$work" --kill all --kills 3 \
    --json "$work/load.json" >/dev/null
grep -q '"checked": "strictly serializable"' "$work/load.json"
echo "transactions, all nodes killed at once $((rounds + 3)) times under load, one disk lost: nothing acknowledged is lost"
