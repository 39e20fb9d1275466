#!/bin/sh
# Makes the initramfs of the emulated machine: modules for its network card, busybox, perl, armento, and the programs to
# be moved, with their libraries.
# usage: initramfs.sh FILE MODULES ARMENTO PROGRAM…   (programs go to /opt/moved)
set -eu
here=$(dirname "$(readlink -f "$0")")
out=$1 modules=$2 armento=$3
shift 3
# Beside the file: if the script is killed, the next run finds and removes it.
root=$out.root
rm -rf "$root"
trap 'rm -rf "$root"' EXIT
mkdir "$root"
cd "$root"
mkdir -p bin dev etc lib/modules new opt/moved proc run sys tmp usr/bin usr/local/bin var/lib

# In order of their dependencies; built-in modules have no file.
n=10
for module in net/core/failover drivers/net/net_failover drivers/virtio/virtio_ring drivers/virtio/virtio \
    drivers/virtio/virtio_pci_modern_dev drivers/virtio/virtio_pci_legacy_dev drivers/virtio/virtio_pci \
    drivers/net/virtio_net; do
    cp "$modules/kernel/$module.ko" "lib/modules/$n.ko" 2>/dev/null || true
    n=$((n + 1))
done

cp "$(command -v busybox)" bin/busybox
for name in $(busybox --list); do
    [ -e "bin/$name" ] || ln -s busybox "bin/$name"
done
cp -L "$(command -v perl)" usr/bin/perl
cp "$armento" usr/local/bin/armento
cp "$@" opt/moved
chmod 755 opt/moved/*
base=/usr/lib/x86_64-linux-gnu/perl-base
cp -a --parents "$base" .
find . -type f -perm -u+x -o -name '*.so' | while read -r file; do
    for lib in $(ldd "$file" 2>/dev/null | grep -o '/[^ ]*'); do
        [ -e ".$lib" ] && continue
        mkdir -p ".$(dirname "$lib")"
        cp -L "$lib" ".$lib"
    done
done
cp "$here/clock.pl" "$here/door.pl" etc
cp "$here/init.sh" init
chmod 755 init
find . | cpio -o -H newc --quiet | gzip -1 > "$out"
