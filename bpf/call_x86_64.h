/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a thread asks the kernel for: which call, and its arguments. */
#ifndef HOLDUP_CALL_X86_64_H
#define HOLDUP_CALL_X86_64_H

#include "compat_calls_x86_64.h"

/*
 * A 32-bit program that entered by `int 0x80` or the vDSO (asm/thread_info.h). Set until the return to user
 * mode.
 */
#define TS_COMPAT 2
#define CALL_ARGUMENTS 6

/*
 * Syscalls that only 32-bit programs have. The first argument selects the actual call (socketcall(2),
 * ipc(2)).
 */
#define COMPAT_SOCKETCALL 102
#define COMPAT_IPC 117
/* All arguments of these calls are in memory, at the address in the first argument (old mmap and select). */
#define COMPAT_OLD_SELECT 82
#define COMPAT_OLD_MMAP 90
/* The first of theirs whose times are as wide as those of x86-64 (clock_gettime64). */
#define COMPAT_WIDE_TIMES 403
/* Base of the numbers for 32-bit calls without an x86-64 number, above all others. */
#define COMPAT_ONLY 1000

/* The segment of code of 32 bits in user mode (asm/segment.h: __USER32_CS). */
#define USER32_CS 0x23

/* Whether the thread runs 32-bit code, whose stack has words of 32 bits. */
static __always_inline bool is_narrow(const struct pt_regs *regs)
{
	return regs->cs == USER32_CS;
}

struct call {
	__u64 arguments[CALL_ARGUMENTS];
	/* x86-64 syscall number, -1 if the thread is in none. */
	__s32 number;
	/* The program is a 32-bit one, and so are the words in its memory. */
	bool is_compat;
	/* Times in its memory are two words of 32 bits. */
	bool has_short_times;
};

static __always_inline bool is_in_compat_call(struct task_struct *task)
{
	return task->thread_info.status & TS_COMPAT;
}

static __always_inline __s32 of_socketcall(__u32 which)
{
	switch (which) {
	case 1: return 41; case 2: return 49; case 3: return 42; case 4: return 50; case 5: return 43; /* socket bind connect listen accept */
	case 6: return 51; case 7: return 52; case 8: return 53; /* getsockname getpeername socketpair */
	case 9: case 11: return 44; case 10: case 12: return 45; /* send sendto recv recvfrom */
	case 13: return 48; case 14: return 54; case 15: return 55; /* shutdown setsockopt getsockopt */
	case 16: return 46; case 17: return 47; case 18: return 288; /* sendmsg recvmsg accept4 */
	case 19: return 299; case 20: return 307; /* recvmmsg sendmmsg */
	}
	return COMPAT_ONLY + COMPAT_SOCKETCALL;
}

static __always_inline __s32 of_ipc(__u32 which)
{
	switch (which & 0xffff) {
	case 1: return 65; case 2: return 64; case 3: return 66; case 4: return 220; /* semop semget semctl semtimedop */
	case 11: return 69; case 12: return 70; case 13: return 68; case 14: return 71; /* msgsnd msgrcv msgget msgctl */
	case 21: return 30; case 22: return 67; case 23: return 29; case 24: return 31; /* shmat shmdt shmget shmctl */
	}
	return COMPAT_ONLY + COMPAT_IPC;
}

static __always_inline __s32 of_compat(__u32 number, __u32 first)
{
	__s32 known;

	if (number == COMPAT_SOCKETCALL)
		return of_socketcall(first);
	if (number == COMPAT_IPC)
		return of_ipc(first);
	known = number < COMPAT_CALLS ? compat_calls[number & (COMPAT_CALLS - 1)] : -1;
	return known >= 0 ? known : COMPAT_ONLY + (__s32)number;
}

static __always_inline __s32 call_number(struct task_struct *task, const struct pt_regs *regs)
{
	__s32 number = regs->orig_ax;

	return number >= 0 && is_in_compat_call(task) ? of_compat(number, regs->bx) : number;
}

static __always_inline __u64 first_argument(struct task_struct *task, const struct pt_regs *regs)
{
	return is_in_compat_call(task) ? (__u32)regs->bx : regs->di;
}

/* `own`: the current thread. The memory of other threads is in another address space. */
static __always_inline void read_compat_arguments(const struct pt_regs *regs, struct call *call, bool own)
{
	__u32 words[CALL_ARGUMENTS] = { regs->bx, regs->cx, regs->dx, regs->si, regs->di, regs->bp };
	__u32 number = regs->orig_ax;

	call->is_compat = true;
	call->has_short_times = number < COMPAT_WIDE_TIMES;
	if (number == COMPAT_SOCKETCALL || number == COMPAT_OLD_SELECT || number == COMPAT_OLD_MMAP) {
		__u64 behind = number == COMPAT_SOCKETCALL ? words[1] : words[0];

		/* No descriptor, until it is known. */
		__builtin_memset(words, 0xff, sizeof(words));
		if (own)
			bpf_probe_read_user(words, sizeof(words), (void *)behind);
	} else if (number == COMPAT_IPC) {
		for (__u32 at = 0; at + 1 < CALL_ARGUMENTS; at++)
			words[at] = words[at + 1];
	}
	for (__u32 at = 0; at < CALL_ARGUMENTS; at++)
		call->arguments[at] = words[at];
}

static __always_inline void read_call(struct task_struct *task, const struct pt_regs *regs, struct call *call, bool own)
{
	call->number = call_number(task, regs);
	call->is_compat = call->has_short_times = false;
	if (call->number >= 0 && is_in_compat_call(task)) {
		read_compat_arguments(regs, call, own);
		return;
	}
	call->arguments[0] = regs->di;
	call->arguments[1] = regs->si;
	call->arguments[2] = regs->dx;
	call->arguments[3] = regs->r10;
	call->arguments[4] = regs->r8;
	call->arguments[5] = regs->r9;
}

#endif
