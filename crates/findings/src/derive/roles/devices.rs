//! io_uring rings on which a process reads and writes disks. A thread that waits for such a completion waits
//! for the disk, as in read(2). A thread that waits for a packet is idle.
//!
//! The kernel functions on the submission path show the target: a block device or the network.

use holdup_events::tables::FrameKind;
use holdup_events::{Trace, WaitReason};

use crate::derive::syscall_names::IO_URING_ENTER;

/// Minimum number of samples. Fewer may be chance.
const SAMPLES_MIN: u64 = 5;
/// Minimum share of these samples on the path to a disk.
const AGREE: f64 = 0.75;
/// Prefixes of kernel functions that submit a request to a block device.
const DISK: [&str; 3] = ["submit_bio", "__submit_bio", "blk_mq_submit_bio"];
/// Prefixes of kernel functions that serve sockets and wait for them.
const NETWORK: [&str; 7] = ["io_recv", "io_send", "io_accept", "io_connect", "sock_", "tcp_", "io_arm_poll"];

/// Per row of the waits: whether it is for a disk's completion. Empty if the program has no ring.
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
