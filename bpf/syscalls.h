/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Syscalls of the targets, counted by process and number while a window is open. User space attaches the
 * program for a window only; to attach and to detach takes time, so a word in a map opens and closes the window at a
 * moment that is known. (Looking at the clock for each call would cost more than counting it.) Calls that the
 * recorder makes are counted too: so it learns what counting costs a call.
 */
#ifndef HOLDUP_SYSCALLS_H
#define HOLDUP_SYSCALLS_H

/* 1: the window is open. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} syscall_window SEC(".maps");

struct syscall_key {
	__u32 tgid;
	__s32 number;
};

/* Read and emptied by user space after each window. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct syscall_key);
	__type(value, __u64);
} syscall_counts SEC(".maps");

static __always_inline void count_syscall(struct per_cpu *cpu, struct task_struct *task, long number)
{
	struct syscall_key key = { .tgid = task->tgid, .number = (__s32)number };
	__u64 *count = bpf_map_lookup_elem(&syscall_counts, &key), one = 1;

	if (count)
		(*count)++; /* this CPU's own, and no interrupt makes a syscall */
	else if (bpf_map_update_elem(&syscall_counts, &key, &one, BPF_NOEXIST))
		cpu->syscalls_uncounted++;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_syscall, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	__u32 zero = 0, *open = bpf_map_lookup_elem(&syscall_window, &zero);
	__u64 began;

	if (!cpu || !open || !*open || number < 0)
		return 0;
	if (task->tgid != configuration.recorder_tgid && !is_target(task, cpu))
		return 0;
	began = probe_begin(cpu, PROBE_SYSCALL);
	count_syscall(cpu, task, number);
	probe_end(cpu, PROBE_SYSCALL, began);
	return 0;
}

#endif
