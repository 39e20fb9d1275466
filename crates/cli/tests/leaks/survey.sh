# What there is in a node: one line for each process of ours, one for the node.
# Mappings, but the stacks of threads (a guard of a page and 2 MiB): the C library keeps those of threads that ended, as many as
# there ever were at once, up to 40 MiB (glibc.pthread.stack_cache_size). Threads are counted themselves.
mappings() {
	perl -ne '($a, $b, $p, $f) = /^(\w+)-(\w+) (\S+) \S+ \S+ \d+\s*(.*)/; $n = hex($b) - hex($a);
		$stack = $f eq "" && ($p eq "---p" && $n == 4096 || $p eq "rw-p" && $n == 2 << 20);
		$all++ unless $stack; END { print $all + 0 }' $1
}
for p in /proc/[0-9]*; do
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
	pss=$(awk '/^Pss:/ { print $2 }' $p/smaps_rollup)
	echo $what fds $(ls $p/fd | wc -l) threads $(ls $p/task | wc -l) maps $(mappings $p/maps) kib $pss
done
dirs="/var/lib/armento /tmp /run /dev/shm /etc/armento"
echo node namespaces $(readlink /proc/*/ns/* | sort -u | wc -l) mounts $(cat /proc/*/mountinfo | sort -u | wc -l) \
	cgroups $(find /sys/fs/cgroup -type d | wc -l) files $(find $dirs | wc -l) keys $(wc -l </proc/keys) \
	processes $(ls -d /proc/[0-9]* | wc -l)
