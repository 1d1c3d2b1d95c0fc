//! Memory that several threads touch, by cache line, and whether they touch the same bytes (true and false
//! sharing).
//!
//! A CPU owns memory in lines of 64 bytes. A write takes the line from the other CPUs, which then wait when
//! they next touch any byte of it.
//!
//! The input is samples. The instruction before a sample shows its memory access
//! ([`holdup_events::tables::DataAccess`]), and threads that wait for a line are sampled at its accesses.
//! Threads that use a line one after the other do not disturb each other. Only turns between CPUs count.

mod alone;
mod line;
mod pace;
mod watched;

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::{AccessKind, SampleRow, Variable};
use holdup_events::{ObjectKind, ProcessId, ThreadId, Timestamp, Trace};

use super::class::Class;
use super::ledger::Ledger;
use super::occupancy::Stall;
use super::on_cpu::SampleClasses;
use super::own_places::{self, OwnFrames};
use super::roles::Roles;
use super::split::share_error;
use super::timelines::Timelines;
use line::Line;
pub use watched::Watched;

/// Bytes of a line: those of all x86-64 CPUs.
pub const LINE_BYTES: u64 = 64;

/// Kind of sharing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// True sharing: the same bytes.
    #[default]
    True,
    /// False sharing: different bytes in the same line.
    False,
}

/// Memory that threads took from each other: the lines of one variable, or neighbouring lines without a name.
#[derive(Clone, Debug, Default)]
pub struct SharedData {
    /// Name of the variable. Empty if the memory has no name.
    pub name: String,
    /// Binary that defines the variable. Empty for heaps and stacks.
    pub module: String,
    /// Process that owns the memory.
    pub process: ProcessId,
    /// Start address of each line, ascending.
    pub lines: Vec<u64>,
    /// Whether the threads touched the same bytes: as watchpoints saw it of most of it, else as samples did.
    pub sharing: Sharing,
    /// Result of the watchpoints.
    pub watched: Option<Watched>,
    /// Samples at accesses to it.
    pub samples: u64,
    /// Samples at atomic accesses.
    pub atomic: u64,
    /// Number of times that the next sample at a line was from another thread on another CPU.
    pub turns: u64,
    /// Running time at these accesses (ns, sampled).
    pub ns: u64,
    /// Half the width of its 95 % interval (ns).
    pub error_ns: u64,
    /// Accesses by thread, most time first.
    pub threads: Vec<LineThread>,
    /// Functions with the accesses, by samples, most samples first, at most [`FUNCTIONS_MAX`].
    pub functions: Vec<(String, u64)>,
    /// Whether threads slept on a futex word in it: the memory holds a lock or another synchronization
    /// object.
    pub is_waited_on: bool,
    /// Cost of the accesses if all of their time were wasted.
    pub stall: Stall,
    /// Share of that cost that would be saved if no other thread touched the memory: lower and upper bound (0
    /// to 1). Values above 1 include code that waits for the accesses. Unknown (0 to 1) except for the most
    /// expensive memory.
    pub saved: (f64, f64),
    /// Some turns: thread, time, address.
    pub turned: Vec<(ThreadId, Timestamp, u64)>,
}

/// Accesses of one thread to the memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineThread {
    /// The thread.
    pub thread: ThreadId,
    /// Running time at its accesses (ns, sampled).
    pub ns: u64,
    /// Samples at accesses that only read.
    pub reads: u64,
    /// Samples at all others.
    pub writes: u64,
    /// Lowest address, and the address after the highest.
    pub bytes: (u64, u64),
    /// The part of the variable that most of its samples touched, where its type is known.
    pub part: String,
}

/// Functions that are named.
pub const FUNCTIONS_MAX: usize = 5;
/// Minimum share of accesses to bytes that several threads touch and one writes, for true sharing. Separating
/// the threads' own bytes would then not stop the contention.
const COMMON_MIN: f64 = 0.2;
/// Minimum share of a place's accesses by other threads than its main user, for a common place. A thread that
/// rarely reads it does not cause the line's cost.
const OTHERS_MIN: f64 = 0.05;
/// With at least this many samples, and at most this share of them on shared bytes, the cost is not due to
/// these bytes.
const SAMPLES_SURE: u64 = 40;
const HARDLY: f64 = 0.05;
/// Rows in [`SharedData::turned`].
const TURNED_MAX: usize = 10;
/// Fewer turns on a line may be chance.
pub const TURNS_MIN: u64 = 3;
/// Where fewer of a line's samples are turns, its threads used it one after the other.
const TURNS_SHARE: u64 = 20;

/// Number of most expensive entries for which the unshared cost is computed. Each of them needs all samples
/// of its threads.
const ALONE_MAX: usize = 32;

/// One access that was sampled.
struct Touch {
    sample: SampleRow,
    /// Running time that the sample represents (ns).
    ns: f64,
}

/// Derives the memory that threads took from each other, the costliest first.
pub fn derive(trace: &Trace, ledger: &Ledger, (roles, timelines): (&Roles, &Timelines)) -> Vec<SharedData> {
    let (words, own) = (words(trace), OwnFrames::new(trace));
    let mut groups = groups(trace, ledger, roles.sample_classes());
    groups.sort_by(|a, b| b.ns().total_cmp(&a.ns()).then_with(|| a.first().cmp(&b.first())));
    let describe = |(rank, group): (usize, Group)| {
        let saved = match rank {
            0..ALONE_MAX => alone::saved(trace, &group.touches().collect::<Vec<_>>()),
            _ => (0.0, 1.0),
        };
        SharedData { saved, ..describe(trace, ledger, group, (&words, &own, timelines)) }
    };
    groups.into_iter().enumerate().map(describe).collect()
}

/// Lines that belong together.
struct Group<'a> {
    process: ProcessId,
    variable: Option<&'a Variable>,
    lines: BTreeMap<u64, Line>,
}

impl Group<'_> {
    fn touches(&self) -> impl Iterator<Item = &Touch> {
        self.lines.values().flat_map(|line| &line.touches)
    }

    fn ns(&self) -> f64 {
        self.touches().map(|touch| touch.ns).sum()
    }

    fn first(&self) -> (ProcessId, Option<u64>) {
        (self.process, self.lines.first_key_value().map(|(address, _)| *address))
    }
}

/// Contended lines by variable. Lines without a name are grouped with their neighbours.
fn groups<'a>(trace: &'a Trace, ledger: &Ledger, classes: &SampleClasses) -> Vec<Group<'a>> {
    let mut groups: Vec<Group> = Vec::new();
    let mut by_name: HashMap<(ProcessId, &str, &str), usize> = HashMap::new();
    for ((process, address), line) in contended(trace, ledger, classes) {
        let variable =
            line.touches.iter().find_map(|touch| variable(trace, process, touch.sample.data.address));
        let known = match variable {
            Some(variable) => {
                by_name.get(&(process, variable.module.as_str(), variable.name.as_str())).copied()
            }
            None => groups.len().checked_sub(1).filter(|last| {
                let last = &groups[*last];
                let neighbour = last.lines.last_key_value().is_some_and(|(at, _)| at + LINE_BYTES == address);
                last.process == process && last.variable.is_none() && neighbour
            }),
        };
        let index = known.unwrap_or(groups.len());
        if index == groups.len() {
            groups.push(Group { process, variable, lines: BTreeMap::new() });
        }
        if let Some(variable) = variable {
            by_name.insert((process, variable.module.as_str(), variable.name.as_str()), index);
        }
        groups[index].lines.insert(address, line);
    }
    groups
}

/// Contended lines: the next sample is often from another CPU, and a thread writes (by samples or by a
/// watchpoint).
fn contended(trace: &Trace, ledger: &Ledger, classes: &SampleClasses) -> BTreeMap<(ProcessId, u64), Line> {
    let mut lines: BTreeMap<(ProcessId, u64), Line> = BTreeMap::new();
    for thread in &ledger.threads {
        let samples = super::samples_of(trace, thread.thread);
        let each = thread.running_ns() as f64 / samples.len().max(1) as f64;
        let process = trace.threads[thread.thread.index()].process;
        // A thread that spins for a lock reads the lock's word. This time is reported as spinning.
        let told = samples.iter().filter(|sample| sample.data.kind != AccessKind::None);
        for sample in told.filter(|sample| classes.class_of(sample) != Class::Spin) {
            let address = sample.data.address - sample.data.address % LINE_BYTES;
            lines.entry((process, address)).or_default().touches.push(Touch { sample: *sample, ns: each });
        }
    }
    add_watched_writes(trace, &mut lines);
    lines.retain(|_, line| {
        line.order();
        let turns = line.turns().count() as u64;
        line.is_written() && turns >= TURNS_MIN && turns * TURNS_SHARE >= line.touches.len() as u64
    });
    lines
}

/// Adds writes seen by watchpoints. If a load waits for the line, the store after it is rarely sampled. Lines
/// without a sampled store were watched for writes only (`holdup_decode::accesses::suspects`).
fn add_watched_writes(trace: &Trace, lines: &mut BTreeMap<(ProcessId, u64), Line>) {
    for row in trace.watchpoints.iter().filter(|row| row.hits > 0) {
        let process = trace.threads[row.thread.index()].process;
        let line = lines.get_mut(&(process, row.address - row.address % LINE_BYTES));
        if let Some(line) = line.filter(|line| !line.is_sampled_written()) {
            line.seen_written.push((row.address, u8::try_from(row.bytes).unwrap_or(u8::MAX)));
        }
    }
}

fn variable(trace: &Trace, process: ProcessId, address: u64) -> Option<&Variable> {
    let key = (process, address);
    let row = trace.variables.binary_search_by_key(&key, |row| (row.process, row.address)).ok()?;
    trace.variables.get(row).filter(|row| !row.name.is_empty())
}

/// Words that threads slept on, by process.
fn words(trace: &Trace) -> BTreeMap<ProcessId, Vec<u64>> {
    let mut words: BTreeMap<ProcessId, Vec<u64>> = BTreeMap::new();
    for wait in trace.waits.iter().filter(|wait| wait.object_kind == ObjectKind::Futex) {
        words.entry(wait.process).or_default().push(wait.object);
    }
    words.values_mut().for_each(|words| words.sort_unstable());
    words
}

fn describe(
    trace: &Trace,
    ledger: &Ledger,
    group: Group,
    (words, own, timelines): (&BTreeMap<ProcessId, Vec<u64>>, &OwnFrames, &Timelines),
) -> SharedData {
    let words = words.get(&group.process).map(Vec::as_slice).unwrap_or_default();
    let holds_word = |line: &u64| {
        let from = words.partition_point(|word| word < line);
        words.get(from).is_some_and(|word| word - line < LINE_BYTES)
    };
    let touches = || group.touches();
    let samples = touches().count() as u64;
    let common: u64 = group.lines.values().map(Line::common).sum();
    let turned = group.lines.values().flat_map(Line::turns);
    let mut threads: BTreeMap<ThreadId, LineThread> = BTreeMap::new();
    let mut stall = Stall::default();
    for touch in touches() {
        let one = threads.entry(touch.sample.thread).or_insert_with(|| LineThread::begin(&touch.sample));
        one.add(touch);
        stall.add_sample(&touch.sample, touch.ns, timelines);
    }
    for (thread, address) in touched_most(touches()) {
        if let (Some(one), Some(found)) = (threads.get_mut(&thread), variable(trace, group.process, address))
        {
            one.part.clone_from(&found.part);
        }
    }
    let mut threads: Vec<LineThread> = threads.into_values().collect();
    threads.sort_by_key(|one| (std::cmp::Reverse(one.ns), one.thread));
    let sampled = if common as f64 >= COMMON_MIN * samples as f64 { Sharing::True } else { Sharing::False };
    let each_line: Vec<(u64, u64)> =
        group.lines.iter().map(|(address, line)| (*address, line.touches.len() as u64)).collect();
    let mut watched = watched::derive(trace, group.process, &each_line);
    if let Some(watched) = &mut watched
        && hardly_common(common, samples)
    {
        watched.doubt_common();
    }
    let confirmed = watched.as_ref().filter(|watched| watched.samples * 2 >= samples);
    let error = share_error(samples, ledger.samples) * ledger.running_ns() as f64;
    SharedData {
        name: group.variable.map_or(String::new(), |variable| variable.name.clone()),
        module: group.variable.map_or(String::new(), |variable| variable.module.clone()),
        process: group.process,
        lines: group.lines.keys().copied().collect(),
        sharing: confirmed.and_then(|watched| watched.sharing).unwrap_or(sampled),
        watched,
        samples,
        atomic: touches().filter(|touch| touch.sample.data.kind == AccessKind::Atomic).count() as u64,
        turns: turned.clone().count() as u64,
        ns: group.ns().round() as u64,
        error_ns: error.round() as u64,
        threads,
        functions: functions(trace, own, touches()),
        is_waited_on: group.lines.keys().any(holds_word),
        stall,
        saved: (0.0, 1.0),
        turned: turned
            .take(TURNED_MAX)
            .map(|touch| (touch.sample.thread, touch.sample.at, touch.sample.data.address))
            .collect(),
    }
}

/// Whether the samples show little time at bytes that several threads touch.
fn hardly_common(common: u64, samples: u64) -> bool {
    samples >= SAMPLES_SURE && (common as f64) < HARDLY * samples as f64
}

/// The address that each thread touches most.
fn touched_most<'a>(touches: impl Iterator<Item = &'a Touch>) -> BTreeMap<ThreadId, u64> {
    let mut counts: BTreeMap<(ThreadId, u64), u64> = BTreeMap::new();
    for touch in touches {
        *counts.entry((touch.sample.thread, touch.sample.data.address)).or_default() += 1;
    }
    let mut most: BTreeMap<ThreadId, (u64, u64)> = BTreeMap::new();
    for ((thread, address), count) in counts {
        let best = most.entry(thread).or_default();
        if count > best.0 {
            *best = (count, address);
        }
    }
    most.into_iter().map(|(thread, (_, address))| (thread, address)).collect()
}

/// The program's own functions that make the accesses or call code that makes them. The leaf if a stack has
/// none.
fn functions<'a>(
    trace: &Trace,
    own: &OwnFrames,
    touches: impl Iterator<Item = &'a Touch>,
) -> Vec<(String, u64)> {
    let stacks: Vec<_> = touches.map(|touch| (touch.sample.thread, touch.sample.stack, 1)).collect();
    let mut named = own_places::functions(trace, own, &stacks);
    named.truncate(FUNCTIONS_MAX);
    named
}

impl LineThread {
    fn begin(sample: &SampleRow) -> LineThread {
        LineThread { thread: sample.thread, bytes: (u64::MAX, 0), ..LineThread::default() }
    }

    fn add(&mut self, touch: &Touch) {
        let data = &touch.sample.data;
        self.ns += touch.ns.round() as u64;
        if data.kind.writes() {
            self.writes += 1;
        } else {
            self.reads += 1;
        }
        let (from, to) = self.bytes;
        self.bytes = (from.min(data.address), to.max(data.address.saturating_add(u64::from(data.bytes))));
    }
}
