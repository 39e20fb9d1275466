# Resources of a node: one line for each Armento process, one for the node. Memory is counted without mapped files:
# pages of python's or armento's executable are shared by all processes that map it, also those of other farms, so that
# the end of one would make the others grow (seen: 2.2 MiB). Stacks of threads: a guard page, and directly behind it
# writable memory. Signal stacks, 8 KiB, are one a thread, and are freed with it. There is at most one [heap], and it is
# unmapped when all of it was freed: its memory is counted, not its existence.
stacks() {
	perl -ne '($a, $b, $p, $f) = /^(\w+)-(\w+) (\S+) \S+ \S+ \d+\s*(.*)/; $n = hex($b) - hex($a);
		$all++ if $guard eq $a && $f eq "" && $p eq "rw-p" && $n >= 65536;
		$guard = $f eq "" && $p eq "---p" && $n == 4096 ? $b : ""; END { print $all + 0 }' $1
}
# Before anything is started here: otherwise the survey might count processes of its own pipeline.
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
