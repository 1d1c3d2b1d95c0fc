//! # data-race: two threads access the same memory without synchronization
//!
//! ## Symptoms
//! The data races that ThreadSanitizer, Helgrind, DRD or Go's race detector reported, imported (`holdup
//! import FILE`).
//!
//! ## Why it hurts
//! The program's result depends on which thread is faster. Compilers and CPUs may also show a thread half of
//! a change, or none. Programs that are made faster by removing locks often get such races.
//!
//! ## How it decides
//! Each pair of places, and the memory that they share, is reported once, with the number of reports that
//! name it. The most frequent pair comes first. The finding gains no time. It ranks after findings with a
//! gain, but before hints.
//!
//! ## What to do
//! Protect both places by the same lock, make the memory atomic, or give each thread its own memory.
//!
//! ## Blind spots
//! Such tools report only the events of the observed run. DRD reports one of the two stacks.
//!
//! ## References
//! Serebryany, Iskhodzhanov: ThreadSanitizer (WBIA 2009). The Go memory model. ISO C11 §5.1.2.4.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdup_events::tables::{MarkRow, SampleRow};
use holdup_events::{Duration, Timestamp, Trace};

use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::rule::{ChargedVerdict, Info, Rule, Standing, Verdict, uncharged};
use crate::scene::{EVIDENCE_MAX, Scene};
use crate::wording::count;

pub(super) static INFO: Info = Info {
    standing: Standing::Error,
    ..Info::new("data-race", "Two threads access the same memory without synchronization")
};

/// Name of the marks for races.
const MARK: &str = "data-race";
/// Functions that are named of a stack.
const FRAMES_MAX: usize = 3;

/// A race from the reports.
#[derive(Default)]
struct Race {
    /// The description of each access, and its stack, leaf first.
    sides: Vec<(String, Vec<String>)>,
    location: String,
    reports: Vec<MarkRow>,
}

pub(super) struct DataRace;

impl Rule for DataRace {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }
}

fn judge(scene: &Scene) -> Verdict {
    let mut races: Vec<Race> = collect(scene.trace).into_values().collect();
    races.sort_by_key(|race| (Reverse(race.reports.len()), race.reports.first().map(|mark| mark.at)));
    Ok(races.iter().map(finding).collect())
}

/// Reports by the places of both accesses, whichever came first.
fn collect(trace: &Trace) -> BTreeMap<Vec<String>, Race> {
    let mut samples: BTreeMap<Timestamp, Vec<&SampleRow>> = BTreeMap::new();
    let mut races: BTreeMap<Vec<String>, Race> = BTreeMap::new();
    let marks: Vec<&MarkRow> =
        trace.marks.iter().filter(|mark| trace.event_name(mark.name).text == MARK).collect();
    if marks.is_empty() {
        return races;
    }
    for sample in &trace.samples {
        samples.entry(sample.at).or_default().push(sample);
    }
    for mark in marks {
        let mut at: Vec<&SampleRow> = samples.get(&mark.at).cloned().unwrap_or_default();
        at.sort_by_key(|sample| sample.thread != mark.thread);
        let text = &trace.event_name(mark.text).text;
        let mut said = text.lines();
        let stack = |sample: &&SampleRow| {
            trace.stack_frames(sample.stack).map(|frame| trace.frame_name(frame)).collect::<Vec<String>>()
        };
        let mut stacks = at.iter().map(stack);
        let mut side = || (said.next().unwrap_or_default().to_owned(), stacks.next().unwrap_or_default());
        let sides = vec![side(), side()];
        let mut key: Vec<String> =
            sides.iter().map(|(_, stack)| stack.first().cloned().unwrap_or_default()).collect();
        key.sort();
        let location = text.lines().nth(2).unwrap_or_default().to_owned();
        // Addresses differ from run to run, names do not.
        let named = location.split(' ').filter(|word| !word.starts_with("0x"));
        key.push(named.collect::<Vec<_>>().join(" "));
        let race = races.entry(key).or_insert_with(|| Race { sides, location, reports: Vec::new() });
        race.reports.push(*mark);
    }
    races
}

fn finding(race: &Race) -> Finding {
    let place = |stack: &[String]| stack.first().cloned().unwrap_or_else(|| "an unknown place".to_owned());
    let stack = |stack: &[String]| match stack.len() {
        0 => "its stack is not available".to_owned(),
        _ => stack.iter().take(FRAMES_MAX).cloned().collect::<Vec<_>>().join(" ← "),
    };
    let mut summary: Vec<String> = race
        .sides
        .iter()
        .filter(|(said, _)| !said.is_empty())
        .map(|(said, frames)| format!("{said}: {}.", stack(frames)))
        .collect();
    if !race.location.is_empty() {
        summary.push(format!("The memory: {}.", race.location));
    }
    summary.push(format!("Reported by {}.", count(race.reports.len() as u64, "report")));
    let mut places: Vec<String> = race.sides.iter().map(|(_, frames)| place(frames)).collect();
    places.dedup();
    Finding {
        rule: INFO.name,
        about: About::Other,
        subject: places.join(" and "),
        summary,
        cost_ns: 0,
        gain: Gain { low: 0.0, high: 0.0 },
        likely: None,
        confidence: Confidence::High,
        evidence: race.reports.iter().take(EVIDENCE_MAX).map(evidence).collect(),
        advice: vec![
            "Guard both places with the same lock, make the memory atomic, or give each thread a copy".into(),
        ],
    }
}

fn evidence(mark: &MarkRow) -> Evidence {
    Evidence {
        table: "marks",
        thread: mark.thread,
        start: mark.at,
        duration: Duration(0),
        note: "a data race".to_owned(),
    }
}
