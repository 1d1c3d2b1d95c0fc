/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's stack walker in user space. The caller provides the map of rows and a function that reads memory. */
#include "wire.h"

struct bpf_host {
	int (*read)(void *reader, void *to, wire_u64 bytes, wire_u64 address);
	void *reader;
	const wire_u64 *rows;
	wire_u64 row_count;
};

static _Thread_local const struct bpf_host *host;

static int unwind_row_at(wire_u32 index, wire_u64 *row)
{
	if (index >= host->row_count)
		return -1;
	*row = host->rows[index];
	return 0;
}

/* Code without rows is code of which nothing is known. */
#define unwind_generated(ip, exact) 0
#define UNWIND_FUNCTION static
#define UNWIND_INLINE static inline
#define unwind_read(to, bytes, address) host->read(host->reader, to, bytes, address)
#define unwind_opaque(value) ((void)(value))
#include "unwind.h"

/* As walk_user of bpf/stacks.h: addresses (with the method in the highest byte), their number, and the reason
 * of the end.
 */
wire_u32 holdup_bpf_host_walk(const struct bpf_host *with, const struct unwind_process *process,
			      struct unwind_state *state, wire_u64 *addresses, wire_u32 *frames)
{
	static _Thread_local struct unwind_scratch scratch;
	wire_u32 end = WIRE_END_TOO_DEEP;

	host = with;
	scratch.memory.start = UNWIND_NOTHING_READ;
	state->exact = 1;
	for (*frames = 0; *frames < USER_FRAMES_MAX;) {
		addresses[*frames] = (state->ip & ~0ULL >> 8) | (wire_u64)state->via << 56;
		state->depth = (*frames)++;
		if (process && unwind_step_known(state, process->generation, &scratch))
			continue;
		end = unwind_step(state, process, &scratch);
		if (end)
			return end;
	}
	return WIRE_END_TOO_DEEP;
}
