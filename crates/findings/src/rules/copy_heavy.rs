//! # copy-heavy: much of the time is spent copying memory
//!
//! ## Symptoms
//! CPU samples in functions that copy, fill or measure memory (`memcpy`, `memmove`, `memset`, `strlen`, Go's
//! `memmove`), and the functions of the program that call them.
//!
//! ## Why it hurts
//! A copy creates no new data. It takes CPU time and evicts other data from the caches. If many threads copy,
//! they use up the memory bandwidth. Then more threads do not help.
//!
//! ## How it decides
//! Descriptors list the copying functions (role `copy`, docs/descriptors.md). A sample counts for the nearest
//! function of the program itself. The rule reports at least 8 % of the running time. The upper bound of the
//! gain removes all copying. The lower bound is 0, because some of it may be necessary. The finding is a
//! hint, and ranks after certain losses, unless it takes a third of the running time or more. Only the user
//! knows whether the work is necessary.
//!
//! ## What to do
//! Pass buffers on instead of copying them (reference counts, slices, `writev`, `splice`, moved values). Grow
//! buffers in large steps. Keep a length instead of measuring it. Do not clear memory that is overwritten at
//! once.
//!
//! ## Blind spots
//! Copies that the compiler inlined into the program's functions are not seen. A C library without debug
//! symbols does not name its copying functions: install them (`libc6-dbg`). The number of copied bytes is not
//! counted.
//!
//! ## References
//! gprof and callgraph readings of memcpy by callers. Kanev et al.: Profiling a warehouse-scale computer
//! (2015).

use crate::derive::services::Service;
use crate::rule::{ChargedVerdict, Info, Rule, Verdict, uncharged};
use crate::scene::Scene;
use crate::service_findings::{self, Words};

pub(super) static INFO: Info =
    Info { may_be_needed: true, ..Info::new("copy-heavy", "Much of the CPU time is spent copying memory") };

/// From this part of the running time on it is more than a hint.
const MUCH: f64 = 1.0 / 3.0;

pub(super) struct CopyHeavy;

impl Rule for CopyHeavy {
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
        doing: "copying, filling and measuring memory",
        advice: vec![
            "Pass data on instead of copying it: references, slices, moved values, writev".into(),
            "List the callers: holdup report stacks --callers".into(),
        ],
    };
    service_findings::judge_as_hint(scene, Service::Copy, MUCH, words)
}
