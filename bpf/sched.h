/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Context switches, wakeups, and in which context a wakeup happens. */
#ifndef HOLDUP_SCHED_H
#define HOLDUP_SCHED_H

/* include/linux/interrupt.h: TIMER_SOFTIRQ, NET_RX_SOFTIRQ */
#define SOFTIRQ_TIMER 1
#define SOFTIRQ_NET_RX 3
#define SYS_SCHED_YIELD 24

/* Threads between contention_begin and contention_end of their own mmap_lock. Only contended paths. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u8);
} mmap_lock_waiters SEC(".maps");

static __always_inline bool waits_for_mmap_lock(__u32 tid)
{
	return bpf_map_lookup_elem(&mmap_lock_waiters, &tid) != 0;
}

/* The thread is runnable, but throttled: its control group's quota is used up, or its SCHED_DEADLINE runtime
 * of this period (dl_throttled, kernel/sched/deadline.c). */
static __always_inline __u8 is_throttled(struct task_struct *task)
{
	struct task_struct___throttled *flag = (void *)task;
	struct task_struct___deadline *deadline = (void *)task;

	if (bpf_core_field_exists(deadline->dl.dl_throttled) && BPF_CORE_READ_BITFIELD_PROBED(deadline, dl.dl_throttled))
		return 1;
	if (bpf_core_field_exists(flag->throttled))
		return BPF_CORE_READ(flag, throttled);
	struct task_struct___cfs *old = (void *)task;

	if (bpf_core_field_exists(old->se.cfs_rq))
		return BPF_CORE_READ(old, se.cfs_rq, throttle_count) > 0;
	return 0;
}

static __always_inline void fill_switch(struct wire_switch *sw, struct task_struct *prev,
					struct task_struct *next, unsigned int state)
{
	sw->prev_tid = prev->pid;
	sw->next_tid = next->pid;
	sw->prev_state = state;
	sw->prev_tgid = prev->tgid;
}

/* The kernel's length of prev's run. sched_info_depart, _enqueue and _arrive (kernel/sched/stats.h) use the
 * run queue's clock, which was updated some time earlier. A preempting wakeup updates it even before the
 * switch. */
static __always_inline __u64 ran_by_clock(struct task_struct *prev)
{
	struct task_struct___cfs *task = (void *)prev;

	if (!bpf_core_field_exists(prev->sched_info) || !bpf_core_field_exists(prev->sched_info.last_arrival) ||
	    !bpf_core_field_exists(task->se.cfs_rq) || !bpf_core_field_exists(struct cfs_rq___some, rq) ||
	    !bpf_core_field_exists(struct rq___clock, clock))
		return 0;
	return task->se.cfs_rq->rq->clock - prev->sched_info.last_arrival;
}

static __always_inline void fill_counters(struct wire_switch_out *out, struct task_struct *prev, __u64 clock_ran_ns)
{
	out->exec_ns = prev->se.sum_exec_runtime;
	out->queue_ns = bpf_core_field_exists(prev->sched_info) ? prev->sched_info.run_delay : ~0ULL;
	out->clock_ran_ns = clock_ran_ns;
}

static __always_inline int foreign_switch(struct wire_ring_ends *end, struct task_struct *prev,
					  struct task_struct *next, unsigned int state, __u64 now, __u64 clock_ran_ns, __u8 flags)
{
	struct wire_switch_foreign *out = reserve_record(end, sizeof(*out), false);

	if (!out) {
		count_lost_sched(end);
		return 0;
	}
	fill_sched_header(&out->sw.header, end, WIRE_SWITCH, now, false);
	out->sw.header.flags = flags;
	fill_switch(&out->sw, prev, next, state);
	out->clock_ran_ns = clock_ran_ns;
	submit_record(out);
	return 0;
}

static __always_inline int runnable_switch(struct wire_ring_ends *end, struct task_struct *prev,
					   struct task_struct *next, unsigned int state, __u64 now, __u64 clock_ran_ns, __u8 flags)
{
	struct wire_switch_out *out = reserve_record(end, sizeof(*out), false);

	if (!out) {
		count_lost_sched(end);
		return 0;
	}
	fill_sched_header(&out->sw.header, end, WIRE_SWITCH_OUT, now, false);
	out->sw.header.flags = flags;
	if (!(state & TASK_DEAD_BITS)) {
		if (is_throttled(prev))
			out->sw.header.flags |= WIRE_SWITCH_THROTTLED;
		if (prev->mm && call_number(prev, (struct pt_regs *)bpf_task_pt_regs(prev)) == SYS_SCHED_YIELD)
			out->sw.header.flags |= WIRE_SWITCH_YIELD;
	}
	fill_switch(&out->sw, prev, next, state);
	fill_counters(out, prev, clock_ran_ns);
	submit_record(out);
	return 0;
}

/* The stack of a thread that blocks, if it is sampled. `every` as in struct wire_wait. */
static __always_inline __u64 blocked_stack(void *ctx, struct task_struct *prev, unsigned int state, __u64 now, __u32 *every)
{
	struct per_cpu *cpu = this_cpu();
	__u64 stack, began;
	bool take;

	if (!cpu)
		return 0;
	*every = draw_blocked_stack(cpu, prev, now, &take);
	if (!take)
		return 0;
	began = probe_begin(cpu, PROBE_STACK);
	stack = take_stack(ctx, cpu, SCRATCH_SWITCH, prev, state & TASK_UNINTERRUPTIBLE, now);
	probe_end(cpu, PROBE_STACK, began);
	return stack;
}

static __always_inline int blocked_switch(void *ctx, struct wire_ring_ends *end, struct task_struct *prev,
					  struct task_struct *next, unsigned int state, __u64 now, __u64 clock_ran_ns, __u8 flags)
{
	struct wire_switch_blocked *out;
	__u32 every = 0;
	__u64 stack = configuration.blocked_stacks ? blocked_stack(ctx, prev, state, now, &every) : 0;

	out = reserve_record(end, sizeof(*out), false);
	if (!out) {
		count_lost_sched(end);
		return 0;
	}
	fill_sched_header(&out->out.sw.header, end, WIRE_SWITCH_BLOCKED, now, false);
	fill_switch(&out->out.sw, prev, next, state);
	fill_counters(&out->out, prev, clock_ran_ns);
	if (BPF_CORE_READ_BITFIELD(prev, in_iowait))
		flags |= WIRE_SWITCH_IN_IOWAIT;
	if ((state & TASK_UNINTERRUPTIBLE) && waits_for_mmap_lock(prev->pid))
		flags |= WIRE_SWITCH_MMAP_LOCK;
	out->out.sw.header.flags = flags;
	__builtin_memset(&out->wait, 0, sizeof(out->wait));
	out->wait.syscall = -1;
	describe_own_wait(&out->wait);
	out->wait.stack_every = every;
	out->wait.stack = stack;
	submit_record(out);
	return 0;
}

/* Threads that left their CPU within a syscall: when that began. Only where calls are counted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u64);
} calls_away SEC(".maps");

static __always_inline void leave_in_call(__u32 tid, unsigned int state)
{
	struct per_cpu *cpu = this_cpu();

	if (!cpu || !cpu->call_tid)
		return;
	if (cpu->call_tid == tid && !(state & TASK_DEAD_BITS))
		bpf_map_update_elem(&calls_away, &tid, &cpu->call_began_ns, BPF_ANY);
	cpu->call_tid = 0;
}

static __always_inline void count_the_dead(struct task_struct *prev, __u64 now)
{
	struct per_cpu *cpu = this_cpu();

	if (cpu && is_target(prev, cpu))
		send_last_counts(cpu, prev, now);
}

static __always_inline int switched(void *ctx, bool preempt, struct task_struct *prev, struct task_struct *next,
				    unsigned int state)
{
	struct wire_ring_ends *end = this_end();
	__u8 flags = preempt ? WIRE_SWITCH_PREEMPT : 0;
	__u64 now = bpf_ktime_get_ns(), began, clock_ran_ns;

	if (!end) {
		count_lost_sched(end);
		return 0;
	}
	began = hot_probe_begin(end, PROBE_SWITCH, now);
	/* No handler goes on across a switch, nor does a call that raised something: what stuck when programs were attached ends here. */
	end->context = 0;
	/* Here, and once: the verifier searches all of the kernel's types for each pointer that is followed. Not of the idle thread. */
	clock_ran_ns = prev->pid ? ran_by_clock(prev) : 0;
	if (configuration.count_calls)
		leave_in_call(prev->pid, state);
	if (!is_target_again(prev, end))
		foreign_switch(end, prev, next, state, now, clock_ran_ns, flags);
	else if (state == 0 || preempt || (state & TASK_DEAD_BITS))
		runnable_switch(end, prev, next, preempt && !(state & TASK_DEAD_BITS) ? 0 : state, now, clock_ran_ns, flags);
	else
		blocked_switch(ctx, end, prev, next, state, now, clock_ran_ns, flags);
	if (state & TASK_DEAD_BITS)
		count_the_dead(prev, now);
	hot_probe_end(PROBE_SWITCH, began);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	return switched(ctx, preempt, prev, next, state);
}

/* Before 5.18 the tracepoint does not hand over the state: it is read, as it is now. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch_before_5_18, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return switched(ctx, preempt, prev, next, prev->__state);
}

/* Whether the kernel has the fields from which in_timer reads whether a timer's handler runs. */
static __always_inline bool tells_timers(void)
{
	return bpf_ksym_exists(bpf_rdonly_cast) && bpf_core_field_exists(struct hrtimer, base) &&
	       bpf_core_field_exists(struct hrtimer_clock_base, running) &&
	       bpf_core_field_exists(struct hrtimer_cpu_base, clock_base[7]) &&
	       bpf_core_field_exists(struct hrtimer_cpu_base, hres_active) &&
	       bpf_core_field_exists(struct hrtimer_cpu_base, in_hrtirq);
}

/*
 * Whether a timer's handler runs on this CPU. The kernel has a bit while it processes expired timers, and
 * records which soft-interrupt timer runs. If these fields are not available, tracepoints at each timer's
 * begin and end are used.
 */
static __always_inline bool in_timer(struct wire_ring_ends *end)
{
	struct hrtimer_cpu_base *timers;

	if (!end->timers || !tells_timers())
		return end->context & CONTEXT_TIMER;
	timers = bpf_rdonly_cast((void *)end->timers, bpf_core_type_id_kernel(struct hrtimer_cpu_base));
	if (BPF_CORE_READ_BITFIELD(timers, in_hrtirq))
		return true;
	if (!(end->context & CONTEXT_SOFTIRQ))
		return false;
	return timers->clock_base[4].running || timers->clock_base[5].running || timers->clock_base[6].running ||
	       timers->clock_base[7].running;
}

static __always_inline __u8 wake_context(struct wire_ring_ends *end)
{
	/* Handlers nest: a timer or device interrupt may arrive within a soft interrupt. */
	if (in_timer(end))
		return WIRE_CONTEXT_TIMER;
	if (end->context & (CONTEXT_IRQ | CONTEXT_CALL))
		return WIRE_CONTEXT_IRQ;
	if (end->context & CONTEXT_WHEEL)
		return WIRE_CONTEXT_TIMER;
	if (end->context & CONTEXT_SOFTIRQ)
		return WIRE_CONTEXT_SOFTIRQ;
	return WIRE_CONTEXT_THREAD;
}

/*
 * Whether the running thread's syscall is recorded. A soft interrupt that only delivers packets from the
 * thread's own syscall belongs to that syscall. The packets, or the acknowledgements of received data, reach
 * a local peer before the syscall returns. User space knows which syscalls do that.
 */
static __always_inline bool tells_syscall(struct wire_ring_ends *end, __u8 context)
{
	return context == WIRE_CONTEXT_THREAD || (context == WIRE_CONTEXT_SOFTIRQ && (end->context & CONTEXT_OWN));
}

static __always_inline void fill_waking(struct wire_waking *waking, struct task_struct *wakee, struct task_struct *waker,
					__u8 context, bool tells)
{
	waking->header.flags = context;
	waking->wakee_tid = wakee->pid;
	waking->waker_tid = waker->pid;
	waking->waker_syscall = -1;
	waking->waker_object = 0;
	/* Not by its memory: a thread that ends closes its files after it has given that back. */
	if (tells && !(waker->flags & PF_KTHREAD)) {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(waker);

		waking->waker_syscall = call_of(waker, regs);
		if (waking->waker_syscall == SYS_FUTEX && context == WIRE_CONTEXT_THREAD)
			waking->waker_object = first_argument(waker, regs);
	}
}

/*
 * The stack of a thread of the program that wakes another one. `every` as in struct wire_waking. A thread
 * that wakes itself had not left its CPU yet. That ends no wait, and happens with interrupts enabled.
 */
static __always_inline __u64 waker_stack(void *ctx, struct task_struct *waker, __u64 now, __u32 *every)
{
	struct per_cpu *cpu = this_cpu();
	__u64 stack, began;
	bool take;

	if (!cpu)
		return 0;
	*every = draw_stack(cpu, DRAW_WAKER, now, &take);
	if (!take)
		return 0;
	began = probe_begin(cpu, PROBE_WAKER_STACK);
	stack = take_stack(ctx, cpu, SCRATCH_WAKER, waker, false, now);
	probe_end(cpu, PROBE_WAKER_STACK, began);
	return stack;
}

/* On a CPU that has no ring. */
static __always_inline int waking_lost(struct task_struct *wakee)
{
	struct per_cpu *cpu = this_cpu();

	if (cpu && is_target(wakee, cpu))
		count_lost_sched(0);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *wakee)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct wire_ring_ends *end = this_end();
	bool interrupts = waker == wakee;
	struct wire_waking *waking;
	__u64 began, now, stack = 0;
	__u32 every = 0;
	__u8 context;
	bool tells;

	if (!end)
		return waking_lost(wakee);
	if (!is_target_again(wakee, end))
		return 0;
	now = bpf_ktime_get_ns();
	began = hot_probe_begin(end, PROBE_WAKING, now);
	context = wake_context(end);
	tells = tells_syscall(end, context);
	if (configuration.blocked_stacks && tells && waker->mm && waker->pid != wakee->pid && is_target_again(waker, end))
		stack = waker_stack(ctx, waker, now, &every);
	waking = reserve_record(end, sizeof(*waking), interrupts);
	if (waking) {
		fill_sched_header(&waking->header, end, WIRE_WAKING, now, interrupts);
		fill_waking(waking, wakee, waker, context, tells);
		waking->stack_every = every;
		waking->stack = stack;
		submit_record(waking);
	} else {
		count_lost_sched(end);
	}
	hot_probe_end(PROBE_WAKING, began);
	return 0;
}

#define CONTEXT_PROGRAM(name, section, change) \
	SEC("tp_btf/" section) int name(__u64 *ctx) \
	{ \
		struct wire_ring_ends *end = this_end(); \
		if (end) { \
			__u64 began = end->runs[PROBE_CONTEXT]++ % TIMED_EVERY ? 0 : bpf_ktime_get_ns(); \
			change; \
			hot_probe_end(PROBE_CONTEXT, began); \
		} \
		return 0; \
	}

/* Until user space knows that every CPU's timers are known: then it takes this and its end away. */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_timer_begin, struct hrtimer *timer)
{
	struct wire_ring_ends *end = this_end();
	struct hrtimer_cpu_base *timers;

	if (!end)
		return 0;
	__sync_fetch_and_or(&end->context, CONTEXT_TIMER);
	if (end->timers || !tells_timers())
		return 0;
	timers = timer->base->cpu_base;
	if (BPF_CORE_READ_BITFIELD(timers, hres_active))
		end->timers = (__u64)timers;
	return 0;
}

/* Atomic, like all changes with interrupts enabled, because an interrupt may change the word concurrently. */
CONTEXT_PROGRAM(on_timer_end, "hrtimer_expire_exit", __sync_fetch_and_and(&end->context, ~CONTEXT_TIMER))

/*
 * The origin of a receive soft interrupt is determined where it is raised, with interrupts disabled. It is
 * the running thread, unless an interrupt, a timer, or a soft interrupt of another origin is running. Kernel
 * threads have no syscalls.
 */
static __always_inline void softirq_raised(struct wire_ring_ends *end, __u32 vector)
{
	__u32 context = end->context;
	bool own;

	if (vector != SOFTIRQ_NET_RX)
		return;
	own = !(context & (CONTEXT_IRQ | CONTEXT_CALL)) && (!(context & CONTEXT_SOFTIRQ) || (context & CONTEXT_OWN)) &&
	      !in_timer(end) && !(bpf_get_current_task_btf()->flags & PF_KTHREAD);
	end->context = context | (own ? CONTEXT_OWN_RX : CONTEXT_FOREIGN_RX);
}

/*
 * The soft interrupt delivers all pending packets, of any origin. It is first attributed to the thread, and
 * then corrected, so that an interrupt in between is seen, too. Packets that such an interrupt raises are
 * delivered in the starting round (6.4), or are pending again.
 */
static __always_inline void softirq_begins(struct wire_ring_ends *end, __u32 vector)
{
	__u32 due, over = CONTEXT_OWN_RX;

	if (vector != SOFTIRQ_NET_RX) {
		__sync_fetch_and_or(&end->context, vector == SOFTIRQ_TIMER ? CONTEXT_SOFTIRQ | CONTEXT_WHEEL : CONTEXT_SOFTIRQ);
		return;
	}
	due = __sync_fetch_and_or(&end->context, CONTEXT_SOFTIRQ | CONTEXT_OWN);
	if ((due & (CONTEXT_OWN_RX | CONTEXT_FOREIGN_RX)) != CONTEXT_OWN_RX)
		over |= CONTEXT_OWN | CONTEXT_FOREIGN_RX;
	__sync_fetch_and_and(&end->context, ~over);
}

CONTEXT_PROGRAM(on_softirq_raise, "softirq_raise", softirq_raised(end, ctx[0]))
CONTEXT_PROGRAM(on_softirq_begin, "softirq_entry", softirq_begins(end, ctx[0]))
CONTEXT_PROGRAM(on_softirq_end, "softirq_exit",
		__sync_fetch_and_and(&end->context, ~(CONTEXT_SOFTIRQ | CONTEXT_WHEEL | CONTEXT_OWN)))
CONTEXT_PROGRAM(on_irq_begin, "irq_handler_entry", end->context |= CONTEXT_IRQ)
/* A device's packets may be handed over by the soft interrupt that it interrupts, without being raised (6.4). */
CONTEXT_PROGRAM(on_irq_end, "irq_handler_exit", end->context &= ~(CONTEXT_IRQ | CONTEXT_OWN))

SEC("tp_btf/contention_begin")
int BPF_PROG(on_contention_begin, void *lock, unsigned int lock_flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;
	struct per_cpu *cpu = this_cpu();
	__u32 tid = task->pid;
	__u8 one = 1;

	if (cpu && mm && (__u64)lock == (__u64)mm + bpf_core_field_offset(struct mm_struct, mmap_lock) && is_target(task, cpu))
		bpf_map_update_elem(&mmap_lock_waiters, &tid, &one, BPF_ANY);
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_contention_end, void *lock, int result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;
	__u32 tid = task->pid;

	if (mm && (__u64)lock == (__u64)mm + bpf_core_field_offset(struct mm_struct, mmap_lock))
		bpf_map_delete_elem(&mmap_lock_waiters, &tid);
	return 0;
}

#endif
