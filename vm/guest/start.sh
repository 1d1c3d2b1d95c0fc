# Sets up a guest, runs one command and sends back its output, its exit status and its results.
# Started by init.c with the folder of this run: `settings` (variables) and `command` (a shell script).
run=$1
. "$run/settings"
export PATH LC_ALL=C.UTF-8 LANG=C.UTF-8

# Folders that are read from the host although one above them is covered by an empty file system.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/vm/results /run/vm/home /run/vm/host
mount --rbind / /run/vm/host 2>/dev/null
mount --make-rprivate /run/vm/host 2>/dev/null
mount -t tmpfs -o mode=1777 tmpfs /tmp
mkdir -p /dev/pts /dev/shm
mount -t devpts -o mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null || mount -t debugfs debugfs /sys/kernel/debug
mount -t bpf bpf /sys/fs/bpf
mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
# The name of a disk depends on which one is found first: its namespace identifier does not.
disk() {
	for block in /sys/block/nvme*; do
		[ -b "/dev/${block##*/}" ] && [ "$(cat "$block/nsid" 2>/dev/null)" = "$1" ] && echo "/dev/${block##*/}"
	done
}
# The scratch disk: a real block device, so that threads wait for it.
if mount -t ext4 "$(disk 1)" /var/tmp; then chmod 1777 /var/tmp; else mount -t tmpfs -o mode=1777 tmpfs /var/tmp; fi
for path in $KEEP; do
	[ -e "$path" ] && continue
	mkdir -p "$path" && mount --bind "/run/vm/host$path" "$path"
done
for path in $WRITABLE; do
	[ -d "$path" ] && mount -t tmpfs -o mode=1777 tmpfs "$path"
done
ip link set lo up 2>/dev/null || ifconfig lo 127.0.0.1 up
hostname vm 2>/dev/null
ulimit -c 0

export HOME=/run/vm/home XDG_STATE_HOME=/run/vm/home/.state XDG_CACHE_HOME=/run/vm/home/.cache TMPDIR=/tmp
export VM_RESULTS=/run/vm/results VM_CPUS="$CPUS"
stty -F /dev/ttyS1 raw -echo 2>/dev/null
stty -F /dev/ttyS2 raw -echo 2>/dev/null
echo "vm: started $(uname -r) with $(nproc) CPUs after $(cut -d' ' -f1 /proc/uptime) s"
cd "$CWD" 2>/dev/null || cd /tmp
status=0
setsid sh "$run/command" </dev/null >/dev/ttyS1 2>/dev/ttyS2 || status=$?
echo "$status" >"$VM_RESULTS/status"
cut -d' ' -f1 /proc/uptime >"$VM_RESULTS/uptime"
dmesg >"$VM_RESULTS/dmesg" 2>/dev/null
tar -C "$VM_RESULTS" -cf "$(disk 2)" . || echo "vm: results cannot be written"
sync
echo "vm: ended with status $status after $(cut -d' ' -f1 /proc/uptime) s"
# The serial lines drain before the power goes.
sleep 0.2
echo o >/proc/sysrq-trigger
sleep 30
