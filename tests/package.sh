#!/usr/bin/env bash
# A stranger's five minutes: lintian checks the Debian package, and a container with systemd of its own and an overlay
# of this machine's root installs it. Three nodes start as units, one is killed, clients and metrics are asked.
# Skipped where a tool is missing or the kernel refuses an overlay or a container.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "package: skipped: $1"; exit 0; }
((EUID == 0)) || skip "containers need root"
for tool in dh:debhelper lintian:lintian systemd-nspawn:systemd-container redis-cli:redis-tools; do
    command -v "${tool%:*}" >/dev/null || skip "${tool%:*} is missing: apt-get install ${tool#*:}"
done
package=$(tools/package.sh | tail -1)
lintian --allow-root --fail-on error "$package"

work=$(mktemp -d)
root=$work/root
clean() {
    mountpoint -q "$root" && umount "$root"
    umount "$work"
    rmdir "$work"
}
mount -t tmpfs weft-package "$work" || { rmdir "$work"; skip "no file system in memory can be mounted"; }
trap clean EXIT
mkdir "$root" "$work"/{upper,work}
mount -t overlay weft-package -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$root" 2>/dev/null ||
    skip "no overlay can be mounted on the root"

cp "$package" "$root/weft.deb"
cp tests/package/scenario.sh "$root/scenario.sh"
cp tests/package/scenario.service "$root/etc/systemd/system/"
timeout 600 systemd-nspawn --quiet --directory "$root" --private-network --register=no --keep-unit \
    --machine=weft-package --boot systemd.unit=scenario.service >"$work/boot" 2>&1 || true
if [[ ! -e $root/scenario.log ]]; then
    tail -5 "$work/boot"
    skip "systemd does not start in a container here"
fi
cat "$root/scenario.log"
[[ $(tail -1 "$root/scenario.log") == "package: passed" ]]
