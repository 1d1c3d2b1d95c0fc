//! Times the viewer's answers on many invented slices, at every zoom:
//! `cargo run --release -p holdup-report --example viewer_speed [ROWS]`. `./dev bench viewer` runs it.

use std::time::{Duration, Instant};

use holdup_events::tables::{Process, SliceRow, Slices, Thread, ThreadState, Wakeups};
use holdup_events::{CpuId, ThreadId, Timestamp, Trace, Wait, WaitId, WaitReason};
use holdup_report::viewer::Viewer;

const THREADS: u32 = 64;
const CPUS: u32 = 8;

/// Threads that take turns on CPUs: runs, waits for a lock, waits for a CPU, runs …
fn trace(rows: usize) -> Trace {
    let each = rows / THREADS as usize;
    let batches: Vec<Vec<SliceRow>> = (0..THREADS).map(|thread| thread_rows(thread, each)).collect();
    let end = Timestamp(each as u64 * 1000 + 1_000_000);
    let mut trace = Trace::default();
    trace.manifest.end_ns = end.0;
    trace.manifest.host.cpus_allowed = CPUS;
    trace.threads = (0..THREADS).map(|_| Thread { target: true, end, ..Thread::default() }).collect();
    trace.processes = vec![Process { target: true, ..Process::default() }];
    trace.slices = Slices::freeze(&batches, vec![end; THREADS as usize]);
    trace.wakeups = Wakeups::freeze(Vec::new(), THREADS as usize);
    trace.waits = vec![Wait::default(), Wait { reason: WaitReason::Lock, object: 1, ..Wait::default() }];
    trace
}

fn thread_rows(thread: u32, count: usize) -> Vec<SliceRow> {
    let states = [ThreadState::Running, ThreadState::Blocked, ThreadState::Runnable];
    let row = |index: usize| SliceRow {
        thread: ThreadId(thread),
        start: Timestamp(index as u64 * 1000 + u64::from(thread * 1000 / THREADS)),
        state: states[index % 3],
        cpu: CpuId((thread % CPUS) as u16),
        wait: WaitId(u32::from(index % 3 == 1)),
        ..SliceRow::default()
    };
    (0..count).map(row).collect()
}

/// The longest and the median of the answers to the same kind of question.
#[derive(Default)]
struct Times {
    all: Vec<Duration>,
    bytes_max: usize,
}

impl Times {
    fn ask(&mut self, viewer: &Viewer, path: &str, query: &str) {
        let clock = Instant::now();
        let answer = viewer.answer(path, query).unwrap_or_else(|refusal| panic!("{path}?{query}: {refusal}"));
        self.all.push(clock.elapsed());
        self.bytes_max = self.bytes_max.max(answer.len());
    }

    fn print(mut self, what: &str) {
        self.all.sort();
        let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        let median = ms(self.all.get(self.all.len() / 2));
        println!(
            "{what:<10} {:>5} asked  median {median:>8.2} ms  longest {:>8.2} ms  {:>9} bytes at most",
            self.all.len(),
            ms(self.all.last()),
            self.bytes_max
        );
    }
}

fn main() {
    let rows = std::env::args().nth(1).and_then(|rows| rows.parse().ok()).unwrap_or(10_000_000);
    let trace = trace(rows);
    let (wall, clock) = (trace.wall().0, Instant::now());
    let analysis = holdup_findings::analyse(&trace);
    println!("analysed   {:>8.2} s", clock.elapsed().as_secs_f64());
    let clock = Instant::now();
    let viewer = Viewer::new(trace, analysis);
    println!("ready      {:>8.2} s", clock.elapsed().as_secs_f64());
    let shown: Vec<String> = (0..40).map(|thread| thread.to_string()).collect();
    let shown = shown.join(",");
    // What a page asks first: all threads of a screen, the CPUs, the curves.
    let mut first = Times::default();
    first.ask(&viewer, "summary", "");
    first.ask(&viewer, "lanes", &format!("level=0&tile=0&threads={shown}"));
    first.ask(&viewer, "cpus", "level=0&tile=0");
    first.ask(&viewer, "counters", "level=0&tile=0");
    first.print("first");
    let base = wall.next_power_of_two();
    let (mut lanes, mut cpus, mut counters) = (Times::default(), Times::default(), Times::default());
    for level in 0..=base.ilog2().saturating_sub(9) {
        for part in 0..5 {
            // Five places in the recording, from its start to its end.
            let tile = (u128::from(wall - 1) * part / 4 / u128::from(base >> level)) as u64;
            lanes.ask(&viewer, "lanes", &format!("level={level}&tile={tile}&threads={shown}"));
            cpus.ask(&viewer, "cpus", &format!("level={level}&tile={tile}"));
            counters.ask(&viewer, "counters", &format!("level={level}&tile={tile}"));
        }
    }
    lanes.print("lanes");
    cpus.print("cpus");
    counters.print("counters");
    let (mut ledger, mut slice) = (Times::default(), Times::default());
    for part in 1..20u64 {
        ledger.ask(&viewer, "ledger", &format!("from={}&to={}", wall / 40 * part, wall / 20 * part));
        slice.ask(&viewer, "slice", &format!("thread={}&at={}", part * 3, wall / 21 * part));
    }
    ledger.print("ledger");
    slice.print("slice");
}
