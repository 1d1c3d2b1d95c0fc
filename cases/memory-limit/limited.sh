#!/bin/sh
# limited.sh BYTES PROGRAM ARGS...: runs it in a control group of its own that may have so many bytes of memory.
# Needs root and a memory controller in the second or first version of control groups.
bytes=$1
shift
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	group=/sys/fs/cgroup/limited.$$
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control || exit 1
	mkdir "$group" && echo "$bytes" >"$group/memory.max" || exit 1
	back=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
else
	group=/sys/fs/cgroup/memory/limited.$$
	mkdir "$group" && echo "$bytes" >"$group/memory.limit_in_bytes" || exit 1
	back=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
fi
sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
status=$?
echo $$ >"$back/cgroup.procs" 2>/dev/null
rmdir "$group"
exit $status
