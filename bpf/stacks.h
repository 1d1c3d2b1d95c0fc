/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stacks, first form: by frame pointers. Each distinct stack is sent once; events carry its id. */
#ifndef HOLDUP_STACKS_H
#define HOLDUP_STACKS_H

#define KERNEL_FRAMES_MAX 32
#define USER_FRAMES_MAX 96
#define WINDOW_NS (10 * NSEC_PER_MSEC)

struct stack_scratch {
	struct wire_stack head;
	__u64 addresses[KERNEL_FRAMES_MAX + USER_FRAMES_MAX];
};

/* One slot for the scheduler's programs (interrupts off), one for samples (an interrupt of those). */
enum { SCRATCH_SWITCH = 0, SCRATCH_SAMPLE = 1, SCRATCHES = 2 };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, __u32);
	__type(value, struct stack_scratch);
} scratch SEC(".maps");

/* Ids already sent. Eviction only sends a stack again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u8);
} sent_stacks SEC(".maps");

static __always_inline __u64 mix(__u64 hash, __u64 value)
{
	hash ^= value;
	hash *= 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 29);
}

static __noinline __u64 hash_addresses(struct stack_scratch *stack, __u32 count)
{
	__u64 hash = stack->head.tgid;

	if (!stack)
		return 0;
	for (__u32 i = 0; i < KERNEL_FRAMES_MAX + USER_FRAMES_MAX; i++) {
		if (i >= count)
			break;
		hash = mix(hash, stack->addresses[i]);
	}
	return hash ? hash : 1;
}

/* Takes the current thread's stack; 0 if there is none or it could not be sent. */
static __always_inline __u64 take_stack(void *ctx, struct per_cpu *cpu, __u32 slot, __u32 tgid, bool kernel,
					__u64 at_ns)
{
	struct stack_scratch *stack = bpf_map_lookup_elem(&scratch, &slot);
	long kernel_bytes = 0, user_bytes;
	__u32 kernel_frames, user_frames, bytes;
	__u8 one = 1;
	__u64 id;

	if (!stack)
		return 0;
	if (kernel)
		kernel_bytes = bpf_get_stack(ctx, stack->addresses, KERNEL_FRAMES_MAX * 8, 0);
	if (kernel_bytes < 0)
		kernel_bytes = 0;
	kernel_frames = (__u32)kernel_bytes / 8;
	barrier_var(kernel_frames);
	if (kernel_frames > KERNEL_FRAMES_MAX)
		return 0;
	user_bytes = bpf_get_stack(ctx, &stack->addresses[kernel_frames], USER_FRAMES_MAX * 8, BPF_F_USER_STACK);
	if (user_bytes < 0)
		user_bytes = 0;
	user_frames = (__u32)user_bytes / 8;
	barrier_var(user_frames);
	if (user_frames > USER_FRAMES_MAX || user_frames + kernel_frames == 0)
		return 0;
	stack->head.tgid = tgid;
	stack->head.kernel_frames = kernel_frames;
	stack->head.user_frames = user_frames;
	id = hash_addresses(stack, kernel_frames + user_frames);
	if (bpf_map_lookup_elem(&sent_stacks, &id))
		return id;
	stack->head.id = id;
	fill_header(&stack->head.header, cpu, WIRE_STACK, WIRE_STREAM_DEFS, at_ns);
	bytes = sizeof(stack->head) + (kernel_frames + user_frames) * 8;
	barrier_var(bytes);
	if (bytes > sizeof(*stack))
		return 0;
	if (bpf_ringbuf_output(&definitions, stack, bytes, BPF_RB_NO_WAKEUP)) {
		__sync_fetch_and_add(&cpu->lost[WIRE_STREAM_DEFS], 1);
		return 0;
	}
	bpf_map_update_elem(&sent_stacks, &id, &one, BPF_ANY);
	return id;
}

/*
 * Whether this blocking switch gets a stack: with probability 1/every, where `every` follows the
 * rate of blocks in the last window, so that about `stacks_per_window` are taken. 0: no.
 */
static __always_inline __u32 draw_stack(struct per_cpu *cpu, __u64 at_ns, bool *take)
{
	__u32 every;

	*take = false;
	if (!configuration.stacks_per_window)
		return 0;
	if (configuration.stacks_per_window == ~0u) {
		*take = true;
		return 1;
	}
	if (at_ns - cpu->window_start_ns > WINDOW_NS) {
		/* A window longer than asked only makes the rate look lower: at most one window of extra stacks. */
		__u64 windows = (at_ns - cpu->window_start_ns) / WINDOW_NS;
		__u64 blocks = windows ? cpu->window_blocks / windows : cpu->window_blocks;

		every = (blocks + configuration.stacks_per_window - 1) / configuration.stacks_per_window;
		cpu->stack_every = every > 65535 ? 65535 : every ? every : 1;
		cpu->window_start_ns = at_ns;
		cpu->window_blocks = 0;
	}
	cpu->window_blocks++;
	every = cpu->stack_every;
	if (!every)
		every = 1;
	*take = every == 1 || bpf_get_prandom_u32() % every == 0;
	return every;
}

#endif
