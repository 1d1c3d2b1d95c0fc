//! Names of the x86-64 syscalls by number, from the kernel's stable ABI, and which of them are of a kind.

/// Name of syscall `number`. `"exception"` for -1 (page fault, interrupt), `"?"` if there is none. An
/// io_uring operation ([`RING_OPERATIONS`]) has its own name.
pub fn syscall_name(number: i32) -> &'static str {
    if number == -1 {
        return "exception";
    }
    if number == holdup_events::event::RawWait::KERNEL_THREAD {
        return "kernel thread";
    }
    let (names, first) = match is_ring_operation(number) {
        true => (&OPERATIONS[..], RING_OPERATIONS),
        false => (&NAMES[..], 0),
    };
    let low = usize::try_from(number.wrapping_sub(first)).ok().and_then(|index| names.get(index));
    low.copied().filter(|name| !name.is_empty()).unwrap_or("?")
}

/// Whether the call waits until data is on the disk: `msync`, `fsync`, `fdatasync`, `sync`,
/// `sync_file_range`, `syncfs`.
pub fn is_sync_call(number: i32) -> bool {
    matches!(number, 26 | 74 | 75 | 162 | 277 | 306)
}

/// Whether the result is a number of bytes read from or written to a descriptor. True for `read`, `write`,
/// `pread64`, `pwrite64`, `readv`, `writev`, `sendto`, `recvfrom`, `sendmsg`, `recvmsg`, `preadv`, `pwritev`,
/// `preadv2`, `pwritev2`.
pub fn moves_bytes(number: i32) -> bool {
    matches!(number, 0 | 1 | 17..=20 | 44..=47 | 295 | 296 | 327 | 328)
}

/// Whether the call writes bytes to a descriptor: `write`, `pwrite64`, `writev`, `sendto`, `sendmsg`,
/// `pwritev`, `pwritev2`.
pub fn sends(number: i32) -> bool {
    matches!(number, 1 | 18 | 20 | 44 | 46 | 296 | 328)
}

/// `open`.
pub const OPEN: i32 = 2;
/// `creat`.
pub const CREAT: i32 = 85;
/// `openat`.
pub const OPENAT: i32 = 257;
/// `close`.
pub const CLOSE: i32 = 3;
/// `lseek`.
pub const LSEEK: i32 = 8;
/// `ftruncate`.
pub const FTRUNCATE: i32 = 77;
/// `unlink`.
pub const UNLINK: i32 = 87;
/// `unlinkat`.
pub const UNLINKAT: i32 = 263;

/// `futex`: sleeping and waking for locks, conditions and joins.
pub const FUTEX: i32 = 202;
/// `connect`.
pub const CONNECT: i32 = 42;
/// `accept` and `accept4`.
pub const ACCEPT: [i32; 2] = [43, 288];
/// `sched_yield(2)`.
pub const SCHED_YIELD: i32 = 24;

/// `io_uring_enter`: submits requests to a ring, and waits for completions.
pub const IO_URING_ENTER: i32 = 426;

/// Operations of io_uring have numbers from here on, in the order of `enum io_uring_op`.
pub const RING_OPERATIONS: i32 = 0x1000;

/// Receives from one descriptor: read, readv, recvfrom, recvmsg, recvmmsg (x86-64).
pub fn receives(number: i32) -> bool {
    matches!(number, 0 | 19 | 45 | 47 | 299)
}

/// Waits for the descriptors that it is handed: poll, select, pselect6, ppoll (x86-64).
pub fn polls_few(number: i32) -> bool {
    matches!(number, 7 | 23 | 270 | 271)
}

/// Takes a connection: accept, accept4 (x86-64).
pub fn is_accept(number: i32) -> bool {
    matches!(number, 43 | 288)
}

/// Whether a number is not a syscall's, but that of an operation of io_uring.
pub fn is_ring_operation(number: i32) -> bool {
    number >= RING_OPERATIONS
}

#[rustfmt::skip]
static OPERATIONS: [&str; 65] = [
    "nop", "readv", "writev", "fsync", "read_fixed",
    "write_fixed", "poll_add", "poll_remove", "sync_file_range", "sendmsg",
    "recvmsg", "timeout", "timeout_remove", "accept", "async_cancel",
    "link_timeout", "connect", "fallocate", "openat", "close",
    "files_update", "statx", "read", "write", "fadvise",
    "madvise", "send", "recv", "openat2", "epoll_ctl",
    "splice", "provide_buffers", "remove_buffers", "tee", "shutdown",
    "renameat", "unlinkat", "mkdirat", "symlinkat", "linkat",
    "msg_ring", "fsetxattr", "setxattr", "fgetxattr", "getxattr",
    "socket", "uring_cmd", "send_zc", "sendmsg_zc", "read_multishot",
    "waitid", "futex_wait", "futex_wake", "futex_waitv", "fixed_fd_install",
    "ftruncate", "bind", "listen", "recv_zc", "epoll_wait",
    "readv_fixed", "writev_fixed", "pipe", "nop128", "uring_cmd128",
];

/// Numbers 335 to 423 were left out when the architectures' numbering was unified at 424.
#[rustfmt::skip]
static NAMES: [&str; 463] = [
    "read", "write", "open", "close", "stat",
    "fstat", "lstat", "poll", "lseek", "mmap",
    "mprotect", "munmap", "brk", "rt_sigaction", "rt_sigprocmask",
    "rt_sigreturn", "ioctl", "pread64", "pwrite64", "readv",
    "writev", "access", "pipe", "select", "sched_yield",
    "mremap", "msync", "mincore", "madvise", "shmget",
    "shmat", "shmctl", "dup", "dup2", "pause",
    "nanosleep", "getitimer", "alarm", "setitimer", "getpid",
    "sendfile", "socket", "connect", "accept", "sendto",
    "recvfrom", "sendmsg", "recvmsg", "shutdown", "bind",
    "listen", "getsockname", "getpeername", "socketpair", "setsockopt",
    "getsockopt", "clone", "fork", "vfork", "execve",
    "exit", "wait4", "kill", "uname", "semget",
    "semop", "semctl", "shmdt", "msgget", "msgsnd",
    "msgrcv", "msgctl", "fcntl", "flock", "fsync",
    "fdatasync", "truncate", "ftruncate", "getdents", "getcwd",
    "chdir", "fchdir", "rename", "mkdir", "rmdir",
    "creat", "link", "unlink", "symlink", "readlink",
    "chmod", "fchmod", "chown", "fchown", "lchown",
    "umask", "gettimeofday", "getrlimit", "getrusage", "sysinfo",
    "times", "ptrace", "getuid", "syslog", "getgid",
    "setuid", "setgid", "geteuid", "getegid", "setpgid",
    "getppid", "getpgrp", "setsid", "setreuid", "setregid",
    "getgroups", "setgroups", "setresuid", "getresuid", "setresgid",
    "getresgid", "getpgid", "setfsuid", "setfsgid", "getsid",
    "capget", "capset", "rt_sigpending", "rt_sigtimedwait", "rt_sigqueueinfo",
    "rt_sigsuspend", "sigaltstack", "utime", "mknod", "uselib",
    "personality", "ustat", "statfs", "fstatfs", "sysfs",
    "getpriority", "setpriority", "sched_setparam", "sched_getparam", "sched_setscheduler",
    "sched_getscheduler", "sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval", "mlock",
    "munlock", "mlockall", "munlockall", "vhangup", "modify_ldt",
    "pivot_root", "_sysctl", "prctl", "arch_prctl", "adjtimex",
    "setrlimit", "chroot", "sync", "acct", "settimeofday",
    "mount", "umount2", "swapon", "swapoff", "reboot",
    "sethostname", "setdomainname", "iopl", "ioperm", "create_module",
    "init_module", "delete_module", "get_kernel_syms", "query_module", "quotactl",
    "nfsservctl", "getpmsg", "putpmsg", "afs_syscall", "tuxcall",
    "security", "gettid", "readahead", "setxattr", "lsetxattr",
    "fsetxattr", "getxattr", "lgetxattr", "fgetxattr", "listxattr",
    "llistxattr", "flistxattr", "removexattr", "lremovexattr", "fremovexattr",
    "tkill", "time", "futex", "sched_setaffinity", "sched_getaffinity",
    "set_thread_area", "io_setup", "io_destroy", "io_getevents", "io_submit",
    "io_cancel", "get_thread_area", "lookup_dcookie", "epoll_create", "epoll_ctl_old",
    "epoll_wait_old", "remap_file_pages", "getdents64", "set_tid_address", "restart_syscall",
    "semtimedop", "fadvise64", "timer_create", "timer_settime", "timer_gettime",
    "timer_getoverrun", "timer_delete", "clock_settime", "clock_gettime", "clock_getres",
    "clock_nanosleep", "exit_group", "epoll_wait", "epoll_ctl", "tgkill",
    "utimes", "vserver", "mbind", "set_mempolicy", "get_mempolicy",
    "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify",
    "mq_getsetattr", "kexec_load", "waitid", "add_key", "request_key",
    "keyctl", "ioprio_set", "ioprio_get", "inotify_init", "inotify_add_watch",
    "inotify_rm_watch", "migrate_pages", "openat", "mkdirat", "mknodat",
    "fchownat", "futimesat", "newfstatat", "unlinkat", "renameat",
    "linkat", "symlinkat", "readlinkat", "fchmodat", "faccessat",
    "pselect6", "ppoll", "unshare", "set_robust_list", "get_robust_list",
    "splice", "tee", "sync_file_range", "vmsplice", "move_pages",
    "utimensat", "epoll_pwait", "signalfd", "timerfd_create", "eventfd",
    "fallocate", "timerfd_settime", "timerfd_gettime", "accept4", "signalfd4",
    "eventfd2", "epoll_create1", "dup3", "pipe2", "inotify_init1",
    "preadv", "pwritev", "rt_tgsigqueueinfo", "perf_event_open", "recvmmsg",
    "fanotify_init", "fanotify_mark", "prlimit64", "name_to_handle_at", "open_by_handle_at",
    "clock_adjtime", "syncfs", "sendmmsg", "setns", "getcpu",
    "process_vm_readv", "process_vm_writev", "kcmp", "finit_module", "sched_setattr",
    "sched_getattr", "renameat2", "seccomp", "getrandom", "memfd_create",
    "kexec_file_load", "bpf", "execveat", "userfaultfd", "membarrier",
    "mlock2", "copy_file_range", "preadv2", "pwritev2", "pkey_mprotect",
    "pkey_alloc", "pkey_free", "statx", "io_pgetevents", "rseq",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "",
    "", "", "", "", "pidfd_send_signal",
    "io_uring_setup", "io_uring_enter", "io_uring_register", "open_tree", "move_mount",
    "fsopen", "fsconfig", "fsmount", "fspick", "pidfd_open",
    "clone3", "close_range", "openat2", "pidfd_getfd", "faccessat2",
    "process_madvise", "epoll_pwait2", "mount_setattr", "quotactl_fd", "landlock_create_ruleset",
    "landlock_add_rule", "landlock_restrict_self", "memfd_secret", "process_mrelease", "futex_waitv",
    "set_mempolicy_home_node", "cachestat", "fchmodat2", "map_shadow_stack", "futex_wake",
    "futex_wait", "futex_requeue", "statmount", "listmount", "lsm_get_self_attr",
    "lsm_set_self_attr", "lsm_list_modules", "mseal",
];

/// Numbers of the syscalls through which threads hand work to each other (x86-64). These are read, write,
/// poll, readv, writev, select, sendto, recvfrom, sendmsg, recvmsg, semop, msgsnd, msgrcv, futex. The last
/// are epoll_wait, pselect6, ppoll and epoll_pwait.
pub const HANDING: [i32; 18] = [0, 1, 7, 19, 20, 23, 44, 45, 46, 47, 65, 69, 70, FUTEX, 232, 270, 271, 281];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers_have_their_names() {
        let known =
            [(0, "read"), (202, "futex"), (232, "epoll_wait"), (334, "rseq"), (424, "pidfd_send_signal")];
        for (number, name) in
            known.into_iter().chain([(462, "mseal"), (-1, "exception"), (400, "?"), (5000, "?")])
        {
            assert_eq!(syscall_name(number), name);
        }
    }
}
