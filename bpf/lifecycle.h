/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Forks, names, execs and exits of every thread of the machine. Children of targets are targets. */
#ifndef HOLDUP_LIFECYCLE_H
#define HOLDUP_LIFECYCLE_H

#define PID_NAMESPACES_DEEP 32 /* MAX_PID_NS_LEVEL */

/* See struct wire_thread. What a program keeps in its memory, and waits for, is this number. */
static __always_inline __u32 inner_tid(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 level = pid ? BPF_CORE_READ(pid, level) : 0, number = 0;
	void *numbers = (void *)pid + bpf_core_field_offset(struct pid, numbers);

	if (!level || level > PID_NAMESPACES_DEEP)
		return 0;
	bpf_probe_read_kernel(&number, sizeof(number), numbers + level * bpf_core_type_size(struct upid) +
							       bpf_core_field_offset(struct upid, nr));
	return number;
}

/* `other_tid`: see struct wire_thread. */
static __always_inline void send_thread(struct task_struct *task, __u8 kind, __u32 other_tid, const char *name)
{
	struct per_cpu *cpu = this_cpu();
	struct wire_thread *thread;
	__u64 began;

	if (!cpu)
		return;
	began = probe_begin(cpu, PROBE_LIFECYCLE);
	thread = bpf_ringbuf_reserve(&definitions, sizeof(*thread), 0);
	if (!thread) {
		count_lost(cpu, WIRE_STREAM_DEFS);
		return;
	}
	fill_header(&thread->header, cpu, kind, WIRE_STREAM_DEFS, bpf_ktime_get_ns());
	thread->tid = task->pid;
	thread->tgid = task->tgid;
	thread->other_tid = other_tid;
	thread->target = is_target(task, cpu);
	thread->cpus_allowed = task->nr_cpus_allowed;
	thread->inner_tid = inner_tid(task);
	__builtin_memset(thread->name, 0, sizeof(thread->name));
	if (name)
		bpf_probe_read_kernel_str(thread->name, sizeof(thread->name), name);
	else
		bpf_probe_read_kernel_str(thread->name, sizeof(thread->name), task->comm);
	/* A new program brings new binaries, and user space sleeps long where nothing is new. */
	bpf_ringbuf_submit(thread, kind == WIRE_EXEC && thread->target ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	probe_end(cpu, PROBE_LIFECYCLE, began);
}

/* A thread begins when it is queued for the first time, by its parent, with the run queue locked: it has not run yet. The
 * kernel's count of its waiting begins here, too (sched_process_fork comes up to 10 us earlier). */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_fork, struct task_struct *child)
{
	__u64 parent = bpf_get_current_pid_tgid();
	__u32 tgid = child->tgid, parent_tgid = parent >> 32, born = birth_of(child);

	if (!configuration.follow_all && child->tgid != parent_tgid) {
		if (!configuration.follow_none && is_target_tgid(parent_tgid)) {
			if (bpf_map_update_elem(&targets, &tgid, &born, BPF_ANY)) {
				struct per_cpu *cpu = this_cpu();

				/* It is not followed then, which is a loss as any other. */
				if (cpu)
					count_lost(cpu, WIRE_STREAM_DEFS);
			}
			bpf_map_update_elem(&unwind_parents, &tgid, &parent_tgid, BPF_ANY);
		} else if (is_target_tgid(tgid)) {
			/* The dead target's tgid is reused by another process. */
			bpf_map_delete_elem(&targets, &tgid);
			__sync_fetch_and_add(&targets_generation, 1);
		}
	}
	send_thread(child, WIRE_FORK, parent, 0);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_tid)
{
	__u32 tgid = task->tgid;

	/* Its memory is new: what user space knew of it, or of its parent, is void. */
	bpf_map_delete_elem(&unwind_parents, &tgid);
	if (is_target_tgid(tgid) || configuration.follow_all)
		bpf_map_delete_elem(&unwind_processes, &tgid);
	send_thread(task, WIRE_EXEC, old_tid == task->pid ? 0 : (__u32)old_tid, 0);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *name)
{
	send_thread(task, WIRE_RENAME, 0, name);
	return 0;
}

/* A tgid stays in `targets` after its end: its threads have a last switch to come. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	send_thread(task, WIRE_EXIT, 0, 0);
	return 0;
}

/*
 * The kernel frees a thread some time after its exit status was read and it left its CPU for the last time. A
 * process' first thread is freed last. The tgid may already be reused: by another process, which on_fork
 * handles, or by a target.
 */
SEC("tp_btf/sched_process_free")
int BPF_PROG(on_free, struct task_struct *task)
{
	__u32 tgid = task->tgid, *born;

	if (configuration.follow_all || task->pid != tgid)
		return 0;
	born = bpf_map_lookup_elem(&targets, &tgid);
	if (!born || (*born != 1 && *born != birth_of(task)))
		return 0;
	bpf_map_delete_elem(&targets, &tgid);
	__sync_fetch_and_add(&targets_generation, 1);
	return 0;
}

#endif
