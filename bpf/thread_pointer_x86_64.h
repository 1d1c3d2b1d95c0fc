/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Address of the C library's thread-local data: on x86-64 the base of segment fs, equal to pthread_self(). */
#ifndef HOLDUP_THREAD_POINTER_X86_64_H
#define HOLDUP_THREAD_POINTER_X86_64_H

struct thread_struct___x86_64 { unsigned long fsbase; } __attribute__((preserve_access_index));
struct task_struct___x86_64 { struct thread_struct___x86_64 thread; } __attribute__((preserve_access_index));

/* The current thread's base of fs, as set by arch_prctl(2) or clone(2). */
static __always_inline __u64 thread_pointer(struct task_struct *task)
{
	return BPF_CORE_READ((struct task_struct___x86_64 *)task, thread.fsbase);
}

#endif
