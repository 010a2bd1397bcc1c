#!/usr/bin/env bash
# Three nodes that are all keepers and coordinators, with engines of every kind but rounds, which can stop for good on a
# busy machine, under load. The node that holds the membership service is killed and restarted, then a holder is stopped
# for three seconds and continued, twice round. Another node must take over each time. The history of all clients is
# checked.
set -euo pipefail
cd "$(dirname "$0")/.."
weft=${WEFT:-$PWD/target/release/weft}
work=$(mktemp -d)
config=$work/weft.toml
nodes=()
load=
finish() {
    kill -9 "${nodes[@]}" $load 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

fail() {
    echo "tests/keepers.sh: $1" >&2
    exit 1
}

start() {
    "$weft" start --config "$config" --node "$1" >"$work/node$1.log" 2>&1 &
    nodes[$1]=$!
    disown
}

# Repeats a command until it succeeds. The limit is two minutes, for busy machines.
until_done() {
    for _ in {1..1200}; do
        "$@" && return
        sleep 0.1
    done
    cat "$work"/node*.log >&2
    fail "in vain: $*"
}

# Whether the status says that all is well.
is_well() {
    "$weft" status --config "$config" --json - >"$work/status.json" 2>/dev/null
}

# Sets holder and term to those of a term later than $1.
learn_holder() {
    is_well || true
    holder=$(grep -oP '"holder": \K[0-9]+' "$work/status.json") &&
        term=$(grep -oP '"term": \K[0-9]+' "$work/status.json") && ((term > $1))
}

"$weft" init --keepers --nodes 3 --dir "$work" >/dev/null
# Adds an account beside the counter of `weft init`.
printf '[[object]]\nname = "till"\ntype = "account"\n' >>"$config"
for node in 0 1 2; do start "$node"; done
until_done is_well
until_done learn_holder 0

"$weft" bench cluster --config "$config" --seconds 600 --json "$work/load.json" >"$work/load.txt" 2>&1 &
load=$!
sleep 2
for _ in 1 2; do
    until_done learn_holder 0
    killed=$holder
    kill -9 "${nodes[killed]}"
    while kill -0 "${nodes[killed]}" 2>/dev/null; do sleep 0.01; done
    until_done learn_holder "$term"
    ((holder != killed)) || fail "node $killed is dead and holds the membership service"
    sleep 2
    start "$killed"
    until_done is_well

    until_done learn_holder 0
    stopped=$holder
    kill -STOP "${nodes[stopped]}"
    sleep 3
    kill -CONT "${nodes[stopped]}"
    until_done learn_holder "$term"
    until_done is_well
done
# If the load has ended already, the signal fails and the exit code below tells why.
kill -INT "$load" 2>/dev/null || true
code=0
wait "$load" || code=$?
load=
cat "$work/load.txt"
((code == 0)) || fail "the load ended with $code"
# All engines must have made progress.
for engine in kv transactions likes till events lock; do
    grep -A1 "\"engine\": \"$engine\"" "$work/load.json" | grep -q '"acknowledged": [1-9]' ||
        fail "$engine has acknowledged nothing"
done
echo "all engines under load, each holder of the membership service killed or stopped: nothing lost, nothing twice"
