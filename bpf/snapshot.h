/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every thread of the machine at one moment: names, and the state of targets. */
#ifndef HOLDUP_SNAPSHOT_H
#define HOLDUP_SNAPSHOT_H

SEC("iter/task")
int on_snapshot(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct wire_snapshot snapshot = {};
	struct per_cpu *cpu = this_cpu();

	if (!task || !cpu)
		return 0;
	snapshot.thread.header.at_ns = bpf_ktime_get_ns();
	snapshot.thread.header.kind = WIRE_SNAPSHOT;
	snapshot.thread.header.cpu = bpf_get_smp_processor_id();
	snapshot.thread.tid = task->pid;
	snapshot.thread.tgid = task->tgid;
	snapshot.thread.parent_tid = BPF_CORE_READ(task, real_parent, tgid);
	snapshot.thread.target = is_target(task, cpu);
	bpf_probe_read_kernel_str(snapshot.thread.name, sizeof(snapshot.thread.name), task->comm);
	snapshot.start_ns = task->start_boottime;
	snapshot.exec_ns = task->se.sum_exec_runtime;
	snapshot.queue_ns = bpf_core_field_exists(task->sched_info) ? task->sched_info.run_delay : ~0ULL;
	snapshot.state = task->__state;
	snapshot.on_cpu = task->on_cpu;
	snapshot.wait.syscall = -1;
	if (snapshot.thread.target && task->mm && snapshot.state && !task->on_cpu) {
		if (BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait))
			snapshot.thread.header.flags |= WIRE_SWITCH_IN_IOWAIT;
		describe_wait(task, &snapshot.wait);
		/* The mutex word is in another address space: not readable from here. */
		snapshot.wait.owner_tid = 0;
	}
	bpf_seq_write(ctx->meta->seq, &snapshot, sizeof(snapshot));
	return 0;
}

#endif
