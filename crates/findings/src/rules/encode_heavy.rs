//! # encode-heavy: much of the time is spent serializing values
//!
//! ## Symptoms
//! CPU samples in functions that serialize and deserialize values: V8's structured clone (messages between
//! workers), `JSON`, Python's `pickle`, Java's serialization, Go's `encoding/json` and `encoding/gob`. It
//! also sees the functions of the program that call them.
//!
//! ## Why it hurts
//! Serialized values are traversed, written, read and built again. Both sides pay for each value each time,
//! and the built objects soon become garbage. A table in every message costs more than the work for which it
//! is needed.
//!
//! ## How it decides
//! Descriptors list the functions (role `encode`, docs/descriptors.md), including their callees. A sample
//! counts for the nearest function of the program itself. The rule reports at least 8 % of the running time.
//! The upper bound of the gain removes all of it. The lower bound is 0, because some of it may be necessary.
//! Only the user knows how much. So the finding is a hint, and ranks after certain losses, unless it takes a
//! third of the running time or more.
//!
//! ## What to do
//! Send changes each time, and constant data once. Pass memory instead of a copy (transferred or shared
//! buffers, `SharedArrayBuffer`, `multiprocessing.shared_memory`, pages of a file). Send many small values as
//! one array of numbers.
//!
//! ## Blind spots
//! Serialization by the program's own functions, or by a library without a descriptor, counts as the
//! program's work. If a runtime's compiled code has no names, the callers are not known.
//!
//! ## References
//! HTML Living Standard: structured clone. Python `pickle`, PEP 574 (buffers out of band). Kanev et al.:
//! Profiling a warehouse-scale computer (2015), on the share of serialization in all cycles.

use crate::derive::services::Service;
use crate::rule::{ChargedVerdict, Info, Rule, Verdict, uncharged};
use crate::scene::Scene;
use crate::service_findings::{self, Words};

pub(super) static INFO: Info = Info {
    may_be_needed: true,
    ..Info::new("encode-heavy", "Much of the CPU time is spent serializing values")
};

/// Minimum share of the running time for a program that does little else than serialize.
const MUCH: f64 = 1.0 / 3.0;

pub(super) struct EncodeHeavy;

impl Rule for EncodeHeavy {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }
}

fn judge(scene: &Scene) -> Verdict {
    let words = Words {
        rule: INFO.name,
        doing: "serializing and deserializing values",
        advice: vec![
            "Send constant data once, then only changes; transfer or share memory instead of copying it"
                .into(),
            "List the callers: holdup report stacks --callers".into(),
        ],
    };
    service_findings::judge_as_hint(scene, Service::Encode, MUCH, words)
}
