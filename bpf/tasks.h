/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tasks of a runtime that wait for a lock, without the kernel's knowing: probes where one begins to wait, and where another one
 * makes it go on. Where they pass so often that looking on would cost the program more than a little, looking ends by itself, says
 * so, and begins anew when user space says it: what is told is all that was in windows that are told, too.
 */
#ifndef HOLDUP_TASKS_H
#define HOLDUP_TASKS_H

/*
 * Cookies of the places: what happens there; where a task begins to wait, in the bytes above that, the registers, as instructions
 * number them, in which it and what it waits for are.
 */
enum { TASK_WAITS = 0, TASK_GOES_ON = 1 };
#define TASK_KIND(cookie) ((cookie) & 0xff)
#define TASK_REGISTER(cookie) ((cookie) >> 8 & 0xff)
#define OBJECT_REGISTER(cookie) ((cookie) >> 16 & 0xff)

/* A process with such places: user space puts it there before it puts the probes (crates/capture/src/bpf/task_probes.rs). */
struct task_guard {
	__u64 window_start_ns;
	__u32 in_window;
	__u32 per_second_max; /* passes beyond which looking ends */
	__u32 closed;
	__u32 generation;     /* of the window: what began to wait in another one may have gone on meanwhile */
	__u64 opened_ns;      /* when the window began */
	__u8 woken;           /* the register in which, where a task goes on, the address of what says which is */
	__u8 pad[3];
	__u32 woken_task_at;  /* where it says that */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct task_guard);
} task_guards SEC(".maps");

struct task_key {
	__u64 task;
	__u32 tgid;
	__u32 pad;
};

struct task_waiting {
	__u64 since_ns;
	__u64 object;
	__u64 stack;
	__u32 tid;
	__u32 generation;
};

/* Who waits; read by user space where a window is closed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct task_key);
	__type(value, struct task_waiting);
} task_waits SEC(".maps");

/* Told to be the last one of the window. */
static __always_inline void tell_closed(struct per_cpu *cpu, struct task_struct *task, struct task_guard *guard, __u64 now_ns)
{
	struct wire_task_wait told = { .header = { .at_ns = now_ns, .kind = WIRE_TASK_WAIT, .flags = WIRE_TASKS_CLOSED } };

	/* One of those that are too many at once says it. */
	if (__sync_lock_test_and_set(&guard->closed, 1))
		return;
	told.tid = task->pid;
	told.tgid = task->tgid;
	/* Else the next one says it: the probes would stay. */
	if (!tell_passed(cpu, &told.header, sizeof(told), WIRE_STREAM_PLACES, BPF_RB_FORCE_WAKEUP))
		guard->closed = 0;
}

/* Told of a wait that is over: by whom, and where. */
static __always_inline void tell_wait(struct pt_regs *ctx, struct per_cpu *cpu, struct task_struct *task,
				      const struct task_waiting *waited, __u64 now_ns)
{
	struct wire_task_wait told = { .header = { .at_ns = now_ns, .kind = WIRE_TASK_WAIT } };

	told.tid = task->pid;
	told.tgid = task->tgid;
	told.since_ns = waited->since_ns;
	told.object = waited->object;
	told.stack = waited->stack;
	told.waker_stack = take_probe_stack(ctx, cpu, SCRATCH_TASK, task, now_ns);
	told.waiter_tid = waited->tid;
	tell_passed(cpu, &told.header, sizeof(told), WIRE_STREAM_PLACES, definitions_wakeup());
}

static __always_inline void begin_wait(struct pt_regs *ctx, struct per_cpu *cpu, struct task_struct *task,
				       struct task_guard *guard, const __u64 registers[REGISTERS], __u64 cookie,
				       __u64 now_ns)
{
	struct task_key key = { .task = registers[TASK_REGISTER(cookie) % REGISTERS], .tgid = task->tgid };
	struct task_waiting waiting = {
		.since_ns = now_ns,
		.object = registers[OBJECT_REGISTER(cookie) % REGISTERS],
		.stack = take_probe_stack(ctx, cpu, SCRATCH_TASK, task, now_ns),
		.tid = task->pid,
		.generation = guard->generation,
	};

	/* More tasks wait than there is room for: not all that follow could be told. */
	if (bpf_map_update_elem(&task_waits, &key, &waiting, BPF_ANY))
		tell_closed(cpu, task, guard, now_ns);
}

static __always_inline void end_wait(struct pt_regs *ctx, struct per_cpu *cpu, struct task_struct *task,
				     const struct task_guard *guard, const __u64 registers[REGISTERS], __u64 now_ns)
{
	__u64 woken = registers[guard->woken % REGISTERS];
	struct task_key key = { .tgid = task->tgid };
	struct task_waiting *found, waited;

	if (bpf_probe_read_user(&key.task, sizeof(key.task), (void *)(woken + guard->woken_task_at)))
		return;
	/* It has waited since before the window, if nothing else is known: as does who began in another one. */
	waited = (struct task_waiting){ .since_ns = guard->opened_ns, .tid = task->pid };
	found = bpf_map_lookup_elem(&task_waits, &key);
	if (found) {
		if (found->generation == guard->generation)
			waited = *found;
		bpf_map_delete_elem(&task_waits, &key);
	}
	tell_wait(ctx, cpu, task, &waited, now_ns);
}

SEC("uprobe.multi")
int on_task(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	__u32 tgid = task->tgid;
	__u64 registers[REGISTERS], cookie, began, now, switches;
	struct task_guard *guard;

	if (!cpu || !is_target(task, cpu))
		return 0;
	guard = bpf_map_lookup_elem(&task_guards, &tgid);
	if (!guard || guard->closed)
		return 0;
	began = user_probe_begin(cpu, PROBE_SPAN, task, &switches);
	now = bpf_ktime_get_ns();
	read_registers(ctx, registers);
	cookie = bpf_get_attach_cookie(ctx);
	if (now - guard->window_start_ns > NSEC_PER_SEC) {
		guard->window_start_ns = now;
		guard->in_window = 0;
	}
	if (__sync_fetch_and_add(&guard->in_window, 1) >= guard->per_second_max)
		tell_closed(cpu, task, guard, now);
	else if (TASK_KIND(cookie) == TASK_WAITS)
		begin_wait(ctx, cpu, task, guard, registers, cookie, now);
	else
		end_wait(ctx, cpu, task, guard, registers, now);
	user_probe_end(cpu, PROBE_SPAN, task, switches, began);
	return 0;
}

#endif
