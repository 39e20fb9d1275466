#!/bin/sh
# Our NFS server beside nfs-ganesha, by libnfs over the loopback of a network namespace: 1 GiB read in a row, and 10,000
# lookups that the client has not made before. Measured alternately, so that both see the same machine; prints all samples
# (ms) and the ratio of the medians, which is 1 or more where ours is as fast.
#
# usage: nfs-bench.sh BUILD [ROUNDS]
# Needs root, gcc, libnfs-dev, and `cargo build --release -p armento-nfs --examples`. Packages of nfs-ganesha are unpacked
# below BUILD and not installed; nothing runs on when this ends, however it ends.
set -eu
build=$(cd "$1" && pwd) rounds=${2:-7}
here=$(cd "$(dirname "$0")" && pwd)
work=$build/nfs-bench
their=$work/ganesha
ours=$build/release/examples/nfs-serve
bytes=1073741824 names=10000

if [ "${NFS_BENCH:-}" != inside ]; then
    [ -x "$ours" ] || { echo "nfs-bench: $ours is missing: cargo build --release -p armento-nfs --examples" >&2; exit 1; }
    mkdir -p "$work/packages" "$their" "$work/root/many"
    if [ ! -x "$their/usr/bin/ganesha.nfsd" ]; then
        (cd "$work/packages" && apt-get -q download nfs-ganesha nfs-ganesha-vfs rpcbind libntirpc4.3 libnfsidmap1 \
            liburcu8 libwbclient0 libtirpc3 libtirpc-common libwrap0)
        for package in "$work"/packages/*.deb; do dpkg -x "$package" "$their"; done
    fi
    gcc -O2 -o "$work/client" "$here/nfs-bench.c" -lnfs
    [ "$(stat -c %s "$work/root/big" 2>/dev/null)" = $bytes ] || head -c $bytes /dev/urandom >"$work/root/big"
    (cd "$work/root/many" && seq 0 $((names - 1)) | sed 's/^/f/' | xargs touch)
    # Before all ordinary programs: on a busy machine the scheduler would measure which server has more threads.
    NFS_BENCH=inside exec chrt -r 1 unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$@"
fi

ip link set lo up
mount -t tmpfs run /run
mkdir -p /run/rpcbind /run/ganesha /run/etc
# Where ganesha and rpcbind look for their parts, in this mount namespace only.
printf '[Translation]\nMethod = nsswitch\n' >/run/etc/idmapd.conf
cp "$their/etc/netconfig" /run/etc/
(cat /etc/passwd; echo '_rpc:x:107:65534::/run/rpcbind:/usr/sbin/nologin') >/run/etc/passwd
mount -t overlay -o lowerdir=/run/etc:/etc etc /etc
mount -t overlay -o "lowerdir=$their/usr/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu" lib /usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH="$their/usr/lib/ganesha:$their/lib/x86_64-linux-gnu"
cat >/run/ganesha.conf <<END
NFS_CORE_PARAM { Protocols = 3; NFS_Port = 2050; MNT_Port = 2051; Enable_NLM = false; Enable_RQUOTA = false; }
EXPORT { Export_Id = 1; Path = $work/root; Pseudo = /root; Access_Type = RO; Squash = No_root_squash; SecType = sys;
    Transports = TCP; FSAL { Name = VFS; } }
LOG { Default_Log_Level = WARN; }
END
"$their/sbin/rpcbind" -f 2>"$work/rpcbind.log" &
sleep 1
"$their/usr/bin/ganesha.nfsd" -F -f /run/ganesha.conf -L "$work/ganesha.log" -p /run/ganesha.pid &
sleep 100000 | "$ours" 127.0.0.1:2049 "$work/root" >/dev/null &
a='nfs://127.0.0.1/root?nfsport=2049&mountport=2049'
b="nfs://127.0.0.1$work/root?nfsport=2050&mountport=2051"
for try in $(seq 30); do
    "$work/client" "$a" lookup 1 >/dev/null 2>&1 && "$work/client" "$b" lookup 1 >/dev/null 2>&1 && break
    [ "$try" != 30 ] || { echo "nfs-bench: a server does not answer; see $work/ganesha.log" >&2; exit 1; }
    sleep 1
done
cat "$work/root/big" >/dev/null

median() { sort -n | sed -n "$(((rounds + 1) / 2))p"; }
for what in "read $bytes" "lookup $names"; do
    : >"$work/a"
    : >"$work/b"
    for _ in $(seq "$rounds"); do
        # shellcheck disable=SC2086 # two words
        "$work/client" "$a" $what >>"$work/a"
        # shellcheck disable=SC2086
        "$work/client" "$b" $what >>"$work/b"
    done
    echo "$what: ours $(tr '\n' ' ' <"$work/a")ms; nfs-ganesha $(tr '\n' ' ' <"$work/b")ms"
    echo "  ratio $(awk "BEGIN { printf \"%.2f\", $(median <"$work/b") / $(median <"$work/a") }")"
done
