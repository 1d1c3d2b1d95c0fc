//! Sums over weighed stacks: flat, around one function, by thread, by class.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::{StackId, ThreadId, Trace, WaitReason};

use super::folding::{Folder, Folding};
use super::observations::{Observation, Observed, Selection, observe};
use super::places::{Place, PlaceId, Places, find};
use super::tally::Tally;
use crate::derive::class::{CLASSES, Class};

/// One stack of one thread in one class, with its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StackUse {
    /// The thread.
    pub thread: ThreadId,
    /// Class of the time.
    pub class: Class,
    /// Reason of the wait, for blocked time.
    pub reason: WaitReason,
    /// The recorded stack.
    pub stack: StackId,
    /// Row of [`Profile::paths`]: the stack as folded.
    pub path: usize,
    /// Time, with its error.
    pub tally: Tally,
}

/// A function's own time and its time with all that it called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlatRow {
    /// The function.
    pub place: PlaceId,
    /// Time in the function itself.
    pub own: Tally,
    /// Time in the function and in its callees. A recursive function counts once.
    pub cumulated: Tally,
}

/// Callers and callees of a function. Each list sums to the function's cumulated time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbours {
    /// Callers of its outermost call. `None` if the function is the root of the stack.
    pub callers: Vec<(Option<PlaceId>, Tally)>,
    /// Callees of its outermost call. `None` is the function's own time.
    pub callees: Vec<(Option<PlaceId>, Tally)>,
}

/// The weighed stacks of a selection, folded.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The observations behind the profile, without the list of single observations.
    pub observed: Observed,
    /// Row = [`PlaceId`].
    pub places: Vec<Place>,
    /// Distinct folded stacks, root first.
    pub paths: Vec<Vec<PlaceId>>,
    /// By thread, class, reason, stack.
    pub stacks: Vec<StackUse>,
    /// Total of all stacks.
    pub all: Tally,
    /// Markers for time without a stack, by class.
    pub(super) bare: [Option<PlaceId>; CLASSES],
}

impl Profile {
    /// Weighs, folds and adds up.
    pub fn derive(trace: &Trace, selection: &Selection, folding: &Folding) -> Profile {
        let mut observed = observe(trace, selection);
        let mut sums: BTreeMap<(ThreadId, Class, WaitReason, StackId), Tally> = BTreeMap::new();
        for seen in std::mem::take(&mut observed.observations) {
            sums.entry((seen.thread, seen.class, seen.reason, seen.stack)).or_default().add(&seen);
        }
        let mut profile = Profile { observed, ..Profile::default() };
        let mut paths = Paths::new(trace, folding);
        for ((thread, class, reason, stack), tally) in sums {
            let path = paths.path_of(stack, class);
            profile.all.merge(&tally);
            profile.stacks.push(StackUse { thread, class, reason, stack, path, tally });
        }
        profile.bare = paths.bare;
        profile.paths = paths.list;
        profile.places = paths.places.finish();
        profile
    }

    /// Drops the stacks that `wanted` rejects. `all` still counts them, because the rest is a share of it.
    pub fn keep(&mut self, wanted: impl Fn(&StackUse) -> bool) {
        self.stacks.retain(wanted);
    }

    /// Sum of the stacks that were kept.
    pub fn kept(&self) -> Tally {
        let mut sum = Tally::default();
        self.stacks.iter().for_each(|stack| sum.merge(&stack.tally));
        sum
    }

    /// A place.
    pub fn place(&self, id: PlaceId) -> &Place {
        &self.places[id.index()]
    }

    /// Whether the place is a marker for time without a stack.
    pub fn is_bare(&self, id: PlaceId) -> bool {
        self.bare.contains(&Some(id))
    }

    /// Every function, the one with the most own time first.
    pub fn flat(&self) -> Vec<FlatRow> {
        let mut sums: BTreeMap<PlaceId, (Tally, Tally)> = BTreeMap::new();
        for (path, tally) in self.by_path() {
            let path = &self.paths[path];
            if let Some(leaf) = path.last() {
                sums.entry(*leaf).or_default().0.merge(&tally);
            }
            for place in path.iter().collect::<BTreeSet<_>>() {
                sums.entry(*place).or_default().1.merge(&tally);
            }
        }
        let row = |(place, (own, cumulated))| FlatRow { place, own, cumulated };
        let mut rows: Vec<FlatRow> = sums.into_iter().map(row).collect();
        rows.sort_by(|a, b| {
            let rank = |row: &FlatRow| std::cmp::Reverse((row.own.ns, row.cumulated.ns));
            rank(a).cmp(&rank(b)).then_with(|| self.place(a.place).name.cmp(&self.place(b.place).name))
        });
        rows
    }

    /// Functions that match `pattern`. Exact names come first, then matches with `*`, then names that contain
    /// it. Returns the first of these groups that is not empty.
    pub fn find(&self, pattern: &str) -> BTreeSet<PlaceId> {
        find(&self.places, self.paths.iter().flatten(), pattern)
    }

    /// Callers and callees of a function (or of several, taken as one).
    pub fn neighbours(&self, of: &BTreeSet<PlaceId>) -> Neighbours {
        let mut callers: BTreeMap<Option<PlaceId>, Tally> = BTreeMap::new();
        let mut callees: BTreeMap<Option<PlaceId>, Tally> = BTreeMap::new();
        for (path, tally) in self.by_path() {
            let path = &self.paths[path];
            let Some(at) = path.iter().position(|place| of.contains(place)) else { continue };
            let caller = at.checked_sub(1).and_then(|before| path.get(before)).copied();
            callers.entry(caller).or_default().merge(&tally);
            callees.entry(path.get(at + 1).copied()).or_default().merge(&tally);
        }
        Neighbours { callers: self.ranked(callers), callees: self.ranked(callees) }
    }

    /// Time by thread of the stacks that contain one of `of` (of all stacks if `None`), largest first.
    pub fn by_thread(&self, of: Option<&BTreeSet<PlaceId>>) -> Vec<(ThreadId, Tally)> {
        let mut sums: BTreeMap<ThreadId, Tally> = BTreeMap::new();
        for used in self.stacks.iter().filter(|used| self.holds(used, of)) {
            sums.entry(used.thread).or_default().merge(&used.tally);
        }
        let mut rows: Vec<_> = sums.into_iter().collect();
        rows.sort_by_key(|(thread, tally)| (std::cmp::Reverse(tally.ns), *thread));
        rows
    }

    /// The same by class, in report order.
    pub fn by_class(&self, of: Option<&BTreeSet<PlaceId>>) -> Vec<(Class, Tally)> {
        let mut sums: BTreeMap<Class, Tally> = BTreeMap::new();
        for used in self.stacks.iter().filter(|used| self.holds(used, of)) {
            sums.entry(used.class).or_default().merge(&used.tally);
        }
        Class::ALL.into_iter().filter_map(|class| Some((class, *sums.get(&class)?))).collect()
    }

    fn holds(&self, used: &StackUse, of: Option<&BTreeSet<PlaceId>>) -> bool {
        of.is_none_or(|of| self.paths[used.path].iter().any(|place| of.contains(place)))
    }

    /// Time of each path, all threads and classes together.
    pub(super) fn by_path(&self) -> BTreeMap<usize, Tally> {
        let mut sums: BTreeMap<usize, Tally> = BTreeMap::new();
        for used in &self.stacks {
            sums.entry(used.path).or_default().merge(&used.tally);
        }
        sums
    }

    fn ranked(&self, sums: BTreeMap<Option<PlaceId>, Tally>) -> Vec<(Option<PlaceId>, Tally)> {
        let mut rows: Vec<_> = sums.into_iter().collect();
        let name = |id: Option<PlaceId>| id.map(|id| self.place(id).name.as_str());
        rows.sort_by(|a, b| b.1.ns.cmp(&a.1.ns).then_with(|| name(a.0).cmp(&name(b.0))));
        rows
    }
}

/// Weighed stacks in the order of time, for formats that show when.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Each observation with the row of its path, by thread, then time.
    pub rows: Vec<(Observation, usize)>,
    /// Row = [`PlaceId`].
    pub places: Vec<Place>,
    /// Distinct folded stacks, root first.
    pub paths: Vec<Vec<PlaceId>>,
}

impl Timeline {
    /// Weighs and folds.
    pub fn derive(trace: &Trace, selection: &Selection, folding: &Folding) -> Timeline {
        let mut observations = observe(trace, selection).observations;
        observations.sort_by_key(|seen| (seen.thread, seen.at, seen.class));
        let mut paths = Paths::new(trace, folding);
        let rows =
            observations.into_iter().map(|seen| (seen, paths.path_of(seen.stack, seen.class))).collect();
        Timeline { rows, paths: paths.list, places: paths.places.finish() }
    }
}

/// Folded paths, each once.
pub(super) struct Paths<'a> {
    pub(super) places: Places<'a>,
    folder: Folder<'a>,
    pub(super) list: Vec<Vec<PlaceId>>,
    index: HashMap<Vec<PlaceId>, usize>,
    of_stack: HashMap<StackId, usize>,
    pub(super) bare: [Option<PlaceId>; CLASSES],
}

impl<'a> Paths<'a> {
    pub(super) fn new(trace: &'a Trace, folding: &'a Folding) -> Paths<'a> {
        Paths {
            places: Places::new(trace),
            folder: Folder::new(folding),
            list: Vec::new(),
            index: HashMap::new(),
            of_stack: HashMap::new(),
            bare: [None; CLASSES],
        }
    }

    pub(super) fn path_of(&mut self, stack: StackId, class: Class) -> usize {
        if stack == StackId::NONE {
            let name = format!("(no stack: {})", class.name());
            let place = self.places.intern(Place { name, ..Place::default() });
            self.bare[class as usize] = Some(place);
            return self.intern(vec![place]);
        }
        if let Some(known) = self.of_stack.get(&stack) {
            return *known;
        }
        let path = self.places.of_stack(stack, self.folder.folding.no_inlined);
        let path = self.folder.fold(&mut self.places, path);
        let row = self.intern(path);
        self.of_stack.insert(stack, row);
        row
    }

    pub(super) fn intern(&mut self, path: Vec<PlaceId>) -> usize {
        if let Some(known) = self.index.get(&path) {
            return *known;
        }
        self.list.push(path.clone());
        self.index.insert(path, self.list.len() - 1);
        self.list.len() - 1
    }
}
