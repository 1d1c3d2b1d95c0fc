/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Operations of io_uring, where all syscalls are counted: in the same sums, by the thread that submitted them, by what is to be
 * done and on which file, with their times from submission to completion. (A ring here is the program's own, not one of ours.)
 *
 * An operation that completes many times (a multishot one) is counted when it ends.
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

#define CQE_F_MORE 2 /* IORING_CQE_F_MORE: this is not its last answer */
#define OPERATION(number) (1ULL << (number))

/* Those whose result is a number of bytes: readv writev, read_fixed write_fixed, sendmsg recvmsg, read write, send recv, splice tee,
 * send_zc sendmsg_zc. */
#define MOVES_BYTES (OPERATION(1) | OPERATION(2) | OPERATION(4) | OPERATION(5) | OPERATION(9) | OPERATION(10) | \
		     OPERATION(22) | OPERATION(23) | OPERATION(26) | OPERATION(27) | OPERATION(30) | OPERATION(33) | \
		     OPERATION(47) | OPERATION(48))

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(on_ring_submit, struct io_kiocb *request)
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
	probe_end(cpu, PROBE_SYSCALL, began);
	return 0;
}

static __always_inline struct wire_call_sums *operation_sums(struct per_cpu *cpu, struct wire_call_key *key,
							     struct io_kiocb *request)
{
	struct wire_wait wait = {};
	struct wire_call_sums *sums;

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

static __always_inline void count_operation(struct per_cpu *cpu, const struct ring_operation *operation, struct io_kiocb *request,
					    long result)
{
	struct wire_call_key key = { .tid = operation->tid, .syscall = WIRE_RING_OPERATION + operation->opcode };
	struct wire_call_sums *sums = operation_sums(cpu, &key, request);

	if (!sums)
		return;
	sums->tgid = operation->tgid;
	sums->count++;
	count_time(sums, bpf_ktime_get_ns() - operation->began_ns);
	if (result < 0 && result >= -ERRORS_MAX)
		count_error(sums, &key, -result);
	else if (result >= 0 && operation->opcode < 64 && (MOVES_BYTES & OPERATION(operation->opcode)))
		count_result(sums, result);
}

/* In whatever context it completes: who submitted it is known. */
SEC("tp_btf/io_uring_complete")
int BPF_PROG(on_ring_complete, void *ring, struct io_kiocb *request)
{
	struct per_cpu *cpu = this_cpu();
	struct ring_operation *operation;
	__u64 key = (__u64)request, began;

	operation = bpf_map_lookup_elem(&ring_operations, &key);
	if (!cpu || !operation || (BPF_CORE_READ(request, cqe.flags) & CQE_F_MORE))
		return 0;
	began = probe_begin(cpu, PROBE_SYSCALL);
	count_operation(cpu, operation, request, BPF_CORE_READ(request, cqe.res));
	bpf_map_delete_elem(&ring_operations, &key);
	probe_end(cpu, PROBE_SYSCALL, began);
	return 0;
}

#undef CQE_F_MORE
#undef OPERATION
#undef MOVES_BYTES

#endif
