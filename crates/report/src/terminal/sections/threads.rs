//! THREADS: each thread's life and the shares of it.

use holdup_events::ThreadId;
use holdup_events::recording::Backend;
use holdup_findings::derive::class::Class;
use holdup_findings::derive::ledger::{ByClass, ThreadLedger};
use holdup_findings::derive::name_groups::{self, NameGroup};
use holdup_findings::derive::thread_steps::{self, ThreadStep};

use crate::numbers::{count, duration, percent, share};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::clean;

pub(super) const SUMMARY: &str = "Each thread's life by class of time";

/// Maximum number of shown threads. The rest is summed up. With more threads, groups by name come first.
const ROWS_MAX: usize = 40;
/// Groups that are shown, and the threads after them.
const GROUPS_MAX: usize = 15;
const ROWS_AFTER_GROUPS: usize = 20;

pub(super) fn lines(view: &View) -> Vec<String> {
    let mut lines = view.heading("THREADS");
    let threads = &view.analysis.derived.ledger.threads;
    if threads.is_empty() {
        lines.push(super::nothing(view, "The recording holds no thread of the program."));
        return lines;
    }
    let columns = [
        Column::Text("thread"),
        Column::Figure("life"),
        Column::Figure("running"),
        Column::Figure("run-queue"),
        Column::Figure("most of the rest"),
    ];
    let groups = groups(view);
    let shown = match (threads.len() > ROWS_MAX, groups.is_empty()) {
        (true, false) => ROWS_AFTER_GROUPS,
        (true, true) => ROWS_MAX,
        (false, _) => threads.len(),
    };
    lines.extend(groups);
    let rows: Vec<Vec<String>> = threads.iter().take(shown).map(|thread| row(view, thread)).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    let rest = &threads[shown..];
    if !rest.is_empty() {
        let life: u64 = rest.iter().map(|thread| thread.life.0).sum();
        let text = format!("and {} more, {} in total", rest.len(), duration(life));
        lines.push(super::nothing(view, &text));
    }
    if view.stacks.over_time {
        lines.extend(over_time(view));
    }
    lines
}

/// Threads grouped by name, if there are too many for a list. Empty if all names differ.
fn groups(view: &View) -> Vec<String> {
    let ledger = &view.analysis.derived.ledger;
    if ledger.threads.len() <= ROWS_MAX {
        return Vec::new();
    }
    let groups = name_groups::derive(view.trace, ledger);
    if groups.len() > ledger.threads.len() / 2 {
        return Vec::new();
    }
    let columns = [
        Column::Text("name"),
        Column::Figure("threads"),
        Column::Figure("life"),
        Column::Figure("running"),
        Column::Figure("busiest"),
        Column::Figure("run-queue"),
        Column::Figure("most of the rest"),
    ];
    let rows: Vec<Vec<String>> = groups.iter().take(GROUPS_MAX).map(|group| group_row(view, group)).collect();
    let mut lines = table::lines(&columns, &rows, view.style);
    let rest = &groups[rows.len()..];
    if !rest.is_empty() {
        let threads: u64 = rest.iter().map(|group| group.threads).sum();
        let text = format!("and {} threads with {} other names", count(threads), count(rest.len() as u64));
        lines.push(super::nothing(view, &text));
    }
    lines.push(super::nothing(
        view,
        "*: a number · shares of the summed life · busiest: CPU time of one thread",
    ));
    lines.push(String::new());
    lines
}

fn group_row(view: &View, group: &NameGroup) -> Vec<String> {
    let of_life = |ns: u64| percent(share(ns, group.life_ns));
    vec![
        clean(&group.stem),
        count(group.threads),
        duration(group.life_ns),
        of_life(group.running_ns()),
        duration(group.most_running_ns),
        match knows_queue(view) {
            true => of_life(group.classes[Class::RunQueue as usize]),
            false => "not known".to_owned(),
        },
        rest_of(&group.classes, group.life_ns),
    ]
}

/// Steps, and threads of each that are shown: those that ran or waited for a CPU most.
const STEPS: usize = 10;
const THREADS_OF_STEP: usize = 6;

fn over_time(view: &View) -> Vec<String> {
    let all = thread_steps::derive(view.trace, STEPS);
    let columns = [
        Column::Figure("from"),
        Column::Text("thread"),
        Column::Figure("user"),
        Column::Figure("kernel"),
        Column::Figure("running"),
        Column::Figure("run-queue"),
        Column::Figure("blocked"),
    ];
    let mut rows = Vec::new();
    for number in 0..STEPS {
        let from = duration(all.step.0 * number as u64);
        let mut active: Vec<(ThreadId, ThreadStep)> =
            all.threads.iter().filter_map(|(id, steps)| Some((*id, *steps.get(number)?))).collect();
        active.retain(|(_, step)| step.running_ns + step.queue_ns > 0);
        active.sort_by_key(|(id, step)| (std::cmp::Reverse(step.running_ns + step.queue_ns), *id));
        active.truncate(THREADS_OF_STEP);
        rows.extend(active.iter().map(|(id, step)| step_row(view, (&from, *id), step, all.step.0)));
    }
    let mut lines = vec![String::new()];
    lines.extend(table::lines(&columns, &rows, view.style));
    let text = format!(
        "over time, in steps of {}: shares of a step, user and kernel by samples",
        duration(all.step.0)
    );
    lines.push(super::nothing(view, &text));
    lines
}

fn step_row(view: &View, (from, id): (&str, ThreadId), step: &ThreadStep, whole_ns: u64) -> Vec<String> {
    let of = |ns: u64| percent(share(ns, whole_ns));
    let sampled = |samples: u64| match step.samples {
        0 => "-".to_owned(),
        all => of((step.running_ns as f64 * samples as f64 / all as f64) as u64),
    };
    vec![
        from.to_owned(),
        view.thread(id),
        sampled(step.samples - step.in_kernel),
        sampled(step.in_kernel),
        of(step.running_ns),
        if knows_queue(view) { of(step.queue_ns) } else { "not known".to_owned() },
        of(step.blocked_ns),
    ]
}

/// A file with only samples does not show which threads wait for a CPU.
fn knows_queue(view: &View) -> bool {
    let manifest = &view.trace.manifest;
    manifest.mode != "import" || manifest.backend != Backend::Proc
}

fn row(view: &View, thread: &ThreadLedger) -> Vec<String> {
    let of_life = |ns: u64| percent(share(ns, thread.life.0));
    vec![
        view.thread(thread.thread),
        duration(thread.life.0),
        // Where all of a life is unknown, it may have run all the time.
        match thread.life.0 > 0 && thread.classes[Class::Unknown as usize] == thread.life.0 {
            true => "not known".to_owned(),
            false => of_life(thread.running_ns()),
        },
        match knows_queue(view) {
            true => of_life(thread.classes[Class::RunQueue as usize]),
            false => "not known".to_owned(),
        },
        rest_of(&thread.classes, thread.life.0),
    ]
}

/// The largest class that is neither running nor waiting for a CPU.
fn rest_of(classes: &ByClass, life_ns: u64) -> String {
    let named = |class: &Class| !matches!(class, Class::Useful | Class::Kernel | Class::RunQueue);
    let rest = Class::ALL.into_iter().filter(named).rev().max_by_key(|class| classes[*class as usize]);
    match rest.map(|class| (class, classes[class as usize])) {
        Some((class, ns)) if ns > 0 => format!("{} {:>7}", class.name(), percent(share(ns, life_ns))),
        _ => "-".to_owned(),
    }
}
