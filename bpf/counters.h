/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hardware counters of a thread between two of its samples without a switch in between. Shorter runs are not
 * counted. User space reports the time that the counts cover. Nothing is read without counters.
 */
#ifndef HOLDUP_COUNTERS_H
#define HOLDUP_COUNTERS_H

/* Each CPU's events, WIRE_COUNTERS_MAX places a CPU. Grows to the number of CPUs before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, WIRE_COUNTERS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} counter_events SEC(".maps");

struct counters_read {
	__u64 at_ns;
	__u64 switches; /* of `tid` until then */
	__u32 tid;
	__u32 pad;
	struct bpf_perf_event_value values[WIRE_COUNTERS_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters_read);
} counters_last SEC(".maps");

/* Counters that share the hardware are there for a part of the time: scaled up, as perf does. */
static __always_inline __u64 counted_since(const struct bpf_perf_event_value *now, const struct bpf_perf_event_value *last)
{
	__u64 counted = now->counter - last->counter, enabled = now->enabled - last->enabled, running = now->running - last->running;

	if (!running)
		return ~0ULL;
	return running < enabled ? counted * enabled / running : counted;
}

/* Reads the counters at a sample of `task` taken at `now`. Not inlined: its variables are not live while the stack is walked. */
static __noinline void read_counters(struct per_cpu *cpu, struct task_struct *task, __u64 now)
{
	struct wire_counters counters = {};
	struct bpf_perf_event_value value;
	struct counters_read *last;
	__u32 zero = 0, place = bpf_get_smp_processor_id() * WIRE_COUNTERS_MAX;
	__u64 switches = task->nvcsw + task->nivcsw;
	bool goes_on;

	last = bpf_map_lookup_elem(&counters_last, &zero);
	if (!last)
		return;
	goes_on = last->tid == (__u32)task->pid && last->switches == switches;
	for (__u32 i = 0; i < WIRE_COUNTERS_MAX; i++) {
		if (i >= configuration.counters)
			break;
		if (bpf_perf_event_read_value(&counter_events, place + i, &value, sizeof(value))) {
			last->tid = 0;
			return;
		}
		counters.values[i] = counted_since(&value, &last->values[i]);
		last->values[i] = value;
	}
	counters.ran_ns = now - last->at_ns;
	last->tid = task->pid;
	last->switches = switches;
	last->at_ns = now;
	if (!goes_on)
		return;
	fill_header(&counters.header, cpu, WIRE_COUNTERS, WIRE_STREAM_DEFS, now);
	counters.tid = task->pid;
	counters.tgid = task->tgid;
	if (bpf_ringbuf_output(&definitions, &counters, sizeof(counters), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&cpu->lost[WIRE_STREAM_DEFS], 1);
}

#endif
