#!/bin/sh
# limited.sh cpu QUOTA PROGRAM ARGS...: runs it in a cgroup of its own with QUOTA µs of CPU time per 100 ms.
# limited.sh memory BYTES PROGRAM ARGS...: runs it in a cgroup with this memory limit (bytes).
# Needs root and the controller in version 2 or 1 of cgroups.
controller=$1
value=$2
shift 2
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	group=/sys/fs/cgroup/limited.$$
	echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control || exit 1
	[ "$controller" = cpu ] && value="$value 100000"
	mkdir "$group" && echo "$value" >"$group/$controller.max" || exit 1
else
	group=/sys/fs/cgroup/$controller/limited.$$
	mkdir "$group" || exit 1
	case $controller in
	cpu) echo 100000 >"$group/cpu.cfs_period_us" && echo "$value" >"$group/cpu.cfs_quota_us" ;;
	memory) echo "$value" >"$group/memory.limit_in_bytes" ;;
	esac || exit 1
fi
sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
status=$?
rmdir "$group"
exit $status
