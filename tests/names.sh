#!/usr/bin/env bash
# Clusters whose nodes are known by IPv6 addresses and by names: written and read, nodes killed and started again, all
# clients checked. A name comes into being after its node was started; the names of a node and of the membership service
# move to other addresses. A hosts file of this test's own, in namespaces for mounts and the network, has the names.
# Where this user may create no namespaces, the test is skipped, with a message.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ ${1-} != inside ]]; then
    if ! unshare --user --map-root-user --net --mount mount --bind /etc/hosts /etc/hosts 2>/dev/null; then
        echo "names: skipped: no namespaces for mounts and the network for this user"
        exit 0
    fi
    exec unshare --user --map-root-user --net --mount "$0" inside
fi
ip link set lo up

weft=${WEFT:-$PWD/target/release/weft}
python=${PYTHON:-.venv/bin/python}
work=$(mktemp -d)
config=$work/weft.toml
nodes=()
load=
finish() {
    kill -9 "${nodes[@]}" $load 2>/dev/null || true
    while umount /etc/hosts 2>/dev/null; do :; done
    rm -rf "$work"
}
trap finish EXIT
hosts=0
echo "127.0.0.1 localhost" >"$work/hosts0"
mount --bind "$work/hosts0" /etc/hosts

# Waits until the log of process $1 has $3 lines (default: one) that match $2. The limit is a minute, for busy machines.
await() {
    local found
    for _ in {1..1200}; do
        found=$(grep -cs "$2" "$work/$1.log") || true
        ((${found:-0} >= ${3:-1})) && return
        sleep 0.05
    done
    echo "names: $1 does not say '$2':" >&2
    cat "$work/$1.log" >&2
    exit 1
}

start() {
    "$weft" start --config "$config" --node "$1" >"$work/node$1.log" 2>&1 &
    nodes[$1]=$!
    disown
}

membership() {
    "$weft" membership --config "$config" >>"$work/membership.log" 2>&1 &
    nodes[9]=$!
    disown
}

crash() {
    kill -9 "${nodes[$1]}"
    while kill -0 "${nodes[$1]}" 2>/dev/null; do sleep 0.01; done
}

kv() { "$weft" kv --config "$config" --give-up-ms 20000 "$@"; }

# Fails unless the command prints a line that matches $1.
expect() {
    local pattern=$1 answer
    shift
    answer=$("$@") || { echo "names: $*: exit code $?: $answer" >&2; exit 1; }
    grep -q "$pattern" <<<"$answer" || { echo "names: $*: '$answer' instead of '$pattern'" >&2; exit 1; }
}

# Waits until nothing is wrong with the cluster, a minute at most.
well() {
    for _ in {1..300}; do
        "$weft" status --config "$config" >"$work/status.txt" && return
        sleep 0.2
    done
    cat "$work/status.txt" >&2
    exit 1
}

# Writes and reads through each engine, and through Python if there is the package.
use() {
    expect 'done, version' kv put words "$1"
    expect ": $1\$" kv get words
    expect 'committed' "$weft" txn --config "$config" --give-up-ms 20000 call deposit 0/1 --input 100
    expect '' "$weft" log --config "$config" --give-up-ms 20000 append events "$1"
    expect '' "$weft" object --config "$config" --give-up-ms 20000 pn-counter likes increment 1
    if "$python" -c 'import weft' 2>/dev/null; then
        expect "^$1\$" "$python" -c 'import sys, weft
kv = weft.Client(sys.argv[1]).kv()
kv.put(b"python", sys.argv[2].encode()).wait()
print(kv.get(b"python").wait().value.decode())' "$config" "$1"
    fi
    well
}

# Sets the address of a name, by another hosts file in place of the last one, so that nobody reads half of it.
name() {
    local former
    former=$(grep -v " $1\$" /etc/hosts)
    hosts=$((hosts + 1))
    printf '%s\n%s %s\n' "$former" "$2" "$1" >"$work/hosts$hosts"
    mount --bind "$work/hosts$hosts" /etc/hosts
}

# Puts all engines under load for a while in which nodes are replaced; `loaded` checks the clients' histories.
begin_load() {
    "$weft" bench cluster --config "$config" --seconds 600 >"$work/load.log" 2>&1 &
    load=$!
    await load 'calls: '
}
loaded() {
    local code=0
    # If the load has ended already, its exit code tells why.
    kill -INT "$load" 2>/dev/null || true
    wait "$load" || code=$?
    load=
    ((code == 0)) || { echo "names: the load ended with $code:" >&2; cat "$work/load.log" >&2; exit 1; }
}

# IPv6.
for host in 1 2 3; do ip -6 address add "fd00::$host/128" dev lo nodad; done
"$weft" init --addresses fd00::1,fd00::2,fd00::3 --dir "$work" >/dev/null
printf '[redis]\npassword = "secret"\n' >>"$config"
for node in 0 1 2; do start "$node"; done
for node in 0 1 2; do await "node$node" 'as full'; done
await node1 'ready on \[fd00::2\]:4793'
use 'over IPv6'
begin_load
crash 2
expect ': over IPv6$' kv get words
start 2
await node2 'as full'
loaded
use 'over IPv6 again'
exec {redis}<>/dev/tcp/fd00::2/6379
printf 'AUTH secret\r\nSET key value\r\nGET key\r\n' >&"$redis"
answer=$(head -4 <&"$redis" | tr -d '\r' | tr '\n' ' ')
[[ $answer == '+OK +OK $5 value ' ]] || { echo "names: the door for Redis says $answer" >&2; exit 1; }
exec {redis}>&-
for node in 0 1 2; do crash "$node"; done
echo "names: a cluster with IPv6 addresses: one node killed under load, nothing lost"
rm "$config" "$work"/*.membership.toml

# Names. The membership service is a process of its own.
for node in 0 1; do name "node$node" "127.1.0.$((node + 1))"; done
name service 127.1.0.9
"$weft" init --addresses node0,node1,node2 --membership service --dir "$work" >/dev/null
membership
for node in 0 1 2; do start "$node"; done
await node2 'waits for an own address: node2 does not resolve'
await node0 'node2 does not resolve'
name node2 127.1.0.3
for node in 0 1 2; do await "node$node" 'as full'; done
use 'by name'
begin_load
# A node comes back at another address, which the others have to look up.
crash 1
name node1 127.1.0.7
start 1
await node1 'ready on 127.1.0.7:4793'
await node1 'as full'
await node0 'node1 is at 127.1.0.7, no longer at 127.1.0.2'
await node2 'node1 is at 127.1.0.7, no longer at 127.1.0.2'
expect ': by name$' kv get words
# So does the membership service.
crash 9
name service 127.1.0.8
membership
for node in 0 1 2; do await "node$node" 'service is at 127.1.0.8, no longer at 127.1.0.9'; done
loaded
use 'after the service has moved'
# A node that knows another address for its name than the service does is let in once they agree.
crash 2
sed 's/^127.1.0.3 /127.1.0.4 /' /etc/hosts >"$work/hosts.elsewhere"
unshare --mount bash -c 'mount --bind "$1" /etc/hosts && exec "$2" start --config "$3" --node 2' - \
    "$work/hosts.elsewhere" "$weft" "$config" >"$work/node2.log" 2>&1 &
nodes[2]=$!
disown
await membership 'drops what node 2 sends from 127.1.0.4: node2 is at 127.1.0.3'
name node2 127.1.0.4
await node2 'as full'
use 'in the end'
echo "names: a cluster known by names: one came late, a node and the service moved, nothing lost"
for process in 0 1 2 9; do crash "$process"; done
rm "$config" "$work"/*.membership.toml "$work"/*.log

# The configuration for Kubernetes, with the data in another folder. Each "pod" gets another address when it comes back.
sed -n '/weft.toml: |/,$ s/^    //p' packaging/kubernetes/configuration.yaml |
    sed "s|/var/lib/weft|$work/data|" >"$config"
mkdir "$work/data"
membership
for node in 0 1 2; do start "$node"; done
await node0 'waits for an own address: weft-0.weft does not resolve'
name weft-membership-0.weft 127.2.0.9
for node in 0 1 2; do name "weft-$node.weft" "127.2.0.$((node + 1))"; done
for node in 0 1 2; do await "node$node" 'as full'; done
# What a probe would see at node $1.
probe() {
    exec {http}<>"/dev/tcp/weft-$1.weft/9479"
    printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&"$http"
    head -1 <&"$http"
    exec {http}>&-
}
# The node publishes its state several times a second.
for path in /livez /readyz; do
    until [[ $(probe 0 "$path") == *' 200 '* ]]; do sleep 0.05; done
done
expect 'done, version' kv put words kept
for node in 0 1 2; do
    crash "$node"
    name "weft-$node.weft" "127.2.1.$((node + 1))"
    start "$node"
    await "node$node" 'as full'
done
expect ': kept$' kv get words
well
echo "names: the configuration for Kubernetes: every node came back at another address, nothing lost"
