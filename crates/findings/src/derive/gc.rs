//! Cost of garbage collections: the runtimes' own spans, intersected with the scheduler's slices.
//!
//! A span shows that a thread was in a phase, but not that it worked. The thread may have waited at a barrier
//! (running or blocked), or for a CPU. Spans and slices together separate these cases exactly. Threads that
//! request a stop while another thread already does retry in a loop. That loop has no span, and is sampled.

mod words;

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::{MarkRow, SampleRow, SpanKind, SpanRow, ThreadState};
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace};

use super::class::Class;
use super::phases::{self, Phase};
use super::roles::Roles;
use super::split::share_error;
use words::{Counts, Generation};

/// Spans with less between them are one pause to the program (ns): it gets nothing done there.
const GAP_NS: u64 = 2_000;
/// Maximum number of pauses reported individually.
const SLOWEST_MAX: usize = 16;
/// Percentiles of the pause lengths in the full table.
pub const PERCENTILES: [f64; 12] = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.9];
/// Upper bounds of the histogram's bins (ns). The last bin is unbounded.
pub const BINS_NS: [u64; 6] = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, u64::MAX];

/// Collections of all lanes that reported any.
#[derive(Clone, Debug, Default)]
pub struct Gc {
    /// Lane by lane, in the order of the trace.
    pub lanes: Vec<LaneGc>,
    /// Sums over all lanes.
    pub all: GcTimes,
    /// Sum of the lanes' lives (ns).
    pub life_ns: u64,
    /// Collections of the young generation in all, each counted once however many threads took part.
    pub minor: u64,
    /// Cycles of the old generation that were completed.
    pub major: u64,
    /// Number of stop-the-world pauses that were recorded completely, from the request to the end.
    pub stops: u64,
    /// Total length of these pauses (ns).
    pub stopped_ns: u64,
    /// Pauses of the program's threads.
    pub pauses: Pauses,
    /// The longest of them.
    pub slowest: Vec<Pause>,
    /// Number of runtime events.
    pub events: u64,
    /// Number of events that are matched to a thread.
    pub matched: u64,
}

/// Time in collections, by what the thread did there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcTimes {
    /// Running in the collector's work, or in the runtime's code around it (ns). Exact, except for retry
    /// loops, which are sampled.
    pub work_ns: u64,
    /// Ran at a barrier: waited for others without sleeping (ns, exact).
    pub wait_running_ns: u64,
    /// Slept at a barrier (ns, exact).
    pub wait_blocked_ns: u64,
    /// Runnable without a CPU (ns, exact).
    pub queue_ns: u64,
    /// Asleep elsewhere in a collection, or in an unknown state (ns).
    pub other_ns: u64,
    /// Ran in a loop that only retries, outside of any span or in one of work (ns, sampled).
    pub spin_ns: u64,
    /// Half the width of the 95 % interval of `spin_ns`.
    pub spin_error_ns: u64,
}

impl GcTimes {
    /// Time covered by spans: everything except retry loops (ns).
    pub fn covered_ns(&self) -> u64 {
        self.work_ns + self.wait_running_ns + self.wait_blocked_ns + self.queue_ns + self.other_ns
    }

    /// Total cost of collections (ns).
    pub fn cost_ns(&self) -> u64 {
        self.covered_ns() + self.spin_ns
    }

    /// Running time of it: work, waiting without sleeping, retries (ns).
    pub fn running_ns(&self) -> u64 {
        self.work_ns + self.wait_running_ns + self.spin_ns
    }

    /// Adds what another lane spent.
    pub(crate) fn add(&mut self, other: &GcTimes) {
        self.work_ns += other.work_ns;
        self.wait_running_ns += other.wait_running_ns;
        self.wait_blocked_ns += other.wait_blocked_ns;
        self.queue_ns += other.queue_ns;
        self.other_ns += other.other_ns;
        self.spin_ns += other.spin_ns;
        let squares = (self.spin_error_ns as f64).powi(2) + (other.spin_error_ns as f64).powi(2);
        self.spin_error_ns = squares.sqrt().round() as u64;
    }
}

/// One lane's account.
#[derive(Clone, Debug, Default)]
pub struct LaneGc {
    /// Row of [`Trace::lanes`].
    pub lane: u32,
    /// The runtime, with its version.
    pub runtime: String,
    /// Number of the lane in its runtime.
    pub number: u32,
    /// Process of the lane.
    pub process: ProcessId,
    /// Time from the first to the last event (ns).
    pub life_ns: u64,
    /// Threads of the lane.
    pub threads: Vec<ThreadId>,
    /// Times of the threads that run the program's code.
    pub times: GcTimes,
    /// Times of a thread that answers for the lane while its main thread is blocked in a call. No code of the
    /// program waits.
    pub answered: GcTimes,
    /// Collections of the young generation that it took part in.
    pub minor: u64,
    /// Bytes allocated in the young generation.
    pub allocated_bytes: u64,
    /// Maximum bytes allocated between two collections. A thread that requests a collection has nearly filled
    /// its young generation.
    pub fullest_bytes: u64,
    /// Bytes of these that survived. `None` if the runtime does not report them.
    pub promoted_bytes: Option<u64>,
    /// Maximum reported size of the old generation (bytes). 0 if not reported.
    pub heap_bytes: u64,
    /// Pauses of the lane.
    pub pauses: Pauses,
}

/// Pauses, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Number of pauses.
    pub count: u64,
    /// Total length (ns).
    pub total_ns: u64,
    /// Mean pause (ns).
    pub mean_ns: u64,
    /// Half are no longer (ns).
    pub p50_ns: u64,
    /// 90 of 100 are no longer (ns).
    pub p90_ns: u64,
    /// 99 of 100 are no longer (ns).
    pub p99_ns: u64,
    /// 999 of 1000 are no longer (ns).
    pub p999_ns: u64,
    /// The longest (ns).
    pub max_ns: u64,
    /// Length at each of [`PERCENTILES`] (ns).
    pub at_ns: [u64; PERCENTILES.len()],
    /// Number of pauses in each bin of [`BINS_NS`].
    pub bins: [u64; BINS_NS.len()],
}

impl Pauses {
    fn from_lengths(mut lengths: Vec<u64>) -> Pauses {
        lengths.sort();
        let at = |share: f64| {
            let place = (lengths.len() as f64 * share).ceil() as usize;
            lengths.get(place.saturating_sub(1)).copied().unwrap_or(0)
        };
        let mut bins = [0; BINS_NS.len()];
        for length in &lengths {
            let bin = BINS_NS.partition_point(|bound| bound <= length).min(BINS_NS.len() - 1);
            bins[bin] += 1;
        }
        Pauses {
            count: lengths.len() as u64,
            total_ns: lengths.iter().sum(),
            mean_ns: lengths.iter().sum::<u64>() / (lengths.len() as u64).max(1),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: lengths.last().copied().unwrap_or(0),
            at_ns: PERCENTILES.map(|percent| at(percent / 100.0)),
            bins,
        }
    }
}

/// One pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Which thread stood still.
    pub thread: ThreadId,
    /// Row of [`Trace::lanes`].
    pub lane: u32,
    /// Start.
    pub start: Timestamp,
    /// End.
    pub end: Timestamp,
    /// Name of the phase that took most of it.
    pub mostly: String,
    /// Time of that one (ns).
    pub mostly_ns: u64,
    /// Time of it that the thread ran (ns).
    pub ran_ns: u64,
}

/// Derives the account.
pub fn derive(trace: &Trace, roles: &Roles) -> Gc {
    let mut told: BTreeMap<u32, BTreeMap<ThreadId, Vec<SpanRow>>> = BTreeMap::new();
    for span in trace.spans.rows() {
        if phases::is_collectors(trace.event_name(span.name).kind) {
            told.entry(span.lane).or_default().entry(span.thread).or_default().push(*span);
        }
    }
    let mut gc = Gc::default();
    for span in trace.spans.rows().iter().filter(|span| stops_all(trace, span)) {
        gc.stops += 1;
        gc.stopped_ns += span.end.since(span.start).0;
    }
    let mut pauses = Vec::new();
    for (lane, threads) in told {
        gc.lanes.extend(lane_account((trace, roles), lane, &threads, &mut pauses));
    }
    add_counters(trace, &mut gc.lanes);
    add_marks(trace, &mut gc.lanes);
    for lane in &mut gc.lanes {
        add_spin(trace, roles, lane);
        gc.life_ns += lane.life_ns;
        gc.all.add(&lane.times);
        let row = &trace.lanes[lane.lane as usize];
        gc.events += row.events;
        gc.matched += row.matched;
    }
    (gc.minor, gc.major) = collections(trace);
    gc.pauses = Pauses::from_lengths(pauses.iter().map(|pause| pause.end.since(pause.start).0).collect());
    pauses.sort_by_key(|pause| (std::cmp::Reverse(pause.end.since(pause.start)), pause.start, pause.thread));
    pauses.truncate(SLOWEST_MAX);
    for pause in &mut pauses {
        describe(trace, pause);
    }
    gc.slowest = pauses;
    gc
}

fn lane_account(
    (trace, roles): (&Trace, &Roles),
    lane: u32,
    threads: &BTreeMap<ThreadId, Vec<SpanRow>>,
    pauses: &mut Vec<Pause>,
) -> Option<LaneGc> {
    let row = trace.lanes.get(lane as usize)?;
    let mut account = LaneGc {
        lane,
        runtime: row.runtime.clone(),
        number: row.number,
        process: row.process,
        life_ns: row.end.since(row.start).0,
        threads: threads.keys().copied().collect(),
        ..LaneGc::default()
    };
    let mut lengths = Vec::new();
    for (thread, spans) in threads {
        let flat = phases::flat(trace, spans);
        let mut times = over_slices((trace, roles), *thread, &flat);
        take_retries(roles, super::samples_of(trace, *thread), &flat, &mut times);
        let name = |span: &&SpanRow| trace.event_name(span.name).text.as_str();
        let is_young =
            |span: &&SpanRow| words::generation(&row.runtime, name(span)) == Some(Generation::Young);
        account.minor += spans.iter().filter(is_young).count() as u64;
        if words::has_deputies(&row.runtime) && answers_only(trace, lane, *thread, spans) {
            account.answered.add(&times);
            continue;
        }
        account.times.add(&times);
        let stops: Vec<SpanRow> = spans.iter().filter(|span| is_pause(trace, span)).copied().collect();
        for (start, end) in phases::joined(&stops, GAP_NS) {
            lengths.push(end.since(start).0);
            let pause =
                Pause { thread: *thread, lane, start, end, mostly: String::new(), mostly_ns: 0, ran_ns: 0 };
            pauses.push(pause);
        }
    }
    account.pauses = Pauses::from_lengths(lengths);
    Some(account)
}

fn stops_all(trace: &Trace, span: &SpanRow) -> bool {
    trace.event_name(span.name).kind == SpanKind::StopsAll
}

/// Concurrent work stops no thread.
fn is_pause(trace: &Trace, span: &SpanRow) -> bool {
    trace.event_name(span.name).kind != SpanKind::GcBeside
}

/// Whether a thread of the lane only answers requests of other lanes. It never requests a stop, and is not
/// the thread that the lane began on.
fn answers_only(trace: &Trace, lane: u32, thread: ThreadId, spans: &[SpanRow]) -> bool {
    let name = |row: u32| trace.event_name(row).text.as_str();
    let from = trace.marks.partition_point(|mark| mark.thread < thread);
    let marks = trace.marks[from..].iter().take_while(|mark| mark.thread == thread);
    let began = marks
        .filter(|mark| mark.lane == lane)
        .any(|mark| matches!(name(mark.name), "ring_start" | "domain_spawn" | "fork_child"));
    let mut outer_end = Timestamp(0);
    let mut outer = spans.iter().filter(|span| {
        let is_outer = span.start >= outer_end;
        outer_end = outer_end.max(span.end);
        is_outer
    });
    let asks = |name: &str| words::leads(name) || name == "minor" || name.starts_with("explicit_gc");
    !began && !outer.any(|span| asks(name(span.name)))
}

/// Times of a thread in its phases. Its stacks show where it sleeps until other threads have done work for
/// it.
fn over_slices((trace, roles): (&Trace, &Roles), thread: ThreadId, phases: &[Phase]) -> GcTimes {
    let mut times = GcTimes::default();
    let mut rest = phases;
    for slice in trace.slices.of_thread(thread) {
        while let Some((phase, behind)) = rest.split_first() {
            if phase.start >= slice.end {
                break;
            }
            let ns = phase.end.min(slice.end).since(phase.start.max(slice.start)).0;
            let for_others = || roles.class_of_wait(trace, &slice) == Class::GcWait;
            let place = match (slice.state, phase.kind) {
                (ThreadState::Running, SpanKind::GcWait | SpanKind::Stopped) => &mut times.wait_running_ns,
                (ThreadState::Running, _) => &mut times.work_ns,
                (ThreadState::Blocked, SpanKind::GcWait | SpanKind::Stopped) => &mut times.wait_blocked_ns,
                (ThreadState::Blocked, _) if for_others() => &mut times.wait_blocked_ns,
                (state, _) if state.waits_for_cpu() => &mut times.queue_ns,
                _ => &mut times.other_ns,
            };
            *place += ns;
            if phase.end > slice.end {
                break;
            }
            rest = behind;
        }
    }
    times
}

/// Sums of what lanes counted.
fn add_counters(trace: &Trace, lanes: &mut [LaneGc]) {
    let places: BTreeMap<u32, usize> =
        lanes.iter().enumerate().map(|(place, lane)| (lane.lane, place)).collect();
    for row in &trace.counters {
        let Some(lane) = places.get(&row.lane).and_then(|place| lanes.get_mut(*place)) else { continue };
        match words::counts(&trace.event_name(row.name).text) {
            Some(Counts::Allocated) => {
                lane.allocated_bytes = lane.allocated_bytes.saturating_add(row.value);
                lane.fullest_bytes = lane.fullest_bytes.max(row.value);
            }
            Some(Counts::Promoted) => {
                lane.promoted_bytes = Some(lane.promoted_bytes.unwrap_or(0).saturating_add(row.value));
            }
            Some(Counts::Heap(unit)) => lane.heap_bytes = lane.heap_bytes.max(row.value.saturating_mul(unit)),
            None => {}
        }
    }
}

/// Collections that lanes have marks of.
fn add_marks(trace: &Trace, lanes: &mut [LaneGc]) {
    for mark in trace.marks.iter().filter(|mark| marks(trace, mark) == Some(Generation::Young)) {
        if let Some(lane) = lanes.iter_mut().find(|lane| lane.lane == mark.lane) {
            lane.minor += 1;
        }
    }
}

/// Moves retry loops out of a thread's work, by the samples in its work phases.
fn take_retries(roles: &Roles, samples: &[SampleRow], phases: &[Phase], times: &mut GcTimes) {
    let (mut spun, mut all) = (0, 0);
    for sample in samples {
        let works = phase_at(phases, sample.at)
            .is_some_and(|phase| !matches!(phase.kind, SpanKind::GcWait | SpanKind::Stopped));
        all += u64::from(works);
        spun += u64::from(works && roles.class_of_sample(sample) == Class::Spin);
    }
    if spun > 0 {
        let spin_ns = (times.work_ns as f64 * (spun as f64 / all as f64)).round() as u64;
        times.spin_error_ns = (times.work_ns as f64 * share_error(spun, all)).round() as u64;
        times.spin_ns = spin_ns;
        times.work_ns -= spin_ns;
    }
}

/// Running time outside of the spans, by the samples that are in a loop that only waits.
fn add_spin(trace: &Trace, roles: &Roles, lane: &mut LaneGc) {
    for thread in &lane.threads {
        let phases = phases::flat(trace, &phases::collectors(trace, *thread));
        let told = over_slices((trace, roles), *thread, &phases);
        let running = trace.slices.of_thread(*thread).filter(|slice| slice.state == ThreadState::Running);
        let ran: u64 = running.map(|slice| slice.duration().0).sum();
        let outside = ran.saturating_sub(told.work_ns + told.wait_running_ns);
        let (mut spun, mut all) = (0, 0);
        for sample in super::samples_of(trace, *thread) {
            if covers(&phases, sample.at) {
                continue;
            }
            all += 1;
            spun += u64::from(roles.class_of_sample(sample) == Class::Spin);
        }
        if spun > 0 {
            let share = spun as f64 / all as f64;
            lane.times.add(&GcTimes {
                spin_ns: (outside as f64 * share).round() as u64,
                spin_error_ns: (outside as f64 * share_error(spun, all)).round() as u64,
                ..GcTimes::default()
            });
        }
    }
}

/// Whether a runtime with retry loops reported its collections.
pub fn has_retries(trace: &Trace) -> bool {
    trace.lanes.iter().any(|lane| words::retries(&lane.runtime))
}

/// Whether a phase holds at that moment.
pub fn covers(phases: &[Phase], at: Timestamp) -> bool {
    phase_at(phases, at).is_some()
}

fn phase_at(phases: &[Phase], at: Timestamp) -> Option<&Phase> {
    let behind = phases.partition_point(|phase| phase.start <= at);
    behind.checked_sub(1).and_then(|place| phases.get(place)).filter(|phase| at < phase.end)
}

/// Number of collections of the young and the old generation, each counted once. If several threads take
/// part, the leader's span counts.
fn collections(trace: &Trace) -> (u64, u64) {
    let (mut young, mut old) = (0, 0);
    let mut leads_until: Option<(ThreadId, Timestamp)> = None;
    // The meaning of a name depends on the runtime. There are few pairs.
    let mut meanings: HashMap<(u32, u32), Option<Generation>> = HashMap::new();
    for span in trace.spans.rows() {
        let Some(lane) = trace.lanes.get(span.lane as usize) else { continue };
        let name = trace.event_name(span.name).text.as_str();
        if words::leads(name) {
            leads_until = Some((span.thread, span.end));
            continue;
        }
        let meaning =
            meanings.entry((span.lane, span.name)).or_insert_with(|| words::generation(&lane.runtime, name));
        let counts = !words::is_led(&lane.runtime) || is_led(leads_until, span);
        match meaning.filter(|_| counts) {
            Some(Generation::Young) => young += 1,
            Some(Generation::Old) => old += 1,
            None => {}
        }
    }
    let marked = |wanted| trace.marks.iter().filter(|mark| marks(trace, mark) == Some(wanted)).count() as u64;
    (young + marked(Generation::Young), old + marked(Generation::Old))
}

fn marks(trace: &Trace, mark: &MarkRow) -> Option<Generation> {
    let runtime = &trace.lanes.get(mark.lane as usize)?.runtime;
    words::marked_generation(runtime, &trace.event_name(mark.name).text)
}

fn is_led(leads_until: Option<(ThreadId, Timestamp)>, span: &SpanRow) -> bool {
    leads_until.is_some_and(|(thread, end)| thread == span.thread && span.start < end)
}

/// Which phase took most of a pause, and how much of it the thread ran.
fn describe(trace: &Trace, pause: &mut Pause) {
    let spans: Vec<SpanRow> = phases::collectors(trace, pause.thread)
        .into_iter()
        .filter(|span| span.start >= pause.start && span.end <= pause.end)
        .collect();
    let mut by_name: BTreeMap<u32, u64> = BTreeMap::new();
    for phase in phases::flat(trace, &spans) {
        *by_name.entry(phase.name).or_default() += phase.end.since(phase.start).0;
    }
    if let Some((name, ns)) = by_name.into_iter().max_by_key(|(name, ns)| (*ns, std::cmp::Reverse(*name))) {
        pause.mostly = trace.event_name(name).text.clone();
        pause.mostly_ns = ns;
    }
    let within = trace.slices.of_thread(pause.thread).filter(|slice| slice.state == ThreadState::Running);
    pause.ran_ns = within.map(|slice| slice.end.min(pause.end).since(slice.start.max(pause.start)).0).sum();
}
