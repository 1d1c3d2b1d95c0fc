/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Syscalls of the targets, counted by thread, number, and the file, pipe or socket in the first argument,
 * with histograms. Sums stay in per-CPU maps until user space reads them. There is no event per call. In
 * addition, each syscall takes the kernel's slower path while any program is attached to syscalls.
 *
 * On request, all calls are counted, with their times. Otherwise user space attaches `on_call_end` for short
 * windows. Attaching and detaching take time, so a word in a map opens and closes the window at an exact
 * time. Calls that the recorder makes in the window are counted too, so that it can measure the cost of
 * counting.
 */
#ifndef HOLDUP_CALLS_H
#define HOLDUP_CALLS_H

/* User space's word. 0: calls are not counted. 1: they are. 2: they are from the next program on that a target executes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} call_gate SEC(".maps");

#define SYS_EXECVE 59
#define SYS_BPF 321
#define SYS_EXECVEAT 322
#define ERRORS_MAX 4095

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct wire_call_key);
	__type(value, struct wire_call_sums);
} calls SEC(".maps");

/*
 * The same without the object, preallocated. Used if `calls` is full, and if the kernel has no memory
 * available. The kernel has little per-CPU memory in reserve, and refills it asynchronously. About ten new
 * objects at once exceed it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wire_call_key);
	__type(value, struct wire_call_sums);
} calls_plain SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct wire_call_error_key);
	__type(value, __u64);
} call_errors SEC(".maps");

/* Each stack counts for the number of calls that it represents. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct wire_call_stack_key);
	__type(value, __u64);
} call_stacks SEC(".maps");

/* The same without the object, once there is no room there: each connection is another one, and callers are not many. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wire_call_stack_key);
	__type(value, __u64);
} call_stacks_plain SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct wire_object_key);
	__type(value, struct wire_object_name);
} object_names SEC(".maps");

/* Zeros for a new entry. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_call_sums);
} call_zeros SEC(".maps");

/* What the arguments and the result of a syscall are. */
#define FD 1        /* the first is a descriptor */
#define SIZE_3 2    /* the third is a size in bytes, or a number of events */
#define SIZE_2 4    /* the second is one */
#define AMOUNT 8    /* the result is a number of bytes or events */
#define OP_2 16     /* the second argument is the operation */
#define OP_1 32     /* the first does */
#define SIZE_4 64   /* the fourth is a size */
#define OP_3 128    /* the third says what is to be done */

#define SYSCALLS 512 /* a power of two */

static const __u8 call_shapes[SYSCALLS] = {
	[0] = FD | SIZE_3 | AMOUNT, /* read write */
	[1] = FD | SIZE_3 | AMOUNT,
	[2] = OP_2, [257] = OP_3, /* open openat: flags */
	[5] = FD, [8] = FD, /* fstat lseek */
	[7] = SIZE_2 | AMOUNT, /* poll */
	[9] = SIZE_2, [10] = SIZE_2, [11] = SIZE_2, [28] = SIZE_2, /* mmap mprotect munmap madvise */
	[16] = FD | OP_2, /* ioctl */
	[17] = FD | SIZE_3 | AMOUNT, [18] = FD | SIZE_3 | AMOUNT, [19] = FD | AMOUNT, [20] = FD | AMOUNT,
	[23] = AMOUNT, [270] = AMOUNT, /* select pselect6 */
	[40] = FD | SIZE_4 | AMOUNT, /* sendfile */
	[42] = FD, [43] = FD, [44] = FD | SIZE_3 | AMOUNT, [45] = FD | SIZE_3 | AMOUNT,
	[46] = FD | AMOUNT, [47] = FD | AMOUNT, [48] = FD, [49] = FD, [50] = FD, [51] = FD, [52] = FD, [54] = FD, [55] = FD,
	[72] = FD | OP_2, [73] = FD, [74] = FD, [75] = FD, [77] = FD, [78] = FD | SIZE_3 | AMOUNT,
	[187] = FD | SIZE_3, [217] = FD | SIZE_3 | AMOUNT, [221] = FD, /* readahead getdents64 fadvise64 */
	[202] = OP_2, /* futex */
	[228] = OP_1, [229] = OP_1, [230] = OP_1, /* clock_gettime clock_getres clock_nanosleep */
	[232] = FD | SIZE_3 | AMOUNT, [281] = FD | SIZE_3 | AMOUNT, [441] = FD | SIZE_3 | AMOUNT, /* epoll_wait … */
	[233] = FD | OP_2, /* epoll_ctl */
	[271] = SIZE_2 | AMOUNT, /* ppoll */
	[275] = FD | AMOUNT, [276] = FD | AMOUNT, [278] = FD | AMOUNT, /* splice tee vmsplice */
	[277] = FD, [285] = FD, [286] = FD, [287] = FD, [306] = FD,
	[263] = OP_3, /* unlinkat: flags */
	[288] = FD, /* accept4 */
	[295] = FD | AMOUNT, [296] = FD | AMOUNT, [327] = FD | AMOUNT, [328] = FD | AMOUNT, /* preadv pwritev … */
	[299] = FD | SIZE_3 | AMOUNT, [307] = FD | SIZE_3 | AMOUNT, /* recvmmsg sendmmsg: messages */
	[318] = SIZE_2 | AMOUNT, /* getrandom */
	[326] = FD | AMOUNT, /* copy_file_range */
	[426] = FD | SIZE_2 | AMOUNT, /* io_uring_enter: entries to submit, entries submitted */
};

/* Not static: the verifier then does not follow each number of bits to its caller's end. */
__noinline __u32 bits_of(__u64 value)
{
	__u32 bits = 0;

	if (value >> 32) { bits += 32; value >>= 32; }
	if (value >> 16) { bits += 16; value >>= 16; }
	if (value >> 8) { bits += 8; value >>= 8; }
	if (value >> 4) { bits += 4; value >>= 4; }
	if (value >> 2) { bits += 2; value >>= 2; }
	if (value >> 1) { bits += 1; value >>= 1; }
	return bits + value;
}

/* The number of bits of `value`, at most `buckets` - 1. */
static __always_inline __u32 bucket_of(__u64 value, __u32 buckets)
{
	__u32 bits = bits_of(value);

	barrier_var(bits);
	return bits < buckets ? bits : buckets - 1;
}

/* Stores the name of an object, once for each. */
static __always_inline void name_object(struct file *file, const struct wire_call_key *key)
{
	struct wire_object_key object = { .kind = key->object_kind, .object = key->object };
	struct wire_object_name *name;
	__u32 zero = 0;

	if (!file || bpf_map_lookup_elem(&object_names, &object))
		return;
	name = bpf_map_lookup_elem(&name_rooms, &zero);
	if (!name)
		return;
	__builtin_memset(name, 0, sizeof(*name));
	if (object.kind == WIRE_OBJECT_SOCKET)
		name_socket(file, name);
	else
		name_path(file, name);
	bpf_map_update_elem(&object_names, &object, name, BPF_NOEXIST);
}

static __always_inline struct wire_call_sums *new_sums_in(void *map, const struct wire_call_key *key)
{
	struct wire_call_sums *sums = bpf_map_lookup_elem(map, key);
	__u32 zero = 0;
	void *zeros;

	if (sums)
		return sums;
	zeros = bpf_map_lookup_elem(&call_zeros, &zero);
	if (!zeros)
		return 0;
	bpf_map_update_elem(map, key, zeros, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

/* A new entry, without the object if there is no space for another one. */
static __always_inline struct wire_call_sums *new_sums(struct per_cpu *cpu, struct wire_call_key *key)
{
	struct wire_call_sums *sums = new_sums_in(&calls, key);

	if (sums)
		return sums;
	key->object_kind = 0;
	key->object = 0;
	key->op = 0;
	sums = new_sums_in(&calls_plain, key);
	if (!sums)
		cpu->calls_uncounted++;
	return sums;
}

static __always_inline void count_error(struct wire_call_sums *sums, const struct wire_call_key *key, __u32 error)
{
	struct wire_call_error_key other = { .call = *key, .error = error };
	__u64 *count, one = 1;

	sums->errors++;
	if (!sums->error)
		sums->error = error;
	if (sums->error == error) {
		sums->error_count++;
		return;
	}
	count = bpf_map_lookup_elem(&call_errors, &other);
	if (count)
		(*count)++;
	else
		bpf_map_update_elem(&call_errors, &other, &one, BPF_NOEXIST);
}

static __always_inline void count_result(struct wire_call_sums *sums, __u64 result)
{
	__u32 bucket = bucket_of(result, WIRE_SIZE_BUCKETS);

	sums->returned += result;
	if (bucket < WIRE_SIZE_BUCKETS)
		sums->returns[bucket]++;
}

static __always_inline void count_sizes(struct wire_call_sums *sums, const struct call *call, __u8 shape, long result)
{
	__u32 bucket;

	if (shape & (SIZE_2 | SIZE_3 | SIZE_4)) {
		bucket = bucket_of(call->arguments[shape & SIZE_3 ? 2 : shape & SIZE_2 ? 1 : 3], WIRE_SIZE_BUCKETS);
		if (bucket < WIRE_SIZE_BUCKETS)
			sums->asked[bucket]++;
	}
	if ((shape & AMOUNT) && result >= 0)
		count_result(sums, result);
}

/* Start of the current thread's call, 0 if unknown. The entry is removed. */
static __always_inline __u64 call_began(struct per_cpu *cpu, __u32 tid)
{
	__u64 *away, began = 0;

	if (cpu->call_tid == tid) {
		cpu->call_tid = 0;
		return cpu->call_began_ns;
	}
	away = bpf_map_lookup_elem(&calls_away, &tid);
	if (away) {
		began = *away;
		bpf_map_delete_elem(&calls_away, &tid);
	}
	return began;
}

static __always_inline void count_time(struct wire_call_sums *sums, __u64 took_ns)
{
	__u32 bucket = bucket_of(took_ns, WIRE_TIME_BUCKETS);

	sums->timed++;
	sums->time_ns += took_ns;
	if (took_ns > sums->time_max_ns)
		sums->time_max_ns = took_ns;
	if (bucket < WIRE_TIME_BUCKETS)
		sums->times[bucket]++;
}

/* False: there is no room. */
static __always_inline bool add_weight(void *map, const struct wire_call_stack_key *key, __u64 every)
{
	__u64 *weight = bpf_map_lookup_elem(map, key);

	if (!weight && !bpf_map_update_elem(map, key, &every, BPF_NOEXIST))
		return true;
	if (!weight) /* another CPU has just put it there, or there is no room */
		weight = bpf_map_lookup_elem(map, key);
	if (weight)
		__sync_fetch_and_add(weight, every);
	return weight;
}

static __always_inline void draw_call_stack(void *ctx, struct per_cpu *cpu, struct task_struct *task,
					    const struct wire_call_key *key, __u64 now)
{
	struct wire_call_stack_key by_stack = { .call = *key };
	__u64 every;
	bool take;

	every = draw_stack(cpu, DRAW_CALL, now, &take);
	if (!take)
		return;
	by_stack.stack = take_stack(ctx, cpu, SCRATCH_CALL, task, false, now);
	if (!by_stack.stack)
		return;
	if (add_weight(&call_stacks, &by_stack, every))
		return;
	by_stack.call.object_kind = 0;
	by_stack.call.object = 0;
	by_stack.call.op = 0;
	if (!add_weight(&call_stacks_plain, &by_stack, every))
		cpu->calls_uncounted++;
}

static __always_inline bool counts_calls(long number, long result)
{
	__u32 zero = 0, *gate = bpf_map_lookup_elem(&call_gate, &zero);

	if (!gate)
		return false;
	if (*gate == 2 && (number == SYS_EXECVE || number == SYS_EXECVEAT) && !result)
		*gate = 1;
	return *gate == 1;
}

/* A new thread comes out of the call that its parent made. */
static __always_inline bool is_birth(__s32 number, long result)
{
	return !result && (number == 56 || number == 57 || number == 58 || number == 435); /* clone fork vfork clone3 */
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_call_begin, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	__u64 began;

	if (!cpu || !is_target(task, cpu))
		return 0;
	began = probe_begin(cpu, PROBE_SYSCALL);
	cpu->call_began_ns = bpf_ktime_get_ns();
	cpu->call_tid = task->pid;
	probe_end(cpu, PROBE_SYSCALL, began);
	return 0;
}

/*
 * The sums of this call, 0 if there is no space. Not inlined, so that its variables are not live while the
 * stack is walked.
 */
static __noinline struct wire_call_sums *sums_of(struct task_struct *task, struct per_cpu *cpu,
						 const struct call *call, struct wire_call_key *key, __u8 shape)
{
	struct wire_wait wait = {};
	struct wire_call_sums *sums;

	if (shape & OP_3)
		key->op = call->arguments[2];
	else if (shape & (OP_1 | OP_2))
		key->op = shape & OP_2 ? call->arguments[1] : call->arguments[0];
	if (shape & FD) {
		describe_fd(task, call->arguments[0], &wait);
		key->object_kind = wait.object_kind;
		key->object = wait.object;
	}
	sums = bpf_map_lookup_elem(&calls, key);
	if (sums)
		return sums;
	sums = new_sums(cpu, key);
	if (sums && key->object_kind && key->object_kind != WIRE_OBJECT_FD)
		name_object(open_file(task, call->arguments[0]), key);
	return sums;
}

/* The call that ends on this CPU: too large for the BPF stack. The kernel runs no program within itself on one CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct call);
} call_rooms SEC(".maps");

static __always_inline void count_call(void *ctx, struct per_cpu *cpu, struct task_struct *task,
				       struct pt_regs *regs, long result)
{
	struct wire_call_key key = { .tid = task->pid };
	__u64 now = bpf_ktime_get_ns(), began = configuration.count_calls ? call_began(cpu, task->pid) : 0;
	struct wire_call_sums *sums;
	struct call *call;
	__u32 zero = 0;
	__u8 shape;

	call = bpf_map_lookup_elem(&call_rooms, &zero);
	if (!call)
		return;
	read_call(task, regs, call, true);
	key.syscall = call->number;
	if (key.syscall < 0 || !counts_calls(key.syscall, result) || is_birth(key.syscall, result))
		return;
	/* The call that opens a window ends inside it: what a new entry takes would make that moment doubtful. */
	if (key.syscall == SYS_BPF && task->tgid == configuration.recorder_tgid)
		return;
	shape = key.syscall < SYSCALLS ? call_shapes[key.syscall & (SYSCALLS - 1)] : 0;
	sums = sums_of(task, cpu, call, &key, shape);
	if (!sums)
		return;
	sums->tgid = task->tgid;
	sums->count++; /* this CPU's own, and no interrupt makes a syscall */
	if (began)
		count_time(sums, now - began);
	count_sizes(sums, call, shape, result);
	if (result < 0 && result >= -ERRORS_MAX)
		count_error(sums, &key, -result);
	draw_call_stack(ctx, cpu, task, &key, now);
}

static __always_inline bool is_counted(struct task_struct *task, struct per_cpu *cpu)
{
	return is_target(task, cpu) || (!configuration.count_calls && task->tgid == configuration.recorder_tgid);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_call_end, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	__u64 began;

	if (!cpu || !is_counted(task, cpu))
		return 0;
	began = probe_begin(cpu, PROBE_SYSCALL);
	count_call(ctx, cpu, task, regs, result);
	probe_end(cpu, PROBE_SYSCALL, began);
	return 0;
}

#undef FD
#undef SIZE_2
#undef SIZE_3
#undef SIZE_4
#undef AMOUNT
#undef OP_1
#undef OP_2
#undef OP_3
#endif
