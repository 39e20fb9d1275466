#!/bin/sh
# Builds the disk of a Debian machine for tests: a root file system from Debian's packages with systemd, control
# groups of version 2, Yama's default of Ubuntu, chrony, ssh, and the users alice and bob.
#
# usage: build.sh SUITE KIND OUT
#   SUITE  bookworm (kernels 6.1 and, from backports, 6.12) or trixie (its own 6.12)
#   KIND   small: what a farm needs; full: also compilers and the programs of the conformance list; network: also
#          ifupdown, netplan and a DHCP server
#   OUT    a directory: disk.ext4, vmlinuz-6.1, initrd-6.1, vmlinuz-6.12, initrd-6.12, key, key.pub
# Needs root, mmdebstrap, e2fsprogs. The mirror is the one that apt has on this machine.
set -eu
suite=$1 kind=$2 out=$3
here=$(cd "$(dirname "$0")" && pwd)

mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null |
    grep -m 1 '/debian/*$' || true)
[ -n "$mirror" ] || { echo "build.sh: apt on this machine has no mirror of Debian; add one to its sources" >&2; exit 1; }

packages=systemd-sysv,libpam-systemd,dbus,dbus-user-session,udev,openssh-server,python3,make,procps,iproute2
packages=$packages,initramfs-tools,zstd,lz4,chrony,perl,apparmor,kmod,nftables,less,gzip,init-system-helpers
if [ "$kind" = full ]; then
    packages=$packages,gcc,g++,libc6-dev,bash,sqlite3,xz-utils,openssl,tar,strace,bc,file,diffutils,gawk,rsync
    packages=$packages,lua5.4,tcl,tmux,nano,vim-tiny,redis-server,redis-tools,findutils,sed,grep,gdb,cpio,iputils-ping
fi
if [ "$kind" = network ]; then
    packages=$packages,ifupdown,netplan.io,ethtool,dnsmasq-base,iputils-ping,iputils-arping,tcpdump
fi

rm -rf "$out.new"
mkdir -p "$out.new"
root=$out.new/root
set -- "deb $mirror $suite main" "deb $mirror $suite-updates main"
security=$(echo "$mirror" | sed 's,/debian/*$,/debian-security,')
set -- "$@" "deb $security $suite-security main"
[ "$suite" = bookworm ] && set -- "$@" "deb $mirror bookworm-backports main"

mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/info/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-include=/usr/share/doc/armento/*' --dpkgopt='path-include=/usr/share/man/*armento*' \
    --customize-hook="$here/inside.sh \"\$1\" $suite" \
    "$suite" "$root" "$@"

for k in 6.1 6.12; do
    from=$(ls "$root/boot" | grep -m 1 "^vmlinuz-$k\\.[0-9]" || true)
    [ -n "$from" ] || continue
    cp "$root/boot/$from" "$out.new/vmlinuz-$k"
    cp "$root/boot/initrd.img-${from#vmlinuz-}" "$out.new/initrd-$k"
done
rm -rf "$root"/boot/*

key=$out.new/key
ssh-keygen -q -t ed25519 -N '' -C tests -f "$key"
for home in root home/alice home/bob; do
    mkdir -p -m 700 "$root/$home/.ssh"
    cp "$key.pub" "$root/$home/.ssh/authorized_keys"
    chown -R --reference="$root/$home" "$root/$home/.ssh"
done

# Sparse; the machine's own changes go to an overlay.
mke2fs -q -F -t ext4 -d "$root" -L root "$out.new/disk.ext4" 6G
rm -rf "$root" "$out"
mv "$out.new" "$out"
