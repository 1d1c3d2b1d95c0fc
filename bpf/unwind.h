/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * User stacks without frame pointers: one step from a frame to its caller.
 *
 * User space compiles each binary's .eh_frame to rows (crates/decode/src/unwind), sorted by pc. A row gives
 * the canonical frame address (CFA: the stack pointer before the call) and the caller's frame pointer. The
 * return address is always at CFA - 8 (x86-64 psABI). Code without rows (JIT, gaps) is walked by frame
 * pointers.
 *
 * This file also compiles for user space (crates/testkit), for tests with recorded stacks. The including file
 * must define:
 *
 * - UNWIND_FUNCTION and UNWIND_INLINE: how functions are declared.
 * - unwind_read(to, bytes, address).
 * - unwind_row_at(index, row).
 * - unwind_generated(ip, exact): the row of generated code, or a gap.
 * - unwind_opaque(value): keeps a compiler from dropping a check that the verifier needs.
 */
#ifndef HOLDUP_UNWIND_H
#define HOLDUP_UNWIND_H

#define USER_FRAMES_MAX 224
#define UNWIND_MAPPINGS_MAX 512
#define UNWIND_PENDING (~0U)
#define UNWIND_SEARCH_STEPS 24 /* 2^24 rows in one binary */

/* Kind of a row, in its highest byte. Written by crates/decode/src/unwind/row.rs. */
enum unwind_kind {
	UNWIND_GAP = 0,    /* nothing is known: frame pointers */
	UNWIND_SP = 1,     /* CFA = sp + cfa * 8 */
	UNWIND_BP = 2,     /* CFA = bp + cfa * 8 */
	UNWIND_PLT = 3,    /* CFA = sp + 8 + (ip & 15 >= cfa ? 8 : 0) */
	UNWIND_DEREF = 4,  /* CFA = *(bp + cfa * 8), the caller's bp at *bp: realigned stacks */
	UNWIND_SIGNAL = 5, /* the kernel's signal frame is at sp */
	UNWIND_STOP = 6,   /* the thread's root, without a caller */
	UNWIND_BAD = 7,    /* a rule that rows cannot express */
	/* Code that switched to another stack (OCaml 5: C on the system stack, OCaml on its fibers' stacks). A
	 * word of this stack points to the caller's. The lower byte of cfa is at, the upper one behind, both
	 * signed and times 8. */
	UNWIND_SWITCHED = 8,       /* CFA = *(sp + at) + behind */
	UNWIND_SWITCHED_TWICE = 9, /* CFA = **(sp + at) + behind */
	/* Code that runs on a frame made by another function: CFA = sp + cfa * 8, plus a few words while it calls
	 * another function. Example: GHC's Haskell code on the frame of StgRun. */
	UNWIND_LENT = 10,
	/* Code that keeps its frame in bx while its callee runs on another stack: CFA = bx + cfa * 8. Examples
	 * are OCaml 5's C code that does not allocate, and the loader's resolver of lazily bound functions. */
	UNWIND_HELD = 11,
	/* Code with a frame pointer that keeps the caller's stack pointer below it, as it was before arguments were moved (HotSpot's
	 * interpreter). */
	UNWIND_INTERPRETED = 12,
	/* Code that switched to another stack and left the frame pointer unchanged: CFA = bp + cfa * 8, on either
	 * stack. Examples in Go are the runtime's work on the thread's own stack, and C code. */
	UNWIND_FRAME_ELSEWHERE = 13,
};

/* Packed row:
 *
 * - bits 0..31: pc relative to the table's base
 * - bits 32..47: cfa / 8 (signed)
 * - bits 48..55: the caller's bp is at CFA + 8 * this (signed, 0: bp unchanged)
 * - bits 56..59: kind
 * - bits 60..63: the caller's bx is at CFA - 8 * this (0: bx unchanged, UNWIND_BX_ELSEWHERE: somewhere else) */
typedef wire_u64 unwind_row;

#define UNWIND_BX_ELSEWHERE 15

UNWIND_INLINE wire_u32 unwind_kind_of(unwind_row row)
{
	return row >> 56 & 15;
}

struct unwind_mapping {
	wire_u64 start;
	wire_u64 end;
	wire_u64 base;      /* ip - base is the pc of rows */
	wire_u32 first_row;
	wire_u32 rows;      /* 0: none, use frame pointers. UNWIND_PENDING: not compiled yet */
};

/* Executable mappings of one process, sorted by start. */
struct unwind_process {
	wire_u32 count;
	wire_u32 generation; /* never 0, changes with the mappings, so that cached rows become invalid */
	unwind_row lent;     /* row of a binary that lends frames to other code without rows (GHC's runtime), 0 if none */
	struct unwind_mapping mappings[UNWIND_MAPPINGS_MAX];
};

struct unwind_state {
	wire_u64 ip;
	wire_u64 sp;
	wire_u64 bp;
	wire_u64 bx;      /* of the leaf */
	wire_u64 bx_at;   /* where it was saved since, 0: not saved, UNWIND_BX_LOST: unknown. Read only on use, which is rare */
	wire_u32 exact;   /* 1: ip is the next instruction. 0: ip is a return address, after the call */
	wire_u32 via;     /* enum wire_via: how this frame was found */
	wire_u32 mapping; /* index of the last mapping found: callers are often in the same */
	wire_u32 depth;   /* frames before this one */
};

/* Stack memory as it was read last: frames are close to each other, and to read many words costs as much as one. */
#define UNWIND_WINDOW_WORDS 32

struct unwind_memory {
	wire_u64 start; /* UNWIND_NOTHING_READ: none */
	wire_u64 words[UNWIND_WINDOW_WORDS];
};

#define UNWIND_NOTHING_READ 1 /* no distance from here to a word is a multiple of its size */

/* Cache of rows found before. The same callers recur, and a search costs ten times as much. */
#define UNWIND_KNOWN_ROWS 1024

struct unwind_known {
	wire_u64 ip;
	unwind_row row;
	wire_u32 generation;
	wire_u32 pad;
};

/* Working memory of a walk, reused by the next one on this CPU. Two walks never run at the same time. The
 * state is here instead of on the BPF stack. The verifier then treats it as unknown numbers, and soon
 * recognizes that each frame is like the previous one. */
struct unwind_scratch {
	struct unwind_state state;
	wire_u32 stuck; /* the way from the last frame on is not known yet */
	wire_u32 pad;
	wire_u64 hash; /* of the frames so far */
	struct unwind_memory memory;
	struct unwind_known known[UNWIND_KNOWN_ROWS];
};

#define UNWIND_NOWHERE (~0U)
#define UNWIND_BX_LOST (~0ULL)

/* Where the caller's bx is, after a frame with this row. */
UNWIND_INLINE void unwind_note_bx(struct unwind_state *state, unwind_row row, wire_u64 cfa)
{
	wire_u64 saved = row >> 60;

	if (saved)
		state->bx_at = saved == UNWIND_BX_ELSEWHERE ? UNWIND_BX_LOST : cfa - saved * 8;
}

/* Index of the mapping that holds `ip`, or UNWIND_NOWHERE. */
UNWIND_FUNCTION wire_u32 unwind_find_mapping(const struct unwind_process *process, wire_u64 ip, wire_u32 hint)
{
	wire_u32 low = 0, high, middle;

	if (!process)
		return UNWIND_NOWHERE;
	if (hint < UNWIND_MAPPINGS_MAX && hint < process->count && process->mappings[hint].start <= ip &&
	    ip < process->mappings[hint].end)
		return hint;
	high = process->count;
	for (int step = 0; step < 10; step++) {
		if (low >= high)
			break;
		middle = (low + high) / 2;
		unwind_opaque(middle);
		if (middle >= UNWIND_MAPPINGS_MAX)
			return UNWIND_NOWHERE;
		if (process->mappings[middle].start <= ip)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return UNWIND_NOWHERE;
	low--;
	unwind_opaque(low);
	if (low >= UNWIND_MAPPINGS_MAX || ip >= process->mappings[low].end)
		return UNWIND_NOWHERE;
	return low;
}

/* The last of `rows` rows from `first` on whose pc is not above `pc`. 0 (a gap) if there is none. */
UNWIND_FUNCTION wire_u64 unwind_find_row(wire_u32 first, wire_u32 rows, wire_u32 pc)
{
	wire_u32 low = 0, high = rows;
	unwind_row row = 0, found = 0;

	for (int step = 0; step < UNWIND_SEARCH_STEPS; step++) {
		wire_u32 middle = low + (high - low) / 2;

		if (low >= high)
			break;
		if (unwind_row_at(first + middle, &row))
			return 0;
		if ((wire_u32)row <= pc) {
			found = row;
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return found;
}

#define UNWIND_SCAN_WORDS 48

/* Whether the code before `ip` is a call: e8 rel32, or ff /2 with the usual lengths. */
UNWIND_INLINE int unwind_follows_call(wire_u64 ip)
{
	wire_u8 code[8];

	if (unwind_read(code, sizeof(code), ip - sizeof(code)))
		return 0;
	if (code[3] == 0xe8)
		return 1;
	/* ff /2: the middle three bits of the second byte are 010. */
	return (code[6] == 0xff && (code[7] & 0x38) == 0x10) || (code[5] == 0xff && (code[6] & 0x38) == 0x10) ||
	       (code[4] == 0xff && (code[5] & 0x38) == 0x10) || (code[2] == 0xff && (code[3] & 0x38) == 0x10) ||
	       (code[1] == 0xff && (code[2] & 0x38) == 0x10);
}

/* Whether code is in a mapping that no file describes: a just-in-time compiler's. */
UNWIND_INLINE int unwind_is_generated(const struct unwind_process *process, wire_u64 ip)
{
	wire_u32 index = unwind_find_mapping(process, ip, UNWIND_NOWHERE);

	unwind_opaque(index);
	return process && index < UNWIND_MAPPINGS_MAX && !process->mappings[index].rows;
}

#define UNWIND_FRAME_BYTES_MAX (1 << 20)

/* Whether `bp`, found on the stack at `at`, is a frame pointer: above it, with a return address behind it. */
UNWIND_INLINE int unwind_is_frame(const struct unwind_process *process, wire_u64 bp, wire_u64 at)
{
	wire_u64 saved[2];

	return bp > at && bp - at < UNWIND_FRAME_BYTES_MAX && !(bp & 7) && !unwind_read(saved, sizeof(saved), bp) &&
	       unwind_find_mapping(process, saved[1] - 1, UNWIND_NOWHERE) != UNWIND_NOWHERE;
}

/*
 * Whether a function with rows, to which `ip` returns with its stack pointer at `sp`, has a caller in its turn. If
 * not, `ip` was left on the stack by an earlier call.
 */
UNWIND_INLINE int unwind_has_caller(const struct unwind_process *process, wire_u64 ip, wire_u64 sp, wire_u64 bp)
{
	const struct unwind_mapping *mapping;
	wire_u64 caller, cfa;
	unwind_row row;
	wire_u32 index;

	index = unwind_find_mapping(process, ip - 1, UNWIND_NOWHERE);
	unwind_opaque(index);
	if (!process || index >= UNWIND_MAPPINGS_MAX)
		return 0;
	mapping = &process->mappings[index];
	if (mapping->rows == UNWIND_PENDING)
		return 1;
	row = unwind_find_row(mapping->first_row, mapping->rows, ip - 1 - mapping->base);
	if (unwind_kind_of(row) != UNWIND_SP && unwind_kind_of(row) != UNWIND_BP)
		return unwind_kind_of(row) != UNWIND_PLT;
	cfa = (unwind_kind_of(row) == UNWIND_SP ? sp : bp) + (wire_s16)(row >> 32) * 8;
	return cfa > sp && !unwind_read(&caller, sizeof(caller), cfa - 8) &&
	       unwind_find_mapping(process, caller - 1, UNWIND_NOWHERE) != UNWIND_NOWHERE && unwind_follows_call(caller);
}

/* Whether the word of the stack at `at` is a return address: if so the state is the caller's. As enum wire_end, 0 if it is. */
UNWIND_FUNCTION int unwind_scan_word(struct unwind_state *state, const struct unwind_process *process, wire_u64 at)
{
	wire_u64 saved[2]; /* the caller's bp, the return address */

	if (!state || unwind_read(saved, sizeof(saved), at - 8))
		return WIRE_END_UNREADABLE;
	if (saved[1] < 4096 || unwind_find_mapping(process, saved[1] - 1, state->mapping) == UNWIND_NOWHERE)
		return WIRE_END_NO_FRAME_POINTER;
	if (unwind_is_generated(process, saved[1] - 1)) {
		if (!unwind_follows_call(saved[1]) && !unwind_is_frame(process, saved[0], at))
			return WIRE_END_NO_FRAME_POINTER;
	} else if (!unwind_follows_call(saved[1]) ||
		   !unwind_has_caller(process, saved[1], at + 8, at != state->sp ? saved[0] : state->bp)) {
		return WIRE_END_NO_FRAME_POINTER;
	}
	if (at != state->sp)
		state->bp = saved[0];
	state->bx_at = UNWIND_BX_LOST;
	state->sp = at + 8;
	state->ip = saved[1];
	state->exact = 0;
	state->via = WIRE_VIA_SCAN;
	return 0;
}

/*
 * Code without rows and without a frame pointer (HotSpot's compilers). Searches the next word on the stack
 * that is a return address, judged by the code before it. The result is a guess, and marked as one. Such code saves the
 * caller's bp below it. If compiled code returns to an interpreter, there is no call before the return
 * address, but the interpreter keeps a frame pointer.
 */
UNWIND_FUNCTION int unwind_by_scan(struct unwind_state *state, const struct unwind_process *process)
{
	int end = WIRE_END_NO_FRAME_POINTER;
	wire_u64 sp;

	if (!state)
		return WIRE_END_UNREADABLE;
	sp = state->sp;
	for (int word = 0; word < UNWIND_SCAN_WORDS && end == WIRE_END_NO_FRAME_POINTER; word++)
		end = unwind_scan_word(state, process, sp + word * 8);
	return end;
}

/* Results of unwind_by_frame_pointer for its caller, in addition to enum wire_end. This avoids a nested call. */
enum unwind_next {
	UNWIND_SCAN = 256,         /* scan the stack */
	UNWIND_SCAN_OR_ROOT = 257, /* the same, but if the scan finds nothing, this is the root */
};

/*
 * Follows the chain of frame pointers. Returns enum wire_end or enum unwind_next, or 0 if the state is now
 * the caller's.
 */
UNWIND_FUNCTION int unwind_by_frame_pointer(struct unwind_state *state, const struct unwind_process *process)
{
	wire_u64 saved[2]; /* the caller's bp, the return address */
	int guessed;

	if (!state)
		return WIRE_END_UNREADABLE;
	/* Code without frame pointers may have any value in bp. */
	guessed = state->via != WIRE_VIA_FRAME_POINTER && unwind_is_generated(process, state->ip - !state->exact);
	if (!state->bp && state->depth) /* code with frame pointers clears bp where a thread starts */
		return guessed ? UNWIND_SCAN_OR_ROOT : WIRE_END_ROOT;
	if (state->bp < state->sp || (state->bp & 7) || unwind_read(saved, sizeof(saved), state->bp))
		return UNWIND_SCAN;
	if (!saved[1])
		return guessed ? UNWIND_SCAN_OR_ROOT : WIRE_END_ROOT;
	if (unwind_find_mapping(process, saved[1] - 1, state->mapping) == UNWIND_NOWHERE)
		return UNWIND_SCAN;
	state->sp = state->bp + 16;
	state->bp = saved[0];
	state->bx_at = UNWIND_BX_LOST;
	state->ip = saved[1];
	state->exact = 0;
	state->via = WIRE_VIA_FRAME_POINTER;
	return 0;
}

/* Code without rows: by frame pointers, else by a scan of the stack. */
UNWIND_INLINE int unwind_without_rows(struct unwind_state *state, const struct unwind_process *process)
{
	int end = unwind_by_frame_pointer(state, process);

	if (end == UNWIND_SCAN)
		return unwind_by_scan(state, process);
	if (end == UNWIND_SCAN_OR_ROOT)
		return unwind_by_scan(state, process) ? WIRE_END_ROOT : 0;
	return end;
}

/* By the frame of an interpreter that keeps where its caller's stack was. */
UNWIND_INLINE int unwind_interpreted(struct unwind_state *state, const struct unwind_process *process)
{
	wire_u64 saved[3]; /* the caller's sp and bp, the return address */

	if (!state)
		return WIRE_END_UNREADABLE;
	if (state->bp < state->sp || (state->bp & 7) || unwind_read(saved, sizeof(saved), state->bp - 8) || !saved[2] ||
	    saved[0] <= state->bp || (saved[0] & 7) || saved[0] - state->bp > UNWIND_FRAME_BYTES_MAX ||
	    unwind_find_mapping(process, saved[2] - 1, state->mapping) == UNWIND_NOWHERE)
		return unwind_without_rows(state, process);
	state->sp = saved[0];
	state->bp = saved[1];
	state->bx_at = UNWIND_BX_LOST;
	state->ip = saved[2];
	state->exact = 0;
	state->via = WIRE_VIA_TABLE;
	return 0;
}

/* struct rt_sigframe (arch/x86/include/asm/sigframe.h): sp is at its ucontext when the handler returns. */
UNWIND_FUNCTION int unwind_signal_frame(struct unwind_state *state)
{
	wire_u64 saved[9]; /* rbp rbx rdx rax rcx rsp rip at +120 */

	if (!state)
		return WIRE_END_UNREADABLE;
	if (unwind_read(saved, 7 * 8, state->sp + 120))
		return WIRE_END_UNREADABLE;
	state->bp = saved[0];
	state->bx_at = state->sp + 128;
	state->sp = saved[5];
	state->ip = saved[6];
	state->exact = 1;
	state->via = WIRE_VIA_SIGNAL_FRAME;
	return state->ip ? 0 : WIRE_END_ROOT;
}

/* Reads a word of the stack, and the words after it for later calls. Returns non-zero if not readable. */
UNWIND_FUNCTION int unwind_word(struct unwind_memory *memory, wire_u64 address, wire_u64 *word)
{
	wire_u64 at;

	if (!memory || !word)
		return -1;
	if (address & 7)
		return unwind_read(word, sizeof(*word), address);
	at = address - memory->start;
	if (at & 7 || at >= sizeof(memory->words)) {
		if (unwind_read(memory->words, sizeof(memory->words), address)) {
			/* The end of the stack may be close. */
			memory->start = UNWIND_NOTHING_READ;
			return unwind_read(word, sizeof(*word), address);
		}
		memory->start = address;
		at = 0;
	}
	at /= 8;
	unwind_opaque(at);
	if (at >= UNWIND_WINDOW_WORDS)
		return -1;
	*word = memory->words[at];
	return 0;
}

/* By a row whose CFA is known. */
UNWIND_FUNCTION int unwind_to_caller(struct unwind_state *state, struct unwind_scratch *scratch, wire_u64 cfa,
				     wire_u64 bp_at, int switched)
{
	wire_u64 caller = 0, bp = 0;

	if (!state || !scratch)
		return WIRE_END_UNREADABLE;
	if (!switched && cfa <= state->sp && state->depth)
		return WIRE_END_LOOP; /* the stack grows down: callers are above */
	/* The caller's bp is mostly below the return address: in this order one read gets both. */
	if (bp_at) {
		if (unwind_word(&scratch->memory, bp_at, &bp))
			return WIRE_END_UNREADABLE;
		state->bp = bp;
	}
	if (unwind_word(&scratch->memory, cfa - 8, &caller))
		return WIRE_END_UNREADABLE;
	if (!caller)
		return WIRE_END_ROOT;
	state->ip = caller;
	state->sp = cfa;
	state->exact = 0;
	state->via = WIRE_VIA_TABLE;
	return 0;
}

/* Finds the row of `ip`: 0, or why there is none (enum wire_end). */
UNWIND_FUNCTION int unwind_find(struct unwind_state *state, const struct unwind_process *process, wire_u64 ip,
				unwind_row *row)
{
	const struct unwind_mapping *mapping;
	wire_u32 index;

	if (!state || !process || !row)
		return WIRE_END_UNREADABLE;
	index = unwind_find_mapping(process, ip, state->mapping);
	unwind_opaque(index);
	if (index >= UNWIND_MAPPINGS_MAX)
		return WIRE_END_UNKNOWN_MAPPING;
	state->mapping = index;
	mapping = &process->mappings[index];
	if (mapping->rows == UNWIND_PENDING)
		return WIRE_END_NO_TABLES;
	*row = unwind_find_row(mapping->first_row, mapping->rows, ip - mapping->base);
	return 0;
}

/* The row of `ip`, remembered if it was found before. */
UNWIND_FUNCTION int unwind_recall(struct unwind_state *state, const struct unwind_process *process,
				  struct unwind_scratch *scratch, unwind_row *row)
{
	struct unwind_known *known;
	wire_u64 ip, slot;
	int end;

	if (!state || !process || !scratch || !row)
		return WIRE_END_UNREADABLE;
	ip = state->ip - !state->exact;
	slot = (ip * 0x9e3779b97f4a7c15ULL) >> 54;
	unwind_opaque(slot);
	if (slot >= UNWIND_KNOWN_ROWS)
		return WIRE_END_UNREADABLE;
	known = &scratch->known[slot];
	if (known->ip == ip && known->generation == process->generation) {
		*row = known->row;
		return 0;
	}
	end = unwind_find(state, process, ip, row);
	if (!end && unwind_kind_of(*row) == UNWIND_GAP)
		*row = unwind_generated(ip, state->exact);
	/* A gap is not cached, because a runtime may provide a row soon. */
	if (!end && *row) {
		known->ip = ip;
		known->row = *row;
		known->generation = process->generation;
	}
	return end;
}

/* A word of the stack, if it is in the memory read last. Returns 1 if so, else 0. */
UNWIND_INLINE int unwind_in_window(const struct unwind_memory *memory, wire_u64 address, wire_u64 *word)
{
	wire_u64 at = address - memory->start;

	if (at & 7)
		return 0;
	at /= 8;
	unwind_opaque(at);
	if (at >= UNWIND_WINDOW_WORDS)
		return 0;
	*word = memory->words[at];
	return 1;
}

/*
 * unwind_step for a cached row of one of the two common kinds. Without a call: with mitigations of return
 * prediction, calls are most of a frame's cost. Returns 1 if done, 0 if nothing was changed and unwind_step
 * must be used.
 */
UNWIND_INLINE int unwind_step_known(struct unwind_state *state, wire_u32 generation, struct unwind_scratch *scratch)
{
	const struct unwind_known *known;
	wire_u64 ip, slot, row, cfa, caller, bp, first;
	wire_s64 bp_offset;

	ip = state->ip - !state->exact;
	slot = (ip * 0x9e3779b97f4a7c15ULL) >> 54;
	unwind_opaque(slot);
	if (slot >= UNWIND_KNOWN_ROWS)
		return 0;
	known = &scratch->known[slot];
	row = known->row;
	if (known->ip != ip || known->generation != generation)
		return 0;
	if (unwind_kind_of(row) == UNWIND_SP)
		cfa = state->sp;
	else if (unwind_kind_of(row) == UNWIND_BP)
		cfa = state->bp;
	else
		return 0;
	cfa += (wire_s64)(wire_s16)(row >> 32) * 8;
	if (cfa <= state->sp)
		return 0;
	bp_offset = (wire_s64)(wire_s8)(row >> 48) * 8;
	first = bp_offset ? cfa + bp_offset : cfa - 8;
	if (!unwind_in_window(&scratch->memory, first, &bp) || !unwind_in_window(&scratch->memory, cfa - 8, &caller)) {
		if (first & 7 || unwind_read(scratch->memory.words, sizeof(scratch->memory.words), first)) {
			scratch->memory.start = UNWIND_NOTHING_READ;
			return 0;
		}
		scratch->memory.start = first;
		bp = scratch->memory.words[0];
		if (!unwind_in_window(&scratch->memory, cfa - 8, &caller))
			return 0;
	}
	if (!caller)
		return 0;
	if (bp_offset)
		state->bp = bp;
	unwind_note_bx(state, row, cfa);
	state->ip = caller;
	state->sp = cfa;
	state->exact = 0;
	state->via = WIRE_VIA_TABLE;
	return 1;
}

/* The CFA on the stack that the code was called on. */
UNWIND_FUNCTION int unwind_switched(const struct unwind_state *state, struct unwind_scratch *scratch, unwind_row row,
				    wire_u64 *cfa)
{
	wire_u64 word = 0;

	if (!state || !scratch || !cfa)
		return -1;
	if (unwind_word(&scratch->memory, state->sp + (wire_s8)(row >> 32) * 8, &word))
		return -1;
	if (unwind_kind_of(row) == UNWIND_SWITCHED_TWICE && unwind_word(&scratch->memory, word, &word))
		return -1;
	*cfa = word + (wire_s8)(row >> 40) * 8;
	return 0;
}

/* The frame that is held in bx: 0, or why it is not known (enum wire_end). */
UNWIND_FUNCTION int unwind_held(const struct unwind_state *state, struct unwind_scratch *scratch, wire_u64 *held)
{
	if (!state || !scratch || !held)
		return WIRE_END_UNREADABLE;
	if (state->bx_at == UNWIND_BX_LOST)
		return WIRE_END_NO_RULE;
	*held = state->bx;
	return state->bx_at && unwind_word(&scratch->memory, state->bx_at, held) ? WIRE_END_UNREADABLE : 0;
}

#define UNWIND_LENT_WORDS 16

/* Whether a function with a frame of its own returns to `ip`. */
UNWIND_FUNCTION int unwind_is_functions(const struct unwind_process *process, wire_u64 ip)
{
	const struct unwind_mapping *mapping;
	unwind_row row;
	wire_u32 index = unwind_find_mapping(process, ip - 1, UNWIND_NOWHERE);

	unwind_opaque(index);
	if (!process || index >= UNWIND_MAPPINGS_MAX)
		return 0;
	mapping = &process->mappings[index];
	if (!mapping->rows || mapping->rows == UNWIND_PENDING)
		return 0;
	row = unwind_find_row(mapping->first_row, mapping->rows, ip - 1 - mapping->base);
	return unwind_kind_of(row) == UNWIND_SP || unwind_kind_of(row) == UNWIND_BP || unwind_kind_of(row) == UNWIND_DEREF;
}

/* A lent frame ends at the first of the words where it may that is a return address. */
UNWIND_FUNCTION int unwind_by_lent_frame(struct unwind_state *state, const struct unwind_process *process,
					 struct unwind_scratch *scratch, unwind_row row)
{
	wire_u64 made, caller = 0, bp = 0;
	wire_s64 bp_offset = (wire_s64)(wire_s8)(row >> 48) * 8;

	if (!state || !process || !scratch)
		return WIRE_END_UNREADABLE;
	made = state->sp + (wire_s64)(wire_s16)(row >> 32) * 8;
	for (int word = 0; word < UNWIND_LENT_WORDS; word++) {
		wire_u64 cfa = made + word * 8;

		if (unwind_word(&scratch->memory, cfa - 8, &caller))
			break;
		if (caller < 4096 || !unwind_is_functions(process, caller))
			continue;
		if (bp_offset) {
			if (unwind_word(&scratch->memory, cfa + bp_offset, &bp))
				break;
			state->bp = bp;
		}
		state->bx_at = UNWIND_BX_LOST;
		state->ip = caller;
		state->sp = cfa;
		state->exact = 0;
		state->via = WIRE_VIA_LENT_FRAME;
		return 0;
	}
	return WIRE_END_NO_FRAME_POINTER;
}

/* From a frame to its caller: 0, or why there is none (enum wire_end). */
UNWIND_FUNCTION int unwind_step(struct unwind_state *state, const struct unwind_process *process,
				struct unwind_scratch *scratch)
{
	wire_u64 cfa = 0, bp_at = 0;
	wire_s32 cfa_offset, bp_offset;
	unwind_row row = 0;
	int end, switched = 0;

	if (!state || !process || !scratch)
		return WIRE_END_UNREADABLE;
	end = unwind_recall(state, process, scratch, &row);
	if (end)
		return end;
	cfa_offset = (wire_s16)(row >> 32) * 8;
	bp_offset = (wire_s8)(row >> 48) * 8;
	switch (unwind_kind_of(row)) {
	case UNWIND_SP:
		cfa = state->sp + cfa_offset;
		break;
	case UNWIND_BP:
		cfa = state->bp + cfa_offset;
		break;
	case UNWIND_FRAME_ELSEWHERE:
		switched = 1;
		cfa = state->bp + cfa_offset;
		break;
	case UNWIND_PLT:
		cfa = state->sp + 8 + (((state->ip - !state->exact) & 15) >= (wire_u64)(cfa_offset / 8) ? 8 : 0);
		break;
	case UNWIND_DEREF:
		bp_at = state->bp;
		if (unwind_word(&scratch->memory, state->bp + cfa_offset, &cfa))
			return WIRE_END_UNREADABLE;
		break;
	case UNWIND_SWITCHED:
	case UNWIND_SWITCHED_TWICE:
		switched = 1;
		if (unwind_switched(state, scratch, row, &cfa))
			return WIRE_END_UNREADABLE;
		break;
	case UNWIND_HELD:
		switched = 1;
		end = unwind_held(state, scratch, &cfa);
		if (end)
			return end;
		cfa += cfa_offset;
		break;
	case UNWIND_SIGNAL:
		return unwind_signal_frame(state);
	case UNWIND_LENT:
		return unwind_by_lent_frame(state, process, scratch, row) ? unwind_without_rows(state, process) : 0;
	case UNWIND_INTERPRETED:
		return unwind_interpreted(state, process);
	case UNWIND_STOP:
		return WIRE_END_ROOT;
	case UNWIND_GAP:
		if (process->lent && !unwind_by_lent_frame(state, process, scratch, process->lent))
			return 0;
		return unwind_without_rows(state, process);
	default:
		return WIRE_END_NO_RULE;
	}
	if (bp_offset)
		bp_at = cfa + bp_offset;
	unwind_note_bx(state, row, cfa);
	return unwind_to_caller(state, scratch, cfa, bp_at, switched);
}

#endif
