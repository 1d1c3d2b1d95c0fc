//! # format-heavy: much of the time is spent formatting or parsing text
//!
//! ## Symptoms
//! CPU samples in functions that convert values to text or text to values (`printf`, `strtod`, Rust's
//! `core::fmt`, Go's `fmt` and `strconv`). It also sees the functions of the program that call them.
//!
//! ## Why it hurts
//! A format string is an interpreted program, and a number takes some hundred instructions. Unread messages
//! cost as much as others.
//!
//! ## How it decides
//! Descriptors list the formatting functions (role `format`, docs/descriptors.md). A sample counts for the
//! nearest function of the program itself. The rule reports at least 8 % of the running time. The upper bound
//! of the gain removes all of it. The lower bound is 0, because some of it may be the program's purpose. The
//! finding is a hint, and ranks after certain losses, unless it takes half of the running time or more. Only
//! the user knows whether the work is necessary.
//!
//! ## What to do
//! Check whether the message is wanted before it is created. Keep numbers as numbers until they are
//! displayed. Format constant parts once. Use a converter for the one required type.
//!
//! ## Blind spots
//! Formatting code that was inlined into the program's functions, and formatters of other libraries, are not
//! recognised: add a descriptor. Interpreted programs format inside their interpreter.
//!
//! ## References
//! The reading of oprofile's callers of a proxy's `vfprintf`. Lemire: Number parsing at a gigabyte per second
//! (2021).

use crate::derive::services::Service;
use crate::rule::{ChargedVerdict, Info, Rule, Verdict, uncharged};
use crate::scene::Scene;
use crate::service_findings::{self, Words};

pub(super) static INFO: Info = Info {
    may_be_needed: true,
    ..Info::new("format-heavy", "Much of the CPU time is spent formatting or parsing text")
};

pub(super) struct FormatHeavy;

impl Rule for FormatHeavy {
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
        doing: "formatting and parsing text",
        advice: vec![
            "Format no text that is discarded: check first whether the message is wanted".into(),
            "Keep numbers as numbers, and format constant parts once".into(),
        ],
    };
    service_findings::judge_as_hint(scene, Service::Format, service_findings::MOST, words)
}
