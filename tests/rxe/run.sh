#!/usr/bin/env bash
# Tests Weft against Linux's soft RoCE in a guest. Arguments go to weft-rxe; FEATURES=gateware builds it with the
# gateware, for `--nic rtl`.
# Skipped without QEMU, a compiler, or Debian's package sources for the guest; `--nic sockets` is also skipped if a TAP
# device cannot be created, which needs root.
set -euo pipefail
cd "$(dirname "$0")/../.."
skip() {
    echo "tests/rxe: SKIPPED: $1"
    exit 0
}
command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64 (apt-get install qemu-system-x86)"
command -v gcc >/dev/null || skip "no gcc (apt-get install gcc libc6-dev)"
command -v apt-get >/dev/null || skip "no apt-get, and the guest is built of Debian's packages"
run=()
if [[ " $* " == *" --nic sockets "* || " $* " == *" --nic=sockets "* ]]; then
    for tool in ip unshare setpriv; do
        command -v $tool >/dev/null || skip "no $tool (apt-get install iproute2 util-linux)"
    done
    unshare --net true 2>/dev/null || skip "no network namespace of its own (is this root?)"
    unshare --net ip tuntap add dev weft0 mode tap 2>/dev/null || skip "no TAP device can be made"
    run=(unshare --net tests/rxe/unprivileged.sh)
fi
code=0
tests/rxe/guest/build.sh || code=$?
case $code in
    0) ;;
    3) skip "the guest's packages cannot be had (is there a network, and has apt-get update been run?)" ;;
    *) exit 2 ;;
esac
${CARGO:-cargo} build --quiet --locked --package weft-rxe ${FEATURES:+--features "$FEATURES"}
# Exit code 1 means that data was wrong or lost, 2 that the guest did not run.
if ((${#run[@]})); then
    exec "${run[@]}" target/debug/weft-rxe .tools/rxe "$@"
fi
exec target/debug/weft-rxe "$@"
