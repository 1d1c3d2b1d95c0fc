/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sampled allocations and their ends: probes on two functions of the sampling library (preload/allocs.c).
 * Their number follows the allocated bytes, so every stack is taken.
 */
#ifndef HOLDUP_ALLOCS_H
#define HOLDUP_ALLOCS_H

SEC("uprobe")
int on_allocated(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	struct wire_allocated told = { .freed.header.kind = WIRE_ALLOCATED };
	__u64 began, switches;

	if (!cpu || !is_target(task, cpu))
		return 0;
	began = user_probe_begin(cpu, PROBE_ALLOC, task, &switches);
	told.freed.header.at_ns = bpf_ktime_get_ns();
	told.freed.tid = task->pid;
	told.freed.tgid = task->tgid;
	told.freed.address = ctx->di;
	told.bytes = ctx->si;
	told.every_bytes = ctx->dx;
	told.stack = take_probe_stack(ctx, cpu, SCRATCH_ALLOC, task, told.freed.header.at_ns);
	tell_passed(cpu, &told.freed.header, sizeof(told), WIRE_STREAM_ALLOCS, definitions_wakeup());
	user_probe_end(cpu, PROBE_ALLOC, task, switches, began);
	return 0;
}

SEC("uprobe")
int on_freed(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	struct wire_freed told = { .header.kind = WIRE_FREED };
	__u64 began, switches;

	if (!cpu || !is_target(task, cpu))
		return 0;
	began = user_probe_begin(cpu, PROBE_ALLOC, task, &switches);
	told.header.at_ns = bpf_ktime_get_ns();
	told.tid = task->pid;
	told.tgid = task->tgid;
	told.address = ctx->di;
	tell_passed(cpu, &told.header, sizeof(told), WIRE_STREAM_ALLOCS, definitions_wakeup());
	user_probe_end(cpu, PROBE_ALLOC, task, switches, began);
	return 0;
}

#endif
