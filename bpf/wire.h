/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The only structs shared between BPF and user space.
 *
 * Every record starts with a wire_header. All integers are little-endian and naturally aligned, without
 * implicit padding (both sides assert sizes). Times are nanoseconds of CLOCK_MONOTONIC (bpf_ktime_get_ns).
 *
 * Sequence numbers count per CPU and stream, including lost records. A reader therefore finds the position
 * and number of missing records from the gaps alone.
 */
#ifndef HOLDUP_WIRE_H
#define HOLDUP_WIRE_H

#ifdef __bpf__
typedef __u8 wire_u8;
typedef __s8 wire_s8;
typedef __u16 wire_u16;
typedef __s16 wire_s16;
typedef __u32 wire_u32;
typedef __s32 wire_s32;
typedef __u64 wire_u64;
typedef __s64 wire_s64;
#else
#include <stdint.h>
typedef uint8_t wire_u8;
typedef int8_t wire_s8;
typedef uint16_t wire_u16;
typedef int16_t wire_s16;
typedef uint32_t wire_u32;
typedef int32_t wire_s32;
typedef uint64_t wire_u64;
typedef int64_t wire_s64;
#endif

enum wire_kind {
	WIRE_SWITCH = 1,         /* struct wire_switch_foreign: prev is not a target */
	WIRE_SWITCH_OUT = 2,     /* struct wire_switch_out: target prev stays runnable or dies */
	WIRE_SWITCH_BLOCKED = 3, /* struct wire_switch_blocked: target prev blocks */
	WIRE_WAKING = 4,         /* struct wire_waking */
	WIRE_SAMPLE = 5,         /* struct wire_sample */
	WIRE_STACK = 6,          /* struct wire_stack + addresses */
	WIRE_FORK = 7,           /* struct wire_thread, of the new thread */
	WIRE_EXEC = 8,           /* struct wire_thread */
	WIRE_RENAME = 9,         /* struct wire_thread */
	WIRE_EXIT = 10,          /* struct wire_thread */
	WIRE_SNAPSHOT = 11,      /* struct wire_snapshot, from the task iterator */
	WIRE_RAW_STACK = 12,     /* struct wire_raw_stack + kernel addresses + stack memory */
	WIRE_SNAPSHOT_STACK = 13, /* the same, from the task iterator: not numbered */
	WIRE_SAMPLE_USER = 14,   /* struct wire_sample_user: a sample in user mode */
	WIRE_ALLOCATED = 15,     /* struct wire_allocated */
	WIRE_FREED = 16,         /* struct wire_freed */
	WIRE_THREAD_COUNTS = 17, /* struct wire_thread_counts, without a number if from the task iterator */
	WIRE_FAULT = 18,         /* struct wire_fault */
	WIRE_PLACE = 19,         /* struct wire_place */
	WIRE_COUNTERS = 20,      /* struct wire_counters, behind the sample of the same time */
	WIRE_TASK_WAIT = 21,     /* struct wire_task_wait */
};

/* Streams: one sequence per CPU for each. */
enum wire_stream {
	WIRE_STREAM_SCHED = 0,   /* switch and waking records */
	WIRE_STREAM_SAMPLES = 1, /* with registers, in the small ring */
	WIRE_STREAM_DEFS = 2,    /* stacks and thread life cycle, in the small ring */
	WIRE_STREAM_PLAIN_SAMPLES = 3, /* without, in the main ring: the two rings are not read in one order */
	WIRE_STREAM_ALLOCS = 4,  /* in the small ring */
	WIRE_STREAM_FAULTS = 5,  /* page faults and last counts, in the small ring */
	WIRE_STREAM_PLACES = 6,  /* in the small ring */
	WIRE_STREAMS = 7,
};

struct wire_header {
	wire_u64 at_ns;
	wire_u32 seq;
	wire_u16 cpu;
	wire_u8 kind;   /* enum wire_kind */
	wire_u8 flags;  /* by kind, below */
};

#define WIRE_RECORD_MAX 120

/* A place of the main ring. */
struct wire_slot {
	wire_u32 complete; /* position + 1, modulo 2^32, once the record is complete. Positions increase from 0 */
	wire_u32 bytes;    /* of the record */
	wire_u8 record[WIRE_RECORD_MAX];
};

/*
 * The place of a CPU in `records` and in scratch memory: index of its first slot, number of the place, log2 of its slots. Places are
 * numbered densely from 1, in the order in which CPUs get them. Online CPUs get theirs before the programs are attached.
 */
#define WIRE_PLACE(first_slot, number, slots_bits) ((first_slot) | (wire_u64)(number) << 32 | (wire_u64)(slots_bits) << 48)

/*
 * Write and read positions of one CPU's part of the main ring, each on its own cache line. The line of the
 * write position also holds all other data that a switch or wakeup accesses. After a CPU was idle, each
 * additional line must be fetched from memory.
 */
struct wire_ring_ends {
	wire_u64 taken;            /* positions given out: the kernel's */
	wire_u64 free_until;       /* ... slots up to here are free, by the last value of `read` */
	wire_u64 timers;           /* address of this CPU's struct hrtimer_cpu_base (sched.h), 0 if unknown */
	wire_u32 next_seq;         /* of WIRE_STREAM_SCHED */
	wire_u32 context;          /* nesting bits of interrupt handlers, CONTEXT_* */
	wire_u64 known_target;     /* the tgid that was met last, and above it the generation in which it is a target */
	wire_u16 runs[4];          /* of the first programs of enum probe (common.h) */
	wire_u64 place;            /* position of this CPU's part of the ring: WIRE_PLACE, 0 if it has none yet */
	wire_u64 rung;             /* the position at which user space was woken last */
	wire_u64 read;             /* positions free again: user space's */
	wire_u64 pad_too[7];
};

/* wire_header.flags of the three switch kinds */
#define WIRE_SWITCH_PREEMPT 0x01   /* the tracepoint's preempt argument */
#define WIRE_SWITCH_THROTTLED 0x02 /* prev's CFS bandwidth or SCHED_DEADLINE runtime is used up */
#define WIRE_SWITCH_IN_IOWAIT 0x04 /* task_struct.in_iowait of prev */
#define WIRE_SWITCH_MMAP_LOCK 0x08 /* prev blocks on its mmap_lock (contention_begin) */
#define WIRE_SWITCH_YIELD 0x20     /* prev gave the CPU away (sched_yield) */

struct wire_switch {
	struct wire_header header;
	wire_u32 prev_tid;
	wire_u32 next_tid;   /* 0: the CPU goes idle */
	wire_u32 prev_state; /* raw __state bits, 0 = runnable */
	wire_u32 prev_tgid;
};

struct wire_switch_foreign {
	struct wire_switch sw;
	wire_u64 clock_ran_ns; /* as in wire_switch_out, 0 for the idle thread */
};

struct wire_switch_out {
	struct wire_switch sw;
	wire_u64 exec_ns;  /* se.sum_exec_runtime of prev: excludes stolen time */
	wire_u64 queue_ns; /* sched_info.run_delay of prev, ~0 if the kernel lacks it */
	/* Length of prev's run by its run queue's clock, up to the last clock update before the switch. 0 if not
	 * available. */
	wire_u64 clock_ran_ns;
};

/* Kind of a wait's timeout. */
enum wire_timeout {
	WIRE_TIMEOUT_NONE = 0,
	WIRE_TIMEOUT_AFTER = 1,      /* from the call on */
	WIRE_TIMEOUT_UNTIL = 2,      /* a moment of CLOCK_MONOTONIC */
	WIRE_TIMEOUT_UNTIL_DATE = 3, /* a moment of CLOCK_REALTIME */
};
#define WIRE_TIMEOUT_SHIFT 62

/* wire_wait.object_kind: what `object` identifies */
enum wire_object {
	WIRE_OBJECT_NONE = 0,
	WIRE_OBJECT_FUTEX = 1,      /* user address */
	WIRE_OBJECT_PIPE = 2,       /* inode number, the same for both ends */
	WIRE_OBJECT_SOCKET = 3,     /* inode number of this end */
	WIRE_OBJECT_FILE = 4,       /* inode number of a regular file or directory */
	WIRE_OBJECT_DEVICE = 5,     /* inode number of a character device (tty, ...) */
	WIRE_OBJECT_BLOCK = 6,      /* inode number of a block device */
	WIRE_OBJECT_EVENTFD = 7,    /* address-like identity of the open file, folded to 64 bits */
	WIRE_OBJECT_TIMERFD = 8,
	WIRE_OBJECT_EPOLL = 9,
	WIRE_OBJECT_SIGNALFD = 10,
	WIRE_OBJECT_INOTIFY = 11,
	WIRE_OBJECT_ANON = 12,      /* another anonymous inode */
	WIRE_OBJECT_FD = 13,        /* kind unknown: the number of the descriptor */
};

/* Stored as the syscall of a kernel thread, which makes none. */
#define WIRE_CALL_OF_KERNEL_THREAD (-2)

/* Stored as the owner of a futex word that lies in the latest frames of the waiting thread's own stack. */
#define WIRE_OWNER_STACK 0xffffffffu

struct wire_wait {
	/*
	 * x86-64 number (call_x86_64.h), the call that restart_syscall continues, or 60 for a thread that exits.
	 * -1: an exception (page fault) or interrupt. -2: WIRE_CALL_OF_KERNEL_THREAD
	 */
	wire_s32 syscall;
	wire_u32 object_kind; /* enum wire_object */
	wire_u64 object;
	wire_u32 op;          /* futex: raw op argument. Else the fd, also for a poll of a single one */
	wire_u32 value;       /* futex: raw val argument, else 0 */
	wire_u32 owner_tid;   /* glibc mutex owner when the thread blocked, as stored: a tid of its PID namespace, 0 if unknown */
	wire_u32 stack_every; /* a stack was taken with probability 1/stack_every, 0: none */
	wire_u64 stack;       /* id of a WIRE_STACK record, 0 none */
	wire_u64 timeout;     /* ns below WIRE_TIMEOUT_SHIFT, enum wire_timeout above. 0: no timeout, or unknown */
};

struct wire_switch_blocked {
	struct wire_switch_out out;
	struct wire_wait wait;
};

enum wire_context {
	WIRE_CONTEXT_THREAD = 0, /* `waker_tid` did it */
	WIRE_CONTEXT_TIMER = 1,  /* an hrtimer, or one of the timer wheel. `waker_tid` was interrupted */
	WIRE_CONTEXT_SOFTIRQ = 2,
	WIRE_CONTEXT_IRQ = 3,
};

struct wire_waking {
	struct wire_header header; /* flags: enum wire_context */
	wire_u32 wakee_tid;
	wire_u32 waker_tid;
	/*
	 * Syscall of the waker, 60 if it exits, -1 for none. Set in thread context, and in a soft interrupt
	 * raised by its own syscall
	 */
	wire_s32 waker_syscall;
	wire_u32 stack_every;      /* as in struct wire_wait, also 0 if the waker is not a thread of the program */
	wire_u64 waker_object;     /* futex address if the waker is in futex(2), else 0 */
	wire_u64 stack;            /* waker's stack, 0 none */
};

#define WIRE_SAMPLE_KERNEL 0x01 /* the CPU was in kernel mode */

struct wire_sample {
	struct wire_header header;
	wire_u32 tid;
	wire_u32 tgid;
	wire_u64 ip;
	wire_s32 syscall; /* if in the kernel, else -1 */
	wire_u32 pad;
	wire_u64 stack;
};

struct wire_sample_user {
	struct wire_sample sample;
	/* Numbered as instructions do: ax, cx, dx, bx, sp, bp, si, di, r8 to r15. */
	wire_u64 registers[16];
};

/* How a user frame was found: the highest byte of its address. */
enum wire_via {
	WIRE_VIA_REGISTERS = 0,     /* the leaf: where the thread was */
	WIRE_VIA_TABLE = 1,         /* the caller, by rows compiled from .eh_frame */
	WIRE_VIA_FRAME_POINTER = 2, /* the caller, by the chain of frame pointers */
	WIRE_VIA_SIGNAL_FRAME = 3,  /* what a signal interrupted */
	WIRE_VIA_SCAN = 4,          /* the next return address on the stack: a guess */
	WIRE_VIA_LENT_FRAME = 5,    /* the caller of the function on whose frame the code runs */
};

/*
 * An interpreted function in the place of a user frame. Fields below the highest bits:
 *
 * - identity: a hash that distinguishes code objects that had the same address
 * - units: instruction units before the current position, saturated
 * - the address of the code object
 *
 * Mostly these entries follow all other frames of the stack. A unit then has two bytes, and the address is in
 * units of 16 bytes. A bit marks that an evaluation in C began with the function. An interpreter with a
 * frame per function has the entry in the place of that frame. A unit then has one byte, and the address is
 * in units of 8.
 */
#define WIRE_INTERPRETED (1ULL << 63)
#define WIRE_INTERPRETED_IN_PLACE (1ULL << 62)
#define WIRE_INTERPRETED_IDENTITY_SHIFT 55
#define WIRE_INTERPRETED_IDENTITY_BITS 7
#define WIRE_INTERPRETED_UNITS_SHIFT 44
#define WIRE_INTERPRETED_UNITS 2047
#define WIRE_INTERPRETED_BEGINS (1ULL << 43)
#define WIRE_INTERPRETED_IN_PLACE_CODE ((1ULL << 44) - 1)

/* Why a user stack ends: wire_header.flags of a stack. */
enum wire_end {
	WIRE_END_NONE = 0,             /* it has no user frames */
	WIRE_END_ROOT = 1,             /* the thread's root: complete */
	WIRE_END_TOO_DEEP = 2,
	WIRE_END_UNREADABLE = 3,       /* stack memory that is not resident, or no memory at all */
	WIRE_END_NO_RULE = 4,          /* .eh_frame has a rule that rows cannot express */
	WIRE_END_UNKNOWN_MAPPING = 5,  /* an address in no known executable mapping */
	WIRE_END_NO_TABLES = 6,        /* the process's mappings are not known yet */
	WIRE_END_NO_FRAME_POINTER = 7, /* code without rows, and bp is no frame pointer */
	WIRE_END_LOOP = 8,             /* a rule that leads back */
};

struct wire_stack {
	struct wire_header header;
	wire_u64 id;            /* hash of tgid and addresses, never 0 */
	wire_u32 tgid;
	wire_u16 kernel_frames; /* first in `addresses` */
	wire_u16 user_frames;
	/* wire_u64 addresses[kernel_frames + user_frames], leaf first. The highest byte of a user frame is an
	 * enum wire_via, because user addresses have at most 56 bits. Or WIRE_INTERPRETED is set */
};

/* Data for unwinding the stack later, if tables were missing. */
struct wire_raw_stack {
	struct wire_header header; /* flags: enum wire_end, why it was not walked at once */
	wire_u64 id;
	wire_u32 tgid;
	wire_u16 kernel_frames;
	wire_u16 bytes;  /* of stack memory from `sp` on */
	wire_u64 ip;
	wire_u64 sp;
	wire_u64 bp;
	wire_u64 bx;
	/* wire_u64 addresses[kernel_frames], wire_u8 memory[bytes] */
};

struct wire_thread {
	struct wire_header header;
	wire_u32 tid;
	wire_u32 tgid;
	wire_u32 other_tid; /* WIRE_FORK: the forking thread. WIRE_EXEC: the thread's tid before, if different. Else 0 */
	wire_u32 target;     /* 1: belongs to the traced program */
	char name[16];       /* comm, zero-padded */
	wire_u32 cpus_allowed; /* on how many CPUs it may run */
	wire_u32 inner_tid;    /* its tid in its own PID namespace, 0 if that is the initial one */
};

/* A sampled allocation is freed. */
struct wire_freed {
	struct wire_header header;
	wire_u32 tid;      /* the freeing thread */
	wire_u32 tgid;
	wire_u64 address;
};

/* A sampled allocation. */
struct wire_allocated {
	struct wire_freed freed; /* the allocating thread, and the block's address */
	wire_u64 bytes;          /* as asked for */
	wire_u64 every_bytes;    /* mean sampling interval in bytes */
	wire_u64 stack;          /* id of a WIRE_STACK record, 0 none */
};

#define WIRE_PLACE_DISARMED 0x01 /* hit too often: the last record of this place in this process */

/* A thread passed a place at which spans of its runtime begin or end. */
struct wire_place {
	struct wire_header header;
	wire_u32 tid;
	wire_u32 tgid;
	wire_u32 place; /* user space's number for it */
	wire_u32 pad;
};

#define WIRE_TASKS_CLOSED 0x01 /* waits are too frequent, and not recorded until user space reopens the window */

/* How a task's wait ended. */
enum wire_task_end {
	WIRE_TASK_RELEASED = 0, /* another task released a lock or semaphore */
	WIRE_TASK_RECEIVED = 1, /* another task received from the channel that this task sends to */
	WIRE_TASK_SENT = 2,     /* another task sent to the channel that this task receives from */
};

/* A task of a runtime went on that had waited for a lock or a channel. */
struct wire_task_wait {
	struct wire_header header; /* when it was made to go on */
	wire_u32 tid;         /* the thread that ended the wait */
	wire_u32 tgid;
	wire_u64 since_ns;    /* start of the wait, or of the window if the wait began earlier */
	wire_u64 object;      /* address of the object waited for, 0 if the wait for a lock began before the window */
	wire_u64 stack;       /* id of a WIRE_STACK record, 0 none: where it began */
	wire_u64 waker_stack; /* ... and where it was made to go on */
	wire_u32 waiter_tid;  /* the task's thread when the wait began, `tid` if unknown */
	wire_u32 ended;       /* enum wire_task_end. The fields below are 0 if a lock was released */
	wire_u64 task;        /* the task that waited */
	wire_u64 waker_task;  /* the task that ended the wait */
	wire_u32 slots;       /* number of items that the channel can hold */
	wire_u32 item_bytes;  /* size of an item, 0 if items have no content */
};

#define WIRE_COUNTERS_MAX 4

/* What hardware counted of a thread from its sample before to the one of this time, without a switch between. */
struct wire_counters {
	struct wire_header header;
	wire_u32 tid;
	wire_u32 tgid;
	wire_u64 ran_ns; /* between the two */
	wire_u64 values[WIRE_COUNTERS_MAX]; /* in the order in which user space opened them, ~0: did not count */
};

/* How an argument is compared with a number. */
enum wire_relation {
	WIRE_EQUAL = 0,
	WIRE_NOT_EQUAL = 1,
	WIRE_LESS = 2,
	WIRE_LESS_OR_EQUAL = 3,
	WIRE_MORE = 4,
	WIRE_MORE_OR_EQUAL = 5,
	WIRE_ANY_BIT = 6,
	WIRE_NO_BIT = 7,
};

struct wire_comparison {
	wire_u64 value;
	wire_u8 argument;  /* from 0 on */
	wire_u8 bytes;     /* of its register, the lowest: 1, 2, 4 or 8 */
	wire_u8 is_signed;
	wire_u8 relation;  /* enum wire_relation */
	wire_u8 is_last;   /* last comparison of a conjunction. An alternative follows */
	wire_u8 pad[3];
};

#define WIRE_COMPARISONS 8

/* Condition for recording a hit of a place. User space writes it before it attaches the probe. */
struct wire_condition {
	wire_u32 count;
	wire_u32 pad;
	struct wire_comparison comparisons[WIRE_COMPARISONS];
};

struct wire_snapshot {
	struct wire_thread thread; /* header.flags: as for a switch. other_tid: real_parent's tgid */
	wire_u64 start_ns;         /* CLOCK_BOOTTIME start of the thread */
	wire_u64 exec_ns;
	wire_u64 queue_ns;
	wire_u32 state;            /* raw __state bits */
	wire_u32 on_cpu;           /* 1: running on header.cpu at that moment */
	struct wire_wait wait;
};

#define WIRE_COUNTS_LAST 0x01 /* the thread's last record, else from the task iterator */

/* What the kernel counted in the life of a thread. */
struct wire_thread_counts {
	struct wire_header header;
	wire_u32 tid;
	wire_u32 tgid;
	wire_u64 start_ns;         /* CLOCK_BOOTTIME start of the thread, which distinguishes threads with the same tid */
	wire_u64 minor_faults;
	wire_u64 major_faults;
};

#define WIRE_FAULT_MAJOR 0x01     /* its page came from a disk */
#define WIRE_FAULT_IN_KERNEL 0x02 /* the kernel touched the page on the thread's behalf */

/* A sampled page fault. */
struct wire_fault {
	struct wire_header header;
	wire_u32 tid;
	wire_u32 tgid;
	wire_u64 address;    /* that was touched */
	wire_u64 stands_for; /* faults of its CPU since the previous sample, itself included. In windows, times their weight */
	wire_u64 stack;      /* id of a WIRE_STACK record, 0 none */
};

enum wire_paging {
	WIRE_SHOOTDOWN_SENT = 1,      /* it asked other CPUs to forget translations, and waited for them */
	WIRE_SHOOTDOWN_INTERRUPT = 2, /* it was interrupted for a TLB flush. ns: time of the handler */
	WIRE_HUGE_PAGE = 3,           /* pages were put together into a huge one */
	WIRE_RECLAIM_LIMIT = 4,       /* direct reclaim, because its memory cgroup was at its limit. ns: duration */
	WIRE_RECLAIM_DIRECT = 5,      /* the same, since the machine's memory was full */
};

/* Read from a map, and in no ring. */
struct wire_paging_key {
	wire_u32 tid;
	wire_u32 what;    /* enum wire_paging */
	wire_s32 syscall; /* for WIRE_SHOOTDOWN_SENT and the reclaims: -1 if none (a fault), else 0 */
	wire_u32 pad;
};

struct wire_paging_sums {
	wire_u64 count;
	wire_u64 ns;
	wire_u32 tgid;
	wire_u32 pad;
};

/*
 * Syscalls counted exactly (calls.h). User space reads these from maps, not from a ring.
 */
/* Operations of io_uring have numbers from here on: this plus the operation (enum io_uring_op). No syscall has. */
#define WIRE_RING_OPERATION 0x1000

struct wire_call_key {
	wire_u32 tid;
	wire_s32 syscall;
	wire_u32 object_kind; /* enum wire_object of the descriptor in the first argument */
	wire_u32 op;          /* operation of ioctl, fcntl, futex, or the clock id, else 0 */
	wire_u64 object;
};

/*
 * Powers of two: bucket b counts values of at least 2^(b-1) and below 2^b. Bucket 0 counts zeros, and the
 * last one the rest.
 */
#define WIRE_SIZE_BUCKETS 33
#define WIRE_TIME_BUCKETS 40

/* One CPU's part. All but `tgid`, `error` and the maximum only grow. */
struct wire_call_sums {
	wire_u64 count;        /* of calls that returned */
	wire_u64 errors;
	wire_u64 returned;     /* sum of positive results, of calls that return bytes or events */
	wire_u64 time_ns;      /* of `timed` calls, from entry to return */
	wire_u64 time_max_ns;
	wire_u64 timed;
	wire_u64 error_count;  /* number of `error` results. Other errors are in their own map */
	wire_u32 tgid;
	wire_u32 error;
	wire_u32 asked[WIRE_SIZE_BUCKETS];   /* size argument, of calls that have one */
	wire_u32 returns[WIRE_SIZE_BUCKETS]; /* results that are no errors, of calls that return bytes or events */
	wire_u32 times[WIRE_TIME_BUCKETS];   /* ns */
};

struct wire_call_error_key {
	struct wire_call_key call;
	wire_u32 error; /* errno */
	wire_u32 pad;
};

struct wire_call_stack_key {
	struct wire_call_key call;
	wire_u64 stack; /* id of a WIRE_STACK record */
};

struct wire_object_key {
	wire_u32 kind; /* enum wire_object */
	wire_u32 pad;
	wire_u64 object;
};

/* Which end of a connection a socket is. */
enum wire_side {
	WIRE_SIDE_UNKNOWN = 0,
	WIRE_SIDE_CONNECTED = 1, /* it connected to the other end's listener */
	WIRE_SIDE_ACCEPTED = 2,
};

#define WIRE_PATH_PARTS 6
#define WIRE_PATH_PART_BYTES 40

/* What an object is called, as seen when it was first met. */
struct wire_object_name {
	wire_u16 family;      /* of a socket: AF_*; else 0 */
	wire_u16 local_port;
	wire_u16 peer_port;
	wire_u16 side;        /* enum wire_side */
	wire_u8 local[16];    /* address: 4 bytes of IPv4, 16 of IPv6 */
	wire_u8 peer[16];
	wire_u64 peer_object; /* unix socket: inode number of the peer, 0 if unknown */
	/*
	 * For a file, its name, its directory's, and so on upwards. For a unix socket, the address of its
	 * listener, in one piece.
	 */
	char path[WIRE_PATH_PARTS][WIRE_PATH_PART_BYTES];
};

#endif
