//! `api/path`: the critical path through a range.

use holdup_findings::derive::critical_path::within;
use serde::Serialize;

use super::{Ask, Refusal, Viewer, to_text};

/// Steps of an answer, about: shorter ones are merged.
const STEPS_MAX: u64 = 2000;

/// The path by column, and its composition.
#[derive(Default, Serialize)]
struct Path {
    start: Vec<u64>,
    end: Vec<u64>,
    thread: Vec<i64>,
    class: Vec<i16>,
    classes: Vec<u64>,
    threads: Vec<PathThread>,
}

/// How much of the path is a thread's.
#[derive(Serialize)]
struct PathThread {
    id: u32,
    ns: u64,
}

/// Threads of an answer.
const THREADS_MAX: usize = 50;

pub(super) fn answer(viewer: &Viewer, ask: &Ask) -> Result<String, Refusal> {
    let (from, to) = viewer.range(ask)?;
    let (trace, derived) = (&viewer.trace, &viewer.analysis().derived);
    let path = within((trace, &derived.roles), &derived.holders, from, to);
    let mut out = Path { classes: path.classes.to_vec(), ..Path::default() };
    let shortest = to.since(from).0 / STEPS_MAX;
    let mut begun = None;
    for step in &path.steps {
        let is_long = step.to.since(step.from).0 >= shortest;
        let start = begun.unwrap_or(step.from);
        if !is_long && step.to.since(start).0 < shortest {
            begun = Some(start);
            continue;
        }
        if let Some(start) = begun.take() {
            // Several steps too short to be shown separately, up to or including this one.
            let end = if is_long { step.from } else { step.to };
            out.push(viewer.since(start), viewer.since(end), (-1, -1));
        }
        if is_long {
            let who = (i64::from(step.thread.0), step.class as i16);
            out.push(viewer.since(step.from), viewer.since(step.to), who);
        }
    }
    if let (Some(start), Some(last)) = (begun, path.steps.last()) {
        out.push(viewer.since(start), viewer.since(last.to), (-1, -1));
    }
    let threads = path.threads.iter().take(THREADS_MAX);
    out.threads = threads.map(|(id, classes)| PathThread { id: id.0, ns: classes.iter().sum() }).collect();
    Ok(to_text(&out))
}

impl Path {
    fn push(&mut self, start: u64, end: u64, (thread, class): (i64, i16)) {
        if end > start {
            self.start.push(start);
            self.end.push(end);
            self.thread.push(thread);
            self.class.push(class);
        }
    }
}
