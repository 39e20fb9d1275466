# What there is in a node: one line for each process of ours, one for the node. Memory without mapped files: of a page
# of python's or of our own program each process that maps it has a share, also those of other farms, so that one which
# ends there would make ours grow (seen: 2.2 MiB).
# Stacks of threads: a guard of a page, and right behind it what may be written. Of a signal's stack, 8 KiB, there is one a
# thread, and it goes with it.
# Of [heap] there is one at most, and it goes when all in it was given back: its memory is counted, not that it is there.
stacks() {
	perl -ne '($a, $b, $p, $f) = /^(\w+)-(\w+) (\S+) \S+ \S+ \d+\s*(.*)/; $n = hex($b) - hex($a);
		$all++ if $guard eq $a && $f eq "" && $p eq "rw-p" && $n >= 65536;
		$guard = $f eq "" && $p eq "---p" && $n == 4096 ? $b : ""; END { print $all + 0 }' $1
}
# Before anything is started here: of a pipeline that looked, its second half was there already or not yet.
set -- /proc/[0-9]*
for p; do
	words=$(tr '\0' ' ' <$p/cmdline)
	case "$words" in
	*load.py*) what=program ;;
	*"armento host"*) what=host ;;
	*"armento node"*) what=daemon ;;
	*lab-init*) what=init ;;
	*) continue ;;
	esac
	name=$(cat $p/comm)
	case "$name" in armento-*) what=$name ;; esac
	pss=$(awk '/^Pss_(Anon|Shmem):/ { n += $2 } END { print n }' $p/smaps_rollup)
	echo $what fds $(ls $p/fd | wc -l) threads $(ls $p/task | wc -l) maps $(grep -vc '\[heap\]$' $p/maps) stacks $(stacks $p/maps) kib $pss
done
dirs="/var/lib/armento /tmp /run /dev/shm /etc/armento"
echo node namespaces $(readlink /proc/*/ns/* | sort -u | wc -l) mounts $(cat /proc/*/mountinfo | sort -u | wc -l) \
	cgroups $(find /sys/fs/cgroup -type d | wc -l) files $(find $dirs | wc -l) keys $(wc -l </proc/keys) \
	processes $#
