#!/usr/bin/env bash
# Runs a program as a user without any capability, with a TAP device of that user, as `--nic sockets` needs it. run.sh
# calls it as root in a separate network namespace, with the program, the folder of the guest and the program's
# arguments. Everything that needs root is in this file; the program, and with it the guest, runs as the user from its
# first instruction.
set -euo pipefail
program=$1 image=$2
shift 2
user=65534
ip tuntap add dev weft0 mode tap user $user
ip address add 10.9.0.1/24 dev weft0
ip address add fd00:9::1/64 dev weft0 nodad
ip link set dev weft0 up
ip link set dev lo up
# The user may be unable to read the folder of the guest, so its files are copied.
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
install --owner=$user --mode=0700 --directory "$folder"
install --owner=$user --mode=0500 "$program" "$folder/program"
install --owner=$user --mode=0400 "$image/vmlinuz" "$image/initramfs" "$folder"
cd "$folder"
# If only root may open /dev/net/tun, root opens it here and passes it as standard input.
setpriv --reuid=$user --regid=$user --clear-groups --inh-caps=-all --ambient-caps=-all --bounding-set=-all \
    --no-new-privs ./program --image . "$@" 0<>/dev/net/tun
