#!/bin/sh
# limited.sh QUOTA PROGRAM ARGS...: runs it in a control group of its own that may use QUOTA µs of CPU time in each 100 ms.
# Needs root and a cpu controller in the second or first version of control groups.
quota=$1
shift
if [ -w /sys/fs/cgroup/cgroup.subtree_control ]; then
	group=/sys/fs/cgroup/limited.$$
	echo +cpu >/sys/fs/cgroup/cgroup.subtree_control || exit 1
	mkdir "$group" && echo "$quota 100000" >"$group/cpu.max" || exit 1
else
	group=/sys/fs/cgroup/cpu/limited.$$
	mkdir "$group" && echo 100000 >"$group/cpu.cfs_period_us" && echo "$quota" >"$group/cpu.cfs_quota_us" || exit 1
fi
sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
status=$?
rmdir "$group"
exit $status
