/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Functions that an interpreter runs each in a frame of its own on the thread's stack, as HotSpot's does: the frame says which. In the
 * stack that is taken the function stands in the place of the interpreter's own code. Names are read by user space.
 */
#ifndef HOLDUP_INTERPRETED_FRAMES_H
#define HOLDUP_INTERPRETED_FRAMES_H

/* By tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct frame_interpreter);
} frame_interpreters SEC(".maps");

/* The interpreter of a process, for the frames of one stack. */
static __always_inline void find_frame_interpreter(struct frame_interpreter *into, __u32 tgid)
{
	const struct frame_interpreter *found = 0;

	into->bytes = 0;
	if (!(interpreters_known & INTERPRETERS_OF_FRAMES))
		return;
	found = bpf_map_lookup_elem(&frame_interpreters, &tgid);
	if (!found) {
		__u32 *parent = bpf_map_lookup_elem(&unwind_parents, &tgid);

		found = parent ? bpf_map_lookup_elem(&frame_interpreters, parent) : 0;
	}
	if (found)
		*into = *found;
}

/*
 * What a frame is in a stack: its address and how it was found, or the function that is interpreted there. Where a thread itself is in
 * the interpreter, the frame still says where it called last, so that is not told. Not static: the verifier looks at it once.
 */
__noinline __u64 stack_word(const struct frame_interpreter *interpreter, const struct unwind_state *state)
{
	__u64 address, function, code, units = WIRE_INTERPRETED_UNITS;

	if (!interpreter || !state)
		return 0;
	address = (state->ip & ~0ULL >> 8) | (__u64)state->via << 56;
	if (state->ip - !state->exact - interpreter->start >= interpreter->bytes)
		return address;
	function = user_word(state->bp + interpreter->frame_function);
	if (!function || function % 8 || function / 8 > WIRE_INTERPRETED_IN_PLACE_CODE)
		return address;
	code = user_word(function + interpreter->function_code);
	if (!state->exact)
		units = user_word(state->bp + interpreter->frame_at) - code - interpreter->code_first;
	if (units > WIRE_INTERPRETED_UNITS)
		units = WIRE_INTERPRETED_UNITS;
	return WIRE_INTERPRETED | WIRE_INTERPRETED_IN_PLACE |
	       mix(0, code) >> (64 - WIRE_INTERPRETED_IDENTITY_BITS) << WIRE_INTERPRETED_IDENTITY_SHIFT |
	       units << WIRE_INTERPRETED_UNITS_SHIFT | function / 8;
}

#endif
