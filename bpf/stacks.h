/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stacks of the current thread. Each distinct stack is sent once, and events carry its id. */
#ifndef HOLDUP_STACKS_H
#define HOLDUP_STACKS_H

#define KERNEL_FRAMES_MAX 32
#define INTERPRETED_FRAMES_MAX 96
#define WINDOW_NS (10 * NSEC_PER_MSEC)

/* Rows of all binaries, one after the other. User space fills the map through its mapping. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 * 1024 * 1024);
	__type(key, __u32);
	__type(value, __u64);
} unwind_rows SEC(".maps");

static __always_inline int unwind_row_at(__u32 index, __u64 *row)
{
	__u64 *found = bpf_map_lookup_elem(&unwind_rows, &index);

	if (!found)
		return -1;
	*row = *found;
	return 0;
}

#define UNWIND_FUNCTION __noinline
#define UNWIND_INLINE static __always_inline
#define unwind_read(to, bytes, address) bpf_probe_read_user(to, bytes, (void *)(address))
#define unwind_generated(ip, exact) generated_row(ip, exact)
#define unwind_opaque(value) barrier_var(value)
__u64 generated_row(__u64 ip, __u32 exact);
#include "unwind.h"

/*
 * Executable mappings by tgid. Replaced as a whole: without preallocation an old value stays readable
 * until every program that runs has ended (RCU).
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct unwind_process);
} unwind_processes SEC(".maps");

/* Forked, and not yet known to user space: whose mappings they have. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} unwind_parents SEC(".maps");

/* Room for the kernel's, the user's, and those of what an interpreter runs. */
#define STACK_FRAMES_MAX (KERNEL_FRAMES_MAX + USER_FRAMES_MAX + INTERPRETED_FRAMES_MAX)

/* Where an interpreter that has a frame for each function has what (hotspot.h). */
struct frame_interpreter {
	__u64 start;          /* its code */
	__u64 bytes;          /* its length, 0 if there is no such interpreter */
	__s32 frame_function; /* from a frame's pointer on: the pointer to its function */
	__s32 frame_at;       /* the pointer to the instruction where it called another one */
	__u32 function_code;  /* in the function: the pointer to what holds its instructions */
	__u32 code_first;     /* in that: the first one */
};

struct stack_scratch {
	struct wire_stack head;
	__u64 addresses[STACK_FRAMES_MAX];
	struct frame_interpreter interpreter; /* of the process that the stack is of */
	struct unwind_state leaf; /* registers at the start of the walk, not on the small BPF stack */
};

/*
 * One slot each for switches (interrupts disabled), samples (an interrupt), wakers (interrupts disabled),
 * syscalls, and page faults. Several for tasks and for allocations, whose probes may be interrupted by
 * another thread that hits one. User space removes unused slots from the end
 * (crates/capture/src/bpf/programs.rs).
 */
enum { SCRATCH_SWITCH = 0, SCRATCH_SAMPLE = 1, SCRATCH_WAKER = 2, SCRATCH_CALL = 3, SCRATCH_FAULT = 4, SCRATCH_TASK = 5,
       SCRATCH_ALLOC = SCRATCH_TASK + PROBE_SLOTS, SCRATCHES = SCRATCH_ALLOC + PROBE_SLOTS };
_Static_assert(SCRATCHES == SCRATCH_TASK + PROBE_SLOT_KINDS * PROBE_SLOTS, "each slot of a probe has a word in struct per_cpu");

/*
 * Indexed by scratch_at. Not per-CPU maps: the kernel allocates those for every possible CPU, and a possible CPU that is never online
 * would take half a megabyte. Grows to the slots of all places before loading.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, __u32);
	__type(value, struct stack_scratch);
} scratch SEC(".maps");

/* Index of this CPU's scratch memory for `slot`. Beyond the end of the maps for a CPU without a place. */
static __always_inline __u32 scratch_at(__u32 slot)
{
	struct wire_ring_ends *end = this_end();
	__u64 place = end ? claim_place(end) : 0;

	if (!place)
		return ~0U;
	return slot * (configuration.places + configuration.spare_places) + ((__u32)(place >> 32) & 0xffff) - 1;
}

/* As many: none is interrupted by what uses the same. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, __u32);
	__type(value, struct unwind_scratch);
} unwind_scratches SEC(".maps");

/* Ids already sent. Eviction only sends a stack again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u8);
} sent_stacks SEC(".maps");

/* Part of every id. If user space increments it, all stacks are defined again. */
__u32 stack_generation SEC(".data.generation") = 0;

static __always_inline __u64 mix(__u64 hash, __u64 value)
{
	hash ^= value;
	hash *= 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 29);
}

/* A process' entry in a map by tgid. Its parent's entry while user space does not know the process yet. */
static __always_inline void *of_process(void *map, __u32 tgid)
{
	void *found = bpf_map_lookup_elem(map, &tgid);
	__u32 *parent;

	if (found)
		return found;
	parent = bpf_map_lookup_elem(&unwind_parents, &tgid);
	return parent ? bpf_map_lookup_elem(map, parent) : 0;
}

#include "interpreters.h"
#include "hotspot.h"

/* Maximum frames per call of walk_known, because the verifier checks each. */
#define KNOWN_FRAMES 16

/*
 * Appends frames while the step to the caller is cached. Sets `walk->stuck` if it is not. Not static, so that
 * the verifier checks it once, not once per path of its callers.
 */
__noinline __u64 walk_known(struct stack_scratch *stack, struct unwind_scratch *walk, __u32 generation, __u64 hash)
{
	if (!stack || !walk)
		return 0;
	for (int i = 0; i < KNOWN_FRAMES; i++) {
		__u64 address = stack_word(&stack->interpreter, &walk->state);
		__u32 at = stack->head.kernel_frames + stack->head.user_frames;

		barrier_var(at);
		if (stack->head.user_frames >= USER_FRAMES_MAX || at >= KERNEL_FRAMES_MAX + USER_FRAMES_MAX)
			return hash;
		stack->addresses[at] = address;
		stack->head.user_frames++;
		hash = mix(hash, address);
		if (!unwind_step_known(&walk->state, generation, walk)) {
			walk->stuck = 1;
			return hash;
		}
	}
	return hash;
}

/* All frames, in nested loops: the verifier checks each loop body, not the product of both. */
#define TURNS 15
_Static_assert(TURNS * TURNS >= USER_FRAMES_MAX, "each turn takes a frame at the least");

/*
 * Alternates between cached frames and one uncached frame. Returns non-zero (enum wire_end) where the walk
 * ends. Not static, so that the verifier checks it once, not once per path that leads here.
 */
__noinline __u32 walk_turns(struct stack_scratch *stack, struct unwind_scratch *walk, const struct unwind_process *process)
{
	__u32 end = 0;

	if (!stack || !walk)
		return WIRE_END_UNREADABLE;
	for (int turn = 0; turn < TURNS && !end; turn++) {
		walk->stuck = 0;
		walk->hash = walk_known(stack, walk, process ? process->generation : 0, walk->hash);
		if (!walk->stuck) {
			end = stack->head.user_frames >= USER_FRAMES_MAX ? WIRE_END_TOO_DEEP : 0;
		} else if (!process) {
			end = WIRE_END_NO_TABLES;
		} else {
			walk->state.depth = stack->head.user_frames - 1;
			end = unwind_step(&walk->state, process, walk);
		}
	}
	return end;
}

/*
 * Walks the user stack from the registers in `stack->leaf`. Stores the addresses after the kernel's, and why
 * the walk ended.
 */
__noinline __u64 walk_user(struct stack_scratch *stack, __u32 slot, __u64 hash)
{
	__u32 at = scratch_at(slot);
	struct unwind_scratch *walk = bpf_map_lookup_elem(&unwind_scratches, &at);
	struct unwind_process *process;
	__u32 end = 0;

	if (!stack || !walk)
		return 0;
	walk->memory.start = UNWIND_NOTHING_READ;
	find_frame_interpreter(&stack->interpreter, stack->head.tgid);
	process = of_process(&unwind_processes, stack->head.tgid);
	walk->state = stack->leaf;
	walk->state.exact = 1;
	stack->head.user_frames = 0;
	walk->hash = hash;
	for (int turn = 0; turn < TURNS && !end; turn++)
		end = walk_turns(stack, walk, process);
	hash = walk->hash;
	if (!end)
		end = WIRE_END_TOO_DEEP;
	stack->head.header.flags = end;
	return mix(hash, end);
}

/* The registers with which the current thread entered the kernel, or that a sample interrupted in user mode. */
static __always_inline struct pt_regs *user_registers(struct task_struct *task)
{
	return (struct pt_regs *)bpf_task_pt_regs(task);
}

#define SYS_CLONE 56
#define SYS_CLONE3 435

/* A thread that has not yet run in user mode: it is where its creator called clone(2), on an unwritten stack. */
static __always_inline bool is_newborn(struct task_struct *task, const struct pt_regs *regs)
{
	__s32 number = regs->ax ? -1 : call_number(task, regs);

	return number == SYS_CLONE || number == SYS_CLONE3;
}

/*
 * Whether the thread that runs has an address space. Not static: for a pointer the verifier searches all of the kernel's types, for
 * each way that leads here.
 */
__noinline int has_memory(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return task->mm && !(task->flags & PF_KTHREAD);
}

static __always_inline __u32 kernel_stack(void *ctx, struct stack_scratch *stack)
{
	long bytes = bpf_get_stack(ctx, stack->addresses, KERNEL_FRAMES_MAX * 8, 0);

	return bytes < 0 ? 0 : (__u32)bytes / 8;
}

__noinline __u64 hash_kernel(struct stack_scratch *stack, __u32 count)
{
	__u64 hash = 1;

	if (!stack)
		return 0;
	for (__u32 i = 0; i < KERNEL_FRAMES_MAX; i++) {
		if (i >= count)
			break;
		hash = mix(hash, stack->addresses[i]);
	}
	return hash;
}

#define RAW_CHUNK 512
#define RAW_CHUNKS 60 /* a per-CPU value has at most 32 KiB */
#define RAW_PER_WINDOW 48
#define RAW_TOTAL_MAX 4096
/* What a thread that waits has on its stack is mostly less: where many block while their tables are made, shorter copies follow. */
#define SHORT_RAW_CHUNKS 6
#define SHORT_RAW_PER_WINDOW 512
/*
 * More and shorter copies for allocations, so that they do not fill the ring. While a program starts, its
 * tables do not exist yet. A site without its first stacks would seem smaller than it is.
 */
#define ALLOC_RAW_CHUNKS 4
#define ALLOC_RAW_PER_WINDOW 96
/*
 * New threads have their own ration. Otherwise a thread that blocks once for life during the start would have
 * no stack.
 */
#define BIRTH_RAW_CHUNKS 8
#define BIRTH_RAW_PER_WINDOW 48
/* A thread is newborn in its first blocks. */
#define BIRTH_BLOCKS 2

struct raw_scratch {
	struct wire_raw_stack head;
	__u64 addresses[KERNEL_FRAMES_MAX];
	__u8 memory[RAW_CHUNK * RAW_CHUNKS];
	__u8 room[RAW_CHUNK]; /* so that the verifier sees every copy inside */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, __u32);
	__type(value, struct raw_scratch);
} raw_scratches SEC(".maps");

static __always_inline bool may_send_raw(struct raw_ration *ration, __u32 per_window, __u64 at_ns)
{
	if (at_ns - ration->window_start_ns > WINDOW_NS) {
		ration->window_start_ns = at_ns;
		ration->in_window = 0;
	}
	return ration->in_window++ < per_window && ration->total++ < RAW_TOTAL_MAX;
}

/*
 * Whether a raw stack may be sent, and how many chunks of it. Part of the ring is reserved for data that
 * exists nowhere else. Otherwise a recorder that waits for a CPU could lose the list of threads while a
 * program starts.
 */
static __always_inline __u32 raw_chunks(struct per_cpu *cpu, __u32 slot, bool newborn, __u64 at_ns)
{
	if (bpf_ringbuf_query(&definitions, BPF_RB_AVAIL_DATA) > DEFINITIONS_BYTES / 4 * 3)
		return 0;
	if (slot >= SCRATCH_ALLOC)
		return may_send_raw(&cpu->alloc_raws, ALLOC_RAW_PER_WINDOW, at_ns) ? ALLOC_RAW_CHUNKS : 0;
	if (may_send_raw(&cpu->raws, RAW_PER_WINDOW, at_ns))
		return RAW_CHUNKS;
	if (may_send_raw(&cpu->short_raws, SHORT_RAW_PER_WINDOW, at_ns))
		return SHORT_RAW_CHUNKS;
	return newborn && may_send_raw(&cpu->birth_raws, BIRTH_RAW_PER_WINDOW, at_ns) ? BIRTH_RAW_CHUNKS : 0;
}

/* Copies the stack at `sp` and above after the kernel's addresses. Returns the number of bytes. */
__noinline __u32 copy_memory(struct raw_scratch *raw, __u32 kernel_frames, __u32 chunks, __u64 sp)
{
	__u32 bytes = 0;
	__u8 *memory;

	if (!raw || kernel_frames > KERNEL_FRAMES_MAX)
		return 0;
	memory = (__u8 *)&raw->addresses[kernel_frames];
	for (__u32 chunk = 0; chunk < RAW_CHUNKS; chunk++) {
		if (chunk >= chunks)
			break;
		if (bpf_probe_read_user(memory + chunk * RAW_CHUNK, RAW_CHUNK, (void *)(sp + chunk * RAW_CHUNK)))
			break;
		bytes += RAW_CHUNK;
	}
	return bytes;
}

/*
 * Registers and stack memory, to be walked when the binaries are known. The memory follows the kernel's addresses
 * without a gap, so it is copied to where those end.
 */
__noinline __u64 send_raw(struct stack_scratch *stack, __u32 slot, __u64 at_ns)
{
	__u32 at = scratch_at(slot);
	struct raw_scratch *raw = bpf_map_lookup_elem(&raw_scratches, &at);
	struct per_cpu *cpu = this_cpu();
	__u32 kernel_frames, bytes, total, chunks;
	bool newborn = slot == SCRATCH_SWITCH && bpf_get_current_task_btf()->nvcsw <= BIRTH_BLOCKS;

	if (!raw || !cpu || !stack)
		return 0;
	chunks = raw_chunks(cpu, slot, newborn, at_ns);
	if (!chunks)
		return 0;
	kernel_frames = stack->head.kernel_frames;
	barrier_var(kernel_frames);
	if (kernel_frames > KERNEL_FRAMES_MAX)
		return 0;
	for (__u32 i = 0; i < KERNEL_FRAMES_MAX; i++)
		raw->addresses[i] = stack->addresses[i];
	bytes = copy_memory(raw, kernel_frames, chunks, stack->leaf.sp);
	fill_header(&raw->head.header, cpu, WIRE_RAW_STACK, WIRE_STREAM_DEFS, at_ns);
	raw->head.header.flags = stack->head.header.flags;
	raw->head.id = mix(mix(mix(at_ns, stack->leaf.sp), stack->leaf.ip), slot) | 1;
	raw->head.tgid = stack->head.tgid;
	raw->head.kernel_frames = kernel_frames;
	raw->head.bytes = bytes;
	raw->head.ip = stack->leaf.ip;
	raw->head.sp = stack->leaf.sp;
	raw->head.bp = stack->leaf.bp;
	raw->head.bx = stack->leaf.bx;
	total = sizeof(raw->head) + kernel_frames * 8 + bytes;
	barrier_var(total);
	if (total > sizeof(*raw))
		return 0;
	if (bpf_ringbuf_output(&definitions, raw, total, definitions_wakeup())) {
		__sync_fetch_and_add(&cpu->lost[WIRE_STREAM_DEFS], 1);
		return 0;
	}
	return raw->head.id;
}

/* Sends the stack unless it was sent before. Returns its id, 0 if it could not be sent. */
static __always_inline __u64 send_stack(struct per_cpu *cpu, struct stack_scratch *stack, __u64 id, __u64 at_ns)
{
	__u8 one = 1, end = stack->head.header.flags;
	__u64 *lately = &cpu->sent_lately[id >> (64 - SENT_LATELY_BITS)];
	__u32 bytes;

	if (*lately == id)
		return id;
	if (bpf_map_lookup_elem(&sent_stacks, &id)) {
		*lately = id;
		return id;
	}
	stack->head.id = id;
	fill_header(&stack->head.header, cpu, WIRE_STACK, WIRE_STREAM_DEFS, at_ns);
	stack->head.header.flags = end;
	bytes = sizeof(stack->head) + (stack->head.kernel_frames + stack->head.user_frames) * 8;
	barrier_var(bytes);
	if (bytes > sizeof(*stack))
		return 0;
	if (bpf_ringbuf_output(&definitions, stack, bytes, definitions_wakeup())) {
		__sync_fetch_and_add(&cpu->lost[WIRE_STREAM_DEFS], 1);
		return 0;
	}
	bpf_map_update_elem(&sent_stacks, &id, &one, BPF_ANY);
	return id;
}

/* For 32-bit code, takes only the leaf. Such code has no rows, and its frames have another layout. */
static __always_inline __u64 take_leaf(struct stack_scratch *stack, __u32 kernel_frames, __u64 ip, __u64 hash)
{
	stack->addresses[kernel_frames] = ip;
	stack->head.user_frames = 1;
	stack->head.header.flags = WIRE_END_NO_FRAME_POINTER;
	return mix(mix(hash, ip), WIRE_END_NO_FRAME_POINTER);
}

/* Takes the stack of the current thread `task`. Returns 0 if there is none or it could not be sent. */
static __always_inline __u64 take_stack(void *ctx, struct per_cpu *cpu, __u32 slot, struct task_struct *task,
					bool kernel, __u64 at_ns)
{
	__u32 kernel_frames, at = scratch_at(slot);
	struct stack_scratch *stack = bpf_map_lookup_elem(&scratch, &at);
	__u64 id;

	if (!stack)
		return 0;
	kernel_frames = kernel ? kernel_stack(ctx, stack) : 0;
	barrier_var(kernel_frames);
	if (kernel_frames > KERNEL_FRAMES_MAX)
		return 0;
	stack->head.tgid = task->tgid;
	stack->head.kernel_frames = kernel_frames;
	stack->head.user_frames = 0;
	stack->head.header.flags = WIRE_END_NONE;
	id = mix(hash_kernel(stack, kernel_frames), stack->head.tgid | (__u64)stack_generation << 32);
	if (configuration.user_stacks && has_memory()) {
		struct pt_regs *regs = user_registers(task);
		__u64 raw;

		if (is_narrow(regs)) {
			id = take_leaf(stack, kernel_frames, regs->ip, id);
			return send_stack(cpu, stack, id ? id : 1, at_ns);
		}
		__builtin_memset(&stack->leaf, 0, sizeof(stack->leaf));
		stack->leaf.ip = regs->ip;
		stack->leaf.sp = regs->sp;
		stack->leaf.bp = regs->bp;
		stack->leaf.bx = regs->bx;
		id = walk_user(stack, slot, id);
		if (stack->head.header.flags == WIRE_END_UNREADABLE && is_newborn(task, regs)) {
			stack->head.header.flags = WIRE_END_ROOT;
			id = mix(id, WIRE_END_ROOT);
		}
		if (stack->head.header.flags == WIRE_END_NO_TABLES ||
		    stack->head.header.flags == WIRE_END_UNKNOWN_MAPPING) {
			raw = send_raw(stack, slot, at_ns);
			if (raw)
				return raw;
		}
		id = take_interpreted(stack, task, id, at_ns);
	}
	if (kernel_frames + stack->head.user_frames == 0)
		return 0;
	return send_stack(cpu, stack, id ? id : 1, at_ns);
}

/*
 * The same at a user-space probe. Another thread that hits such a probe may get the CPU in between, so each
 * hit takes its own slot, from `first` on. If all are taken, there is no stack, which is counted as a loss.
 */
static __always_inline __u64 take_probe_stack(void *ctx, struct per_cpu *cpu, __u32 first, struct task_struct *task, __u64 at_ns)
{
	__u32 slot = SCRATCHES, at;
	__u64 stack;

	for (__u32 i = 0; i < PROBE_SLOTS; i++) {
		if (!__sync_lock_test_and_set(&cpu->probe_slots_taken[first - SCRATCH_TASK + i], 1)) {
			slot = first + i;
			break;
		}
	}
	if (slot == SCRATCHES) {
		count_lost(cpu, WIRE_STREAM_DEFS);
		return 0;
	}
	stack = take_stack(ctx, cpu, slot, task, false, at_ns);
	at = slot - SCRATCH_TASK;
	barrier_var(at);
	if (at < PROBE_SLOT_KINDS * PROBE_SLOTS)
		cpu->probe_slots_taken[at] = 0;
	return stack;
}

/* Maximum number of stacks per CPU and window, by enum stack_draw. User space adjusts it to their cost. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STACK_DRAWS);
	__type(key, __u32);
	__type(value, __u32);
} stack_budget SEC(".maps");

static __always_inline __u32 stacks_per_window(__u32 draw)
{
	__u32 *found = bpf_map_lookup_elem(&stack_budget, &draw);

	return found && *found ? *found : 1;
}

/* Stacks per window that bypass sampling: 1 in SURE_PART of the budget, plus SURE_LEAST. */
#define SURE_PART 4
#define SURE_LEAST 4
/*
 * A thread that blocks less often than this blocks seldom. Some blocks may be consecutive, and constant
 * blocking needs a pause.
 */
#define SELDOM_NS (4 * NSEC_PER_MSEC)
#define SELDOM_AT_ONCE 16
#define SELDOM_AGAIN 32

/*
 * Whether this block or wakeup gets a stack, with probability 1/every. `every` follows the rate in the last
 * window, so that about as many stacks are taken as the budget allows. 0: no stacks.
 */
static __always_inline __u32 draw_stack(struct per_cpu *cpu, enum stack_draw kind, __u64 at_ns, bool *take)
{
	struct draw *draw = &cpu->draws[kind];
	__u32 every, random;

	*take = false;
	if (!configuration.blocked_stacks)
		return 0;
	if (configuration.blocked_stacks == ~0u) {
		*take = true;
		return 1;
	}
	if (at_ns - draw->window_start_ns > WINDOW_NS) {
		/* A window longer than asked only makes the rate look lower: at most one window of extra stacks. */
		__u64 windows = (at_ns - draw->window_start_ns) / WINDOW_NS;
		__u32 wanted = stacks_per_window(kind);
		__u64 seen = windows ? draw->seen_in_window / windows : draw->seen_in_window;

		every = (seen + wanted - 1) / wanted;
		draw->every = every > 65535 ? 65535 : every ? every : 1;
		draw->below = ~0u / draw->every;
		draw->window_start_ns = at_ns;
		if (kind == DRAW_BLOCKED)
			cpu->sure_left = wanted / SURE_PART + SURE_LEAST;
		draw->seen_in_window = 0;
	}
	draw->seen_in_window++;
	every = draw->every;
	if (every <= 1) {
		*take = true;
		return 1;
	}
	/* Marsaglia: Xorshift RNGs (2003). */
	random = draw->random ?: bpf_get_prandom_u32() | 1;
	random ^= random << 13;
	random ^= random >> 17;
	random ^= random << 5;
	draw->random = random;
	*take = random <= draw->below;
	return every;
}

/*
 * Whether this thread blocks seldom, as far as this CPU remembers: a leaky bucket per thread, as in ATM's
 * GCRA policing. Blocks on other CPUs come from the kernel's own counter. A thread new to this CPU is judged
 * by its average.
 */
static __always_inline bool blocks_seldom(struct per_cpu *cpu, struct task_struct *task, __u64 at_ns)
{
	__u32 tid = task->pid, blocks = task->nvcsw, more;
	struct blocked_lately *lately = &cpu->blocked_lately[tid & (BLOCKED_LATELY - 1)];
	__u64 busy_ns = 0;

	if (lately->tid == tid) {
		busy_ns = lately->until_ns > at_ns ? lately->until_ns - at_ns : 0;
		more = blocks - lately->blocks;
	} else {
		more = blocks > (at_ns - task->start_time) / SELDOM_NS ? SELDOM_AGAIN : 1;
	}
	if (more > SELDOM_AGAIN)
		more = SELDOM_AGAIN;
	busy_ns += more * SELDOM_NS;
	if (busy_ns > SELDOM_AGAIN * SELDOM_NS)
		busy_ns = SELDOM_AGAIN * SELDOM_NS;
	lately->tid = tid;
	lately->blocks = blocks;
	lately->until_ns = at_ns + busy_ns;
	return busy_ns <= SELDOM_AT_ONCE * SELDOM_NS;
}

/*
 * The same for a block of this thread. Two kinds bypass sampling while there is space: a thread's first
 * blocks, which show its purpose, and blocks of a thread that blocks seldom. Otherwise a single long block
 * would have no stack while other threads block constantly. The decision does not depend on the block, so
 * each such block represents only itself.
 */
static __always_inline __u32 draw_blocked_stack(struct per_cpu *cpu, struct task_struct *task, __u64 at_ns, bool *take)
{
	__u32 every = draw_stack(cpu, DRAW_BLOCKED, at_ns, take);

	if (every <= 1)
		return every;
	if ((blocks_seldom(cpu, task, at_ns) || task->nvcsw <= BIRTH_BLOCKS) && cpu->sure_left) {
		cpu->sure_left--;
		*take = true;
		return 1;
	}
	return every;
}

#endif
