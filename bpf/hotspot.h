/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * HotSpot's generated code and interpreted methods. User space provides the offsets
 * (crates/decode/src/hotspot).
 *
 * A compiled method keeps no frame pointer, but its code block holds its frame size. HotSpot itself uses it
 * in sender_for_compiled_frame (src/hotspot/share/runtime/frame.inline.hpp). An interpreted method has its
 * own frame, which points to the method. The stack has the method there instead of the interpreter's code.
 * User space reads the names.
 */
#ifndef HOLDUP_HOTSPOT_H
#define HOLDUP_HOTSPOT_H

#define CODE_HEAPS_MAX 4
/* From a place in the largest method to its begin: a step passes 254 segments. */
#define CODE_BLOCK_STEPS_MAX 16
#define CODE_SEGMENT_FREE 0xff

/*
 * A code heap. `segments` has a byte per segment: the number of segments before it in its block, or a smaller
 * step back.
 */
struct code_heap {
	__u64 start;
	__u64 end;
	__u64 segments;
};

/* Offsets in bytes. */
struct hotspot {
	struct frame_interpreter interpreter;
	struct code_heap heaps[CODE_HEAPS_MAX];
	__u32 heap_count;
	__u32 segment_shift;
	__u32 block_header;   /* before the block's description */
	__u32 frame_size;     /* in that: an int, in words */
	__u32 frame_complete; /* of how many bytes of code it takes until there is a frame: an int, or of two bytes */
	__u32 code_begin;     /* where the code is: a pointer, or an int from the description on */
	__u16 complete_bytes; /* of frame_complete: 2 or 4 */
	__u16 begin_bytes;    /* of code_begin: 4 or 8 */
	__u32 pad;
};

/* By tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct hotspot);
} hotspots SEC(".maps");

static __always_inline const struct hotspot *hotspot_of(__u32 tgid)
{
	return interpreters_known & INTERPRETERS_OF_FRAMES ? of_process(&hotspots, tgid) : 0;
}

/* The interpreter of a process, for the frames of one stack. */
static __always_inline void find_frame_interpreter(struct frame_interpreter *into, __u32 tgid)
{
	const struct hotspot *found = hotspot_of(tgid);

	if (found)
		*into = found->interpreter;
	else
		into->bytes = 0;
}

/*
 * The stack entry of a frame: its address and how it was found, or the interpreted method. If the thread
 * itself is in the interpreter, the frame still has the position of the last call, so the position is left
 * out. Not static, so that the verifier checks it once.
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

/* The descriptor of the code block that contains `ip`, 0 if none does (CodeHeap::find_block_for). */
static __always_inline __u64 code_block(const struct hotspot *hotspot, __u64 ip)
{
	__u64 start = 0, segments = 0, segment;
	__u8 back;

	if (!hotspot)
		return 0;
	for (int i = 0; i < CODE_HEAPS_MAX; i++) {
		const struct code_heap *heap = &hotspot->heaps[i];

		if (i < hotspot->heap_count && ip >= heap->start && ip < heap->end) {
			start = heap->start;
			segments = heap->segments;
		}
	}
	if (!start)
		return 0;
	segment = (ip - start) >> (hotspot->segment_shift & 31);
	for (int i = 0; i < CODE_BLOCK_STEPS_MAX; i++) {
		back = CODE_SEGMENT_FREE;
		bpf_probe_read_user(&back, 1, (void *)(segments + segment));
		if (!back)
			return start + (segment << (hotspot->segment_shift & 31)) + hotspot->block_header;
		if (back == CODE_SEGMENT_FREE || back > segment)
			break;
		segment -= back;
	}
	return 0;
}

/* Whether code that was entered has no frame yet. */
static __always_inline int is_entering(const struct hotspot *hotspot, __u64 block, __u64 ip)
{
	__u64 begin, complete;

	if (!hotspot)
		return 0;
	begin = user_word(block + hotspot->code_begin);
	if (hotspot->begin_bytes == 4)
		begin = block + (__u32)begin;
	complete = user_word(block + hotspot->frame_complete);
	complete = hotspot->complete_bytes == 2 ? (__u16)complete : (__u32)complete;
	return ip - begin < complete;
}

/*
 * Unwind row for generated code, from the runtime's data. A gap if there is none. Compiled code saves the
 * caller's frame pointer below the return address. The row is cached for this address (unwind_recall). Other
 * code generated there later, with a call at the same address, would get this row. Not static, so that the
 * verifier checks it once.
 */
__noinline __u64 generated_row(__u64 ip, __u32 exact)
{
	const struct hotspot *hotspot = hotspot_of(bpf_get_current_pid_tgid() >> 32);
	__u64 block, words;

	if (!hotspot)
		return 0;
	if (ip - hotspot->interpreter.start < hotspot->interpreter.bytes)
		return (__u64)UNWIND_INTERPRETED << 56;
	block = code_block(hotspot, ip);
	if (!block)
		return 0;
	words = (__u32)user_word(block + hotspot->frame_size);
	if (!words || words > 0x7fff)
		return 0;
	if (exact && is_entering(hotspot, block, ip))
		return (__u64)UNWIND_SP << 56 | 1ULL << 32;
	return (__u64)UNWIND_SP << 56 | 0xfeULL << 48 | words << 32;
}

#endif
