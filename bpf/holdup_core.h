/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types that the programs read: only the fields used. They are relocated at load time (CO-RE), so
 * the object does not depend on the builder's kernel.
 */
#ifndef HOLDUP_CORE_H
#define HOLDUP_CORE_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

#define BPF_ANY 0
#define BPF_NOEXIST 1
#define BPF_F_NO_PREALLOC 1
#define BPF_F_MMAPABLE (1U << 10)
#define BPF_F_USER_STACK (1ULL << 8)
#define BPF_RB_NO_WAKEUP 1
#define BPF_RB_FORCE_WAKEUP 2
#define BPF_RB_AVAIL_DATA 0

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
struct sched_entity { __u64 sum_exec_runtime; };
struct sched_info { unsigned long long run_delay, last_arrival; };
struct rw_semaphore {};
struct mm_struct { struct rw_semaphore mmap_lock; };
struct super_block { __u32 s_dev; unsigned long s_magic; };
struct inode { __u16 i_mode; struct super_block *i_sb; unsigned long i_ino; };
struct qstr { const unsigned char *name; };
struct dentry { struct qstr d_name; struct dentry *d_parent; };
struct list_head { struct list_head *next; };
struct path { struct dentry *dentry; };
struct file { struct inode *f_inode; struct path f_path; void *private_data; };
struct io_cqe { __u64 user_data; __s32 res; __u32 flags; };
struct io_uring_cqe { __u64 user_data; __s32 res; __u32 flags; };
struct io_ring_ctx;
struct io_kiocb { struct file *file; __u8 opcode; struct io_cqe cqe; struct io_ring_ctx *ctx; };
struct in6_addr { __u8 in6_u[16]; };
struct sock_common {
	__be32 skc_daddr, skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
};
struct socket;
struct sock { struct sock_common __sk_common; struct socket *sk_socket; };
struct socket { struct sock *sk; struct file *file; };
struct sockaddr_un { char sun_path[108]; };
struct unix_address { int len; struct sockaddr_un name[0]; };
struct unix_sock { struct sock *peer; struct unix_address *addr; };
struct fdtable { unsigned int max_fds; struct file **fd; };
struct files_struct { struct fdtable *fdt; };
struct signal_struct { int nr_threads; };
struct hrtimer { struct hrtimer_clock_base *base; };
struct hrtimer_clock_base { struct hrtimer_cpu_base *cpu_base; struct hrtimer *running; };
struct hrtimer_cpu_base {
	unsigned int hres_active : 1;
	unsigned int in_hrtirq : 1;
	struct hrtimer_clock_base clock_base[8];
};
/* How a call goes on that a stop interrupted: `restart_syscall` (219) has no arguments of its own. */
struct restart_block {
	union {
		struct { __u32 *uaddr; __u32 val, flags; __u64 time; } futex;
		struct { int clockid; __u64 expires; } nanosleep;
		struct { int nfds; int has_timeout; unsigned long tv_sec, tv_nsec; } poll;
	};
};
/* Linux 7.0. */
struct timespec64 { __s64 tv_sec; long tv_nsec; };
struct restart_block___end_time {
	union {
		struct { int nfds; int has_timeout; struct timespec64 end_time; } poll;
	};
};
struct thread_info { __u32 status; };
struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int on_cpu;
	int pid;
	int tgid;
	struct mm_struct *mm;
	struct task_struct *real_parent;
	struct files_struct *files;
	struct signal_struct *signal;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned long nvcsw, nivcsw, min_flt, maj_flt;
	__u64 start_time, start_boottime; /* of CLOCK_MONOTONIC and CLOCK_BOOTTIME */
	unsigned int in_iowait : 1;
	char comm[16];
	unsigned int flags;
	int nr_cpus_allowed;
	struct restart_block restart_block;
	struct pid *thread_pid;
};
struct upid { int nr; };
struct pid {
	unsigned int level;
	struct upid numbers[1];
};
struct bpf_perf_event_data_kern;
struct bpf_iter_meta { struct seq_file *seq; __u64 session_id; __u64 seq_num; };
struct bpf_iter__task { struct bpf_iter_meta *meta; struct task_struct *task; };

#pragma clang attribute pop

/* Fields that only some kernels have. */
struct task_struct___throttled { bool throttled; } __attribute__((preserve_access_index));
struct sched_dl_entity___throttled { unsigned int dl_throttled : 1; } __attribute__((preserve_access_index));
struct task_struct___deadline { struct sched_dl_entity___throttled dl; } __attribute__((preserve_access_index));
struct mm_struct___owner { struct task_struct *owner; } __attribute__((preserve_access_index));
struct rq___clock { __u64 clock; } __attribute__((preserve_access_index));
struct cfs_rq___some { int throttle_count; struct rq___clock *rq; } __attribute__((preserve_access_index));
struct sched_entity___cfs { struct cfs_rq___some *cfs_rq; } __attribute__((preserve_access_index));
struct task_struct___cfs { struct sched_entity___cfs se; } __attribute__((preserve_access_index));

struct bpf_perf_event_data { struct { unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8,
	ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss; } regs; __u64 sample_period; __u64 addr; };
struct bpf_perf_event_value { __u64 counter, enabled, running; };

#endif
