#!/bin/sh
# First process of the emulated machine. The kernel's command line gives NODE (its address) and CLOCK (the time server);
# see qemu.rs.
if [ -z "${ON_DISK:-}" ]; then
    # A root file system that a host can pivot away from, unlike the initial one.
    mount -t tmpfs -o size=80% tmpfs /new
    for dir in /*; do
        case $dir in
        /dev | /new | /proc | /sys | /tmp) ;;
        *) cp -a "$dir" /new ;;
        esac
    done
    mkdir -p /new/dev /new/proc /new/sys /new/tmp
    export ON_DISK=1
    exec switch_root /new /init
fi
export PATH=/usr/local/bin:/usr/bin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for file in /lib/modules/*.ko; do
    insmod "$file"
done
hostname old
ip link set lo up
ip addr add "$NODE/24" dev eth0
ip link set eth0 up
perl /etc/clock.pl "$CLOCK"
echo "the door opens"
exec perl /etc/door.pl
