# What there is in a node: one line for each process of ours, one for the node.
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
	echo $what fds $(ls $p/fd | wc -l) threads $(ls $p/task | wc -l) maps $(wc -l <$p/maps) kib $pss
done
dirs="/var/lib/armento /tmp /run /dev/shm /etc/armento"
echo node namespaces $(readlink /proc/*/ns/* | sort -u | wc -l) mounts $(cat /proc/*/mountinfo | sort -u | wc -l) \
	cgroups $(find /sys/fs/cgroup -type d | wc -l) files $(find $dirs | wc -l) keys $(wc -l </proc/keys) \
	processes $(ls -d /proc/[0-9]* | wc -l)
