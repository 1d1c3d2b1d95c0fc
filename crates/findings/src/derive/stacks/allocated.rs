//! Memory allocations by site, around a function, and by thread: allocated, still live, and freed by other
//! threads.
//!
//! The input is sampled allocations (`allocations` of the trace), so every value has an error. A **site** is
//! the program's own function nearest to the allocator.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::tables::{ALLOCATION_LIBRARY, AllocationRow};
use holdup_events::{FrameId, StackId, ThreadId, Trace};

use super::folding::Folding;
use super::observations::Selection;
use super::places::{Place, PlaceId, find};
use super::profile::Paths;
use crate::derive::allocators::Allocators;
use crate::derive::amount::Amount;
use crate::derive::class::Class;
use crate::derive::own_places::OwnFrames;
use crate::descriptors::Descriptors;

/// One function that allocates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// Function name, or `module+0xstart` without symbols.
    pub function: String,
    /// Path of its binary.
    pub module: String,
    /// Source file of the line that allocates most. Empty if unknown.
    pub file: String,
    /// Line that allocates most. 0 if unknown.
    pub line: u32,
    /// Allocated memory.
    pub all: Amount,
    /// Memory that was not freed.
    pub live: Amount,
    /// Memory that another thread freed.
    pub freed_by_others: Amount,
}

/// Memory that one thread allocated and another one freed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Handed {
    /// Allocating thread.
    pub from: ThreadId,
    /// Freeing thread.
    pub to: ThreadId,
    /// Amount of memory.
    pub amount: Amount,
}

/// Callers and callees of a function, each with the memory allocated through it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Around {
    /// Through the function, all in all.
    pub all: Amount,
    /// Callers. `None` if the function is the root.
    pub callers: Vec<(Option<PlaceId>, Amount)>,
    /// Callees. `None` if the function allocates itself.
    pub callees: Vec<(Option<PlaceId>, Amount)>,
}

/// Allocations in a part of a recording.
#[derive(Clone, Debug, Default)]
pub struct Allocated {
    /// Sampling interval in bytes. For weights, the mean weight. 0 if nothing was sampled.
    pub every_bytes: u64,
    /// Whether frees were recorded. False for weights.
    pub frees_known: bool,
    /// Whether the rows are a collector's census of live memory instead of allocations.
    pub is_census: bool,
    /// All allocated memory. For a census, all live memory.
    pub all: Amount,
    /// Memory not freed until the end of the selected part. Includes memory allocated before the recording if
    /// the trace has it.
    pub live: Amount,
    /// Memory that another thread than the allocating one freed.
    pub freed_by_others: Amount,
    /// The site of the most bytes first.
    pub sites: Vec<Site>,
    /// The thread that allocated the most bytes first.
    pub threads: Vec<(ThreadId, Amount)>,
    /// The most bytes first.
    pub handed: Vec<Handed>,
    /// Row = [`PlaceId`].
    pub places: Vec<Place>,
    /// Distinct folded stacks, root first, with the memory allocated there.
    pub paths: Vec<(Vec<PlaceId>, Amount)>,
}

impl Allocated {
    /// Sums the allocations of the selected threads and time range. The selection's classes have no effect.
    pub fn derive(trace: &Trace, selection: &Selection, folding: &Folding) -> Allocated {
        if trace.allocations.is_empty() {
            return Allocated::default();
        }
        let selected = |row: &&AllocationRow| {
            selection.from <= row.at && row.at < selection.to && selection.has_thread(trace, row.thread)
        };
        let rows = || trace.allocations.iter().filter(selected);
        let mut sums = Sums::new(trace, folding, &selection.descriptors);
        sums.done.is_census = rows().next().is_some() && rows().all(AllocationRow::is_census);
        for row in rows() {
            sums.add(row, row.freed.filter(|freed| *freed < selection.to).is_some());
        }
        sums.finish()
    }

    /// Functions that match `pattern`.
    pub fn find(&self, pattern: &str) -> BTreeSet<PlaceId> {
        find(&self.places, self.paths.iter().flat_map(|(path, _)| path), pattern)
    }

    /// Callers and callees of a function (or of several, taken as one).
    pub fn around(&self, of: &BTreeSet<PlaceId>) -> Around {
        let mut around = Around::default();
        let mut callers: BTreeMap<Option<PlaceId>, Amount> = BTreeMap::new();
        let mut callees: BTreeMap<Option<PlaceId>, Amount> = BTreeMap::new();
        for (path, amount) in &self.paths {
            let Some(at) = path.iter().position(|place| of.contains(place)) else { continue };
            let caller = at.checked_sub(1).and_then(|before| path.get(before)).copied();
            around.all.merge(amount);
            callers.entry(caller).or_default().merge(amount);
            callees.entry(path.get(at + 1).copied()).or_default().merge(amount);
        }
        (around.callers, around.callees) = (most_first(callers), most_first(callees));
        around
    }
}

/// Most bytes first. Equal rows are sorted by key.
fn most_first<K: Ord + Copy>(sums: BTreeMap<K, Amount>) -> Vec<(K, Amount)> {
    let mut rows: Vec<(K, Amount)> = sums.into_iter().collect();
    rows.sort_by_key(|(key, amount)| (std::cmp::Reverse(amount.bytes()), *key));
    rows
}

/// A site while it is summed up: by the frame that allocates, so that the line with the most is known.
#[derive(Default)]
struct Growing {
    all: Amount,
    live: Amount,
    freed_by_others: Amount,
    frames: BTreeMap<FrameId, Amount>,
}

struct Sums<'a> {
    trace: &'a Trace,
    own: OwnFrames,
    allocates: Vec<bool>,
    /// By stack: the site's frame, and the frame that represents its function.
    site_of: HashMap<StackId, Option<(FrameId, FrameId)>>,
    sites: BTreeMap<Option<FrameId>, Growing>,
    threads: BTreeMap<ThreadId, Amount>,
    handed: BTreeMap<(ThreadId, ThreadId), Amount>,
    paths: Paths<'a>,
    by_path: BTreeMap<usize, Amount>,
    done: Allocated,
}

impl<'a> Sums<'a> {
    fn new(trace: &'a Trace, folding: &'a Folding, descriptors: &Descriptors) -> Sums<'a> {
        Sums {
            trace,
            own: OwnFrames::new(trace),
            allocates: allocates(trace, descriptors),
            site_of: HashMap::new(),
            sites: BTreeMap::new(),
            threads: BTreeMap::new(),
            handed: BTreeMap::new(),
            paths: Paths::new(trace, folding),
            by_path: BTreeMap::new(),
            done: Allocated { frees_known: true, ..Allocated::default() },
        }
    }

    fn add(&mut self, row: &AllocationRow, is_freed: bool) {
        let by_other = row.freed_by.filter(|by| is_freed && *by != row.thread);
        let site = self.site(row.stack);
        let growing = self.sites.entry(site.map(|(_, stands_for)| stands_for)).or_default();
        if let Some((frame, _)) = site {
            growing.frames.entry(frame).or_default().add(row);
        }
        self.done.every_bytes = self.done.every_bytes.max(row.every_bytes);
        // If the trace also has allocations, a census holds the memory allocated before them.
        let is_older = row.is_census() && !self.done.is_census;
        let is_allocated = !is_older;
        self.done.frees_known &= is_older || !row.is_weight();
        let is_live = !is_freed && (!row.is_weight() || row.is_census());
        for (sum, counts) in [
            (&mut growing.all, is_allocated),
            (&mut growing.live, is_live),
            (&mut growing.freed_by_others, by_other.is_some()),
            (&mut self.done.all, is_allocated),
            (&mut self.done.live, is_live),
            (&mut self.done.freed_by_others, by_other.is_some()),
        ] {
            if counts {
                sum.add(row);
            }
        }
        if !is_allocated {
            return;
        }
        self.threads.entry(row.thread).or_default().add(row);
        if let Some(other) = by_other {
            self.handed.entry((row.thread, other)).or_default().add(row);
        }
        let path = self.path(row.stack);
        self.by_path.entry(path).or_default().add(row);
    }

    /// The program's own function nearest to the allocator. If there is none, the nearest function of any
    /// module.
    fn site(&mut self, stack: StackId) -> Option<(FrameId, FrameId)> {
        let Sums { trace, own, allocates, site_of, .. } = self;
        *site_of.entry(stack).or_insert_with(|| {
            let frames = || trace.stack_frames(stack).filter(|frame| !allocates[frame.index()]);
            let program = frames().find_map(|frame| Some((frame, own.own_frame(frame)?)));
            program.or_else(|| frames().next().map(|frame| (frame, frame)))
        })
    }

    /// The stack as folded, without the library that drew it.
    fn path(&mut self, stack: StackId) -> usize {
        let path = self.paths.path_of(stack, Class::Useful);
        let mut shown = self.paths.list.get(path).cloned().unwrap_or_default();
        let before = shown.len();
        while shown.len() > 1
            && shown.last().is_some_and(|last| self.paths.places.get(*last).file() == ALLOCATION_LIBRARY)
        {
            shown.pop();
        }
        if shown.len() == before { path } else { self.paths.intern(shown) }
    }

    fn finish(self) -> Allocated {
        let trace = self.trace;
        let mut done = self.done;
        if done.every_bytes == 0 {
            done.every_bytes = done.all.bytes() / done.all.drawn.max(1);
        }
        done.sites = self.sites.into_iter().map(|(frame, growing)| growing.finish(trace, frame)).collect();
        let bytes = |site: &Site| std::cmp::Reverse((site.all.bytes(), site.live.bytes()));
        done.sites.sort_by(|a, b| bytes(a).cmp(&bytes(b)).then_with(|| a.function.cmp(&b.function)));
        done.threads = most_first(self.threads);
        let handed = most_first(self.handed).into_iter();
        done.handed = handed.map(|((from, to), amount)| Handed { from, to, amount }).collect();
        let list = &self.paths.list;
        let path = |(row, amount): (usize, Amount)| (list.get(row).cloned().unwrap_or_default(), amount);
        done.paths = self.by_path.into_iter().map(path).collect();
        done.places = self.paths.places.finish();
        done
    }
}

impl Growing {
    fn finish(self, trace: &Trace, stands_for: Option<FrameId>) -> Site {
        let frame = stands_for.and_then(|id| trace.frames.get(id.index()));
        let worst = most_first(self.frames).into_iter().next();
        let line = worst.and_then(|(id, _)| trace.frames.get(id.index()));
        Site {
            function: stands_for.map_or_else(|| "(no stack)".to_owned(), |id| trace.frame_name(id)),
            module: frame.map(|frame| frame.module.clone()).unwrap_or_default(),
            file: line.map(|frame| frame.file.clone()).unwrap_or_default(),
            line: line.map_or(0, |frame| frame.line),
            all: self.all,
            live: self.live,
            freed_by_others: self.freed_by_others,
        }
    }
}

/// Which frames are an allocator's, or of the library that draws.
fn allocates(trace: &Trace, descriptors: &Descriptors) -> Vec<bool> {
    let allocators = Allocators::new(trace, descriptors);
    let frames = trace.frames.iter().zip((0..).map(FrameId));
    frames
        .map(|(frame, id)| frame.module.ends_with(ALLOCATION_LIBRARY) || allocators.rule(id).is_some())
        .collect()
}

#[cfg(test)]
mod tests {
    use holdup_events::Timestamp;
    use holdup_events::tables::{CENSUS, Thread};

    use super::*;

    fn derived(rows: Vec<AllocationRow>) -> Allocated {
        let thread = Thread { target: true, ..Thread::default() };
        let trace = Trace { allocations: rows, threads: vec![thread], ..Trace::default() };
        Allocated::derive(&trace, &Selection::all(), &Folding::default())
    }

    #[test]
    fn memory_of_before_is_in_use_and_was_not_allocated() {
        let census = AllocationRow { bytes: 4096, own_bytes: CENSUS, ..AllocationRow::default() };
        let sampled = AllocationRow { bytes: 64, every_bytes: 1, own_bytes: 64, ..AllocationRow::default() };
        let freed = AllocationRow { freed: Some(Timestamp(0)), ..sampled };
        let both = derived(vec![census, sampled, freed]);
        assert_eq!((both.all.bytes(), both.live.bytes()), (128, 4096 + 64));
        assert!(both.frees_known && !both.is_census);
        let alone = derived(vec![census]);
        assert_eq!((alone.all.bytes(), alone.live.bytes()), (4096, 4096));
        assert!(alone.is_census && !alone.frees_known);
    }
}
