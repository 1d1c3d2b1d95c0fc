/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every thread of the machine at one moment: names, and the state of targets. */
#ifndef HOLDUP_SNAPSHOT_H
#define HOLDUP_SNAPSHOT_H

SEC("iter/task")
int on_snapshot(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct wire_snapshot snapshot = {};
	struct per_cpu *cpu = this_cpu();

	if (!task || !cpu)
		return 0;
	snapshot.thread.header.at_ns = bpf_ktime_get_ns();
	snapshot.thread.header.kind = WIRE_SNAPSHOT;
	snapshot.thread.header.cpu = bpf_get_smp_processor_id();
	snapshot.thread.tid = task->pid;
	snapshot.thread.tgid = task->tgid;
	snapshot.thread.other_tid = BPF_CORE_READ(task, real_parent, tgid);
	snapshot.thread.target = is_target(task, cpu);
	snapshot.thread.cpus_allowed = task->nr_cpus_allowed;
	snapshot.thread.inner_tid = inner_tid(task);
	bpf_probe_read_kernel_str(snapshot.thread.name, sizeof(snapshot.thread.name), task->comm);
	snapshot.start_ns = task->start_boottime;
	snapshot.exec_ns = task->se.sum_exec_runtime;
	snapshot.queue_ns = bpf_core_field_exists(task->sched_info) ? task->sched_info.run_delay : ~0ULL;
	snapshot.state = task->__state;
	snapshot.on_cpu = task->on_cpu;
	snapshot.wait.syscall = task->flags & PF_KTHREAD ? WIRE_CALL_OF_KERNEL_THREAD : -1;
	if (snapshot.thread.target && !(task->flags & PF_KTHREAD) && snapshot.state && !(snapshot.state & TASK_DEAD_BITS) &&
	    !task->on_cpu) {
		if (BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait))
			snapshot.thread.header.flags |= WIRE_SWITCH_IN_IOWAIT;
		describe_wait(task, &snapshot.wait, false);
		/* The timeout is recorded only for a call whose start is seen. */
		snapshot.wait.timeout = 0;
	}
	bpf_seq_write(ctx->meta->seq, &snapshot, sizeof(snapshot));
	return 0;
}

#define SNAPSHOT_CHUNK 1024
#define SNAPSHOT_CHUNKS 30 /* a record of an iterator has at most 32 KiB */

struct snapshot_stack {
	struct wire_raw_stack head;
	__u8 memory[SNAPSHOT_CHUNK * SNAPSHOT_CHUNKS];
};

/* Only one reader at a time walks the threads. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct snapshot_stack);
} snapshot_scratch SEC(".maps");

/* How much of each stack was copied before: it is read part by part. User space sets it between the readings. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} snapshot_skip SEC(".maps");

/*
 * Stacks of targets that are blocked already, copied to be walked later: it is another's memory, which only a
 * program that may sleep can read.
 */
SEC("iter.s/task")
int on_blocked_stacks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct snapshot_stack *stack;
	struct per_cpu *cpu = this_cpu();
	struct pt_regs *regs;
	__u32 zero = 0, bytes = 0, *skip;

	if (!task || !cpu || !task->mm || !task->__state || task->on_cpu || (task->flags & PF_KTHREAD) ||
	    !is_target(task, cpu))
		return 0;
	stack = bpf_map_lookup_elem(&snapshot_scratch, &zero);
	skip = bpf_map_lookup_elem(&snapshot_skip, &zero);
	if (!stack || !skip)
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (is_narrow(regs))
		return 0;
	__builtin_memset(&stack->head, 0, sizeof(stack->head));
	stack->head.header.at_ns = bpf_ktime_get_ns();
	stack->head.header.kind = WIRE_SNAPSHOT_STACK;
	stack->head.header.flags = WIRE_END_NO_TABLES;
	stack->head.id = (__u64)task->pid; /* unlike any hash: those are 64 random bits */
	stack->head.tgid = task->tgid;
	stack->head.ip = regs->ip;
	stack->head.sp = regs->sp;
	stack->head.bp = regs->bp;
	stack->head.bx = regs->bx;
	for (__u32 chunk = 0; chunk < SNAPSHOT_CHUNKS; chunk++) {
		if (bpf_copy_from_user_task(&stack->memory[chunk * SNAPSHOT_CHUNK], SNAPSHOT_CHUNK,
					    (void *)(stack->head.sp + *skip + chunk * SNAPSHOT_CHUNK), task, 0))
			break;
		bytes += SNAPSHOT_CHUNK;
	}
	if (*skip && !bytes)
		return 0; /* the stack ended before */
	stack->head.bytes = bytes;
	bpf_seq_write(ctx->meta->seq, stack, sizeof(*stack));
	return 0;
}

#endif
