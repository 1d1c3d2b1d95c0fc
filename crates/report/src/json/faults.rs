//! Page faults and shootdowns.

use holdup_findings::derive::paging::{Counts, Paging};
use holdup_findings::scene::syscall_text;
use serde_json::{Value, json};

pub(super) fn to_json(paging: &Paging) -> Value {
    json!({
        "counted": paging.counted,
        "all": counts(&paging.all),
        "threads": paging.threads.iter().map(|(thread, of)| json!({
            "thread": thread.0,
            "counts": counts(of),
        })).collect::<Value>(),
        "sampled": paging.drawn,
        "sites": paging.sites.iter().map(|site| json!({
            "function": site.function,
            "module": site.module,
            "share": site.share,
            "share_error": site.share_error,
            "faults": site.faults,
            "major": site.major,
        })).collect::<Value>(),
        "sent_in": paging.sent_in.iter().map(|(number, sent)| json!({
            "number": number,
            "name": syscall_text(*number),
            "sent": sent,
        })).collect::<Value>(),
        "reclaimed_in": paging.reclaimed_in.iter().map(|(number, ns)| json!({
            "number": number,
            "name": syscall_text(*number),
            "ns": ns,
        })).collect::<Value>(),
        "machine_read_bytes": paging.disk_read_bytes,
        "machine_refault_bytes": paging.refault_bytes,
        "sending_ns": paging.sending.ns,
        "sending_error_ns": paging.sending.error_ns,
        "cpus": paging.cpus.iter().map(|(cpu, interrupts)| json!({
            "cpu": cpu.0,
            "interrupts": interrupts,
        })).collect::<Value>(),
    })
}

fn counts(of: &Counts) -> Value {
    json!({
        "minor": of.minor,
        "major": of.major,
        "shootdowns_sent": of.sent,
        "interrupts": of.interrupts,
        "interrupt_ns": of.interrupt_ns,
        "huge_pages": of.huge_pages,
        "limit_reclaims": of.limit_reclaims,
        "limit_reclaim_ns": of.limit_reclaim_ns,
        "direct_reclaims": of.direct_reclaims,
        "direct_reclaim_ns": of.direct_reclaim_ns,
        "lock_waits": of.lock_waits,
        "lock_wait_ns": of.lock_wait_ns,
    })
}
