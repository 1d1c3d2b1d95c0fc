//! # encode-heavy: much of the time goes by packing values to hand them on
//!
//! ## What it sees
//! Samples of the CPU in what packs and unpacks values: V8's structured clone (messages between workers), `JSON`, Python's
//! `pickle`, Java's serialization, Go's `encoding/json` and `encoding/gob`; and for which functions of the program.
//!
//! ## Why it hurts
//! What is packed is walked, written, read and built anew: both sides pay for each value each time, and what was built is garbage
//! soon. A table that goes along with every message costs more than the work for which it is needed.
//!
//! ## How it decides
//! Descriptors say which functions do that (role `encode`, docs/descriptors.md), with all that they call; a sample counts for the
//! program's own function nearest to it. From 8 % of the running time on it is told. The upper end of the gain is that all of it went;
//! the lower end is 0, since some of it may be needed: how much, only the reader knows. So it is a hint that comes behind what is surely
//! lost, but where it takes a third of the running time or more.
//!
//! ## What to do
//! Send what changes, and once what does not; hand over memory in place of a copy (transferred or shared buffers,
//! `SharedArrayBuffer`, `multiprocessing.shared_memory`, pages of a file); send many small values as one array of numbers.
//!
//! ## Blind spots
//! What a program packs by functions of its own, or of a library that no descriptor knows, is its own work. Compiled code of a
//! runtime that gives its code no names hides for whom it is done.
//!
//! ## References
//! HTML Living Standard: structured clone. Python `pickle`, PEP 574 (buffers out of band). Kanev et al.: Profiling a warehouse-scale computer
//! (2015), on what packing takes of all cycles.

use super::{Info, Verdict};
use crate::derive::services::Service;
use crate::scene::Scene;
use crate::served::{self, Words};

pub(super) const INFO: Info = Info {
    name: "encode-heavy",
    summary: "Much of the running time goes by packing values to hand them on",
    of_waits_alone: false,
};

/// From this part of the running time on a program does little else than hand on what it has.
const MUCH: f64 = 1.0 / 3.0;

pub(super) fn judge(scene: &Scene) -> Verdict {
    let words = Words {
        rule: INFO.name,
        doing: "packing and unpacking values",
        advice: vec![
            "Send once what does not change, and then only what does; hand over memory in place of copies (transferred or shared buffers)"
                .into(),
            "See who sends what: holdup report stacks --callers".into(),
        ],
    };
    served::judge_beside(scene, Service::Encode, MUCH, words)
}
