/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tasks of a runtime that wait for a lock or a channel without the kernel's knowledge. Probes are where a task begins to
 * wait, and where another one wakes it. If the probes are hit too often, recording would cost the program too much.
 * It then stops, sends a record, and restarts when user space requests it. All waits within the recorded
 * windows are recorded.
 */
#ifndef HOLDUP_TASKS_H
#define HOLDUP_TASKS_H

/*
 * Attach cookies of the places. The lowest byte is the kind. Registers follow, by instruction encoding. Where a
 * task begins to wait: the task's register, and that of the object waited for. Where a task is woken, the first
 * register has the address of an object that points to the task. The registers of a channel and of the waking task
 * follow, and the `enum wire_task_end`.
 */
enum { TASK_WAITS = 0, TASK_GOES_ON = 1 };
#define NO_REGISTER 0xff /* an object that only the waker knows */
#define TASK_KIND(cookie) ((cookie) & 0xff)
#define TASK_REGISTER(cookie) ((cookie) >> 8 & 0xff)
#define OBJECT_REGISTER(cookie) ((cookie) >> 16 & 0xff)
#define WAKER_REGISTER(cookie) ((cookie) >> 24 & 0xff)
#define TASK_END(cookie) ((cookie) >> 32 & 0xff)

/* A process with such places: user space puts it there before it puts the probes (crates/capture/src/bpf/task_probes.rs). */
struct task_guard {
	__u64 window_start_ns;
	__u32 in_window;
	__u32 per_second_max; /* maximum number of hits per second, beyond which the window is closed */
	__u32 closed;
	__u32 generation;     /* of the window: a wait from an earlier window may have ended unrecorded */
	__u64 opened_ns;      /* when the window began */
	__u32 woken_task_at;  /* where a task is woken: offset of the task pointer in the object that points to it */
	__u16 slots_at;       /* offsets in a channel: the number of its slots (64 bits), ... */
	__u16 item_bytes_at;  /* ... and the size of an item (16 bits) */
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

/* Waiting tasks. User space reads them when a window is closed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct task_key);
	__type(value, struct task_waiting);
} task_waits SEC(".maps");

/* What one pass of a probe builds, never at the same time: the BPF stack is small. */
union task_room {
	struct task_waiting waiting;
	struct wire_task_wait wait;
};

/* Closes the window, and sends a record of that. */
static __always_inline void close_window(struct per_cpu *cpu, struct task_guard *guard, union task_room *room, __u64 now_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct wire_task_wait *wait = &room->wait;

	/* One of the passes that are too many at once sends it. */
	if (__sync_lock_test_and_set(&guard->closed, 1))
		return;
	__builtin_memset(wait, 0, sizeof(*wait));
	wait->header.at_ns = now_ns;
	wait->header.kind = WIRE_TASK_WAIT;
	wait->header.flags = WIRE_TASKS_CLOSED;
	wait->tid = task->pid;
	wait->tgid = task->tgid;
	/* Else the next pass sends it: the probes would stay. */
	if (!tell_passed(cpu, &wait->header, sizeof(*wait), WIRE_STREAM_PLACES, BPF_RB_FORCE_WAKEUP))
		guard->closed = 0;
}

/* Records that a task begins to wait. Returns false if there is no space for another one. */
static __always_inline bool begin_wait(struct pt_regs *ctx, const struct task_guard *guard, union task_room *room, __u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_key key = { .task = register_at(ctx, TASK_REGISTER(cookie)), .tgid = task->tgid };
	struct task_waiting *waiting = &room->waiting;

	waiting->object = OBJECT_REGISTER(cookie) == NO_REGISTER ? 0 : register_at(ctx, OBJECT_REGISTER(cookie));
	waiting->tid = task->pid;
	waiting->generation = guard->generation;
	return !bpf_map_update_elem(&task_waits, &key, waiting, BPF_ANY);
}

/* Adds the channel that a task waited at, and both tasks. */
static __always_inline void add_channel(struct pt_regs *ctx, const struct task_guard *guard, struct wire_task_wait *wait,
					__u64 task, __u64 cookie)
{
	__u64 channel = register_at(ctx, OBJECT_REGISTER(cookie));

	wait->ended = TASK_END(cookie);
	if (wait->ended == WIRE_TASK_RELEASED)
		return;
	wait->object = channel;
	wait->task = task;
	wait->waker_task = register_at(ctx, WAKER_REGISTER(cookie));
	/* Into the record itself, for the stack's sake: the lower halves of the numbers (little-endian). */
	bpf_probe_read_user(&wait->slots, sizeof(wait->slots), (void *)(channel + guard->slots_at));
	bpf_probe_read_user(&wait->item_bytes, sizeof(__u16), (void *)(channel + guard->item_bytes_at));
}

/* Sends the record of a wait that the current thread ends, with its stack and time as the room has them. */
static __always_inline void end_wait(struct pt_regs *ctx, struct per_cpu *cpu, const struct task_guard *guard,
				     union task_room *room, __u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct wire_task_wait *wait = &room->wait;
	struct task_key key = { .tgid = task->tgid };
	struct task_waiting *found;

	if (bpf_probe_read_user(&key.task, sizeof(key.task), (void *)(register_at(ctx, TASK_REGISTER(cookie)) + guard->woken_task_at)))
		return;
	wait->header.kind = WIRE_TASK_WAIT;
	wait->tid = wait->waiter_tid = task->pid;
	wait->tgid = task->tgid;
	/* A task of which nothing else is known, or that began in another window, has waited since before this window. */
	wait->since_ns = guard->opened_ns;
	found = bpf_map_lookup_elem(&task_waits, &key);
	if (found) {
		if (found->generation == guard->generation) {
			wait->since_ns = found->since_ns;
			wait->object = found->object;
			wait->stack = found->stack;
			wait->waiter_tid = found->tid;
		}
		bpf_map_delete_elem(&task_waits, &key);
	}
	add_channel(ctx, guard, wait, key.task, cookie);
	tell_passed(cpu, &wait->header, sizeof(*wait), WIRE_STREAM_PLACES, definitions_wakeup());
}

/* Records a pass whose stack is known. A function of its own: its record is not on the stack while frames are walked. */
static __noinline int record_pass(struct pt_regs *ctx, struct per_cpu *cpu, struct task_guard *guard, __u64 stack, __u64 now_ns)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	union task_room room = {};

	if (TASK_KIND(cookie) != TASK_WAITS) {
		room.wait.header.at_ns = now_ns;
		room.wait.waker_stack = stack;
		end_wait(ctx, cpu, guard, &room, cookie);
		return 0;
	}
	room.waiting.since_ns = now_ns;
	room.waiting.stack = stack;
	/* Where there is no room for one more, later waits could not all be reported. */
	if (!begin_wait(ctx, guard, &room, cookie))
		close_window(cpu, guard, &room, now_ns);
	return 0;
}

/* Too many passes in this second. */
static __noinline int end_window(struct per_cpu *cpu, struct task_guard *guard, __u64 now_ns)
{
	union task_room room;

	close_window(cpu, guard, &room, now_ns);
	return 0;
}

SEC("uprobe.multi")
int on_task(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	__u32 tgid = task->tgid;
	struct task_guard *guard;
	__u64 began, now, switches;

	if (!cpu || !is_target(task, cpu))
		return 0;
	guard = bpf_map_lookup_elem(&task_guards, &tgid);
	if (!guard || guard->closed)
		return 0;
	began = user_probe_begin(cpu, PROBE_SPAN, task, &switches);
	now = bpf_ktime_get_ns();
	if (now - guard->window_start_ns > NSEC_PER_SEC) {
		guard->window_start_ns = now;
		guard->in_window = 0;
	}
	if (__sync_fetch_and_add(&guard->in_window, 1) >= guard->per_second_max)
		end_window(cpu, guard, now);
	else
		record_pass(ctx, cpu, guard, take_probe_stack(ctx, cpu, SCRATCH_TASK, task, now), now);
	user_probe_end(cpu, PROBE_SPAN, task, switches, began);
	return 0;
}

#endif
