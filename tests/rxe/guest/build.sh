#!/usr/bin/env bash
# Builds the guest from Debian's packages: the kernel, and an initramfs with its rdma_rxe, libibverbs, busybox and the
# agent. It writes `vmlinuz` and `initramfs` into .tools/rxe. Nothing is installed: packages are unpacked there.
# Exit code 3 means that the packages cannot be downloaded.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$here/../../../.tools/rxe
mkdir -p "$work"
work=$(cd "$work" && pwd)

stamp=$(cat "$here/build.sh" "$here/agent.c" "$here/init" | sha256sum)
if [[ -f $work/stamp && $(cat "$work/stamp") == "$stamp" ]]; then
    exit 0
fi

# The meta package depends on the current kernel's package, whose name contains the version.
kernel=$(apt-cache depends linux-image-amd64 | awk '$1 == "Depends:" { print $2; exit }') || exit 3
packages=("$kernel" busybox-static libc6 libibverbs-dev libibverbs1 ibverbs-providers libnl-3-200 libnl-route-3-200)
root=$work/root
if [[ ! -f $work/unpacked || $(cat "$work/unpacked") != "${packages[*]}" ]]; then
    rm -rf "$root" "$work/packages"
    mkdir -p "$root" "$work/packages"
    # Without apt's sandbox user, who may not write to this folder.
    (cd "$work/packages" && apt-get --option APT::Sandbox::User=root download --quiet "${packages[@]}" >&2) || exit 3
    for package in "$work"/packages/*.deb; do dpkg --extract "$package" "$root"; done
    echo "${packages[*]}" >"$work/unpacked"
fi

libraries=usr/lib/x86_64-linux-gnu
tree=$work/tree
rm -rf "$tree"
mkdir -p "$tree"/{bin,dev,proc,sys,modules,lib64,etc/libibverbs.d,lib/x86_64-linux-gnu,$libraries/libibverbs}
gcc -O2 -Wall -Wextra -Werror -I"$root/usr/include" -o "$tree/bin/agent" "$here/agent.c" \
    -L"$root/$libraries" -Wl,-rpath-link,"$root/$libraries:$root/lib/x86_64-linux-gnu" -libverbs
cp "$here/init" "$tree/init"
cp "$root/bin/busybox" "$tree/bin/busybox"
cp "$root"/lib/x86_64-linux-gnu/{libc.so.6,ld-linux-x86-64.so.2,libnl-3.so.200} "$tree/lib/x86_64-linux-gnu/"
ln -s ../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$tree/lib64/ld-linux-x86-64.so.2"
cp "$root/$libraries"/{libibverbs.so.1,libnl-route-3.so.200} "$tree/lib/x86_64-linux-gnu/"
cp "$root/$libraries/libibverbs/librxe-rdmav34.so" "$tree/$libraries/libibverbs/"
cp "$root/etc/libibverbs.d/rxe.driver" "$tree/etc/libibverbs.d/"

# Copies a module after all its dependencies, into a file whose number gives the load order.
declare -A loaded
load() {
    local name=$1 file dependency
    [[ -n ${loaded[$name]:-} ]] && return
    loaded[$name]=1
    file=$(find "$root/lib/modules" -name "${name//[_-]/[_-]}.ko")
    if [[ -z $file ]]; then
        echo "$kernel has no module $name" >&2
        exit 1
    fi
    for dependency in $(tr '\0' '\n' <"$file" | sed -n 's/^depends=//p' | tr ',' ' '); do load "$dependency"; done
    cp "$file" "$tree/modules/$(printf '%02d' "${#order[@]}")-$name.ko"
    order+=("$name")
}
order=()
for module in virtio_pci virtio_net virtio_console crc32_generic rdma_rxe; do load "$module"; done

(cd "$tree" && find . | "$root/bin/busybox" cpio -o -H newc 2>/dev/null) | gzip -1 >"$work/initramfs"
cp "$root"/boot/vmlinuz-* "$work/vmlinuz"
echo "$stamp" >"$work/stamp"
