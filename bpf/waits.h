/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a thread that blocks waits for: from its registers, its files, and a mutex's owner word. */
#ifndef HOLDUP_WAITS_H
#define HOLDUP_WAITS_H

#define SYS_POLL 7
#define SYS_PPOLL 271
#define SYS_NANOSLEEP 35
#define SYS_CLOCK_NANOSLEEP 230
#define SYS_RESTART 219
#define SYS_FUTEX 202
#define FUTEX_CMD(op) ((op) & 0x7f)
#define S_IFMT 0170000
#define S_IFIFO 0010000
#define S_IFCHR 0020000
#define S_IFDIR 0040000
#define S_IFBLK 0060000
#define S_IFREG 0100000
#define S_IFSOCK 0140000
#define ANON_INODE_FS_MAGIC 0x09041934

/* Syscalls up to 63 that block on the descriptor in their first argument, as bits. */
#define FD_SYSCALLS_LOW ( \
	(1ULL << 0) | (1ULL << 1) | (1ULL << 16) | (1ULL << 17) | (1ULL << 18) | (1ULL << 19) | (1ULL << 20) | \
	(1ULL << 40) | (1ULL << 42) | (1ULL << 43) | (1ULL << 44) | (1ULL << 45) | (1ULL << 46) | (1ULL << 47))

static __always_inline bool waits_on_fd(__s32 nr)
{
	if (nr >= 0 && nr < 64)
		return (FD_SYSCALLS_LOW >> nr) & 1;
	switch (nr) {
	case 72: case 73: case 74: case 75: /* fcntl flock fsync fdatasync */
	case 232: case 281: case 441:       /* epoll_wait epoll_pwait epoll_pwait2 */
	case 275: case 276: case 278: case 288:           /* splice tee vmsplice accept4 */
	case 295: case 296: case 299: case 307: case 327: case 328: /* preadv pwritev recvmmsg sendmmsg preadv2 pwritev2 */
	case 426:                           /* io_uring_enter */
		return true;
	}
	return false;
}

static __always_inline __u32 anonymous_kind(struct file *file)
{
	const unsigned char *name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	char text[8] = {};

	if (bpf_probe_read_kernel_str(text, sizeof(text), name) < 0)
		return WIRE_OBJECT_ANON;
	if (text[0] == '[') { /* newer kernels use names like "[eventfd]", older ones omit some brackets */
		__builtin_memmove(text, text + 1, 6);
		text[6] = 0;
	}
	if (text[0] == 'e' && text[1] == 'v' && text[5] == 'f')
		return WIRE_OBJECT_EVENTFD;
	if (text[0] == 'e' && text[1] == 'v')
		return WIRE_OBJECT_EPOLL;
	if (text[0] == 't')
		return WIRE_OBJECT_TIMERFD;
	if (text[0] == 's')
		return WIRE_OBJECT_SIGNALFD;
	if (text[0] == 'i' && text[1] == 'n')
		return WIRE_OBJECT_INOTIFY;
	return WIRE_OBJECT_ANON;
}

extern void *bpf_rdonly_cast(const void *object, __u32 type_id) __ksym __weak;

/*
 * Distinguishes open files with the same inode, without showing a kernel address. Reads the entry as a
 * number.
 */
static __always_inline __u64 file_identity(struct file **entry)
{
	__u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), entry);
	return mix(0x1dfd, address);
}

/* Inodes of two file systems have the same numbers. */
static __always_inline __u64 device_bits(struct file *file)
{
	return (__u64)BPF_CORE_READ(file, f_inode, i_sb, s_dev) << 32;
}

/* By an inode's mode. `entry` is where the file's address was found. */
static __always_inline void describe_mode(struct file *file, struct file **entry, __u16 mode, struct wire_wait *wait)
{
	switch (mode & S_IFMT) {
	case S_IFIFO: wait->object_kind = WIRE_OBJECT_PIPE; return;
	case S_IFSOCK: wait->object_kind = WIRE_OBJECT_SOCKET; return;
	case S_IFCHR: wait->object_kind = WIRE_OBJECT_DEVICE; return;
	case S_IFBLK: wait->object_kind = WIRE_OBJECT_BLOCK; return;
	case S_IFREG:
		/*
		 * Since 6.17, anonymous inodes are regular files without permissions for others, as are private files
		 * of all kinds.
		 */
		if (mode != (S_IFREG | 0600) || BPF_CORE_READ(file, f_inode, i_sb, s_magic) != ANON_INODE_FS_MAGIC) {
			wait->object_kind = WIRE_OBJECT_FILE;
			wait->object ^= device_bits(file);
			return;
		}
		wait->object_kind = anonymous_kind(file);
		if (wait->object_kind == WIRE_OBJECT_ANON)
			wait->object_kind = WIRE_OBJECT_FILE;
		else
			wait->object = file_identity(entry);
		return;
	case S_IFDIR:
		wait->object_kind = WIRE_OBJECT_FILE;
		wait->object ^= device_bits(file);
		return;
	}
	wait->object_kind = anonymous_kind(file);
	wait->object = file_identity(entry); /* all share one inode */
}

/* Stays as it is where there is no file. */
static __always_inline void describe_file(struct file **entry, struct wire_wait *wait)
{
	struct inode *inode;
	struct file *file = 0;

	if (bpf_probe_read_kernel(&file, sizeof(file), entry) || !file)
		return;
	inode = BPF_CORE_READ(file, f_inode);
	if (!inode)
		return;
	wait->object = BPF_CORE_READ(inode, i_ino);
	describe_mode(file, entry, BPF_CORE_READ(inode, i_mode), wait);
}

static __always_inline void describe_fd(struct task_struct *task, __u32 fd, struct wire_wait *wait)
{
	struct files_struct *files = task->files;
	struct fdtable *fdt;
	struct file **fds, *file = 0;
	struct inode *inode;
	__u16 mode;

	wait->object_kind = WIRE_OBJECT_FD;
	wait->object = fd;
	if (!files)
		return;
	fdt = files->fdt;
	if (!fdt || fd >= fdt->max_fds)
		return;
	fds = fdt->fd;
	if (bpf_ksym_exists(bpf_rdonly_cast)) {
		/*
		 * Linux 6.2: reads without calls. A bad address reads as 0. The table's entry is read as a type of the
		 * kernel's that begins with a pointer.
		 */
		struct list_head *entry = bpf_rdonly_cast(fds + fd, bpf_core_type_id_kernel(struct list_head));
		struct file *readable;

		file = (struct file *)entry->next;
		if (!file)
			return;
		readable = bpf_rdonly_cast(file, bpf_core_type_id_kernel(struct file));

		inode = readable->f_inode;
		if (!inode)
			return;
		mode = inode->i_mode;
		wait->object = inode->i_ino;
	} else {
		if (bpf_probe_read_kernel(&file, sizeof(file), fds + fd) || !file)
			return;
		inode = BPF_CORE_READ(file, f_inode);
		if (!inode)
			return;
		mode = BPF_CORE_READ(inode, i_mode);
		wait->object = BPF_CORE_READ(inode, i_ino);
	}
	describe_mode(file, fds + fd, mode, wait);
}

/* glibc's pthread_mutex_t: lock word, count, owner tid, nusers, kind. */
static __always_inline __u32 mutex_owner(__u64 address, bool is_compat)
{
	struct { __s32 lock; __u32 count; __u32 owner; __u32 users; __s32 kind; } mutex;

	if (bpf_probe_read_user(&mutex, sizeof(mutex), (void *)address))
		return 0;
	if (is_compat) /* the last two stand the other way round */
		mutex.kind = mutex.users;
	if (mutex.kind < 0 || mutex.kind > 0x3ff || mutex.owner > 0x400000)
		return 0;
	return mutex.owner;
}

/* A C library's functions between a condition variable's wait and the syscall need less stack than this. */
#define LIBRARY_FRAMES 1024

/* `own`: the current thread. The memory of other threads is in another address space. */
static __always_inline void describe_futex(const struct call *call, struct wire_wait *wait, __u64 sp, bool own)
{
	wait->object_kind = WIRE_OBJECT_FUTEX;
	wait->object = call->arguments[0];
	wait->op = call->arguments[1];
	wait->value = call->arguments[2];
	if (FUTEX_CMD(wait->op) != 0 || wait->value != 2)
		return;
	if (own)
		wait->owner_tid = mutex_owner(wait->object, call->is_compat);
	if (!wait->owner_tid && wait->object - sp < LIBRARY_FRAMES)
		wait->owner_tid = WIRE_OWNER_STACK;
}

#define FUTEX_CLOCK_REALTIME 256
#define TIMER_ABSTIME 1
#define MICROSECONDS 1000
#define NANOSECONDS 1

/* Argument `at`: the address of a struct timespec or timeval, whose fraction is `unit` ns each, with its meaning. */
static __always_inline __u64 read_timeout(const struct call *call, __u32 at, __u64 unit, __u64 meaning)
{
	__u64 address = call->arguments[at];
	__s64 time[2];
	__u64 ns;

	if (!address)
		return 0;
	if (call->has_short_times) {
		__s32 words[2];

		if (bpf_probe_read_user(words, sizeof(words), (void *)address))
			return 0;
		time[0] = words[0];
		time[1] = words[1];
	} else if (bpf_probe_read_user(time, sizeof(time), (void *)address)) {
		return 0;
	}
	if (time[0] < 0 || time[0] > 4000000000LL || time[1] < 0 || time[1] >= 1000000000LL)
		return 0;
	ns = (__u64)time[0] * 1000000000ULL + (__u64)time[1] * unit;
	return ns | meaning << WIRE_TIMEOUT_SHIFT;
}

static __always_inline __u64 milliseconds(__s32 ms)
{
	return ms < 0 ? 0 : (__u64)ms * 1000000ULL | (__u64)WIRE_TIMEOUT_AFTER << WIRE_TIMEOUT_SHIFT;
}

static __always_inline __u64 futex_timeout(const struct call *call)
{
	__u32 op = call->arguments[1], cmd = FUTEX_CMD(op);
	__u64 meaning;

	if (cmd == 0) /* FUTEX_WAIT takes a duration, the others a point in time */
		meaning = WIRE_TIMEOUT_AFTER;
	else if (cmd == 6 || (op & FUTEX_CLOCK_REALTIME)) /* FUTEX_LOCK_PI knows no other clock */
		meaning = WIRE_TIMEOUT_UNTIL_DATE;
	else
		meaning = WIRE_TIMEOUT_UNTIL;
	return read_timeout(call, 3, NANOSECONDS, meaning);
}

static __always_inline __u64 sleep_timeout(const struct call *call)
{
	__u64 meaning = WIRE_TIMEOUT_AFTER;

	if (call->arguments[1] & TIMER_ABSTIME) /* CLOCK_MONOTONIC is 1, CLOCK_REALTIME 0, other clocks are not supported */
		meaning = call->arguments[0] == 1   ? WIRE_TIMEOUT_UNTIL
			  : call->arguments[0] == 0 ? WIRE_TIMEOUT_UNTIL_DATE
						    : 0;
	return meaning ? read_timeout(call, 2, NANOSECONDS, meaning) : 0;
}

/* Timeout of the call. Reads user memory only for syscalls that pass a time by address. */
static __always_inline __u64 asked_timeout(const struct call *call)
{
	switch (call->number) {
	case SYS_FUTEX: return futex_timeout(call);
	case 35: return read_timeout(call, 0, NANOSECONDS, WIRE_TIMEOUT_AFTER);  /* nanosleep */
	case 230: return sleep_timeout(call);                                    /* clock_nanosleep */
	case 7: return milliseconds(call->arguments[2]);                         /* poll */
	case 232: case 281: return milliseconds(call->arguments[3]);             /* epoll_wait epoll_pwait */
	case 23: return read_timeout(call, 4, MICROSECONDS, WIRE_TIMEOUT_AFTER); /* select */
	case 270: return read_timeout(call, 4, NANOSECONDS, WIRE_TIMEOUT_AFTER); /* pselect6 */
	case 271: return read_timeout(call, 2, NANOSECONDS, WIRE_TIMEOUT_AFTER); /* ppoll */
	case 441: return read_timeout(call, 3, NANOSECONDS, WIRE_TIMEOUT_AFTER); /* epoll_pwait2 */
	}
	return 0;
}

/* A thread that polls a single descriptor waits for that one. */
static __always_inline void describe_polled(struct task_struct *task, const struct call *call, struct wire_wait *wait)
{
	__s32 fd = -1;

	if ((wait->syscall != SYS_POLL && wait->syscall != SYS_PPOLL) || call->arguments[1] != 1)
		return;
	/* It is the first member of a struct pollfd. */
	if (bpf_probe_read_user(&fd, sizeof(fd), (void *)call->arguments[0]) || fd < 0)
		return;
	wait->op = fd;
	describe_fd(task, fd, wait);
}

/* Syscall of a thread. A thread that exits has left its syscall, and its waits belong to the exit. */
static __always_inline __s32 leaves(struct task_struct *task, __s32 number)
{
	return (task->flags & PF_EXITING) && number != SYS_EXIT_GROUP ? SYS_EXIT : number;
}

static __always_inline __s32 call_of(struct task_struct *task, struct pt_regs *regs)
{
	return leaves(task, call_number(task, regs));
}

static __always_inline __u64 until(__s64 clock, __u64 ns)
{
	__u64 meaning = clock == 1 ? WIRE_TIMEOUT_UNTIL : clock == 0 ? WIRE_TIMEOUT_UNTIL_DATE : 0;

	return meaning && !(ns >> WIRE_TIMEOUT_SHIFT) ? ns | meaning << WIRE_TIMEOUT_SHIFT : 0;
}

/* When the poll that the thread restarts times out. 0 if this kernel stores that elsewhere. */
static __always_inline __u64 poll_end_ns(struct task_struct *task)
{
	struct restart_block___end_time *later = (void *)&task->restart_block;

	if (bpf_core_field_exists(struct restart_block, poll.tv_sec))
		return BPF_CORE_READ(task, restart_block.poll.tv_sec) * 1000000000ULL +
		       BPF_CORE_READ(task, restart_block.poll.tv_nsec);
	if (bpf_core_field_exists(later->poll.end_time))
		return BPF_CORE_READ(later, poll.end_time.tv_sec) * 1000000000ULL + BPF_CORE_READ(later, poll.end_time.tv_nsec);
	return 0;
}

/*
 * The call that `restart_syscall` continues. The kernel starts it itself after a stop interrupted a call with
 * a timeout (nanosleep, clock_nanosleep, poll, futex). The arguments are still in the registers, but the
 * kernel stores the call only as a function pointer. The restart data distinguishes the calls. It has a
 * pointer equal to the first argument, except for sleeps. For a futex it has flags, one of which is always
 * set, at the place of poll's single bit. The kernel has already computed the end time.
 */
static __always_inline void describe_restart(struct task_struct *task, const struct call *call, struct wire_wait *wait)
{
	__u32 flags = BPF_CORE_READ(task, restart_block.futex.flags);
	__u64 address = (__u64)BPF_CORE_READ(task, restart_block.futex.uaddr);

	if (call->arguments[0] != address || (address && address < 4096)) { /* poll may have no descriptors */
		wait->syscall = (__s64)call->arguments[0] < 4096 ? SYS_CLOCK_NANOSLEEP : SYS_NANOSLEEP;
		wait->timeout = until(BPF_CORE_READ(task, restart_block.nanosleep.clockid),
				      BPF_CORE_READ(task, restart_block.nanosleep.expires));
	} else if (flags > 1) {
		wait->syscall = SYS_FUTEX;
		wait->timeout = until(!(call->arguments[1] & FUTEX_CLOCK_REALTIME), BPF_CORE_READ(task, restart_block.futex.time));
	} else {
		__u64 end_ns = flags ? poll_end_ns(task) : 0;

		wait->syscall = SYS_POLL;
		if (end_ns)
			wait->timeout = until(1, end_ns);
	}
}

/* `task` must not be one of the kernel's: those have no user registers. `own`: it is the thread that runs. */
static __always_inline void describe_wait(struct task_struct *task, struct wire_wait *wait, bool own)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct call call;

	read_call(task, regs, &call, own);
	wait->syscall = call.number = leaves(task, call.number);
	if (wait->syscall == SYS_RESTART)
		describe_restart(task, &call, wait);
	else if (own)
		wait->timeout = asked_timeout(&call);
	if (wait->syscall == SYS_FUTEX) {
		describe_futex(&call, wait, regs->sp, own);
		return;
	}
	wait->op = call.arguments[0];
	if (waits_on_fd(wait->syscall))
		describe_fd(task, wait->op, wait);
	else if (own)
		describe_polled(task, &call, wait);
}

/*
 * The same for the current thread. Not static, so that the verifier checks it once, not once per path that
 * leads here.
 */
__noinline int describe_own_wait(struct wire_wait *wait)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!wait)
		return 0;
	if (task->flags & PF_KTHREAD) {
		wait->syscall = WIRE_CALL_OF_KERNEL_THREAD;
		return 0;
	}
	describe_wait(task, wait, true);
	if (wait->object_kind == WIRE_OBJECT_FILE)
		name_waited_file(wait);
	else if (wait->object_kind == WIRE_OBJECT_SOCKET)
		name_waited_socket(wait);
	return 0;
}

#endif
