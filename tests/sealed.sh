#!/usr/bin/env bash
# Three nodes, all keepers, whose datagrams are sealed under a cluster key, with engines of every kind but rounds, under
# load. Each node is killed and restarted, while strangers without the key, and with another one, send to all. The
# history of all clients is checked.
set -euo pipefail
cd "$(dirname "$0")/.."
weft=${WEFT:-$PWD/target/release/weft}
work=$(mktemp -d)
config=$work/weft.toml
nodes=()
load=
strangers=
finish() {
    kill -9 "${nodes[@]}" $load $strangers 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

fail() {
    echo "tests/sealed.sh: $1" >&2
    exit 1
}

start() {
    "$weft" start --config "$config" --node "$1" >>"$work/node$1.log" 2>&1 &
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

is_well() {
    "$weft" status --config "$config" >/dev/null 2>&1
}

"$weft" init --sealed --keepers --nodes 3 --dir "$work" >/dev/null
[[ $(stat -c %a "$work/weft.key") == 600 ]] || fail "others may read the key"
for node in 0 1 2; do start "$node"; done
until_done is_well

# The same cluster without the key, and with another one.
mkdir "$work/plain" "$work/other"
sed '/^\[security\]/,/^key_file/d' "$config" >"$work/plain/weft.toml"
cp "$config" "$work/other"
printf 'weft-key-1:%064d\n' 7 >"$work/other/weft.key"
chmod 600 "$work/other/weft.key"
for stranger in plain other; do
    code=0
    "$weft" kv --config "$work/$stranger/weft.toml" --give-up-ms 1000 put a stranger >/dev/null 2>"$work/error" || code=$?
    ((code == 2)) && grep -q 'the nodes reject the datagrams of this client, and nothing has happened' "$work/error" ||
        { cat "$work/error" >&2; fail "a client of $stranger is not told why nobody answers: exit code $code"; }
done
while sleep 0.1; do
    for stranger in plain other; do
        "$weft" kv --config "$work/$stranger/weft.toml" --give-up-ms 500 put a stranger >/dev/null 2>&1 || true
    done
done &
strangers=$!
disown

"$weft" bench cluster --config "$config" --seconds 600 --json "$work/load.json" >"$work/load.txt" 2>&1 &
load=$!
sleep 2
for node in 0 1 2; do
    kill -9 "${nodes[node]}"
    while kill -0 "${nodes[node]}" 2>/dev/null; do sleep 0.01; done
    sleep 2
    start "$node"
    until_done is_well
done
# If the load has ended already, the signal fails and the exit code below tells why.
kill -INT "$load" 2>/dev/null || true
code=0
wait "$load" || code=$?
load=
cat "$work/load.txt"
((code == 0)) || fail "the load ended with $code"
for engine in kv transactions likes events lock; do
    grep -A1 "\"engine\": \"$engine\"" "$work/load.json" | grep -q '"acknowledged": [1-9]' ||
        fail "$engine has acknowledged nothing"
done
grep -q 'refuses datagrams, the last from .* plaintext' "$work"/node*.log || fail "no node tells of the strangers"
code=0
"$weft" kv --config "$config" --give-up-ms 20000 get a >/dev/null || code=$?
((code == 3)) || fail "a stranger's value is there: exit code $code"
echo "all engines sealed under load, each node killed, strangers all the while: nothing lost, nothing twice, nothing strange"
