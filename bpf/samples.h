/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * On-CPU samples from a perf event (cpu-clock). Samples with registers are too big for a slot of the main
 * ring, and use the small ring.
 */
#ifndef HOLDUP_SAMPLES_H
#define HOLDUP_SAMPLES_H

static __always_inline void fill_sample(struct wire_sample *sample, struct per_cpu *cpu, __u8 kind,
					struct task_struct *task, __u64 now)
{
	__u32 stream = kind == WIRE_SAMPLE ? WIRE_STREAM_PLAIN_SAMPLES : WIRE_STREAM_SAMPLES;

	fill_header(&sample->header, cpu, kind, stream, now);
	sample->tid = task->pid;
	sample->tgid = task->tgid;
	sample->syscall = -1;
	sample->pad = 0;
}

static __always_inline void sampled(struct bpf_perf_event_data *ctx, struct per_cpu *cpu, struct task_struct *task,
				    bool kernel, __u64 now)
{
	__u64 stack = take_stack(ctx, cpu, SCRATCH_SAMPLE, task, kernel, now);
	struct wire_ring_ends *end = this_end();
	struct wire_sample *sample = end ? reserve_record(end, sizeof(*sample), true) : 0;

	if (!sample) {
		count_lost(cpu, WIRE_STREAM_PLAIN_SAMPLES);
		return;
	}
	fill_sample(sample, cpu, WIRE_SAMPLE, task, now);
	sample->ip = ctx->regs.ip;
	if (kernel) {
		sample->header.flags = WIRE_SAMPLE_KERNEL;
		sample->syscall = call_of(task, (struct pt_regs *)bpf_task_pt_regs(task));
	}
	sample->stack = stack;
	submit_record(sample);
}

/* With registers: user space computes from them what memory the thread touched. */
static __always_inline void sampled_with_registers(struct bpf_perf_event_data *ctx, struct per_cpu *cpu,
					    struct task_struct *task, __u64 now)
{
	__u64 stack = take_stack(ctx, cpu, SCRATCH_SAMPLE, task, false, now);
	struct wire_sample_user *user = bpf_ringbuf_reserve(&definitions, sizeof(*user), 0);

	if (!user) {
		count_lost(cpu, WIRE_STREAM_SAMPLES);
		return;
	}
	fill_sample(&user->sample, cpu, WIRE_SAMPLE_USER, task, now);
	user->sample.ip = ctx->regs.ip;
	user->sample.stack = stack;
	user->registers[0] = ctx->regs.ax;
	user->registers[1] = ctx->regs.cx;
	user->registers[2] = ctx->regs.dx;
	user->registers[3] = ctx->regs.bx;
	user->registers[4] = ctx->regs.sp;
	user->registers[5] = ctx->regs.bp;
	user->registers[6] = ctx->regs.si;
	user->registers[7] = ctx->regs.di;
	user->registers[8] = ctx->regs.r8;
	user->registers[9] = ctx->regs.r9;
	user->registers[10] = ctx->regs.r10;
	user->registers[11] = ctx->regs.r11;
	user->registers[12] = ctx->regs.r12;
	user->registers[13] = ctx->regs.r13;
	user->registers[14] = ctx->regs.r14;
	user->registers[15] = ctx->regs.r15;
	bpf_ringbuf_submit(user, BPF_RB_NO_WAKEUP);
}

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	__u64 began, now;

	/* Samples of the idle thread are dropped. */
	if (!cpu || !task->pid || !is_target(task, cpu))
		return 0;
	began = probe_begin(cpu, PROBE_SAMPLE);
	now = bpf_ktime_get_ns();
	/* First, because the following work does not belong to the thread. */
	if (configuration.counters)
		read_counters(cpu, task, now);
	if ((ctx->regs.cs & 3) != 3)
		sampled(ctx, cpu, task, true, now);
	else if (task->signal->nr_threads > 1)
		sampled_with_registers(ctx, cpu, task, now);
	else /* its memory is not shared */
		sampled(ctx, cpu, task, false, now);
	probe_end(cpu, PROBE_SAMPLE, began);
	return 0;
}

#endif
