/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Interpreted functions of a thread: CPython keeps a list of them per thread, with their code objects. Only
 * their positions are taken here. User space reads the names from the process's memory.
 *
 * Up to 3.10, each call between two functions is also a call of the evaluation in C. From 3.11 on, one
 * evaluation runs many functions, and the one with which it began is marked. User space puts the functions in
 * the place of the evaluation's frames (crates/decode/src/symbols).
 */
#ifndef HOLDUP_INTERPRETERS_H
#define HOLDUP_INTERPRETERS_H

#include "thread_pointer_x86_64.h"

/* Maximum number of an interpreter's threads, latest first, among which the current one is searched. */
#define INTERPRETER_THREADS_MAX 512
/*
 * A thread that was not found this often is not searched again for this time. A new thread may register with
 * the interpreter later.
 */
#define NOT_AN_INTERPRETERS_MIN 16
#define NOT_AN_INTERPRETERS_NS (100 * NSEC_PER_MSEC)

/* How a frame stores its position in the code. */
enum interpreted_at {
	INTERPRETED_AT_BYTE = 0, /* an int: bytes from the code's begin */
	INTERPRETED_AT_UNIT = 1, /* an int: instructions of two bytes */
	INTERPRETED_AT_PLACE = 2, /* a pointer */
};

/* How frames mark that an evaluation in C began with them. */
enum interpreted_begin {
	INTERPRETED_BEGINS_EACH = 0,
	INTERPRETED_BEGINS_FLAG = 1,  /* a byte that is not 0 */
	INTERPRETED_BEGINS_FRAME = 2, /* one more frame below it, which is the evaluation's own: the byte is 3 */
};

#define INTERPRETED_OWN_FRAME 3
#define INTERPRETER_DIRECTLY 0xffffffffU

/* Where an interpreter has what (crates/decode/src/cpython). Offsets in bytes. */
struct interpreter_layout {
	__u64 interpreter;    /* address of the pointer to the first interpreter's state */
	__u32 threads;        /* in that: the first thread's state */
	__u32 thread_next;    /* in a thread's state: the next one's */
	__u32 thread_id;      /* pthread_self() */
	__u32 thread_frame;   /* the innermost frame, or the object that points to it */
	__u32 frame_through;  /* in that object: the pointer to the frame. INTERPRETER_DIRECTLY: no object in between */
	__u32 frame_bytes;    /* bytes of a frame that are read, at most FRAME_BYTES_MAX */
	__u32 frame_code;
	__u32 frame_caller;
	__u32 frame_at;
	__u32 frame_begins;   /* a byte */
	__u32 code_first;     /* in a code object: its first instruction */
	__u32 code_line;      /* the number of its first line */
	__u32 code_file;      /* a pointer to its file's name */
	__u32 code_name;      /* a pointer to its own name */
	__u16 at_kind;        /* enum interpreted_at */
	__u16 begin_kind;     /* enum interpreted_begin */
	__u32 pad;
};

#define FRAME_BYTES_MAX 128

/* By tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct interpreter_layout);
} interpreters SEC(".maps");

struct interpreter_thread {
	__u64 state;    /* 0: it has none */
	__u64 until_ns; /* where it has none: when to look again */
	__u64 misses;   /* how often it had none */
};

/* Earlier results by tid. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct interpreter_thread);
} interpreter_threads SEC(".maps");

/* What kinds of them any process has: set by user space. */
#define INTERPRETERS_WITH_LISTS 1
#define INTERPRETERS_OF_FRAMES 2
__u32 interpreters_known SEC(".data.interpreters") = 0;

/*
 * 0 if not readable, because the helper then clears its output. Without a branch, which in a loop would be
 * another path for the verifier.
 */
static __always_inline __u64 user_word(__u64 address)
{
	__u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)address);
	return word;
}

/*
 * The interpreter's state of the thread with this thread pointer, 0 if it has none. Not static, so that the
 * verifier checks it once.
 */
__noinline __u64 find_interpreter_thread(const struct interpreter_layout *layout, __u64 self)
{
	__u64 state;

	if (!layout)
		return 0;
	state = user_word(layout->interpreter);
	if (state)
		state = user_word(state + layout->threads);
	for (int i = 0; i < INTERPRETER_THREADS_MAX; i++) {
		if (!state || user_word(state + layout->thread_id) == self)
			return state;
		state = user_word(state + layout->thread_next);
	}
	return 0;
}

/* The same, as found before if that still holds. */
__noinline __u64 interpreter_thread(const struct interpreter_layout *layout, __u32 tid, __u64 self, __u64 now)
{
	struct interpreter_thread *known = bpf_map_lookup_elem(&interpreter_threads, &tid);
	struct interpreter_thread found = {};

	if (!layout || !self)
		return 0;
	if (known && known->state && user_word(known->state + layout->thread_id) == self)
		return known->state;
	if (known && !known->state && now < known->until_ns)
		return 0;
	found.state = find_interpreter_thread(layout, self);
	found.misses = found.state ? 0 : 1 + (known ? known->misses : 0);
	found.until_ns = found.misses >= NOT_AN_INTERPRETERS_MIN ? now + NOT_AN_INTERPRETERS_NS : now;
	bpf_map_update_elem(&interpreter_threads, &tid, &found, BPF_ANY);
	return found.state;
}

/* A frame as it was read, or what a code object begins with. */
struct interpreted_frame {
	__u64 words[FRAME_BYTES_MAX / 8];
};

/* The word that starts at this offset of a frame. */
static __always_inline __u64 frame_word(const struct interpreted_frame *frame, __u32 at)
{
	__u32 index = at / 8;

	index &= FRAME_BYTES_MAX / 8 - 1;
	barrier_var(index);
	if (index > FRAME_BYTES_MAX / 8 - 1)
		return 0;
	return frame->words[index] >> (at & 7) * 8;
}

/*
 * Hash that distinguishes a code object from another one at the same address earlier. As computed in
 * crates/decode/src/cpython. Not static, so that the verifier checks it once.
 */
__noinline __u64 code_identity(const struct interpreter_layout *layout, __u64 code)
{
	__u64 hash;

	if (!layout)
		return 0;
	hash = mix(0, (__u32)user_word(code + layout->code_line));
	hash = mix(hash, user_word(code + layout->code_file));
	return mix(hash, user_word(code + layout->code_name)) >> (64 - WIRE_INTERPRETED_IDENTITY_BITS);
}

/* Instruction units before a frame's position, at most the largest value that can be encoded. */
static __always_inline __u64 units_before(const struct interpreter_layout *layout, const struct interpreted_frame *frame,
					  __u64 code)
{
	__u64 at = frame_word(frame, layout->frame_at), units;

	if (layout->at_kind == INTERPRETED_AT_PLACE)
		units = (at - (code + layout->code_first)) / 2;
	else if (layout->at_kind == INTERPRETED_AT_UNIT)
		units = (__u32)at;
	else
		units = (__u32)at / 2;
	return units < WIRE_INTERPRETED_UNITS ? units : WIRE_INTERPRETED_UNITS;
}

/* Whether an evaluation in C began with this frame. */
static __always_inline bool begins(const struct interpreter_layout *layout, const struct interpreted_frame *frame)
{
	return layout->begin_kind == INTERPRETED_BEGINS_EACH ||
	       (layout->begin_kind == INTERPRETED_BEGINS_FLAG && (frame_word(frame, layout->frame_begins) & 0xff));
}

/* Whether this is no function's frame but an evaluation's own. */
static __always_inline bool is_evaluations(const struct interpreter_layout *layout, const struct interpreted_frame *frame)
{
	return layout->begin_kind == INTERPRETED_BEGINS_FRAME &&
	       (frame_word(frame, layout->frame_begins) & 0xff) == INTERPRETED_OWN_FRAME;
}

/*
 * The stack entry of a frame, 0 for a frame of the evaluation itself. Not static, so that the verifier checks
 * it once.
 */
__noinline __u64 interpreted_word(const struct interpreter_layout *layout, const struct interpreted_frame *frame)
{
	__u64 code;

	if (!layout || !frame || is_evaluations(layout, frame))
		return 0;
	code = frame_word(frame, layout->frame_code);
	if (!code)
		return 0;
	return WIRE_INTERPRETED | code_identity(layout, code) << WIRE_INTERPRETED_IDENTITY_SHIFT |
	       units_before(layout, frame, code) << WIRE_INTERPRETED_UNITS_SHIFT |
	       (begins(layout, frame) ? WIRE_INTERPRETED_BEGINS : 0) | (code >> 4 & (WIRE_INTERPRETED_BEGINS - 1));
}

/*
 * Appends the functions, from the innermost frame on, after the frames already in the stack. Returns the
 * continued hash. Not static, so that the verifier checks it once.
 */
__noinline __u64 walk_interpreted(struct stack_scratch *stack, const struct interpreter_layout *layout, __u64 at, __u64 hash)
{
	struct interpreted_frame frame = {};
	__u32 bytes;

	if (!stack || !layout)
		return hash;
	bytes = layout->frame_bytes;
	if (bytes > FRAME_BYTES_MAX)
		bytes = FRAME_BYTES_MAX;
	for (int i = 0; i < INTERPRETED_FRAMES_MAX; i++) {
		__u32 index = stack->head.kernel_frames + stack->head.user_frames;
		__u64 word;

		barrier_var(index);
		barrier_var(bytes);
		/* Where a frame cannot be read it is cleared, and was the last. */
		if (!at || !index || index >= STACK_FRAMES_MAX || bytes > FRAME_BYTES_MAX)
			break;
		bpf_probe_read_user(&frame, bytes, (void *)at);
		at = frame_word(&frame, layout->frame_caller);
		word = interpreted_word(layout, &frame);
		hash = mix(hash, word);
		if (word) {
			stack->addresses[index] = word;
			stack->head.user_frames++;
		} else {
			/* The evaluation began with the function before, if there is one. */
			__u32 before = index - 1;

			barrier_var(before); /* Linux 6.1 forgets the bound of `index` here */
			if (before < STACK_FRAMES_MAX)
				stack->addresses[before] |= stack->addresses[before] & WIRE_INTERPRETED ? WIRE_INTERPRETED_BEGINS : 0;
		}
	}
	/* There are more. */
	if (at) {
		stack->head.header.flags = WIRE_END_TOO_DEEP;
		hash = mix(hash, WIRE_END_TOO_DEEP);
	}
	return hash;
}

/* Appends the interpreted functions of the current thread. Returns the continued hash. */
static __always_inline __u64 take_interpreted(struct stack_scratch *stack, struct task_struct *task, __u64 hash, __u64 now)
{
	const struct interpreter_layout *layout;
	__u64 state, at;

	if (!(interpreters_known & INTERPRETERS_WITH_LISTS))
		return hash;
	layout = of_process(&interpreters, task->tgid);
	if (!layout)
		return hash;
	state = interpreter_thread(layout, task->pid, thread_pointer(task), now);
	if (!state)
		return hash;
	at = user_word(state + layout->thread_frame);
	if (at && layout->frame_through != INTERPRETER_DIRECTLY)
		at = user_word(at + layout->frame_through);
	return walk_interpreted(stack, layout, at, hash);
}

#endif
