/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Page faults and TLB shootdowns of other CPUs.
 *
 * The kernel counts faults in each task. The counts are read at a thread's end and by an iteration over all
 * threads, so a fault costs nothing here. Stacks of faults come from the kernel's own software events,
 * sampled at a rate that follows their frequency. These events make each fault slower, sampled or not. If
 * faults are frequent, user space opens the events in windows (src/record/fault_windows.rs).
 */
#ifndef HOLDUP_PAGING_H
#define HOLDUP_PAGING_H

/* enum tlb_flush_reason (include/linux/mm_types.h) */
#define TLB_REMOTE_SHOOTDOWN 1
#define TLB_REMOTE_SEND_IPI 4
#define SCAN_SUCCEED 1 /* enum scan_result (mm/khugepaged.c) */

/* Read about once a second, and never cleared. Entries without space are counted in `uncounted`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct wire_paging_key);
	__type(value, struct wire_paging_sums);
} paging SEC(".maps");

static __always_inline void add_paging(struct per_cpu *cpu, struct task_struct *task, __u32 what, __s32 syscall,
				       __u64 count, __u64 ns)
{
	struct wire_paging_key key = { .tid = task->pid, .what = what, .syscall = syscall };
	struct wire_paging_sums fresh = { .tgid = task->tgid }, *sums;

	sums = bpf_map_lookup_elem(&paging, &key);
	if (!sums) {
		bpf_map_update_elem(&paging, &key, &fresh, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(&paging, &key);
	}
	if (!sums) {
		__sync_fetch_and_add(&cpu->paging_uncounted, count);
		return;
	}
	__sync_fetch_and_add(&sums->count, count);
	__sync_fetch_and_add(&sums->ns, ns);
}

/* Runs on the requesting CPU, once for each request, and on each other CPU that has something to flush. */
SEC("tp_btf/tlb_flush")
int BPF_PROG(on_tlb_flush, int reason, unsigned long pages)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	__u64 began;

	if (!cpu || (reason != TLB_REMOTE_SEND_IPI && reason != TLB_REMOTE_SHOOTDOWN) || !is_target(task, cpu))
		return 0;
	began = probe_begin(cpu, PROBE_PAGING);
	if (reason == TLB_REMOTE_SEND_IPI) {
		add_paging(cpu, task, WIRE_SHOOTDOWN_SENT,
			   call_number(task, (struct pt_regs *)bpf_task_pt_regs(task)), 1, 0);
	} else {
		add_paging(cpu, task, WIRE_SHOOTDOWN_INTERRUPT, 0, 1, 0);
		cpu->call_interrupt_flushes = 1;
	}
	probe_end(cpu, PROBE_PAGING, began);
	return 0;
}

/* The interrupt by which another CPU has something done here. It lasts from the first line of its handler to the last. */
static __always_inline int call_interrupt_begins(void)
{
	struct wire_ring_ends *end = this_end();
	struct per_cpu *cpu = this_cpu();
	__u64 began;

	if (end)
		end->context |= CONTEXT_CALL;
	if (!cpu)
		return 0;
	began = probe_begin(cpu, PROBE_PAGING);
	cpu->call_interrupt_ns = bpf_ktime_get_ns();
	cpu->call_interrupt_flushes = 0;
	probe_end(cpu, PROBE_PAGING, began);
	return 0;
}

static __always_inline int call_interrupt_ends(void)
{
	struct wire_ring_ends *end = this_end();
	struct per_cpu *cpu = this_cpu();
	__u64 began, now;

	/* Packets that another CPU passed on (RPS) may have come with it: as with a device's interrupt (sched.h). */
	if (end)
		end->context &= ~(CONTEXT_CALL | CONTEXT_OWN);
	if (!cpu || !cpu->call_interrupt_flushes || !cpu->call_interrupt_ns)
		return 0;
	began = probe_begin(cpu, PROBE_PAGING);
	now = bpf_ktime_get_ns();
	add_paging(cpu, bpf_get_current_task_btf(), WIRE_SHOOTDOWN_INTERRUPT, 0, 0, now - cpu->call_interrupt_ns);
	cpu->call_interrupt_flushes = 0;
	probe_end(cpu, PROBE_PAGING, began);
	return 0;
}

SEC("tp_btf/call_function_entry")
int on_call_interrupt(void *ctx) { return call_interrupt_begins(); }

SEC("tp_btf/call_function_exit")
int on_call_interrupt_end(void *ctx) { return call_interrupt_ends(); }

SEC("tp_btf/call_function_single_entry")
int on_single_call_interrupt(void *ctx) { return call_interrupt_begins(); }

SEC("tp_btf/call_function_single_exit")
int on_single_call_interrupt_end(void *ctx) { return call_interrupt_ends(); }

/* Pages of a process are put together into a huge one, mostly by a kernel thread: it counts for the process's first thread. */
SEC("tp_btf/mm_collapse_huge_page")
int BPF_PROG(on_huge_page, struct mm_struct *mm, int isolated, int status)
{
	struct mm_struct___owner *owned = (void *)mm;
	struct per_cpu *cpu = this_cpu();
	struct task_struct *owner;

	if (!cpu || !mm || status != SCAN_SUCCEED || !bpf_core_field_exists(owned->owner))
		return 0;
	owner = BPF_CORE_READ(owned, owner);
	if (owner) {
		struct wire_paging_key key = { .tid = BPF_CORE_READ(owner, pid), .what = WIRE_HUGE_PAGE };
		struct wire_paging_sums fresh = { .tgid = BPF_CORE_READ(owner, tgid) }, *sums;

		if (!configuration.follow_all && !is_target_tgid(fresh.tgid))
			return 0;
		bpf_map_update_elem(&paging, &key, &fresh, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(&paging, &key);
		if (sums)
			__sync_fetch_and_add(&sums->count, 1);
	}
	return 0;
}

static __always_inline void fill_thread_counts(struct wire_thread_counts *counts, struct task_struct *task)
{
	counts->tid = task->pid;
	counts->tgid = task->tgid;
	counts->start_ns = task->start_boottime;
	counts->minor_faults = task->min_flt;
	counts->major_faults = task->maj_flt;
}

/* At its last switch: all its faults are over. */
static __always_inline void send_last_counts(struct per_cpu *cpu, struct task_struct *task, __u64 now)
{
	struct wire_thread_counts *counts = bpf_ringbuf_reserve(&definitions, sizeof(*counts), 0);

	if (!counts) {
		count_lost(cpu, WIRE_STREAM_FAULTS);
		return;
	}
	fill_header(&counts->header, cpu, WIRE_THREAD_COUNTS, WIRE_STREAM_FAULTS, now);
	counts->header.flags = WIRE_COUNTS_LAST;
	fill_thread_counts(counts, task);
	bpf_ringbuf_submit(counts, definitions_wakeup());
}

/* What every target thread has counted by now. Not numbered: none is lost. */
SEC("iter/task")
int on_counts(struct bpf_iter__task *ctx)
{
	struct wire_thread_counts counts = {};
	struct task_struct *task = ctx->task;
	struct per_cpu *cpu = this_cpu();

	if (!task || !cpu || !is_target(task, cpu))
		return 0;
	counts.header.at_ns = bpf_ktime_get_ns();
	counts.header.kind = WIRE_THREAD_COUNTS;
	fill_thread_counts(&counts, task);
	bpf_seq_write(ctx->meta->seq, &counts, sizeof(counts));
	return 0;
}

/* The current window for sampling minor faults (crates/capture/src/bpf/fault_draws.rs). */
struct fault_window {
	__u64 end_ns;     /* the window may be closed later, and later samples do not count */
	__u64 weight_256; /* number of faults that each fault in it represents, times 256 */
	__u64 generation; /* of the event, which counts from 0 */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fault_window);
} fault_window SEC(".maps");

enum { MINOR_FAULTS = 0, MAJOR_FAULTS = 1 };

/*
 * Number of faults that this sample represents: those counted by the event since the last sample. The event's
 * period is not usable. While the kernel follows their rate, it also shortens a period that has become too
 * long (perf_adjust_period in kernel/events/core.c).
 */
static __always_inline __u64 faults_since(struct bpf_perf_event_data *ctx, struct per_cpu *cpu, __u32 which)
{
	struct bpf_perf_event_value value = {};
	__u64 last = cpu->faults_at[which];

	if (bpf_perf_prog_read_value(ctx, &value, sizeof(value)) || value.counter <= last)
		return ctx->sample_period;
	cpu->faults_at[which] = value.counter;
	return value.counter - last;
}

static __always_inline int faulted(struct bpf_perf_event_data *ctx, __u8 flags, __u64 now, __u64 weight_256)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	struct wire_fault *fault;
	__u64 began, stack, count;

	if (!cpu)
		return 0;
	count = faults_since(ctx, cpu, flags & WIRE_FAULT_MAJOR ? MAJOR_FAULTS : MINOR_FAULTS);
	if (!is_target(task, cpu))
		return 0;
	began = probe_begin(cpu, PROBE_PAGING);
	stack = take_stack(ctx, cpu, SCRATCH_FAULT, task, false, now);
	fault = bpf_ringbuf_reserve(&definitions, sizeof(*fault), 0);
	if (!fault) {
		count_lost(cpu, WIRE_STREAM_FAULTS);
		return 0;
	}
	fill_header(&fault->header, cpu, WIRE_FAULT, WIRE_STREAM_FAULTS, now);
	fault->header.flags = flags | ((ctx->regs.cs & 3) == 3 ? 0 : WIRE_FAULT_IN_KERNEL);
	fault->tid = task->pid;
	fault->tgid = task->tgid;
	fault->address = ctx->addr;
	fault->stands_for = (count * weight_256 + 128) / 256;
	fault->stack = stack;
	bpf_ringbuf_submit(fault, definitions_wakeup());
	probe_end(cpu, PROBE_PAGING, began);
	return 0;
}

SEC("perf_event")
int on_minor_fault(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	struct fault_window *window = bpf_map_lookup_elem(&fault_window, &zero);
	struct per_cpu *cpu = this_cpu();
	__u64 now = bpf_ktime_get_ns();

	if (!window || !cpu)
		return 0;
	if (cpu->faults_generation != window->generation) {
		cpu->faults_generation = window->generation;
		cpu->faults_at[MINOR_FAULTS] = 0;
	}
	return now < window->end_ns ? faulted(ctx, 0, now, window->weight_256) : 0;
}

SEC("perf_event")
int on_major_fault(struct bpf_perf_event_data *ctx)
{
	return faulted(ctx, WIRE_FAULT_MAJOR, bpf_ktime_get_ns(), 256);
}

#endif
