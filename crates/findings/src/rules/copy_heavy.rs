//! # copy-heavy: much of the time goes by copying memory
//!
//! ## What it sees
//! Samples of the CPU in functions that copy, fill or measure memory (`memcpy`, `memmove`, `memset`, `strlen`, Go's
//! `memmove`), and for which functions of the program they do.
//!
//! ## Why it hurts
//! A copy makes nothing new. It takes CPU time, drives other data out of the caches, and where many threads copy, the
//! memory's bandwidth is soon used up: then no further thread helps.
//!
//! ## How it decides
//! Descriptors say which functions copy (role `copy`, docs/descriptors.md); a sample counts for the program's own function
//! nearest to it. From 8 % of the running time on it is told. The upper end of the gain is that all of the
//! copying went; the lower end is 0, since some of it may be needed.
//! It is a hint, and comes behind what is surely lost, but where it takes a third of the running time or more: whether the work is
//! needed, only the reader knows.
//!
//! ## What to do
//! Hand buffers on in place of copying them (reference counts, slices, `writev`, `splice`, moved values); grow buffers in large steps;
//! keep a length in place of measuring it; do not clear what is overwritten at once.
//!
//! ## Blind spots
//! Copies that the compiler wrote into the program's own functions are not seen. A C library without debug symbols does not
//! name its copying functions: install them (`libc6-dbg`). How many bytes were copied is not counted.
//!
//! ## References
//! gprof and callgraph readings of memcpy by callers. Kanev et al.: Profiling a warehouse-scale computer (2015).

use super::{Info, Verdict};
use crate::derive::services::Service;
use crate::scene::Scene;
use crate::served::{self, Words};

pub(super) const INFO: Info = Info {
    name: "copy-heavy",
    summary: "Much of the running time goes by copying memory",
    of_waits_alone: false,
};

/// From this part of the running time on it is more than a hint.
const MUCH: f64 = 1.0 / 3.0;

pub(super) fn judge(scene: &Scene) -> Verdict {
    let words = Words {
        rule: INFO.name,
        doing: "copying, filling and measuring memory",
        advice: vec![
            "Hand on what is there in place of copying it: references, slices, moved values, writev".into(),
            "See who copies: holdup report stacks --callers".into(),
        ],
    };
    served::judge_beside(scene, Service::Copy, MUCH, words)
}
