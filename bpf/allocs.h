/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Allocations that were drawn, and their ends: probes on two functions of the library that draws them
 * (preload/allocs.c). They are as many as the bytes allocated make them, so each stack is taken.
 */
#ifndef HOLDUP_ALLOCS_H
#define HOLDUP_ALLOCS_H

SEC("uprobe")
int on_allocated(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	struct wire_allocated *told;
	__u64 began, now, stack;

	if (!cpu || !is_target(task, cpu))
		return 0;
	began = probe_begin(cpu, PROBE_ALLOC);
	now = bpf_ktime_get_ns();
	stack = take_stack(ctx, cpu, SCRATCH_ALLOC, task, false, now);
	told = bpf_ringbuf_reserve(&definitions, sizeof(*told), 0);
	if (!told) {
		count_lost(cpu, WIRE_STREAM_ALLOCS);
		return 0;
	}
	fill_header(&told->freed.header, cpu, WIRE_ALLOCATED, WIRE_STREAM_ALLOCS, now);
	told->freed.tid = task->pid;
	told->freed.tgid = task->tgid;
	told->freed.address = ctx->di;
	told->bytes = ctx->si;
	told->every_bytes = ctx->dx;
	told->stack = stack;
	bpf_ringbuf_submit(told, definitions_wakeup());
	probe_end(cpu, PROBE_ALLOC, began);
	return 0;
}

SEC("uprobe")
int on_freed(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	struct wire_freed *told;
	__u64 began;

	if (!cpu || !is_target(task, cpu))
		return 0;
	began = probe_begin(cpu, PROBE_ALLOC);
	told = bpf_ringbuf_reserve(&definitions, sizeof(*told), 0);
	if (!told) {
		count_lost(cpu, WIRE_STREAM_ALLOCS);
		return 0;
	}
	fill_header(&told->header, cpu, WIRE_FREED, WIRE_STREAM_ALLOCS, bpf_ktime_get_ns());
	told->tid = task->pid;
	told->tgid = task->tgid;
	told->address = ctx->di;
	bpf_ringbuf_submit(told, definitions_wakeup());
	probe_end(cpu, PROBE_ALLOC, began);
	return 0;
}

#endif
