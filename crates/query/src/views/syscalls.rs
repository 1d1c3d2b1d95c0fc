//! Syscalls: sampled running time, exact waiting, and how often they were called.

use holdup_findings::derive::syscalls::SyscallUse;

use crate::view::{Table, columns, int, text};

pub(super) fn syscalls() -> Table<SyscallUse> {
    Table {
        name: "syscalls",
        meaning: "a syscall of the program: CPU time (sampled), waiting (exact), calls (counted in windows)",
        columns: columns! { facts, row: SyscallUse;
            Int "number" "x86-64 number, -1 for page faults and other exceptions" = Some(i64::from(row.number));
            Text "name" "its name" = text(row.name);
            Int "samples" "samples of threads in it" = int(row.samples);
            Int "cpu_ns" "CPU time in it, estimated (ns)" = int(row.cpu_ns);
            Int "cpu_error_ns" "half the width of the 95 % confidence interval of cpu_ns (ns)" = int(row.cpu_error_ns);
            Int "blocked" "number of waits in it" = int(row.blocked);
            Int "blocked_ns" "total time of these waits (ns)" = int(row.blocked_ns);
            Int "counted" "number of counted calls" = row.rate.and_then(|rate| int(rate.counted));
            Real "per_second" "calls per second of the recording" = row.rate.map(|rate| rate.per_second);
            Int "cpu_per_call_ns" "CPU time per call, estimated (ns)" = row.call.and_then(|call| int(call.cpu_ns));
        },
        places: |facts| facts.analysis().derived.syscalls.len(),
        rows: |facts, places| facts.analysis().derived.syscalls.get(places).unwrap_or(&[]).to_vec(),
    }
}
