#!/bin/sh
# What differs from a plain Debian, done before the disk is written.
# usage: inside.sh ROOT SUITE (from build.sh, as mmdebstrap's customize hook)
set -eu
root=$1 suite=$2

cat >"$root/etc/initramfs-tools/conf.d/small" <<'END'
MODULES=list
COMPRESS=lz4
END
printf 'virtio_pci\nvirtio_blk\nvirtio_net\next4\n' >>"$root/etc/initramfs-tools/modules"

export DEBIAN_FRONTEND=noninteractive
in_root() { chroot "$root" "$@"; }
cp /etc/resolv.conf "$root/etc/resolv.conf"
[ ! -e /etc/hosts ] || cp /etc/hosts "$root/etc/hosts"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
in_root apt-get -q -y --no-install-recommends install linux-image-cloud-amd64 >/dev/null
if [ "$suite" = bookworm ]; then
    in_root apt-get -q -y --no-install-recommends -t bookworm-backports install linux-image-cloud-amd64 >/dev/null
fi
in_root apt-get clean
rm -f "$root/usr/sbin/policy-rc.d" "$root/etc/resolv.conf"

# Ordinary users without passwords: the test logs in by key.
in_root useradd -m -s /bin/bash -u 1000 alice
in_root useradd -m -s /bin/bash -u 1001 bob
in_root passwd -q -d root

# As the installer writes it: the own name at 127.0.1.1 comes with first-boot.
cat >"$root/etc/hosts" <<'END'
127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback
10.9.9.1 n1
10.9.9.2 n2
10.9.9.3 n3
10.9.9.4 n4
END

# Two cables: the farm's, with one address; and one for the test, which has only a link-local address of IPv6, so that
# nothing takes it for the farm's.
mkdir -p "$root/etc/systemd/network"
for n in 1 2 3 4; do
    cat >"$root/etc/systemd/network/10-farm-$n.network" <<END
[Match]
MACAddress=52:54:00:09:09:0$n
[Network]
Address=10.9.9.$n/24
LinkLocalAddressing=no
IPv6AcceptRA=no
END
done
cat >"$root/etc/systemd/network/20-test.network" <<'END'
[Match]
MACAddress=52:54:00:0a:09:01 52:54:00:0a:09:02 52:54:00:0a:09:03 52:54:00:0a:09:04
[Link]
RequiredForOnline=no
[Network]
LinkLocalAddressing=ipv6
IPv6AcceptRA=no
END
in_root systemctl -q enable systemd-networkd ssh chrony 2>/dev/null
in_root systemctl -q disable systemd-networkd-wait-online systemd-timesyncd apt-daily.timer apt-daily-upgrade.timer \
    redis-server dpkg-db-backup.timer e2scrub_all.timer fstrim.timer 2>/dev/null || true
in_root systemctl -q mask apt-daily.service apt-daily-upgrade.service e2scrub_reap.service 2>/dev/null

# Debian's default is 0; Ubuntu's is this.
echo 'kernel.yama.ptrace_scope = 1' >"$root/etc/sysctl.d/90-yama.conf"
echo 'LABEL=root / ext4 defaults 0 1' >"$root/etc/fstab"
# Keys of the ssh server once for all machines of the image: to make them takes an emulated processor half a minute.
in_root ssh-keygen -A >/dev/null
rm -f "$root/etc/machine-id" "$root/var/lib/dbus/machine-id"
: >"$root/etc/machine-id"
echo 'UseDNS no' >"$root/etc/ssh/sshd_config.d/tests.conf"

cat >"$root/usr/local/sbin/first-boot" <<'END'
#!/bin/sh
# What differs from machine to machine of one image.
name=$(uname -n)
# Debian's installer does this, and it is a trap: the own name resolves to loopback.
grep -q 127.0.1.1 /etc/hosts || sed -i "/ $name\$/d; 2i 127.0.1.1 $name" /etc/hosts
mkdir -p /etc/chrony/conf.d
case $name in
n1) printf 'local stratum 8\nallow 10.9.9.0/24\n' ;;
*) printf 'server 10.9.9.1 iburst minpoll 0 maxpoll 2\nmakestep 0.005 -1\n' ;;
esac >/etc/chrony/conf.d/role.conf
END
chmod 755 "$root/usr/local/sbin/first-boot"
cat >"$root/etc/chrony/chrony.conf" <<'END'
confdir /etc/chrony/conf.d
driftfile /var/lib/chrony/chrony.drift
rtcsync
makestep 1 3

END
cat >"$root/etc/systemd/system/first-boot.service" <<'END'
[Unit]
Description=What differs from machine to machine
DefaultDependencies=no
After=local-fs.target
Before=chrony.service sysinit.target
RequiresMountsFor=/etc
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/first-boot
[Install]
WantedBy=sysinit.target
END
in_root systemctl -q enable first-boot
