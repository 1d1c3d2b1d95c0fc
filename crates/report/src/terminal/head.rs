//! The head of every report: the command, machine and duration, the losses, the cost of the recording, and
//! the visible parts of the kernel.

use holdup_events::recording::{Backend, Fired};
use holdup_findings::derive::timelines::Timelines;
use holdup_findings::moment::Moments;
use holdup_findings::too_short::{JUDGED_NS_MIN, is_too_short};

use crate::damage;
use crate::figures;
use crate::numbers::{count, counted, duration, percent, rounded};
use crate::text::{Tint, clean, wrap};

use super::{View, headline};

/// Triggers that are named.
const FIRED_MAX: usize = 3;

pub(super) fn lines(view: &View) -> Vec<String> {
    let columns = view.style.columns();
    let mut lines = fired(view);
    if let Some(sentence) = headline::sentence(view) {
        lines.extend(wrap(&sentence, columns, 0).iter().map(|line| view.style.paint(Tint::Strong, line)));
    }
    lines.push(command(view));
    lines.extend(wrap(&ran(view), columns, 0));
    lines.extend(damaged(view));
    let (loss, whole) = loss(view);
    if whole {
        lines.extend(wrap(&format!("{loss} {}", cost(view)), columns, 0));
    } else {
        lines.extend(wrap(&loss, columns, 0).iter().map(|line| view.style.paint(Tint::Bad, line)));
        lines.extend(wrap(&cost(view), columns, 0));
    }
    lines.extend(warnings(view));
    lines
}

/// Unreadable tables, and the data missing because of them.
fn damaged(view: &View) -> Vec<String> {
    let sentences = damage::sentences(view.trace);
    let wrapped = sentences.iter().flat_map(|text| wrap(text, view.style.columns(), 2));
    wrapped.map(|line| view.style.paint(Tint::Bad, &line)).collect()
}

/// Limitations of the whole recording.
fn warnings(view: &View) -> Vec<String> {
    let mut texts = Vec::new();
    if view.trace.manifest.recovered {
        let text =
            "Recovered: the recorder did not exit normally. The recording ends with its last complete chunk.";
        texts.push((text.to_owned(), 0));
    }
    if is_too_short(view.trace) {
        let at_least = duration(JUDGED_NS_MIN);
        let text = format!("Too short to judge: below {at_least}, shares and findings are hints only.");
        texts.push((text, 0));
        if !matches!(view.trace.manifest.exit_status, None | Some(0)) {
            texts.push(("The program ended with an error. Check its arguments.".to_owned(), 0));
        }
    }
    texts.extend(backend(view).map(|text| (text, 2)));
    let wrapped = texts.iter().flat_map(|(text, indent)| wrap(text, view.style.columns(), *indent));
    wrapped.map(|line| view.style.paint(Tint::Warning, &line)).collect()
}

/// The head above selected sections: the command, and the missing data.
pub(super) fn short(view: &View) -> Vec<String> {
    let mut lines = vec![command(view)];
    lines.extend(damaged(view));
    let (loss, whole) = loss(view);
    if !whole {
        let wrapped = wrap(&loss, view.style.columns(), 0);
        lines.extend(wrapped.iter().map(|line| view.style.paint(Tint::Bad, line)));
    }
    lines.extend(warnings(view));
    lines
}

/// Why a flight recorder saved it, the first time with where in the recording it happened.
fn fired(view: &View) -> Vec<String> {
    let manifest = &view.trace.manifest;
    if manifest.fired.is_empty() {
        return Vec::new();
    }
    let timelines = Timelines::derive(view.trace);
    let moments = Moments::new(view.trace, &view.analysis.derived, &timelines);
    let line = |fired: &Fired| {
        let who = match fired.tid {
            0 => String::new(),
            tid => format!("thread {tid} ({}) ", clean(&fired.thread)),
        };
        let at = duration(fired.at_ns.saturating_sub(manifest.start_ns));
        let text = format!("Saved at {at} by {}: {who}{}.", clean(&fired.trigger), clean(&fired.what));
        let mut lines = wrap(&text, view.style.columns(), 2);
        for told in moments.iter().flat_map(|moments| moments.chain(fired)) {
            let inside = wrap(&clean(&told.text), view.style.columns().saturating_sub(2), 2);
            lines.extend(inside.iter().map(|line| format!("  {line}")));
        }
        lines
    };
    let mut lines: Vec<String> = manifest.fired.iter().take(FIRED_MAX).flat_map(line).collect();
    let more = manifest.fired.len().saturating_sub(FIRED_MAX);
    if more > 0 {
        lines.push(format!("  and {more} more by the end"));
    }
    lines.iter().map(|line| view.style.paint(Tint::Warning, line)).collect()
}

fn command(view: &View) -> String {
    let words = &view.trace.manifest.command;
    let said = match words.is_empty() {
        true => "(the whole machine)".to_owned(),
        false => words.iter().map(|word| clean(word)).collect::<Vec<_>>().join(" "),
    };
    view.style.paint(Tint::Strong, &view.style.fit(&said, view.style.columns()))
}

fn ran(view: &View) -> String {
    if view.is_timeless() {
        let samples = counted(view.trace.samples.len() as u64, "sample");
        return format!(
            "{samples} of {}, without times.",
            counted(view.trace.threads.len() as u64, "thread")
        );
    }
    let host = &view.trace.manifest.host;
    let ledger = &view.analysis.derived.ledger;
    let cpus = match host.cpus_allowed {
        _ if host.cpus == 0 && view.trace.manifest.mode == "import" => "an unknown number of CPUs".to_owned(),
        allowed if allowed > 0 && allowed < host.cpus => {
            format!("{allowed} of {}", counted(u64::from(host.cpus), "CPU"))
        }
        _ if host.cpus_lower_bound => format!("at least {}", counted(u64::from(host.cpus), "CPU")),
        _ => counted(u64::from(host.cpus), "CPU"),
    };
    let verb = if view.trace.manifest.mode == "run" { "ran" } else { "watched for" };
    format!(
        "{verb} {} on {cpus} with {} ({:.1} thread-seconds).{}",
        duration(view.trace.wall().0),
        counted(ledger.threads.len() as u64, "thread"),
        ledger.total_ns as f64 / 1e9,
        ended(view),
    )
}

/// How the command ended, as a sentence.
fn ended(view: &View) -> String {
    let manifest = &view.trace.manifest;
    match (manifest.exit_signal, manifest.exit_status) {
        (Some(signal), _) => format!(" Ended by {}.", figures::signal(signal)),
        (None, Some(status)) => format!(" Exit status {status}."),
        (None, None) => String::new(),
    }
}

fn cost(view: &View) -> String {
    let manifest = &view.trace.manifest;
    if is_too_short(view.trace) {
        return "The run is too short to measure the cost of recording.".to_owned();
    }
    let cpu_ns = figures::cost_cpu_ns(view.trace);
    let Some(share) = figures::cost_share(view.trace).filter(|_| cpu_ns > 0) else {
        return "The cost of recording is not known.".to_owned();
    };
    let error = figures::of_machine(view.trace, manifest.cost.probes_cpu_error_ns).unwrap_or(0.0);
    let sampled = if manifest.cost.probes_cpu_ns > 0 {
        format!("\u{a0}±\u{a0}{:.2}", error * 100.0)
    } else {
        String::new()
    };
    let over = figures::over_budget(view.trace).map(|(budget, rest_ns)| over_budget(view, budget, rest_ns));
    format!("Recording cost {}{sampled} of the CPUs{}.", percent(share), over.unwrap_or_default())
}

/// Warns that the budget was exceeded, with the cost of switches and wakeups, which are always recorded.
fn over_budget(view: &View, budget: f64, rest_ns: u64) -> String {
    let rest = figures::of_machine(view.trace, rest_ns).unwrap_or(0.0);
    let budget = budget / 100.0;
    let why = match rest > budget {
        true => format!(
            "{} went into switches, wakeups, samples and the recorder, which are always recorded",
            percent(rest)
        ),
        false => "stacks took more than expected".to_owned(),
    };
    format!(", more than the budget of {}: {why}", percent(budget))
}

/// The sentence, and whether nothing is missing.
fn loss(view: &View) -> (String, bool) {
    let loss = figures::loss(view.trace);
    // A recorder that was killed has not reported the number of received events.
    let mut text = match figures::delivered(view.trace) {
        0 => format!("Lost {}.", counted(loss.events, "event")),
        came => {
            format!("Lost {} of {} events.", rounded(loss.events), rounded(came.saturating_add(loss.events)))
        }
    };
    if loss.uncounted > 0 {
        let gaps = counted(loss.uncounted, "gap");
        text.push_str(&format!(" {gaps} of unknown size: see `losses`."));
    }
    let whole = loss.events == 0 && loss.uncounted == 0;
    if let Some((covered, seen)) = figures::covered(view.trace, view.analysis.derived.ledger.threads.len()) {
        text.push_str(&format!(
            " The ledger covers {} of {}. Events of the other threads were lost.",
            count(covered),
            counted(seen, "thread")
        ));
    }
    if !whole {
        text.push_str(" Findings that rest on lost events have lower confidence.");
    }
    (text, whole)
}

fn backend(view: &View) -> Option<String> {
    let manifest = &view.trace.manifest;
    if manifest.mode == "import" {
        // Limits of the other tool's file, reported by the importer.
        return Some(format!("Imported from {}.", clean(manifest.backend_reason.trim_end_matches('.'))));
    }
    let limits = match manifest.backend {
        Backend::Bpf => return None,
        Backend::Perf => {
            "perf events: running times are exact, but short waits have no reason, and there are no wakeups"
        }
        Backend::Proc => "polling /proc: every state is sampled, and there are no wakeups",
    };
    let reason = match manifest.backend_reason.is_empty() {
        true => String::new(),
        false => format!(" Because: {}.", clean(manifest.backend_reason.trim_end_matches('.'))),
    };
    Some(format!("Recorded by {limits}.{reason} `holdup doctor` shows how to record more."))
}
