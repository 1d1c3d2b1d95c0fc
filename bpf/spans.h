/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Spans of a runtime: probes at the places where they begin and end, by process. A probe that is hit too
 * often disables itself, and sends a record that wakes user space to remove it. The program must not pay for
 * a wrong guess.
 */
#ifndef HOLDUP_SPANS_H
#define HOLDUP_SPANS_H

#include "arguments_x86_64.h"
#include "conditions.h"

#define NSEC_PER_SEC 1000000000ULL

struct place_key {
	__u32 tgid;
	__u32 place;
};

/* User space puts one there before it puts the probe (crates/capture/src/bpf/span_probes.rs). */
struct place_guard {
	__u64 window_start_ns;
	__u32 in_window;
	__u32 per_second_max;
	__u32 disarmed;
	__u32 has_condition; /* only hits with certain arguments are recorded */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct place_key);
	__type(value, struct place_guard);
} place_guards SEC(".maps");

/* Whether this hit is one too many. Threads that race for the window's first hit cost a few hits of precision. */
static __always_inline bool is_too_many(struct place_guard *guard, __u64 now_ns)
{
	if (now_ns - guard->window_start_ns > NSEC_PER_SEC) {
		guard->window_start_ns = now_ns;
		guard->in_window = 0;
	}
	return __sync_fetch_and_add(&guard->in_window, 1) >= guard->per_second_max;
}

SEC("uprobe.multi")
int on_place(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct place_key key = { .tgid = task->tgid, .place = bpf_get_attach_cookie(ctx) };
	struct per_cpu *cpu = this_cpu();
	struct place_guard *guard;
	struct wire_place told = { .header.kind = WIRE_PLACE };
	__u64 began, now, switches;
	bool too_many;

	if (!cpu || !is_target(task, cpu))
		return 0;
	guard = bpf_map_lookup_elem(&place_guards, &key);
	if (!guard || guard->disarmed)
		return 0;
	began = user_probe_begin(cpu, PROBE_SPAN, task, &switches);
	now = bpf_ktime_get_ns();
	too_many = is_too_many(guard, now);
	/* Each hit costs the program time, recorded or not, so all are counted. */
	if (!too_many && guard->has_condition && !condition_holds(key.place, ctx)) {
		user_probe_end(cpu, PROBE_SPAN, task, switches, began);
		return 0;
	}
	/* Only one of the concurrent excess hits sends the record. */
	if (too_many && __sync_lock_test_and_set(&guard->disarmed, 1))
		return 0;
	told.header.at_ns = now;
	told.header.flags = too_many ? WIRE_PLACE_DISARMED : 0;
	told.tid = task->pid;
	told.tgid = task->tgid;
	told.place = key.place;
	/* If this fails, the next hit sends the record. Otherwise the probe would never be removed. */
	if (!tell_passed(cpu, &told.header, sizeof(told), WIRE_STREAM_PLACES,
			 too_many ? BPF_RB_FORCE_WAKEUP : definitions_wakeup()) && too_many)
		guard->disarmed = 0;
	user_probe_end(cpu, PROBE_SPAN, task, switches, began);
	return 0;
}

#endif
