//! # false-sharing: threads write to data of their own in one cache line
//!
//! ## What it sees
//! Samples of the CPU at accesses to memory, with the address: lines of 64 bytes that threads on different CPUs take from
//! each other again and again, at least one of them writing, though each touches bytes that no other thread touches.
//!
//! ## Why it hurts
//! A CPU that writes to a line takes the whole of it away from the others. The next access of another thread to any byte of
//! the line waits until it comes back: some hundred cycles in place of four. Nothing is shared but the line, so
//! the program looks parallel and is not; more threads make it slower.
//!
//! ## How it decides
//! The address is computed from the instruction before the sample and its registers, since a CPU that waits for memory is
//! sampled at the instruction behind it. A line counts if, of its samples in the order of time, many are by another thread on
//! another CPU than the one before. It is false sharing if four in five accesses are to bytes that only one thread touches,
//! and no thread ever slept until a word there changed: a lock and what it guards are one thing that threads share. While the
//! program runs, the most sampled lines are watched for a moment by the CPU's own watchpoints, a few accesses of each thread
//! at each place: whose bytes they are is then what these saw, if they saw most of the memory. That several touch a place is
//! not taken from them where samples, 40 or more, say that less than a twentieth of the time goes by at such places: a stop
//! takes so long that what is looked at now and then stops as often. Where a load waits for the line, the store behind it is
//! hardly ever sampled: lines that have a twentieth of the samples, and no write among these, are watched for writes first.
//! The time is the sampled time at these accesses, with its error.
//! What of it would go is told by moments at which a thread was in the same code while no other that touches the memory ran: if
//! the accesses took a smaller share of these, the difference is what sharing costs; where little but the accesses is seen
//! then, the rest passes behind them and is no measure. Without such moments the lower end of the gain is 0,
//! and the finding is likely at most. Where most of a function's time goes by at the accesses, what stands behind them may wait
//! with them: the upper end takes that, too, unless the accesses are as slow beside the rest when alone.
//!
//! ## What to do
//! Give each thread's data a line of its own: pad or align it to 64 bytes (128 where the CPU fetches lines in pairs), put what one
//! thread writes into that thread's stack or thread-local memory, or let threads collect in local variables and write rarely.
//!
//! ## Blind spots
//! Code that a runtime generated, and code whose binary was gone when the recording ended, is not read. Where the address was
//! loaded by the very instruction that waits (a chain of pointers) it is lost. Threads that run on one CPU in turn do not
//! disturb each other and are not counted, nor are CPUs of one core told from others. Neighbouring lines that the CPU
//! fetches together are not seen as one.
//!
//! ## References
//! Torrellas, Lam, Hennessy: False sharing and spatial locality in multiprocessor caches (1994). Intel: optimization
//! manual, "Avoid false sharing". Liu, Berger: Sheriff (2011).

use super::{Info, Verdict};
use crate::derive::lines::{SharedData, Sharing};
use crate::scene::Scene;
use crate::sharing;

pub(super) const INFO: Info = Info {
    name: "false-sharing",
    summary: "Threads write to data of their own that lie in one cache line",
    of_waits_alone: false,
};

pub(super) fn judge(scene: &Scene) -> Verdict {
    sharing::needs_addresses(scene)?;
    let is_false = |data: &&SharedData| {
        sharing::is_costly(scene, data) && data.sharing == Sharing::False && !data.is_waited_on
    };
    let shared = scene.derived.lines.iter().filter(is_false);
    let finding =
        |data| sharing::finding(scene, data, (INFO.name, "bytes of their own in the same line", advice()));
    Ok(shared.take(sharing::NAMED_MAX).map(finding).collect())
}

fn advice() -> Vec<String> {
    vec![
        "Give each thread's part a cache line of its own: align or pad it to 64 bytes, or keep it thread-local"
            .into(),
        "Or let each thread count in a local variable, and write the result once".into(),
    ]
}
