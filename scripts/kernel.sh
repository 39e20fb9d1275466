#!/bin/sh
# Unpacks Debian's kernel for virtual machines below the directory DIR, for tests that boot it in QEMU. It is not
# installed: this machine would boot it, and it has no drivers for real ones.
# What cannot be fetched is told and missed; those tests are then counted as skipped.
# usage: kernel.sh DIR
set -eu
dir=$1
ls "$dir"/boot/vmlinuz-* >/dev/null 2>&1 && exit 0
command -v apt-get >/dev/null 2>&1 || { echo "kernel: no apt-get here"; exit 0; }
# The package of this name only depends on the one that has the files.
package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | grep -o 'linux-image-[0-9][^ ]*' | head -n 1 || true)
[ -n "$package" ] || { echo "kernel: apt-get knows no linux-image-cloud-amd64"; exit 0; }
new=$dir.new
rm -rf "$new"
mkdir -p "$new"
if (cd "$new" && apt-get -q download "$package" && dpkg -x ./*.deb .) >/dev/null 2>&1; then
    rm -rf "$new"/*.deb "$dir"
    mv "$new" "$dir"
    echo "kernel: unpacked $package"
else
    rm -rf "$new"
    echo "kernel: could not fetch $package"
fi
