#!/usr/bin/env bash
# Places that take less than is configured: a network path with a shorter MTU than mtu_bytes, which keeps a node from
# rejoining, and a full disk under the state file of the membership service. Both must be named in the log, the disk
# before a node relies on it, and the nodes must continue once there is room. The test runs in namespaces for network
# and mounts, which need no root where users may create them. Elsewhere it is skipped, with a message.
set -euo pipefail
cd "$(dirname "$0")/.."
namespaces=(unshare --user --map-root-user --net --mount)
if [[ ${1-} != inside ]]; then
    if ! "${namespaces[@]}" sh -c 'ip link set lo mtu 1500 && mount -t tmpfs none /mnt' 2>/dev/null; then
        echo "misfits: skipped: no namespaces for network and mounts for this user"
        exit 0
    fi
    exec "${namespaces[@]}" "$0" inside
fi
ip link set lo up

weft=${WEFT:-$PWD/target/release/weft}
work=$(mktemp -d)
config=$work/weft.toml
nodes=()
finish() {
    # Suppresses the shell's messages about killed jobs.
    { kill -9 "${nodes[@]}" && wait; } 2>/dev/null || true
    umount "$work/disk" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

# Waits until a log of the nodes $1 has a line that matches $2. The limit is a minute, for busy machines.
await() {
    local logs=()
    for node in $1; do logs+=("$work/node$node.log"); done
    for _ in {1..1200}; do
        grep -q "$2" "${logs[@]}" && return
        sleep 0.05
    done
    echo "misfits: node $1 does not say '$2':" >&2
    cat "${logs[@]}" >&2
    exit 1
}

start() {
    "$weft" start --config "$config" --node "$1" >"$work/node$1.log" 2>&1 &
    nodes[$1]=$!
    disown
}

mkdir "$work/disk"
mount -t tmpfs -o size=64k none "$work/disk"
"$weft" init --nodes 3 --dir "$work" >/dev/null
# The store alone, with the service's state on the small disk. `weft init` expects loopback's long packets.
sed -i -e '/^\[kv\]/,$d' -e 's|^state_file = .*|state_file = "disk/state.toml"|' "$config"
grep -q '^mtu_bytes = 65535' "$config"
cat >>"$config" <<TOML
[kv]
value_bytes = 4096
TOML

head -c 1M /dev/zero >"$work/disk/other" 2>/dev/null || true
start 0
while kill -0 "${nodes[0]}" 2>/dev/null && ! grep -q ready "$work/node0.log"; do sleep 0.05; done
if ! grep -q 'disk/state.toml: cannot be written: No space left' "$work/node0.log" || grep -q ready "$work/node0.log"; then
    echo "misfits: a node whose service has no room for its state:" >&2
    cat "$work/node0.log" >&2
    exit 1
fi
rm "$work/disk/other"
echo "misfits: a full disk is named before the node is ready"

for node in 0 1 2; do start "$node"; done
for node in 0 1 2; do await "$node" 'as full'; done
value=$(head -c 4000 /dev/zero | tr '\0' v)
for key in a b c d; do "$weft" kv --config "$config" --give-up-ms 20000 put "$key" "$value" >/dev/null; done
kill -9 "${nodes[2]}"
ip link set lo mtu 1500
start 2
await '0 1' 'the path takes no datagram of so many bytes, and they are lost; lower mtu_bytes'
ip link set lo mtu 65536
await 2 'as full'
[[ $("$weft" kv --config "$config" --give-up-ms 20000 get a) == *"$value" ]]
echo "misfits: a path that takes less than mtu_bytes is named, and the node joins once it takes as much"
