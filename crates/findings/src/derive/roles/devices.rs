//! Rings of io_uring on which a process reads and writes disks. A thread that waits there for its answers waits for the
//! disk, as in read(2); one that waits for a packet has nothing to do.
//!
//! What a call submits is seen by the kernel's functions on its way: those of block devices, or of the network.

use holdup_events::tables::FrameKind;
use holdup_events::{Trace, WaitReason};

use crate::derive::syscall_names::IO_URING_ENTER;

/// Samples that tell: fewer may be chance.
const SAMPLES_MIN: u64 = 5;
/// Of these so many must be on their way to a disk.
const AGREE: f64 = 0.75;
/// Beginnings of the kernel's names: who hands a request to a block device ...
const DISK: [&str; 3] = ["submit_bio", "__submit_bio", "blk_mq_submit_bio"];
/// ... and who serves sockets and waits for them.
const NETWORK: [&str; 7] = ["io_recv", "io_send", "io_accept", "io_connect", "sock_", "tcp_", "io_arm_poll"];

/// Whether each row of the waits is for answers of a disk; nothing if the program has no ring.
pub(super) fn answer(trace: &Trace) -> Vec<bool> {
    let is_ring = |row: &holdup_events::Wait| row.reason == WaitReason::IoUring;
    if !trace.waits.iter().any(is_ring) {
        return Vec::new();
    }
    let begins = |names: &[&str]| -> Vec<bool> {
        let of_frame = |frame: &holdup_events::tables::Frame| {
            frame.kind == FrameKind::Kernel && names.iter().any(|name| frame.function.starts_with(name))
        };
        trace.frames.iter().map(of_frame).collect()
    };
    let (disk, network) = (begins(&DISK), begins(&NETWORK));
    let mut seen = vec![(0u64, 0u64); trace.processes.len()];
    for sample in trace.samples.iter().filter(|one| one.in_kernel && one.syscall == IO_URING_ENTER) {
        let has =
            |set: &[bool]| trace.stack_frames(sample.stack).any(|id| set.get(id.index()) == Some(&true));
        let process = trace.threads.get(sample.thread.index()).map(|thread| thread.process.index());
        let Some(seen) = process.and_then(|process| seen.get_mut(process)) else { continue };
        let (to_disk, to_network) = (has(&disk), has(&network));
        seen.0 += u64::from(to_disk && !to_network);
        seen.1 += u64::from(to_disk || to_network);
    }
    let serves = |wait: &holdup_events::Wait| {
        let (disk, told) = seen.get(wait.process.index()).copied().unwrap_or_default();
        is_ring(wait) && told >= SAMPLES_MIN && disk as f64 >= AGREE * told as f64
    };
    trace.waits.iter().map(serves).collect()
}
