//! Weights: the time that each on-CPU sample and each blocked slice's stack represents.
//!
//! Totals by thread and class are those of the ledger. They are exact, except for the sampled split of
//! running time. Stacks only divide them.
//!
//! - If every stack was recorded, a slice's weight is its own length.
//! - If stacks were recorded with probability 1/n, a slice with a stack represents n similar slices. Its raw
//!   weight is its length × n.
//!
//! Raw weights are scaled within a *stratum* (one thread, one wait reason, lengths within a factor of four).
//! Their sum is then the exact time of all the stratum's slices. This is a ratio estimator: its bias is of
//! the order 1/count, and the totals hold for each thread.
//!
//! If a thread has no stack in a stratum, it gets the stacks of threads with its name in processes with the
//! same name. A program may have thousands of short-lived threads. If there are no such stacks, its time
//! stays without a stack.

use std::collections::BTreeMap;

use holdup_events::tables::{SampleRow, Slice, ThreadState, Wakeup};
use holdup_events::{Duration, StackId, ThreadId, Timestamp, Trace, WaitReason};

use crate::derive::class::{CLASSES, Class};
use crate::derive::ledger::{ByClass, class_of_blocked, steals_of, stolen};
use crate::derive::parallel;
use crate::derive::roles::Roles;
use crate::derive::split::Split;
use crate::derive::untimed::{SHOWN_NS, has_untimed_samples};
use crate::descriptors::Descriptors;

/// Selected part of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Classes of time, indexed by `Class as usize`.
    pub classes: [bool; CLASSES],
    /// Selected threads. `None` selects all threads of the program.
    pub threads: Option<Vec<ThreadId>>,
    /// Start of the selected time.
    pub from: Timestamp,
    /// End of the selected time.
    pub to: Timestamp,
    /// Descriptors of runtimes, for the classes that only a runtime's own code identifies.
    pub descriptors: Descriptors,
}

impl Selection {
    /// The whole recording.
    pub fn all() -> Selection {
        Selection {
            classes: [true; CLASSES],
            threads: None,
            from: Timestamp(0),
            to: Timestamp(u64::MAX),
            descriptors: Descriptors::built_in(),
        }
    }

    /// The same selection, limited to the classes that `wanted` accepts.
    pub fn only(&self, mut wanted: impl FnMut(Class) -> bool) -> Selection {
        let mut narrowed = self.clone();
        for class in Class::ALL {
            narrowed.classes[class as usize] &= wanted(class);
        }
        narrowed
    }

    /// Whether the class is selected.
    pub fn has(&self, class: Class) -> bool {
        self.classes[class as usize]
    }

    pub(super) fn has_thread(&self, trace: &Trace, thread: ThreadId) -> bool {
        trace.threads[thread.index()].target
            && self.threads.as_ref().is_none_or(|threads| threads.contains(&thread))
    }
}

/// Source of an observation's weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// Exact time of the slice.
    #[default]
    Exact,
    /// Share of the running time that an on-CPU sample represents.
    Samples,
    /// A slice represents similar slices whose stack was not recorded.
    Slices,
}

/// One stack with its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Thread that the time belongs to.
    pub thread: ThreadId,
    /// Class of the time.
    pub class: Class,
    /// Reason of the wait, for blocked time.
    pub reason: WaitReason,
    /// The stack. [`StackId::NONE`] for time without a stack.
    pub stack: StackId,
    /// Thread that the stack was recorded for. Differs from `thread` if the stack is lent.
    pub seen_of: ThreadId,
    /// When: the sample's moment, the slice's start. 0 of time without a stack.
    pub at: Timestamp,
    /// Length of the slice. 0 for a sample.
    pub length: Duration,
    /// Weight: the time that the observation represents (ns).
    pub weight_ns: u64,
    /// Source of the weight.
    pub basis: Basis,
    /// Whether the stack is from another thread with the same name, because none of this thread was recorded.
    pub lent: bool,
    /// Contribution to the variance of sums (ns²): weight² × (1 - probability that the stack was recorded).
    pub doubt: f64,
}

impl Default for Observation {
    fn default() -> Observation {
        Observation {
            thread: ThreadId(0),
            class: Class::Unknown,
            reason: WaitReason::Unknown,
            stack: StackId::NONE,
            seen_of: ThreadId(0),
            at: Timestamp(0),
            length: Duration::ZERO,
            weight_ns: 0,
            basis: Basis::Exact,
            lent: false,
            doubt: 0.0,
        }
    }
}

/// All observations of a selection.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// By thread, class, time. Their weights sum to `total_ns`.
    pub observations: Vec<Observation>,
    /// Time of each selected class (ns).
    pub classes: ByClass,
    /// Sum of `classes` (ns).
    pub total_ns: u64,
    /// On-CPU samples that running time is divided by.
    pub samples: u64,
    /// Running time is not known: each sample is shown as [`SHOWN_NS`], and no other time is.
    pub untimed: bool,
    /// Blocked slices.
    pub slices: u64,
    /// Number of blocked slices with a stack.
    pub slices_with_stack: u64,
    /// Whether some stacks of blocked slices represent other slices.
    pub slices_sampled: bool,
    /// Waits with a stack that a thread of the program ended. Only counted if wakers were requested, like
    /// `wakers_with_stack`.
    pub wakers: u64,
    /// Number of these waits with their waker's stack.
    pub wakers_with_stack: u64,
    /// Whether some wakers' stacks represent other wakeups.
    pub wakers_sampled: bool,
}

/// Key of similar observations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    basis: Basis,
    class: Class,
    reason: WaitReason,
    /// Lengths within a factor of four.
    magnitude: u32,
}

/// Similar observations of one thread.
#[derive(Clone, Debug, Default)]
struct Stratum {
    /// Exact time of all of it (ns).
    total_ns: u64,
    /// Observations with a stack.
    seen: Vec<Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    observation: Observation,
    /// Weight before scaling to the known total.
    raw: u64,
    /// Probability that its stack was not taken.
    missed: f64,
}

/// One thread's part.
#[derive(Default)]
struct Part {
    thread: ThreadId,
    classes: ByClass,
    running_ns: u64,
    exact: Vec<Observation>,
    /// Time without a stack: one for all that is alike.
    bare: Vec<Observation>,
    strata: BTreeMap<Kind, Stratum>,
    slices: u64,
    slices_with_stack: u64,
    slices_sampled: bool,
}

/// Weighs all stacks of a selection.
pub fn observe(trace: &Trace, selection: &Selection) -> Observed {
    let roles = Roles::derive(trace, &selection.descriptors);
    let walk = Walk { trace, selection, roles: &roles };
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let threads = groups[group].clone().map(ThreadId).filter(|id| selection.has_thread(trace, *id));
        threads.map(|thread| walk.thread(thread)).collect::<Vec<Part>>()
    });
    let mut parts: Vec<Part> = parts.into_iter().flatten().collect();
    let mut observed = Observed { untimed: has_untimed_samples(trace), ..Observed::default() };
    if observed.untimed {
        show_samples(&walk, &mut parts);
    }
    add_samples(&walk, &mut parts, &mut observed);
    let mut alike: BTreeMap<(Kind, &str, &str), Alike> = BTreeMap::new();
    for part in parts {
        for (sum, ns) in observed.classes.iter_mut().zip(part.classes) {
            *sum += ns;
        }
        observed.slices += part.slices;
        observed.slices_with_stack += part.slices_with_stack;
        observed.slices_sampled |= part.slices_sampled;
        observed.observations.extend(part.exact);
        observed.observations.extend(part.bare);
        let thread = &trace.threads[part.thread.index()];
        for (kind, stratum) in part.strata {
            let key = (kind, trace.process_name(thread.process), thread.name.as_str());
            let like = alike.entry(key).or_default();
            if stratum.seen.is_empty() {
                like.unseen.push((part.thread, stratum.total_ns));
            } else {
                stratum.spread(like);
            }
        }
    }
    for ((kind, ..), like) in alike {
        like.finish(kind, &mut observed.observations);
    }
    observed.total_ns = observed.classes.iter().sum();
    observed.observations.sort_by_key(|seen| (seen.thread, seen.class, seen.at));
    observed
}

impl Stratum {
    /// Divides the time among the stacks, without a remainder.
    fn spread(self, like: &mut Alike) {
        let raw: u128 = self.seen.iter().map(|one| u128::from(one.raw)).sum();
        let (mut before, mut given) = (0u128, 0u128);
        for mut one in self.seen {
            before += u128::from(one.raw);
            let upto = u128::from(self.total_ns) * before / raw.max(1);
            one.observation.weight_ns = (upto - given) as u64;
            given = upto;
            one.observation.doubt = (one.observation.weight_ns as f64).powi(2) * one.missed;
            like.seen.push(one);
        }
    }
}

/// Threads with the same name in processes with the same name.
#[derive(Default)]
struct Alike {
    seen: Vec<Seen>,
    /// Threads without a stack, with their time (ns).
    unseen: Vec<(ThreadId, u64)>,
}

impl Alike {
    /// Outputs the observations, and lends their stacks to the threads without stacks. Both lists are laid
    /// end to end, and each thread without stacks gets the stacks at its own position.
    fn finish(self, kind: Kind, out: &mut Vec<Observation>) {
        let raw: u128 = self.seen.iter().map(|one| u128::from(one.raw)).sum();
        let unseen: u128 = self.unseen.iter().map(|(_, ns)| u128::from(*ns)).sum();
        let mut threads = self.unseen.into_iter();
        let mut next = threads.next();
        let (mut before, mut given) = (0u128, 0u128);
        for one in self.seen {
            before += u128::from(one.raw);
            let upto = unseen * before / raw.max(1);
            let mut weight = one.observation.weight_ns as f64;
            out.push(one.observation);
            while let Some((thread, left)) = next
                && given < upto
            {
                let piece = left.min((upto - given) as u64);
                given += u128::from(piece);
                let doubt = ((weight + piece as f64).powi(2) - weight.powi(2)) * one.missed;
                weight += piece as f64;
                out.push(Observation { thread, weight_ns: piece, lent: true, doubt, ..one.observation });
                next = if piece == left { threads.next() } else { Some((thread, left - piece)) };
            }
        }
        let bare = next.into_iter().chain(threads).filter(|(_, ns)| *ns > 0);
        out.extend(bare.map(|(thread, ns)| Observation {
            thread,
            class: kind.class,
            reason: kind.reason,
            weight_ns: ns,
            ..Observation::default()
        }));
    }
}

/// Gives each sample the same length, because the threads' running time is unknown.
fn show_samples(walk: &Walk, parts: &mut [Part]) {
    let Walk { trace, selection, .. } = *walk;
    for part in parts {
        let from = trace.samples.partition_point(|sample| sample.thread < part.thread);
        let own = trace.samples[from..].iter().take_while(|sample| sample.thread == part.thread);
        let within = own.filter(|sample| selection.from <= sample.at && sample.at < selection.to);
        *part = Part { thread: part.thread, running_ns: within.count() as u64 * SHOWN_NS, ..Part::default() };
    }
}

/// Splits running time as the ledger does, and hands it to the samples.
fn add_samples(walk: &Walk, parts: &mut [Part], observed: &mut Observed) {
    let Walk { trace, selection, roles } = *walk;
    let within = |sample: &SampleRow| selection.from <= sample.at && sample.at < selection.to;
    let mut split = Split::counting(trace, roles, within);
    for part in parts.iter_mut() {
        let range = (selection.from, selection.to);
        for (class, ns) in split.classes_ns((trace, roles), (part.thread, range), part.running_ns) {
            if selection.has(class) && ns > 0 {
                part.classes[class as usize] += ns;
                part.strata.entry(kind_of_sample(class)).or_default().total_ns += ns;
            }
        }
        let from = trace.samples.partition_point(|sample| sample.thread < part.thread);
        let own = trace.samples[from..].iter().take_while(|sample| sample.thread == part.thread);
        for sample in own.filter(|sample| within(sample)) {
            let class = roles.class_of_sample(sample);
            if !selection.has(class) {
                continue;
            }
            observed.samples += 1;
            let seen = Observation {
                thread: part.thread,
                class,
                stack: sample.stack,
                seen_of: part.thread,
                at: sample.at,
                basis: Basis::Samples,
                ..Observation::default()
            };
            part.strata.entry(kind_of_sample(class)).or_default().seen.push(Seen {
                observation: seen,
                raw: 1,
                missed: 1.0,
            });
        }
    }
}

fn kind_of_sample(class: Class) -> Kind {
    Kind { basis: Basis::Samples, class, reason: WaitReason::Unknown, magnitude: 0 }
}

#[derive(Clone, Copy)]
struct Walk<'a> {
    trace: &'a Trace,
    selection: &'a Selection,
    roles: &'a Roles,
}

impl Walk<'_> {
    fn thread(&self, id: ThreadId) -> Part {
        let thread = &self.trace.threads[id.index()];
        let (from, to) = (thread.start.max(self.selection.from), thread.end.min(self.selection.to));
        let mut part = Part { thread: id, ..Part::default() };
        let mut steals = steals_of(&self.trace.steals, id);
        let mut wakeups = self.trace.wakeups.of_thread(id);
        let mut told = 0;
        for whole in self.trace.slices.of_thread(id) {
            let mut slice = whole;
            slice.start = slice.start.max(from);
            slice.end = slice.end.min(to).max(slice.start);
            let length = slice.duration().0;
            told += length;
            if whole.state == ThreadState::Running {
                let taken = stolen(&mut steals, whole.start).min(whole.duration().0);
                let taken = in_proportion(taken, length, whole.duration().0);
                part.running_ns += length - taken;
                self.without_stack(&mut part, Class::Stolen, WaitReason::Unknown, taken);
                continue;
            }
            let (class, reason) = self.class_of(&whole, &mut wakeups);
            if length > 0 {
                self.off_cpu(&mut part, &slice, class, reason);
            }
        }
        // As in the ledger: what a damaged recording leaves open is not known.
        let open = to.since(from).0.saturating_sub(told);
        self.without_stack(&mut part, Class::Unknown, WaitReason::Unknown, open);
        part
    }

    fn class_of(&self, slice: &Slice, wakeups: &mut &[Wakeup]) -> (Class, WaitReason) {
        if slice.state.waits_for_cpu() {
            return (Class::RunQueue, WaitReason::Unknown);
        }
        if slice.state != ThreadState::Blocked {
            return (Class::Unknown, WaitReason::Unknown);
        }
        let reason = self.trace.wait(slice.wait).reason;
        (class_of_blocked((self.trace, self.roles), slice, wakeups), reason)
    }

    fn off_cpu(&self, part: &mut Part, slice: &Slice, class: Class, reason: WaitReason) {
        if !self.selection.has(class) {
            return;
        }
        let length = slice.duration();
        let every = u64::from(slice.stack_every.max(1));
        let has_stack = slice.stack != StackId::NONE;
        if slice.state == ThreadState::Blocked {
            part.slices += 1;
            part.slices_with_stack += u64::from(has_stack);
            part.slices_sampled |= every > 1;
        }
        if every == 1 && !has_stack {
            self.without_stack(part, class, reason, length.0);
            return;
        }
        part.classes[class as usize] += length.0;
        let basis = if every > 1 { Basis::Slices } else { Basis::Exact };
        let seen = Observation {
            thread: slice.thread,
            class,
            reason,
            stack: slice.stack,
            seen_of: slice.thread,
            at: slice.start,
            length,
            weight_ns: length.0,
            basis,
            ..Observation::default()
        };
        if every == 1 {
            part.exact.push(seen);
            return;
        }
        let kind = Kind { basis, class, reason, magnitude: length.0.max(1).ilog2() / 2 };
        let stratum = part.strata.entry(kind).or_default();
        stratum.total_ns += length.0;
        if has_stack {
            let raw = length.0.saturating_mul(every);
            stratum.seen.push(Seen { observation: seen, raw, missed: 1.0 - 1.0 / every as f64 });
        }
    }

    /// Adds time without a stack, as one observation per class and reason.
    fn without_stack(&self, part: &mut Part, class: Class, reason: WaitReason, ns: u64) {
        if ns == 0 || !self.selection.has(class) {
            return;
        }
        part.classes[class as usize] += ns;
        let alike = |seen: &&mut Observation| seen.class == class && seen.reason == reason;
        match part.bare.iter_mut().find(alike) {
            Some(seen) => seen.weight_ns += ns,
            None => part.bare.push(Observation {
                thread: part.thread,
                class,
                reason,
                weight_ns: ns,
                ..Observation::default()
            }),
        }
    }
}

fn in_proportion(of_whole: u64, part: u64, whole: u64) -> u64 {
    if part == whole || whole == 0 {
        return of_whole;
    }
    (u128::from(of_whole) * u128::from(part) / u128::from(whole)) as u64
}
