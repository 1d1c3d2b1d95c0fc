/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Configuration, targets, rings and record headers. */
#ifndef HOLDUP_COMMON_H
#define HOLDUP_COMMON_H

#define TASK_UNINTERRUPTIBLE 2
#define TASK_DEAD_BITS 0xb0 /* TASK_DEAD | EXIT_DEAD | EXIT_ZOMBIE */
#define NSEC_PER_MSEC 1000000ULL

/* Set by user space before loading, in this order (crates/capture/src/bpf/programs.rs). */
struct configuration {
	__u32 follow_all;        /* every process with an address space is a target */
	__u32 recorder_tgid;     /* never a target */
	__u32 stacks_per_window; /* blocked stacks wanted per CPU and window; 0 none, ~0 all */
};
const volatile struct configuration configuration SEC(".rodata.configuration") = {};

/* tgid -> 1: the processes of the traced program. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u32);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024 * 1024);
} records SEC(".maps");

/* Small and separate: a flood of switches cannot lose names and stacks. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024);
} definitions SEC(".maps");

struct per_cpu {
	__u32 next_seq[WIRE_STREAMS];
	__u32 context;            /* nesting bits of interrupt handlers, CONTEXT_* */
	__u64 lost[WIRE_STREAMS];
	__u64 window_start_ns;    /* the stack-sampling window */
	__u32 window_blocks;
	__u32 stack_every;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct per_cpu);
} cpus SEC(".maps");

static __always_inline struct per_cpu *this_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&cpus, &zero);
}

static __always_inline bool is_target_tgid(__u32 tgid)
{
	return bpf_map_lookup_elem(&targets, &tgid) != 0;
}

static __always_inline bool is_target(struct task_struct *task)
{
	__u32 tgid = task->tgid;

	if (configuration.follow_all)
		return task->mm && tgid != configuration.recorder_tgid;
	return is_target_tgid(tgid);
}

static __always_inline void fill_header(struct wire_header *header, struct per_cpu *cpu, __u8 kind,
					__u32 stream, __u64 at_ns)
{
	header->at_ns = at_ns;
	/* Atomic: an interrupt's program may number a record while ours is being made. */
	header->seq = __sync_fetch_and_add(&cpu->next_seq[stream], 1);
	header->cpu = bpf_get_smp_processor_id();
	header->kind = kind;
	header->flags = 0;
}

static __always_inline void count_lost(struct per_cpu *cpu, __u32 stream)
{
	__sync_fetch_and_add(&cpu->next_seq[stream], 1);
	__sync_fetch_and_add(&cpu->lost[stream], 1);
}

#endif
