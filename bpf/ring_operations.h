/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * io_uring operations, in the mode that counts all syscalls. They are added to the same sums, by submitting
 * thread, operation and file, with their times from submission to completion. (A ring here is the program's
 * own, not the recorder's.)
 *
 * An operation that completes many times (a multishot one) counts once per completion. Its time is known at
 * the last one. For the other completions, the kernel reports only the program's name for the request
 * (user_data). That name is kept for operations that may be multishot.
 */
#ifndef HOLDUP_RING_OPERATIONS_H
#define HOLDUP_RING_OPERATIONS_H

struct ring_operation {
	__u64 began_ns;
	__u32 tid;
	__u32 tgid;
	__u32 opcode; /* enum io_uring_op */
	__u32 pad;
};

/* By the address of the kernel's request, which is used again once it is done: what never completes is overwritten then. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct ring_operation);
} ring_operations SEC(".maps");

struct ring_named {
	__u64 request;
	struct ring_operation operation; /* of the last that has the name */
	__u64 others; /* that have it, too */
};

struct ring_name {
	__u64 ring;
	__u64 user_data;
};

/*
 * The operation whose completions have this name: its key in `ring_operations`. 0 if several operations have
 * it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct ring_name);
	__type(value, struct ring_named);
} ring_names SEC(".maps");

#define OPERATION(number) (1ULL << (number))

/* Those whose result is a number of bytes: readv writev, read_fixed write_fixed, sendmsg recvmsg, read write, send recv, splice tee,
 * send_zc sendmsg_zc, read_multishot. */
#define MOVES_BYTES (OPERATION(1) | OPERATION(2) | OPERATION(4) | OPERATION(5) | OPERATION(9) | OPERATION(10) | \
		     OPERATION(22) | OPERATION(23) | OPERATION(26) | OPERATION(27) | OPERATION(30) | OPERATION(33) | \
		     OPERATION(47) | OPERATION(48) | OPERATION(49))

/* Those that may have many answers: poll_add, recvmsg, timeout, accept, recv, read_multishot. */
#define MAY_GO_ON (OPERATION(6) | OPERATION(10) | OPERATION(11) | OPERATION(13) | OPERATION(27) | OPERATION(49))

static __always_inline bool may_go_on(__u32 opcode)
{
	return opcode < 64 && (MAY_GO_ON & OPERATION(opcode));
}

static __always_inline struct ring_name name_of(struct io_kiocb *request)
{
	struct ring_name name = { .ring = (__u64)BPF_CORE_READ(request, ctx), .user_data = BPF_CORE_READ(request, cqe.user_data) };

	return name;
}

/* Where another operation has the name already, it is not known any more whose an answer is. */
static __always_inline void keep_name(struct io_kiocb *request, const struct ring_operation *operation)
{
	struct ring_named named = { .request = (__u64)request, .operation = *operation }, *before;
	struct ring_name name = name_of(request);

	before = bpf_map_lookup_elem(&ring_names, &name);
	if (before && before->request != named.request) {
		named.request = 0;
		named.others = before->others + 1;
	}
	bpf_map_update_elem(&ring_names, &name, &named, BPF_ANY);
}

static __always_inline void forget_name(struct io_kiocb *request)
{
	struct ring_name name = name_of(request);
	struct ring_named *named = bpf_map_lookup_elem(&ring_names, &name);

	if (!named)
		return;
	if (named->others)
		named->others--;
	else
		bpf_map_delete_elem(&ring_names, &name);
}

static __always_inline int begin_operation(struct io_kiocb *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct ring_operation operation = { .tid = task->pid, .tgid = task->tgid };
	struct per_cpu *cpu = this_cpu();
	__u64 key = (__u64)request, began;

	if (!cpu || !is_target(task, cpu) || !counts_calls(-1, 0))
		return 0;
	began = probe_begin(cpu, PROBE_SYSCALL);
	operation.began_ns = bpf_ktime_get_ns();
	operation.opcode = BPF_CORE_READ(request, opcode);
	if (bpf_map_update_elem(&ring_operations, &key, &operation, BPF_ANY))
		cpu->calls_uncounted++;
	else if (may_go_on(operation.opcode))
		keep_name(request, &operation);
	probe_end(cpu, PROBE_SYSCALL, began);
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(on_ring_submit, struct io_kiocb *request)
{
	return begin_operation(request);
}

/* Linux 6.0 to 6.3. */
SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(on_ring_submit_before_6_4, struct io_kiocb *request)
{
	return begin_operation(request);
}

static __always_inline struct wire_call_sums *operation_sums(struct per_cpu *cpu, struct wire_call_key *key,
							     struct io_kiocb *request)
{
	struct wire_wait wait = {};
	struct wire_call_sums *sums;

	if (request)
		describe_file(__builtin_preserve_access_index(&request->file), &wait);
	key->object_kind = wait.object_kind;
	key->object = wait.object;
	sums = bpf_map_lookup_elem(&calls, key);
	if (sums)
		return sums;
	sums = new_sums(cpu, key);
	if (sums && key->object_kind)
		name_object(BPF_CORE_READ(request, file), key);
	return sums;
}

/* `request`: 0 if it is unknown which of several requests it was. `is_last`: the time is known. */
static __always_inline void count_operation(struct per_cpu *cpu, const struct ring_operation *operation, struct io_kiocb *request,
					    long result, bool is_last)
{
	struct wire_call_key key = { .tid = operation->tid, .syscall = WIRE_RING_OPERATION + operation->opcode };
	struct wire_call_sums *sums = operation_sums(cpu, &key, request);

	if (!sums)
		return;
	sums->tgid = operation->tgid;
	sums->count++;
	if (is_last)
		count_time(sums, bpf_ktime_get_ns() - operation->began_ns);
	if (result < 0 && result >= -ERRORS_MAX)
		count_error(sums, &key, -result);
	else if (result >= 0 && operation->opcode < 64 && (MOVES_BYTES & OPERATION(operation->opcode)))
		count_result(sums, result);
}

/* Completion may run in any context, because the submitter is known. */
SEC("tp_btf/io_uring_complete")
int BPF_PROG(on_ring_complete, void *ring, struct io_kiocb *request)
{
	struct per_cpu *cpu = this_cpu();
	struct ring_operation *operation;
	__u64 key = (__u64)request, began;

	operation = bpf_map_lookup_elem(&ring_operations, &key);
	if (!cpu || !operation)
		return 0;
	began = probe_begin(cpu, PROBE_SYSCALL);
	if (may_go_on(operation->opcode))
		forget_name(request);
	count_operation(cpu, operation, request, BPF_CORE_READ(request, cqe.res), true);
	bpf_map_delete_elem(&ring_operations, &key);
	probe_end(cpu, PROBE_SYSCALL, began);
	return 0;
}

/* A completion without its request: the operation continues (multishot). */
static __always_inline int count_completion(void *ring, __u64 user_data, long result)
{
	struct per_cpu *cpu = this_cpu();
	struct ring_name name = { .ring = (__u64)ring, .user_data = user_data };
	struct ring_named *named;
	__u64 began;

	named = bpf_map_lookup_elem(&ring_names, &name);
	if (!cpu || !named)
		return 0;
	began = probe_begin(cpu, PROBE_SYSCALL);
	count_operation(cpu, &named->operation, (struct io_kiocb *)named->request, result, false);
	probe_end(cpu, PROBE_SYSCALL, began);
	return 0;
}

SEC("tp_btf/io_uring_complete")
int BPF_PROG(on_ring_answer, void *ring, struct io_kiocb *request, struct io_uring_cqe *answer)
{
	if (request)
		return 0;
	return count_completion(ring, BPF_CORE_READ(answer, user_data), BPF_CORE_READ(answer, res));
}

/* Where the tracepoint passes the fields of the completion instead of the completion. */
SEC("tp_btf/io_uring_complete")
int BPF_PROG(on_ring_answer_by_fields, void *ring, struct io_kiocb *request, __u64 user_data, int result)
{
	if (request)
		return 0;
	return count_completion(ring, user_data, result);
}

#undef OPERATION
#undef MOVES_BYTES
#undef MAY_GO_ON

#endif
