//! # false-sharing: threads write to separate data in one cache line
//!
//! ## Symptoms
//! CPU samples at memory accesses, with the address. It sees lines of 64 bytes that threads on different CPUs
//! repeatedly take from each other. At least one of the threads writes, and each thread accesses bytes that
//! no other thread accesses.
//!
//! ## Why it hurts
//! A CPU that writes to a line removes the whole line from the other CPUs' caches. The next access of another
//! thread to any byte of the line waits for the line: some hundred cycles instead of four. Only the line is
//! shared, so the program looks parallel and is not. More threads make it slower.
//!
//! ## How it decides
//! The address is computed from the instruction before the sample and its registers. A CPU that waits for
//! memory is sampled at the next instruction. A line counts if many of its samples, in time order, are by
//! another thread on another CPU than the previous sample. It is false sharing if four in five accesses are
//! to bytes that only one thread accesses. No thread may ever have slept until a word there changed: a lock
//! and its data are true sharing.
//!
//! While the program runs, the CPU's watchpoints watch the most sampled lines briefly, for a few accesses of
//! each thread at each place. Their result decides which thread owns the bytes, if they saw most of the
//! memory. They do not decide that a place is shared if 40 or more samples show less than a twentieth of the
//! time at such places. A watchpoint's stop takes so long that rare accesses hit it as often as frequent
//! ones. If a load waits for the line, the store after it is hardly ever sampled. So lines with a twentieth
//! of the samples, and no write among them, are watched for writes first.
//!
//! The time is the sampled time at these accesses, with its error. The removable part is estimated from
//! moments at which a thread ran the same code while no other thread that accesses the memory ran. If the
//! accesses took a smaller share of these moments, the difference is the cost of sharing. If the samples
//! there show little but the accesses, the rest overlaps with them and is no measure. Without such moments
//! the lower bound of the gain is 0, and the finding is at most likely. If most of a function's time is at
//! the accesses, the code after them may wait with them. Then the upper bound includes it, unless the
//! accesses are as slow relative to the rest when alone.
//!
//! ## What to do
//! Give each thread's data its own line: pad or align it to 64 bytes (128 if the CPU fetches lines in pairs).
//! Put data that one thread writes on that thread's stack or into thread-local memory. Or let threads
//! accumulate in local variables and write rarely.
//!
//! ## Blind spots
//! Code that a runtime generated is not decoded, nor code whose binary no longer existed at the end of the
//! recording. If the waiting instruction itself loaded the address (a chain of pointers), the address is
//! lost. Threads that run on one CPU in turn do not disturb each other and are not counted. CPUs of one core
//! are not distinguished from other CPUs. Neighbouring lines that the CPU fetches together are not seen as
//! one.
//!
//! ## References
//! Torrellas, Lam, Hennessy: False sharing and spatial locality in multiprocessor caches (1994). Intel:
//! optimization manual, "Avoid false sharing". Liu, Berger: Sheriff (2011).

use crate::derive::lines::{SharedData, Sharing};
use crate::rule::{ChargedVerdict, Info, Rule, Verdict, uncharged};
use crate::scene::Scene;
use crate::sharing;

pub(super) static INFO: Info =
    Info::new("false-sharing", "Threads write to separate data in one cache line (false sharing)");

pub(super) struct FalseSharing;

impl Rule for FalseSharing {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }
}

fn judge(scene: &Scene) -> Verdict {
    sharing::needs_addresses(scene)?;
    let is_false = |data: &&SharedData| {
        sharing::is_costly(scene, data) && data.sharing == Sharing::False && !data.is_waited_on
    };
    let shared = scene.derived.lines.iter().filter(is_false);
    let finding =
        |data| sharing::finding(scene, data, (INFO.name, "separate bytes of one cache line", advice()));
    Ok(shared.take(sharing::NAMED_MAX).map(finding).collect())
}

fn advice() -> Vec<String> {
    vec![
        "Give each thread's data a cache line of its own: align or pad it to 64 bytes, or make it thread-local"
            .into(),
        "Or let each thread count in a local variable, and write the result once".into(),
    ]
}
