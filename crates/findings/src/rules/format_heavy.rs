//! # format-heavy: much of the time goes by making text, or reading it
//!
//! ## What it sees
//! Samples of the CPU in functions that turn values into text or text into values (`printf`, `strtod`, Rust's `core::fmt`, Go's
//! `fmt` and `strconv`), and for which functions of the program they do.
//!
//! ## Why it hurts
//! A format string is an interpreted program: a number takes some hundred instructions. Messages that nobody reads cost
//! as much as those that somebody does.
//!
//! ## How it decides
//! Descriptors say which functions format (role `format`, docs/descriptors.md); a sample counts for the program's own function
//! nearest to it. From 8 % of the running time on it is told. The upper end of the gain is that all of it went; the lower end is 0, since
//! some of it may be what the program is for.
//! It is a hint, and comes behind what is surely lost, but where it takes half of the running time or more: whether the work is
//! needed, only the reader knows.
//!
//! ## What to do
//! Ask whether the message is wanted before it is made; keep numbers as numbers until they are shown; make constant parts
//! once; use a converter for the one type that is needed.
//!
//! ## Blind spots
//! Formatting that was compiled into the program's own functions, and formatters of other libraries, are not known: add a
//! descriptor. Interpreted programs format inside their interpreter.
//!
//! ## References
//! The reading of oprofile's callers of a proxy's `vfprintf`. Lemire: Number parsing at a gigabyte per second (2021).

use super::{Info, Verdict};
use crate::derive::services::Service;
use crate::scene::Scene;
use crate::served::{self, Words};

pub(super) const INFO: Info = Info {
    name: "format-heavy",
    summary: "Much of the running time goes by making text, or reading it",
    of_waits_alone: false,
};

pub(super) fn judge(scene: &Scene) -> Verdict {
    let words = Words {
        rule: INFO.name,
        doing: "turning values into text or text into values",
        advice: vec![
            "Make no text that nobody reads: ask first whether the message is wanted".into(),
            "Keep numbers as numbers; make what is constant once".into(),
        ],
    };
    served::judge_beside(scene, Service::Format, served::MOST, words)
}
