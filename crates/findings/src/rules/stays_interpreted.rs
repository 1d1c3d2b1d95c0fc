//! # stays-interpreted: a hot function is never compiled
//!
//! ## Symptoms
//! CPU samples in functions of a JVM (HotSpot), compiled or interpreted.
//!
//! ## Why it hurts
//! HotSpot interprets new code, and compiles frequently called code. Compiled code is several times as fast,
//! often ten times or more. Code that is never compiled stays slow for as long as the program runs, however
//! hot it is. A profile does not show this: the function looks like any other busy function. Threads that
//! interpret the same function also contend for its counters' cache lines.
//!
//! ## How it decides
//! At least a quarter of the useful running time must be in one function itself while it is interpreted. That
//! must still hold a second after its first sample. HotSpot compiles hot code within tenths of a second. The
//! upper bound of the gain removes all this running time. The lower bound is half of it, because compiled
//! code takes at most half as long.
//!
//! ## What to do
//! A method of more than 8000 bytes of bytecode is never compiled (`HugeMethodLimit`). Split it (mostly
//! generated code: parsers, rules, mappers, JSP pages), or use `-XX:-DontCompileHugeMethods`. For other
//! methods, `-XX:+PrintCompilation` shows the reason: `COMPILE SKIPPED` or `made not compilable`. A full code
//! cache stops the compiler (`-XX:ReservedCodeCacheSize`, and a warning on stderr). `-Xint`, and `exclude` in
//! `-XX:CompileCommand`, disable compilation.
//!
//! ## Blind spots
//! Interpreters of other languages are not distinguished from the code that they interpret. Without HotSpot's
//! names (another user's process, a JVM without symbols) the rule does not apply.
//!
//! ## References
//! OpenJDK `globals.hpp` (DontCompileHugeMethods, HugeMethodLimit), `compilationPolicy.cpp`. java(1).

use crate::derive::interpreted::Interpreted;
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::rule::{ChargedVerdict, Info, Rule, Verdict, uncharged};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{percent, time};

pub(super) static INFO: Info =
    Info::new("stays-interpreted", "A hot function is never compiled and stays interpreted");

/// Compiled code takes at most this part of the time.
const COMPILED_MAX: f64 = 0.5;

pub(super) struct StaysInterpreted;

impl Rule for StaysInterpreted {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }
}

fn judge(scene: &Scene) -> Verdict {
    if !scene.derived.ledger.split_known {
        return Err("there are no samples of what ran".to_owned());
    }
    let found = scene.derived.interpreted.as_ref();
    Ok(found.and_then(|interpreted| finding(scene, interpreted)).into_iter().collect())
}

fn finding(scene: &Scene, one: &Interpreted) -> Option<Finding> {
    let (ns, error_ns) = (one.ns as f64, one.error_ns as f64);
    let high = scene.of_wall_if_run(ns + error_ns);
    if high < GAIN_MIN {
        return None;
    }
    let low = scene.of_wall_if_run((ns - error_ns).max(0.0) * (1.0 - COMPILED_MAX)).min(high);
    let (first, last) = one.seen;
    let share_error = error_ns / ns.max(1.0) * one.share;
    Some(Finding {
        rule: INFO.name,
        about: About::Other,
        subject: format!("{} in {}", one.function, scene.trace.process_name(one.process)),
        summary: vec![
            format!(
                "{} ± {} of the useful work ({} ± {} of running time; sampled) is in {} itself, interpreted.",
                percent(one.share),
                percent(share_error),
                time(one.ns),
                time(one.error_ns),
                one.function
            ),
            format!(
                "It stayed interpreted for {} between the first and the last sample. Hot code is compiled within tenths of a second, unless the compiler refuses it.",
                time(last.since(first).0)
            ),
        ],
        cost_ns: one.ns,
        gain: Gain { low, high },
        likely: None, confidence: scene.confidence(Confidence::High),
        evidence: evidence(scene, one),
        advice: vec![
            format!(
                "Is its bytecode longer than 8000 bytes (javap -c)? HotSpot compiles no such method: split {}, or run with -XX:-DontCompileHugeMethods",
                one.function
            ),
            "Otherwise find the reason: -XX:+PrintCompilation prints what was skipped or made not compilable; a full code cache warns on stderr (-XX:ReservedCodeCacheSize); no -Xint, no exclude in -XX:CompileCommand"
                .to_owned(),
        ],
    })
}

fn evidence(scene: &Scene, one: &Interpreted) -> Vec<Evidence> {
    let trace = scene.trace;
    let of_process = trace.target_threads().filter(|id| trace.threads[id.index()].process == one.process);
    let is_it = |stack| {
        let leaf = trace.stacks.frames(stack).next().map(|frame| &trace.frames[frame.index()]);
        leaf.is_some_and(|frame| frame.offset == one.method)
    };
    let samples = of_process.filter_map(|id| {
        let sample = crate::derive::samples_of(trace, id).iter().rev().find(|sample| is_it(sample.stack))?;
        Some(Evidence::sample(id, sample.at, format!("interprets {}", one.function)))
    });
    samples.take(crate::scene::EVIDENCE_MAX).collect()
}
