//! Function that does most of the program's useful work. If nothing else delays the program, this function
//! takes its time.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::{ThreadId, Trace};

use super::class::Class;
use super::cpus::CpuUse;
use super::ledger::Ledger;
use super::own_places::{OwnFrames, Places};
use super::roles::Roles;
use super::stacks::folding::matches;
use super::stacks::{Folding, Place, PlaceId, Profile, Selection, StackUse, Tally};
use super::standard_libraries::{is_a_loop, is_a_machine};
use crate::wording;

/// Minimum share of the useful work (0 to 1) that counts as most of it.
pub const MOST: f64 = 0.5;
/// Fewer samples may be chance.
pub const SAMPLES_MIN: u64 = 50;
/// Minimum share of the function's time for a caller that is named.
const CALLED_FOR_MIN: f64 = 0.25;

/// One function, with all that it calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Busiest {
    /// Function name, or the library if it has no symbols.
    pub function: String,
    /// Share of the useful running time (0 to 1, sampled).
    pub share: f64,
    /// Half the width of the 95 % confidence interval of `share`.
    pub error: f64,
    /// The program's own function that it is called for most, if it is another one, with its share of the
    /// time.
    pub called_for: Option<(String, f64)>,
    /// The function that calls it for most of its time, if one does.
    pub called_by: Option<String>,
    /// The deepest callee that takes most of its time, with the callee's share of that time. `None` if there
    /// is no such callee.
    pub mostly_in: Option<(String, f64)>,
}

impl Busiest {
    /// Display name, with its callers.
    pub fn display_name(&self) -> String {
        let by = self.called_by.as_ref().map_or(String::new(), |name| format!(", called by {name}"));
        let whom = self.called_for.as_ref().filter(|(name, _)| self.called_by.as_ref() != Some(name));
        let whom = whom.map_or(String::new(), |(name, _)| format!(", for {name}"));
        format!("{}{by}{whom}", self.function)
    }
}

/// The function that is farthest from the roots of those in which at least half of the useful work is done.
pub fn derive(trace: &Trace, roles: &Roles) -> Option<Busiest> {
    among(trace, roles, None)
}

/// The same for one thread.
pub fn of_thread(trace: &Trace, roles: &Roles, thread: ThreadId) -> Option<Busiest> {
    among(trace, roles, Some(vec![thread]))
}

fn among(trace: &Trace, roles: &Roles, threads: Option<Vec<ThreadId>>) -> Option<Busiest> {
    let all = Selection { descriptors: roles.descriptors.clone(), threads, ..Selection::all() };
    let profile = Profile::derive(trace, &all.only(|class| class == Class::Useful), &Folding::built_in());
    let whole = profile.kept();
    if whole.samples < SAMPLES_MIN || whole.ns == 0 {
        return None;
    }
    let Some(place) = farthest(&profile, MOST * whole.ns as f64) else { return library(&profile, &whole) };
    let within: Vec<_> =
        profile.stacks.iter().filter(|one| profile.paths[one.path].contains(&place)).collect();
    let mut part = Tally::default();
    within.iter().for_each(|one| part.merge(&one.tally));
    let function = wording::function(&profile.place(place).name).into_owned();
    let called_for = called_for(trace, &within).map(|(name, ns)| (name, ns as f64 / part.ns.max(1) as f64));
    let called_for = called_for
        .filter(|(name, part)| *name != function && *part >= CALLED_FOR_MIN && !is_uninformative(name));
    let called_by = called_by(&profile, place, &within, part.ns);
    let mostly_in = mostly_in(&profile, place, &within, part.ns).filter(|(name, _)| *name != function);
    if mostly_in.is_none() && is_entry(roles, &function) && !does_it_itself(&profile, place, &within, part.ns)
    {
        return None;
    }
    let is_below = |name: &str| mostly_in.as_ref().is_some_and(|(callee, _)| callee == name);
    let called_for = called_for.filter(|(name, _)| !is_below(name));
    Some(Busiest { function, called_for, called_by, mostly_in, ..of_part(&part, &whole) })
}

/// Whether the function marks a runtime. It then contains all of the runtime's work and is no useful answer.
fn is_entry(roles: &Roles, function: &str) -> bool {
    let mut marks = roles.descriptors.runtimes().iter().flat_map(|runtime| &runtime.function_marks);
    marks.any(|mark| matches(mark, function))
}

/// Whether the function spends most of its time in its own code.
fn does_it_itself(profile: &Profile, place: PlaceId, within: &[&StackUse], all_ns: u64) -> bool {
    let own = within.iter().filter(|one| profile.paths[one.path].last() == Some(&place));
    own.map(|one| one.tally.ns).sum::<u64>() as f64 >= MOST * all_ns as f64
}

fn of_part(part: &Tally, whole: &Tally) -> Busiest {
    let of_whole = |ns: u64| ns as f64 / whole.ns as f64;
    Busiest { share: of_whole(part.ns), error: of_whole(part.error_ns(whole)), ..Busiest::default() }
}

/// The library whose own code does most of the work. The program's own binary is excluded, because its name
/// is known.
fn library(profile: &Profile, whole: &Tally) -> Option<Busiest> {
    let mut sums: BTreeMap<&str, Tally> = BTreeMap::new();
    for one in &profile.stacks {
        let leaf = profile.paths[one.path].last().map(|leaf| profile.place(*leaf));
        let is_library = |place: &&Place| place.file().contains(".so") && !is_a_machine(&place.module);
        if let Some(place) = leaf.filter(is_library) {
            sums.entry(place.file()).or_default().merge(&one.tally);
        }
    }
    let (file, part) = sums.into_iter().find(|(_, part)| part.ns as f64 >= MOST * whole.ns as f64)?;
    Some(Busiest { function: file.to_owned(), ..of_part(&part, whole) })
}

/// The direct caller for most of the function's time.
fn called_by(profile: &Profile, place: PlaceId, within: &[&StackUse], all_ns: u64) -> Option<String> {
    let mut sums: BTreeMap<PlaceId, u64> = BTreeMap::new();
    for one in within {
        let path = &profile.paths[one.path];
        let at = path.iter().rposition(|frame| *frame == place);
        if let Some(caller) = at.and_then(|at| at.checked_sub(1)).and_then(|at| path.get(at)) {
            *sums.entry(*caller).or_default() += one.tally.ns;
        }
    }
    let (caller, _) = sums.into_iter().find(|(_, ns)| *ns as f64 > MOST * all_ns as f64)?;
    let name = &profile.place(caller).name;
    (caller != place && !is_uninformative(name)).then(|| wording::function(name).into_owned())
}

/// The deepest callee that takes most of the function's time.
fn mostly_in(profile: &Profile, place: PlaceId, within: &[&StackUse], all_ns: u64) -> Option<(String, f64)> {
    let below = within.iter().filter_map(|one| {
        let path = &profile.paths[one.path];
        let at = path.iter().rposition(|frame| *frame == place)?;
        Some((path.get(at + 1..)?, one.tally.ns))
    });
    let (callee, ns) = farthest_of(profile, below, MOST * all_ns as f64)?;
    let name = wording::function(&profile.place(callee).name).into_owned();
    Some((name, ns as f64 / all_ns.max(1) as f64))
}

/// Useful work as a share (0 to 1) of the time of the CPUs that the program may use. Time used by other
/// programs is subtracted.
pub fn useful_of_cpus(trace: &Trace, ledger: &Ledger, (cpus, usable): (&[CpuUse], u32)) -> f64 {
    let others: u64 = cpus.iter().map(|cpu| cpu.others_ns).sum();
    let all = u64::from(usable) * trace.wall().0;
    (ledger.class_ns(Class::Useful) as f64 / all.saturating_sub(others).max(1) as f64).min(1.0)
}

/// The program's own function that has most of it done, and how much (ns).
fn called_for(trace: &Trace, within: &[&StackUse]) -> Option<(String, u64)> {
    let own = OwnFrames::new(trace);
    let mut places = Places::new(trace, &own);
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for one in within {
        if let Some(frame) = places.nearest_own(one.stack).filter(|frame| !own.is_of_a_machine(*frame)) {
            let name = trace.frame_name(frame);
            *sums.entry(wording::function(&name).into_owned()).or_default() += one.tally.ns;
        }
    }
    sums.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)))
}

/// The deepest function on average (from the roots) among those with at least that time.
fn farthest(profile: &Profile, least_ns: f64) -> Option<PlaceId> {
    let paths = profile.stacks.iter().map(|one| (profile.paths[one.path].as_slice(), one.tally.ns));
    farthest_of(profile, paths, least_ns).map(|(place, _)| place)
}

/// The same for paths with their times. Also returns the function's time (ns).
fn farthest_of<'a>(
    profile: &Profile,
    paths: impl Iterator<Item = (&'a [PlaceId], u64)>,
    least_ns: f64,
) -> Option<(PlaceId, u64)> {
    let mut sums: BTreeMap<PlaceId, (u64, f64)> = BTreeMap::new();
    let is_machine = |place: &PlaceId| is_a_machine(&profile.place(*place).module);
    for (whole, ns) in paths {
        // An interpreter's functions around the code that it runs are not its own work.
        let runs_own = whole.last().is_some_and(|leaf| !is_machine(leaf));
        let path: Vec<&PlaceId> = whole.iter().filter(|place| !(runs_own && is_machine(place))).collect();
        let mut seen = BTreeSet::new();
        for (depth, place) in path.iter().enumerate().filter(|(_, place)| !profile.is_bare(***place)) {
            if seen.insert(**place) {
                let sum = sums.entry(**place).or_default();
                sum.0 += ns;
                sum.1 += ns as f64 * depth as f64;
            }
        }
    }
    let named = sums
        .into_iter()
        .filter(|(place, (ns, _))| *ns as f64 >= least_ns && !is_uninformative(&profile.place(*place).name));
    let depth = |(_, (ns, weighed)): &(PlaceId, (u64, f64))| weighed / *ns as f64;
    let most = named.max_by(|a, b| depth(a).total_cmp(&depth(b)).then_with(|| b.0.cmp(&a.0)));
    most.map(|(place, (ns, _))| (place, ns))
}

/// Start functions of threads and programs.
const BEGINNINGS: [&str; 12] = [
    "_start",
    "__libc_start",
    "start_thread",
    "clone",
    "__clone",
    "runtime.goexit",
    "thread_native_entry(Thread*",
    "Thread::call_run",
    "JavaThread::thread_main_inner",
    "thread_entry(JavaThread*",
    "JavaCalls::",
    "StubRoutines",
];

/// Whether a name is not useful: an address, a binary and an offset, an interpreter's loop, or a start
/// function.
fn is_uninformative(name: &str) -> bool {
    let begins = BEGINNINGS.iter().any(|first| name.starts_with(first));
    name.contains("0x") || begins || is_a_loop(name)
}
