/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Direct reclaim: a thread reclaims memory itself before it gets more. Its memory cgroup is at its limit, or
 * the machine's memory is full and the kernel's reclaim thread is too slow. Reclaim is rare and takes long,
 * so a map holds the threads in it, on any CPU.
 */
#ifndef HOLDUP_RECLAIM_H
#define HOLDUP_RECLAIM_H

/* Start of the reclaim, by tid. A thread killed during it leaves its entry, which the map drops when full. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} reclaims SEC(".maps");

static __always_inline int reclaim_begins(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	__u32 tid = task->pid;
	__u64 began, now;

	if (!cpu || !is_target(task, cpu))
		return 0;
	began = probe_begin(cpu, PROBE_PAGING);
	now = bpf_ktime_get_ns();
	bpf_map_update_elem(&reclaims, &tid, &now, BPF_ANY);
	probe_end(cpu, PROBE_PAGING, began);
	return 0;
}

static __always_inline int reclaim_ends(__u32 what)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct per_cpu *cpu = this_cpu();
	__u32 tid = task->pid;
	__u64 began, *since;

	if (!cpu || !is_target(task, cpu))
		return 0;
	began = probe_begin(cpu, PROBE_PAGING);
	since = bpf_map_lookup_elem(&reclaims, &tid);
	if (since) {
		add_paging(cpu, task, what, call_number(task, (struct pt_regs *)bpf_task_pt_regs(task)), 1,
			   bpf_ktime_get_ns() - *since);
		bpf_map_delete_elem(&reclaims, &tid);
	}
	probe_end(cpu, PROBE_PAGING, began);
	return 0;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int on_limit_reclaim(void *ctx) { return reclaim_begins(); }

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int on_limit_reclaim_end(void *ctx) { return reclaim_ends(WIRE_RECLAIM_LIMIT); }

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int on_direct_reclaim(void *ctx) { return reclaim_begins(); }

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int on_direct_reclaim_end(void *ctx) { return reclaim_ends(WIRE_RECLAIM_DIRECT); }

#endif
