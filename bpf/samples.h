/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* On-CPU samples from a perf event (cpu-clock). */
#ifndef HOLDUP_SAMPLES_H
#define HOLDUP_SAMPLES_H

static __always_inline void sampled(struct bpf_perf_event_data *ctx, struct per_cpu *cpu, struct task_struct *task)
{
	bool in_kernel = (ctx->regs.cs & 3) != 3;
	__u64 now = bpf_ktime_get_ns();
	__u64 stack = take_stack(ctx, cpu, SCRATCH_SAMPLE, task, in_kernel, now);
	struct wire_sample *sample = reserve_record(sizeof(*sample), false);

	if (!sample) {
		count_lost(cpu, WIRE_STREAM_SAMPLES);
		return;
	}
	fill_header(&sample->header, cpu, WIRE_SAMPLE, WIRE_STREAM_SAMPLES, now);
	sample->header.flags = in_kernel ? WIRE_SAMPLE_KERNEL : 0;
	sample->tid = task->pid;
	sample->tgid = task->tgid;
	sample->ip = ctx->regs.ip;
	sample->syscall = -1;
	sample->pad = 0;
	if (in_kernel && task->mm)
		sample->syscall = (__s32)((struct pt_regs *)bpf_task_pt_regs(task))->orig_ax;
	sample->stack = stack;
	submit_record(sample);
}

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	__u64 began;

	/* The idle thread's samples interrupt nobody. */
	if (!cpu || !task->pid || !is_target(task, cpu))
		return 0;
	began = probe_begin(cpu, PROBE_SAMPLE);
	sampled(ctx, cpu, task);
	probe_end(cpu, PROBE_SAMPLE, began);
	return 0;
}

#endif
