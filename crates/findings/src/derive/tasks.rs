//! Thread pools: CPU time to distribute tasks, compared with the tasks themselves.
//!
//! A pool is identified by the place in which its threads wait for work. The code of that place's unit
//! distributes tasks. A unit is a source file, a library, or a common prefix of function names. Code that the
//! unit calls belongs to a task.
//!
//! A sample counts for the pool if the program's function nearest to the leaf belongs to the unit. It counts
//! for a task if a function of the unit called that function. A library that only passes items on (a channel,
//! a lock) does not call tasks and is not a pool.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::tables::{Frame, GENERATED_MODULE, SampleRow, ThreadState};
use holdup_events::{FrameId, ProcessId, StackId, ThreadId, Timestamp, Trace};

use super::class::Class;
use super::ledger::{Ledger, ThreadLedger};
use super::lock_classes::outer_class;
use super::occupancy::Stall;
use super::own_places::OwnFrames;
use super::roles::Roles;
use super::split::share_error;
use super::standard_libraries::runs_programs;
use super::timelines::Timelines;

/// Overhead of one pool.
#[derive(Clone, Debug, Default)]
pub struct Handing {
    /// Process of the pool.
    pub process: ProcessId,
    /// Unit of its functions: a file, a library or a name prefix.
    pub unit: String,
    /// Samples in these functions.
    pub samples: u64,
    /// Running time in them (ns, sampled).
    pub ns: u64,
    /// Half the width of its 95 % interval (ns).
    pub error_ns: u64,
    /// Part of `ns` in functions of the pool that never wait for work: threads that submit a task (ns).
    pub giving_ns: u64,
    /// Running time in the tasks themselves (ns, sampled).
    pub task_ns: u64,
    /// Running time of the process, waiting by running aside (ns).
    pub running_ns: u64,
    /// Functions of the pool, by samples, most samples first, at most [`FUNCTIONS_MAX`].
    pub functions: Vec<(String, u64)>,
    /// Functions of tasks that call the pool or are called by it, in the same order and number.
    pub tasks: Vec<(String, u64)>,
    /// Cost of the distribution for the run.
    pub stall: Stall,
    /// Stacks whose samples count for the pool.
    pub stacks: BTreeSet<StackId>,
    /// Stacks that may also count for the pool. They are in functions that the pool calls and that never call
    /// it, but that tasks call. They may also be in libraries that distribute tasks and that tasks call.
    pub helping: BTreeSet<StackId>,
    /// Some of the samples: thread and time.
    pub seen: Vec<(ThreadId, Timestamp)>,
}

/// Functions that are named.
pub const FUNCTIONS_MAX: usize = 4;
/// Rows in [`Handing::seen`].
const SEEN_MAX: usize = 10;

/// Derives the pools, the costliest first.
pub fn derive(trace: &Trace, ledger: &Ledger, (roles, timelines): (&Roles, &Timelines)) -> Vec<Handing> {
    let code = Code::new(trace);
    let mut pools: Vec<Handing> = places(trace, roles, &code)
        .into_iter()
        .filter_map(|place| handing(trace, ledger, (roles, timelines), (&code, place)))
        .collect();
    pools.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.unit.cmp(&b.unit)));
    pools
}

/// Which unit each frame belongs to.
struct Code {
    own: OwnFrames,
    names: Vec<String>,
    /// By frame. `None` for frames that are not part of the program.
    units: Vec<Option<u32>>,
}

impl Code {
    fn new(trace: &Trace) -> Code {
        let own = OwnFrames::new(trace);
        let (mut names, mut numbers) = (Vec::new(), HashMap::new());
        let files = files(trace);
        let units = trace.frames.iter().enumerate().map(|(row, frame)| {
            // A virtual machine or interpreter is one library and does not distribute the program's tasks.
            own.own_frame(FrameId(row as u32)).filter(|_| !runs_programs(&frame.module))?;
            // Code without a symbol is not a single function.
            let file = match frame.function.as_str() {
                "" => frame.file.as_str(),
                function => files.get(&(frame.module.as_str(), function)).copied().unwrap_or_default(),
            };
            let name = unit_of(frame, file)?;
            Some(*numbers.entry(name.to_owned()).or_insert_with(|| {
                names.push(name.to_owned());
                names.len() as u32 - 1
            }))
        });
        let units = units.collect();
        Code { own, names, units }
    }

    /// The program's functions of a stack, leaf first, with their units.
    fn frames<'a>(&'a self, trace: &'a Trace, stack: StackId) -> impl Iterator<Item = (FrameId, u32)> + 'a {
        let of = |frame: FrameId| Some((self.own.own_frame(frame)?, (*self.units.get(frame.index())?)?));
        trace.stack_frames(stack).filter_map(of)
    }
}

/// Source file of most frames of each function, by module and name. Some frames are from inlined code of
/// other files, which not every compiler marks.
fn files(trace: &Trace) -> HashMap<(&str, &str), &str> {
    let mut counts: BTreeMap<(&str, &str, &str), u32> = BTreeMap::new();
    for frame in trace.frames.iter().filter(|frame| !frame.file.is_empty()) {
        *counts.entry((frame.module.as_str(), frame.function.as_str(), frame.file.as_str())).or_default() +=
            1;
    }
    let mut best: HashMap<(&str, &str), (&str, u32)> = HashMap::new();
    for ((module, function, file), count) in counts {
        let most = best.entry((module, function)).or_insert((file, count));
        if count > most.1 {
            *most = (file, count);
        }
    }
    best.into_iter().map(|(function, (file, _))| (function, file)).collect()
}

/// Unit of a function. The crate or source file, or for Java methods the outermost class, because not all of
/// them have a file. Otherwise the library. Otherwise the name without its last part.
fn unit_of<'a>(frame: &'a Frame, file: &'a str) -> Option<&'a str> {
    const SOURCES: &str = "/src/";
    if frame.module == GENERATED_MODULE && !frame.function.contains([':', ' ']) {
        return outer_class(&frame.function);
    }
    if !file.is_empty() {
        let crates = file.find("/registry/src/").map(|at| at + "/registry/src/".len());
        let ends = crates.and_then(|from| Some(from + file[from..].find(SOURCES)?));
        return Some(&file[..ends.unwrap_or(file.len())]);
    }
    if frame.module.contains(".so") {
        return Some(&frame.module);
    }
    let name = frame.function.as_str();
    let ends = name.rfind("::").or_else(|| name.rfind('.'));
    (!name.is_empty()).then(|| &name[..ends.unwrap_or(name.len())])
}

/// A unit in which threads of a process wait for work, with the functions through which they enter it.
type Place = ((ProcessId, u32), BTreeSet<FrameId>);

fn places(trace: &Trace, roles: &Roles, code: &Code) -> Vec<Place> {
    let mut places: BTreeMap<(ProcessId, u32), BTreeSet<FrameId>> = BTreeMap::new();
    let mut seen: BTreeSet<(ProcessId, StackId)> = BTreeSet::new();
    for id in trace.target_threads() {
        let process = trace.threads[id.index()].process;
        let blocked = trace.slices.of_thread(id).filter(|slice| slice.state == ThreadState::Blocked);
        for slice in blocked.filter(|slice| slice.stack != StackId::NONE) {
            if seen.contains(&(process, slice.stack)) || roles.class_of_wait(trace, &slice) != Class::WorkWait
            {
                continue;
            }
            seen.insert((process, slice.stack));
            let frames: Vec<(FrameId, u32)> = code.frames(trace, slice.stack).collect();
            if let Some((_, unit)) = frames.first() {
                places.entry((process, *unit)).or_default().extend(entry(&frames, *unit));
            }
        }
    }
    places.into_iter().collect()
}

/// Function of the unit through which its code nearest to the leaf was entered.
fn entry(frames: &[(FrameId, u32)], unit: u32) -> Option<FrameId> {
    let nearest = frames.iter().skip_while(|(_, of)| *of != unit);
    nearest.take_while(|(_, of)| *of == unit).last().map(|(frame, _)| *frame)
}

/// Parts of a stack, relative to a pool.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The pool's function, if the program's function nearest to the leaf is one.
    pool: Option<FrameId>,
    /// Function of the pool through which it was entered.
    entry: Option<FrameId>,
    /// The leaf is code of a library, or of the kernel.
    in_library: bool,
    /// Functions that are not the pool's, but were called by it, leaf first.
    tasks: Vec<FrameId>,
    /// Functions before the pool's first function.
    nearest: Vec<FrameId>,
    /// Functions of `tasks` that also called the pool.
    between: Vec<FrameId>,
}

fn look(trace: &Trace, (code, unit): (&Code, u32), stack: StackId) -> Seen {
    let frames: Vec<(FrameId, u32)> = code.frames(trace, stack).collect();
    let is_pool = |row: &usize| frames[*row].1 == unit;
    let (first, last) = ((0..frames.len()).find(is_pool), (0..frames.len()).rev().find(is_pool));
    let others = || frames.iter().enumerate().filter(|(row, _)| !is_pool(row));
    let called = |(row, _): &(usize, &(FrameId, u32))| last.is_some_and(|last| *row < last);
    Seen {
        pool: frames.first().filter(|(_, of)| *of == unit).map(|(frame, _)| *frame),
        entry: entry(&frames, unit),
        in_library: trace.stack_frames(stack).next().is_some_and(|leaf| code.own.own_frame(leaf).is_none()),
        nearest: frames.iter().take_while(|(_, of)| *of != unit).map(|(frame, _)| *frame).collect(),
        tasks: others().filter(called).map(|(_, (frame, _))| *frame).collect(),
        between: others()
            .filter(called)
            .filter(|(row, _)| first.is_some_and(|first| *row > first))
            .map(|(_, (frame, _))| *frame)
            .collect(),
    }
}

/// Whether the sample shows useful work or kernel work.
fn works(roles: &Roles, sample: &SampleRow) -> bool {
    matches!(roles.class_of_sample(sample), Class::Useful | Class::Kernel)
}

/// One sample of the process, with the running time that it represents (ns).
type Weighed<'a> = (&'a SampleRow, f64);

fn samples_of_process<'a>(trace: &'a Trace, ledger: &Ledger, process: ProcessId) -> Vec<Weighed<'a>> {
    let is_its = |thread: &&ThreadLedger| trace.threads[thread.thread.index()].process == process;
    let of = |thread: &ThreadLedger| {
        let samples = super::samples_of(trace, thread.thread);
        let each = thread.running_ns() as f64 / samples.len().max(1) as f64;
        samples.iter().map(move |sample| (sample, each))
    };
    ledger.threads.iter().filter(is_its).flat_map(of).collect()
}

fn handing(
    trace: &Trace,
    ledger: &Ledger,
    (roles, timelines): (&Roles, &Timelines),
    (code, ((process, unit), awaiting)): (&Code, Place),
) -> Option<Handing> {
    let samples = samples_of_process(trace, ledger, process);
    let mut stacks: BTreeMap<StackId, Seen> = BTreeMap::new();
    for (sample, _) in &samples {
        stacks.entry(sample.stack).or_insert_with(|| look(trace, (code, unit), sample.stack));
    }
    let mut found = Handing { process, unit: code.names.get(unit as usize)?.clone(), ..Handing::default() };
    let mut sums = Sums::default();
    for (sample, ns) in samples.iter().filter(|(sample, _)| works(roles, sample)) {
        let seen = &stacks[&sample.stack];
        sums.running += ns;
        sums.add(seen, *ns, &awaiting);
        if seen.pool.is_some() {
            found.samples += 1;
            found.stall.add_sample(sample, *ns, timelines);
            found.seen.push((sample.thread, sample.at));
        }
    }
    let between: BTreeSet<FrameId> = stacks.values().flat_map(|seen| seen.between.iter().copied()).collect();
    let hands_out = |frame: &FrameId| between.contains(frame);
    let helps = |seen: &Seen| match seen.nearest.first() {
        Some(nearest) if hands_out(nearest) => seen.in_library,
        Some(_) => !seen.tasks.is_empty() && !seen.nearest.iter().any(hands_out),
        None => false,
    };
    for (stack, seen) in &stacks {
        if seen.pool.is_some() {
            found.stacks.insert(*stack);
        } else if helps(seen) && !between.is_empty() {
            found.helping.insert(*stack);
        }
    }
    let part = found.seen.len().div_ceil(SEEN_MAX).max(1);
    found.seen = found.seen.into_iter().step_by(part).collect();
    found.error_ns = (share_error(found.samples, ledger.samples) * ledger.running_ns() as f64).round() as u64;
    sums.finish(trace, &mut found);
    (found.samples > 0).then_some(found)
}

/// Running time by purpose (ns).
#[derive(Default)]
struct Sums {
    running: f64,
    tasks: f64,
    giving: f64,
    /// By function of the pool.
    pool: BTreeMap<FrameId, f64>,
    /// By function of a task: its total time, with callees.
    of_tasks: BTreeMap<FrameId, f64>,
}

impl Sums {
    fn add(&mut self, seen: &Seen, ns: f64, awaiting: &BTreeSet<FrameId>) {
        match seen.pool {
            Some(function) => {
                *self.pool.entry(function).or_default() += ns;
                let gives = seen.entry.is_some_and(|entry| !awaiting.contains(&entry));
                self.giving += if gives { ns } else { 0.0 };
            }
            None if !seen.tasks.is_empty() => self.tasks += ns,
            None => {}
        }
        let functions: BTreeSet<FrameId> = seen.tasks.iter().copied().collect();
        functions.into_iter().for_each(|function| *self.of_tasks.entry(function).or_default() += ns);
    }

    fn finish(self, trace: &Trace, found: &mut Handing) {
        found.ns = self.pool.values().sum::<f64>().round() as u64;
        found.giving_ns = self.giving.round() as u64;
        found.task_ns = self.tasks.round() as u64;
        found.running_ns = self.running.round() as u64;
        found.functions = named(trace, self.pool.into_iter());
        found.tasks = named(trace, self.of_tasks.into_iter());
    }
}

/// Functions by name, the most time first.
fn named(trace: &Trace, functions: impl Iterator<Item = (FrameId, f64)>) -> Vec<(String, u64)> {
    let mut named: Vec<(String, u64)> =
        functions.map(|(function, ns)| (trace.frame_name(function), ns.round() as u64)).collect();
    named.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    named.truncate(FUNCTIONS_MAX);
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_what_a_function_is_written_in() {
        let frame = |function: &str, module: &str, file: &str| Frame {
            function: function.into(),
            module: module.into(),
            file: file.into(),
            ..Frame::default()
        };
        let cases = [
            (frame("Pool.push", "/bin/app", "pool.ml"), Some("pool.ml")),
            (frame("Pool.push", "/bin/app", ""), Some("Pool")),
            (frame("app::pool::Pool::spawn", "/bin/app", ""), Some("app::pool::Pool")),
            (
                frame(
                    "rayon_core::join",
                    "/bin/app",
                    "/home/me/.cargo/registry/src/index/rayon-core-1.2/src/join/mod.rs",
                ),
                Some("/home/me/.cargo/registry/src/index/rayon-core-1.2"),
            ),
            (frame("GOMP_task", "/usr/lib/libgomp.so.1", ""), Some("/usr/lib/libgomp.so.1")),
            (frame("take", "/bin/app", ""), Some("take")),
            (frame("", "/bin/app", ""), None),
        ];
        for (frame, unit) in cases {
            assert_eq!(unit_of(&frame, &frame.file), unit, "{frame:?}");
        }
    }
}
