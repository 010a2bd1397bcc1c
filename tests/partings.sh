#!/usr/bin/env bash
# Three nodes, of which two cannot reach each other while both reach the third, which runs the membership service;
# then one that can send and not receive. The other nodes must continue to serve, the log must name the node that was
# excluded, and that node must rejoin. Routing rules in a separate network namespace cut the network, which needs no
# root where users may create namespaces. Elsewhere the test is skipped, with a message.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ ${1-} != inside ]]; then
    if ! unshare --user --map-root-user --net ip rule add pref 9 from 127.9.9.9 unreachable 2>/dev/null; then
        echo "partings: skipped: no network namespace with rules of routing for this user"
        exit 0
    fi
    exec unshare --user --map-root-user --net "$0" inside
fi
ip link set lo up
# Moves the rule for local addresses back, so that rules can precede it.
ip rule add pref 100 lookup local
ip rule del pref 0

weft=${WEFT:-$PWD/target/release/weft}
work=$(mktemp -d)
config=$work/weft.toml
nodes=()
finish() {
    # Suppresses the shell's messages about killed jobs.
    { kill -9 "${nodes[@]}" && wait; } 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

# Waits until the log of node $1 has $3 lines (default: one) that match $2. The limit is a minute, for busy machines.
await() {
    for _ in {1..1200}; do
        (($(grep -c "$2" "$work/node$1.log" || true) >= ${3:-1})) && return
        sleep 0.05
    done
    echo "node $1 does not say '$2':" >&2
    cat "$work/node$1.log" >&2
    exit 1
}

put() {
    "$weft" kv --config "$config" --give-up-ms 20000 put "$@" >/dev/null
}

"$weft" init --nodes 3 --dir "$work" >/dev/null
mapfile -t address < <(grep -A1 '^\[\[node\]\]' "$config" | grep -oP '^address = "\K[0-9.]+')
for node in 0 1 2; do
    "$weft" start --config "$config" --node "$node" >"$work/node$node.log" 2>&1 &
    nodes[node]=$!
done
for node in 0 1 2; do await "$node" 'as full'; done
put before parting

full=$(grep -c 'as full' "$work/node2.log")
for pair in "1 2" "2 1"; do
    read -r from to <<<"$pair"
    ip rule add pref 10 from "${address[from]}" to "${address[to]}" unreachable
done
begin=$(date +%s%N)
put while parted
echo "partings: two nodes that do not hear each other: the next write took $((($(date +%s%N) - begin) / 1000000)) ms"
await 0 'membership leaves out node 2: it cannot hear node 1, and node 1 cannot hear it'
await 2 'node 2 waits: it and members'
ip rule del pref 10
ip rule del pref 10
await 2 'as full' $((full + 1))
put again whole

# Node 1 can send, but receives only its own packets.
full=$(grep -c 'as full' "$work/node1.log")
ip rule add pref 10 from "${address[0]}" to "${address[1]}" unreachable
ip rule add pref 10 from "${address[2]}" to "${address[1]}" unreachable
begin=$(date +%s%N)
put while deaf
echo "partings: a node that can only send: the next write took $((($(date +%s%N) - begin) / 1000000)) ms"
await 0 'membership leaves out node 1: it does not hear the membership service'
ip rule del pref 10
ip rule del pref 10
await 1 'as full' $((full + 1))
put again whole
echo "partings: the cluster went on without whom it could not reach, and took each back"
