/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Configuration, targets, rings and record headers. */
#ifndef HOLDUP_COMMON_H
#define HOLDUP_COMMON_H

#define TASK_UNINTERRUPTIBLE 2
#define TASK_DEAD_BITS 0xb0 /* TASK_DEAD | EXIT_DEAD | EXIT_ZOMBIE */
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
#define SYS_EXIT 60
#define SYS_EXIT_GROUP 231
#define NSEC_PER_MSEC 1000000ULL

/* Set by user space before loading, in this order (crates/capture/src/bpf/programs.rs). */
struct configuration {
	__u32 follow_all;        /* every process with an address space is a target */
	__u32 recorder_tgid;     /* never a target */
	__u32 blocked_stacks;    /* stacks of blocking threads and of wakers: 0 none, ~0 all, else limited by `stack_budget` */
	__u32 slots_bits;        /* log2 of the slots that a CPU which was online at load has in the main ring */
	__u32 follow_none;       /* children of a target are not targets */
	__u32 count_calls;       /* syscalls are counted all the time (calls.h), else in windows */
	__u32 counters;          /* number of hardware counters to read (counters.h) */
	__u32 places;            /* places of CPUs that were online at load (wire.h) */
	__u32 spare_places;      /* places for CPUs that come online for the first time later */
	__u32 spare_bits;        /* log2 of the slots of a spare place */
	__u32 user_stacks;       /* user stacks are walked, 0 if the kernel rejects such programs */
};
const volatile struct configuration configuration SEC(".rodata.configuration") = {};

/*
 * tgid -> birth_of its first thread, or 1: the processes of the traced program, until the kernel forgets them. Room is taken as
 * they come.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, __u32);
} targets SEC(".maps");

/* Small and separate from the main ring (ring.h): a flood of switches cannot lose names and stacks. */
#define DEFINITIONS_BYTES (8 * 1024 * 1024)
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, DEFINITIONS_BYTES);
} definitions SEC(".maps");

/* For long or frequent records: user space reads rarely, so it is woken before the ring is full. */
static __always_inline __u64 definitions_wakeup(void)
{
	return bpf_ringbuf_query(&definitions, BPF_RB_AVAIL_DATA) > DEFINITIONS_BYTES / 4 ? BPF_RB_FORCE_WAKEUP
											   : BPF_RB_NO_WAKEUP;
}

/* What the programs cost: one run in TIMED_EVERY is timed (crates/capture/src/bpf/probe_cost.rs). */
enum probe { PROBE_SWITCH = 0, PROBE_WAKING = 1, PROBE_SAMPLE = 2, PROBE_CONTEXT = 3, PROBE_LIFECYCLE = 4,
       PROBE_SYSCALL = 5, PROBE_STACK = 6, /* a part of PROBE_SWITCH */ PROBE_WAKER_STACK = 7, /* of PROBE_WAKING */
       PROBE_ALLOC = 8, PROBE_PAGING = 9, PROBE_SPAN = 10, PROBES = 11 };
#define TIMED_EVERY 32

struct probe_time {
	__u64 runs;
	__u64 timed_runs;
	__u64 timed_ns;
	__u64 timed_sq_ns2;
};

/* Kinds of sampled stacks, each with its own window. */
enum stack_draw { DRAW_BLOCKED = 0, DRAW_WAKER = 1, DRAW_CALL = 2, STACK_DRAWS = 3 };

struct draw {
	__u64 window_start_ns;
	__u32 seen_in_window;
	__u32 every;
	__u32 below;  /* numbers up to here win, of 1 to 2^32 - 1: one in `every` */
	__u32 random; /* the last one */
};

/* A tgid found in `targets`, while the generation lasts. */
struct known_target {
	__u32 tgid;
	__u32 generation;
};
/*
 * A thread that blocked here: the time until which its blocks would occupy it if each took SELDOM_NS, and
 * their number.
 */
struct blocked_lately {
	__u64 until_ns;
	__u32 tid;
	__u32 blocks;
};
#define BLOCKED_LATELY 64 /* a power of two */
#define SENT_LATELY_BITS 6
#define KNOWN_TARGETS 16 /* processes that alternate on a CPU are few (a power of two) */

/*
 * Number of scratch slots per kind of user-space probe that takes stacks. Limits the concurrent probes on a
 * CPU.
 */
#define PROBE_SLOTS 4
#define PROBE_SLOT_KINDS 2

/* How many raw stacks were sent. */
struct raw_ration {
	__u64 window_start_ns;
	__u32 in_window;
	__u32 total;
};

struct per_cpu {
	__u32 next_seq[WIRE_STREAMS]; /* but of WIRE_STREAM_SCHED, which is in wire_ring_ends */
	__u32 pad;
	__u64 lost[WIRE_STREAMS];
	struct draw draws[STACK_DRAWS];
	struct probe_time probes[PROBES];
	struct raw_ration raws;
	__u64 calls_uncounted;    /* for want of room */
	__u64 paging_uncounted;   /* the same of shootdowns (paging.h) */
	__u64 call_began_ns;      /* when `call_tid`, which runs here, began its syscall (calls.h) */
	__u32 call_tid;
	__u32 sure_left;          /* stacks that this window may still have without a draw */
	struct known_target known_targets[KNOWN_TARGETS];
	__u64 sent_lately[1 << SENT_LATELY_BITS]; /* ids of stacks, by their highest bits */
	struct raw_ration alloc_raws;
	struct raw_ration short_raws;
	struct raw_ration birth_raws;
	__u64 faults_at[2];      /* counts of the minor and major fault events at the last sample (paging.h) */
	__u64 faults_generation; /* of the event of minor faults */
	__u64 call_interrupt_ns;      /* when the interrupt began that another CPU asked for (paging.h) */
	__u64 call_interrupt_flushes; /* it was for a shootdown */
	struct blocked_lately blocked_lately[BLOCKED_LATELY]; /* by the lowest bits of their tids */
	__u32 probe_slots_taken[PROBE_SLOT_KINDS * PROBE_SLOTS]; /* of scratch memory (stacks.h) */
};

/* As crates/capture/src/bpf/session.rs reads it. */
_Static_assert(__builtin_offsetof(struct per_cpu, lost) == 32, "LOST_AT");
_Static_assert(__builtin_offsetof(struct per_cpu, probes) == 160, "PROBES_AT");
/* As crates/capture/src/bpf/slots.rs does. */
_Static_assert(__builtin_offsetof(struct wire_ring_ends, read) == 64, "READ_AT");
_Static_assert(sizeof(struct wire_ring_ends) == 128, "ENDS_BYTES");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct per_cpu);
} cpus SEC(".maps");

/* Grows when a tgid leaves `targets`: what CPUs remember of it is void then. */
__u32 targets_generation = 1;

static __always_inline struct per_cpu *this_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&cpus, &zero);
}

/* Whether this run is timed: when it began, else 0. */
static __always_inline __u64 probe_begin(struct per_cpu *cpu, __u32 probe)
{
	return cpu->probes[probe].runs++ % TIMED_EVERY ? 0 : bpf_ktime_get_ns();
}

static __always_inline void probe_end(struct per_cpu *cpu, __u32 probe, __u64 began_ns)
{
	struct probe_time *time = &cpu->probes[probe];
	__u64 took_ns;

	if (!began_ns)
		return;
	took_ns = bpf_ktime_get_ns() - began_ns;
	time->timed_runs++;
	time->timed_ns += took_ns;
	time->timed_sq_ns2 += took_ns * took_ns;
}

/*
 * As these, of a probe in user space: another thread may have had the CPU in between, whose time is not the probe's. `*switches`: of
 * the thread until then.
 */
static __always_inline __u64 user_probe_begin(struct per_cpu *cpu, __u32 probe, struct task_struct *task, __u64 *switches)
{
	*switches = task->nvcsw + task->nivcsw;
	return probe_begin(cpu, probe);
}

static __always_inline void user_probe_end(struct per_cpu *cpu, __u32 probe, struct task_struct *task, __u64 switches,
					   __u64 began_ns)
{
	if (task->nvcsw + task->nivcsw == switches)
		probe_end(cpu, probe, began_ns);
}

/* Distinguishes threads with the same tid. Never 1. */
static __always_inline __u32 birth_of(struct task_struct *task)
{
	return (__u32)task->start_boottime | 2;
}

static __always_inline bool is_target_tgid(__u32 tgid)
{
	return bpf_map_lookup_elem(&targets, &tgid) != 0;
}

static __always_inline bool is_target(struct task_struct *task, struct per_cpu *cpu)
{
	__u32 tgid = task->tgid;
	__u32 generation = targets_generation; /* before the look-up: a concurrent change causes another look-up */
	struct known_target *known;

	if (!tgid)
		return false; /* the idle thread */
	if (configuration.follow_all)
		/* Not by its memory, which a thread gives back before its end. */
		return !(task->flags & PF_KTHREAD) && tgid != configuration.recorder_tgid;
	known = &cpu->known_targets[tgid & (KNOWN_TARGETS - 1)];
	if (known->tgid == tgid && known->generation == generation)
		return true;
	if (!is_target_tgid(tgid))
		return false;
	known->tgid = tgid;
	known->generation = generation;
	return true;
}

/*
 * Data that each switch and wakeup on this CPU accesses (wire.h). Resized to the number of possible CPUs
 * before loading.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_ring_ends);
} ring_ends SEC(".maps");

/*
 * Bits of wire_ring_ends.context: current handler on this CPU, and origin of its pending received packets
 * (sched.h).
 */
enum {
	CONTEXT_TIMER = 1,
	CONTEXT_SOFTIRQ = 2,
	CONTEXT_IRQ = 4,
	CONTEXT_CALL = 8,       /* the interrupt by which another CPU has something done here (paging.h) */
	CONTEXT_WHEEL = 16,     /* the soft interrupt of the timer wheel */
	CONTEXT_OWN = 32,       /* a soft interrupt that hands over what the thread's own call raised, and nothing else */
	CONTEXT_OWN_RX = 64,    /* the thread's own call raised one that hands packets over, which is still due */
	CONTEXT_FOREIGN_RX = 128, /* something else did */
};

static __always_inline struct wire_ring_ends *this_end(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&ring_ends, &cpu);
}

/* Spare places that CPUs have claimed. */
__u32 spares_claimed = 0;

/*
 * Gives this CPU a spare place if it has none: it came online for the first time while recording. Returns its place, 0 if all spare
 * places are taken. An interrupt's program may claim a place at the same time: the first claim holds, and a place is wasted.
 */
static __noinline __u64 claim_place(struct wire_ring_ends *end)
{
	__u32 nth;
	__u64 first;

	if (end->place || spares_claimed >= configuration.spare_places)
		return end->place;
	nth = __sync_fetch_and_add(&spares_claimed, 1);
	if (nth >= configuration.spare_places)
		return 0;
	first = ((__u64)configuration.places << configuration.slots_bits) + ((__u64)nth << configuration.spare_bits);
	__sync_val_compare_and_swap(&end->place, 0, WIRE_PLACE(first, configuration.places + nth + 1, configuration.spare_bits));
	return end->place;
}

/*
 * As probe_begin, for the most frequent programs. The count that selects timed runs is in memory that they
 * need anyway.
 */
static __always_inline __u64 hot_probe_begin(struct wire_ring_ends *end, __u32 probe, __u64 now)
{
	return end->runs[probe]++ % TIMED_EVERY ? 0 : now;
}

static __always_inline void hot_probe_end(__u32 probe, __u64 began_ns)
{
	struct per_cpu *cpu;

	if (!began_ns)
		return;
	cpu = this_cpu();
	if (!cpu)
		return;
	cpu->probes[probe].runs += TIMED_EVERY;
	probe_end(cpu, probe, began_ns);
}

/* As is_target, for tasks that mostly belong to the last target found. */
static __always_inline bool is_target_again(struct task_struct *task, struct wire_ring_ends *end)
{
	__u32 tgid = task->tgid;
	__u64 known = tgid | (__u64)targets_generation << 32; /* before the look, as there */
	struct per_cpu *cpu;

	if (!tgid)
		return false; /* the idle thread */
	if (!configuration.follow_all && end->known_target == known)
		return true;
	cpu = this_cpu();
	if (!cpu || !is_target(task, cpu))
		return false;
	end->known_target = known;
	return true;
}

static __always_inline void fill_header_numbered(struct wire_header *header, __u8 kind, __u64 at_ns, __u32 seq)
{
	header->at_ns = at_ns;
	header->seq = seq;
	header->cpu = bpf_get_smp_processor_id();
	header->kind = kind;
	header->flags = 0;
}

static __always_inline void fill_header(struct wire_header *header, struct per_cpu *cpu, __u8 kind,
					__u32 stream, __u64 at_ns)
{
	/* Atomic: an interrupt's program may number a record while ours is being made. */
	fill_header_numbered(header, kind, at_ns, __sync_fetch_and_add(&cpu->next_seq[stream], 1));
}

/*
 * The same of WIRE_STREAM_SCHED. Where interrupts are off a plain increment is enough: an atomic one waits until all that was
 * written before has reached its cache line.
 */
static __always_inline void fill_sched_header(struct wire_header *header, struct wire_ring_ends *end, __u8 kind, __u64 at_ns,
					      bool interrupts)
{
	__u32 seq = interrupts ? __sync_fetch_and_add(&end->next_seq, 1) : end->next_seq++;

	fill_header_numbered(header, kind, at_ns, seq);
}

static __always_inline void count_lost(struct per_cpu *cpu, __u32 stream)
{
	__sync_fetch_and_add(&cpu->next_seq[stream], 1);
	__sync_fetch_and_add(&cpu->lost[stream], 1);
}

static __always_inline void count_lost_sched(struct wire_ring_ends *end)
{
	struct per_cpu *cpu = this_cpu();

	if (end)
		__sync_fetch_and_add(&end->next_seq, 1);
	if (cpu)
		__sync_fetch_and_add(&cpu->lost[WIRE_STREAM_SCHED], 1);
}

/*
 * Records a hit of a user-space probe. Returns false if there is no space. Another thread may get the CPU in
 * between, and a reserved but unfinished record would block all later ones in the ring. The record is
 * therefore copied as a whole, and numbered last.
 */
static __always_inline bool tell_passed(struct per_cpu *cpu, struct wire_header *record, __u32 bytes, __u32 stream, __u64 wakeup)
{
	record->cpu = bpf_get_smp_processor_id();
	record->seq = __sync_fetch_and_add(&cpu->next_seq[stream], 1);
	if (!bpf_ringbuf_output(&definitions, record, bytes, wakeup))
		return true;
	__sync_fetch_and_add(&cpu->lost[stream], 1);
	return false;
}

#endif
