#!/usr/bin/env bash
# Runs three nodes with the configurations of examples/, as a user starts them: writes, kills a node, reads, restarts
# the node. First with the key-value store, then with transactions.
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
# A membership service stores its state beside its configuration.
cp examples/*.toml "$work"

# Waits until the log of node $1 has a line that matches $2. The limit is a minute, for busy machines.
await() {
    for _ in {1..1200}; do
        grep -q "$2" "$work/node$1.log" && return
        sleep 0.05
    done
    echo "node $1 does not say '$2':" >&2
    cat "$work/node$1.log" >&2
    exit 1
}

# Starts node $1 of the cluster with the configuration examples/$2.toml.
start() {
    "$weft" start --config "$work/$2.toml" --node "$1" >"$work/node$1.log" 2>&1 &
    nodes[$1]=$!
    disown
}

# Kills node $1 and waits until it is gone.
crash() {
    kill -9 "${nodes[$1]}"
    while kill -0 "${nodes[$1]}" 2>/dev/null; do sleep 0.01; done
}

# Fails unless `weft $@` prints a line that matches the first argument. The exit code must be 3 if the line is a
# negative answer, and 0 otherwise.
expect() {
    local pattern=$1 answer code=0 wanted=0
    shift
    answer=$("$weft" "$@") || code=$?
    [[ $answer == 'not found'* || $answer == mismatch* || $answer == refused* ]] && wanted=3
    if ((code != wanted)); then
        echo "weft $*: exit code $code instead of $wanted" >&2
        exit 1
    fi
    if ! grep -qx "$pattern" <<<"$answer"; then
        echo "weft $*: '$answer' instead of '$pattern'" >&2
        exit 1
    fi
}

kv() { expect "$1" kv --config "$work"/weft.toml --give-up-ms 20000 "${@:2}"; }
call() { expect "$1" txn --config "$work"/ledger.toml call --give-up-ms 20000 "${@:2}"; }

for node in 0 1 2; do start "$node" weft; done
for node in 0 1 2; do await "$node" 'as full'; done
for key in a b c d e f; do kv 'done, version [0-9]*' put "$key" "value of $key"; done
"$weft" status --config "$work"/weft.toml --give-up-ms 20000 >"$work/status.txt" || { cat "$work/status.txt" >&2; exit 1; }
kv 'found, version [0-9]*: value of a' get a
"$weft" kv --config "$work"/weft.toml --json - get a 2>/dev/null | grep -q '"outcome": "found"'
kv 'mismatch, version [0-9]*' compare-and-set a 1 other
kv 'not found' get nothing
kv 'done, version [0-9]*' delete f
kv 'not found' get f

crash 2
code=0
"$weft" status --config "$work"/weft.toml >"$work/status.txt" || code=$?
((code == 4)) && grep -q 'wrong: node 2 at .* does not answer' "$work/status.txt" || { cat "$work/status.txt" >&2; exit 1; }
for key in a b c d e; do kv "found, version [0-9]*: value of $key" get "$key"; done
kv 'done, version [0-9]*' put a 'written by two'
start 2 weft
await 2 'as full'
crash 1
kv 'found, version [0-9]*: written by two' get a
for key in b c d e; do kv "found, version [0-9]*: value of $key" get "$key"; done
echo "three nodes, two killed in turn: nothing lost"
for node in 0 2; do crash "$node"; done

# Transactions: accounts with a balance of 1000, one shard for each node, and a separate membership service.
"$weft" membership --config "$work/ledger.toml" >"$work/membership.log" 2>&1 &
nodes[3]=$!
disown
for node in 0 1 2; do start "$node" ledger; done
for node in 0 1 2; do await "$node" 'as full'; done
call 'committed: 700 1300' transfer 0/1 2/7 --input 300
call 'committed: 1290 710' transfer 2/7 0/1 --input 10 --node 1
call 'refused, reason 2' transfer 0/1 1/1 --input 711 --node 2
call 'committed: 2000' balance r:0/1 r:2/7
crash 2
call 'committed: 2000' balance r:0/1 r:2/7
call 'committed: 610 1390' transfer 0/1 2/7 --input 100
start 2 ledger
await 2 'as full'
crash 1
call 'committed: 2000' balance r:0/1 r:2/7 --node 2
call 'committed: 510 1490' transfer 0/1 2/7 --input 100 --node 1
for node in 0 2 3; do crash "$node"; done
[[ -s $work/weft.membership.toml && -s $work/ledger.membership.toml ]]

# A load during which a node is killed and restarted. The clients' history is checked for strict serializability.
"$weft" bench txn-net --workload smallbank --size 2000 --clients 12 --seconds 6 --kill 1 --json "$work/load.json" >/dev/null
grep -q '"checked": "strictly serializable"' "$work/load.json"
echo "transactions on three nodes, two killed in turn, and one under load: nothing lost, strictly serializable"
