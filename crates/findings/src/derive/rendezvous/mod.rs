//! Rendezvous: points at which threads wait until the last one has arrived. These are barriers of any
//! library, joins, and stop-the-world pauses from a runtime's spans. All have the same parts: request,
//! arrivals, release.
//!
//! Barriers are found without symbol names. One thread repeatedly wakes all sleepers of a futex word, and at
//! other times sleeps there itself. A word whose protocol is a barrier's counts as well.
//!
//! Threads that only spin, or spin before they sleep, belong to the rendezvous that ends their spinning.
//! Their arrival times have the resolution of the samples. Two threads that take turns on a condition
//! variable look like a queue, and are left out.
//!
//! `causes.rs` derives the last thread's activity. `summary.rs` has the sums by site. `lates.rs` names one
//! cause for each stop-the-world pause.

mod causes;
mod helpers;
mod joins;
mod lates;
mod releases;
mod sleepers;
mod spinners;
mod stops;
mod summary;

use std::collections::BTreeMap;
use std::ops::Range;

use holdup_events::{FrameId, ProcessId, StackId, ThreadId, Timestamp, Trace};

use super::on_cpu::SampleClasses;
use super::own_places::{OwnFrames, Places};
use super::replay::Endings;
use super::roles::Roles;
use super::sweep;
use super::timelines::Timelines;
pub use causes::Causes;
pub use lates::{CauseUse, Late, LateCause};
pub use summary::{Saved, SiteUse};

/// Kind of a rendezvous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MeetingKind {
    /// All wait for all.
    #[default]
    Barrier,
    /// One waits for the ends of the threads that it started.
    Join,
    /// A runtime stops all threads: from its spans.
    StopTheWorld,
}

impl MeetingKind {
    /// The stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            MeetingKind::Barrier => "barrier",
            MeetingKind::Join => "join",
            MeetingKind::StopTheWorld => "stop-the-world",
        }
    }

    /// The field's word for one rendezvous of this kind, as in "at 3 barriers".
    pub fn noun(self) -> &'static str {
        match self {
            MeetingKind::Barrier => "barrier",
            MeetingKind::Join => "join",
            MeetingKind::StopTheWorld => "stop-the-world pause",
        }
    }
}

/// Place in the program where threads rendezvous.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// Kind of rendezvous.
    pub kind: MeetingKind,
    /// Process of the members.
    pub process: ProcessId,
    /// Address of the futex word. 0 for joins, for stop-the-world pauses, and for barriers at which no thread
    /// slept.
    pub object: u64,
    /// Loop in which members spin. `None` if no thread was seen to spin.
    pub spins_in: Option<FrameId>,
    /// Function of the program that waits here. `None` if no stack shows it.
    pub waits_in: Option<FrameId>,
    /// The joining thread. `None` for other kinds.
    pub waiter: Option<ThreadId>,
}

/// One rendezvous: a barrier round, a join or a stop-the-world pause.
#[derive(Clone, Debug, Default)]
pub struct Meeting {
    /// Row of [`Rendezvous::sites`].
    pub site: u32,
    /// Time at which the members left the previous rendezvous here. Since then they work for this one.
    pub since: Timestamp,
    /// Time of the first arrival, or of a runtime's request.
    pub asked: Timestamp,
    /// The requesting thread, if there is one.
    pub leader: Option<ThreadId>,
    /// Time of the last arrival.
    pub release: Timestamp,
    /// Last thread to arrive. `None` if unknown.
    pub last: Option<ThreadId>,
    /// Rows of [`Rendezvous::arrivals`], by the time of arrival.
    pub arrivals: Range<usize>,
}

/// One member's part in a rendezvous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// The member.
    pub thread: ThreadId,
    /// Time of the arrival: the end of the member's own work.
    pub at: Timestamp,
    /// Time at which the member ran again after the release. Equal to the release for the last thread and for
    /// joined threads.
    pub resumed: Timestamp,
    /// Whether the member was seen to spin. Then `at` has the resolution of the samples.
    pub spun: bool,
}

/// A member that waited for the last thread of a rendezvous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptWaiting {
    /// The waiting member.
    pub thread: ThreadId,
    /// Row of [`Rendezvous::sites`].
    pub site: u32,
    /// Start of the wait, cut to the requested range.
    pub from: Timestamp,
    /// End of the wait, cut to the requested range.
    pub to: Timestamp,
}

/// All rendezvous of a trace.
#[derive(Clone, Debug, Default)]
pub struct Rendezvous {
    /// Places where threads rendezvous.
    pub sites: Vec<Site>,
    /// By site, then time.
    pub meetings: Vec<Meeting>,
    /// Arrivals of all rendezvous.
    pub arrivals: Vec<Arrival>,
    /// Each site's sums, the costliest first.
    pub uses: Vec<SiteUse>,
    /// Why the last thread of each stop-the-world pause was late. Sorted like `meetings`.
    pub lates: Vec<Late>,
}

impl Rendezvous {
    /// The members of a rendezvous, by the time of arrival.
    pub fn members(&self, meeting: &Meeting) -> &[Arrival] {
        self.arrivals.get(meeting.arrivals.clone()).unwrap_or_default()
    }

    /// Members that waited for `thread` between two moments because `thread` arrived last. Longest waits
    /// first.
    pub fn kept_waiting(&self, thread: ThreadId, (from, to): (Timestamp, Timestamp)) -> Vec<KeptWaiting> {
        let late =
            |meeting: &&Meeting| meeting.last == Some(thread) && meeting.release > from && meeting.since < to;
        let mut kept: Vec<KeptWaiting> = Vec::new();
        for meeting in self.meetings.iter().filter(late) {
            let others = self.members(meeting).iter().filter(|arrival| arrival.thread != thread);
            kept.extend(others.map(|arrival| KeptWaiting {
                thread: arrival.thread,
                site: meeting.site,
                from: arrival.at.max(from),
                to: meeting.release.min(to),
            }));
        }
        kept.retain(|one| one.from < one.to);
        kept.sort_by_key(|one| (std::cmp::Reverse(one.to.since(one.from)), one.from, one.thread));
        kept
    }

    /// A runtime's pauses, which have a rule of their own.
    pub fn stops_the_world(&self, used: &SiteUse) -> bool {
        self.sites.get(used.site as usize).is_some_and(|site| site.kind == MeetingKind::StopTheWorld)
    }

    /// One thread waits there for the ends of others.
    pub fn is_join(&self, used: &SiteUse) -> bool {
        self.sites.get(used.site as usize).is_some_and(|site| site.kind == MeetingKind::Join)
    }

    /// Appends a rendezvous of a known site. `members` may be in any order.
    pub fn append(&mut self, meeting: Meeting, mut members: Vec<Arrival>) {
        members.sort_by_key(|arrival| (arrival.at, arrival.thread));
        let from = self.arrivals.len();
        self.arrivals.extend(members);
        self.meetings.push(Meeting { arrivals: from..self.arrivals.len(), ..meeting });
    }

    /// Moves the start of the work for each rendezvous to the end of the previous one at the same site.
    fn follow_on(&mut self) {
        let mut before: Option<(u32, Timestamp)> = None;
        for meeting in &mut self.meetings {
            if let Some((_, release)) = before.filter(|(site, _)| *site == meeting.site) {
                meeting.since = meeting.since.max(release).min(meeting.asked);
            }
            before = Some((meeting.site, meeting.release));
        }
    }

    /// Appends a site and returns its row.
    pub fn append_site(&mut self, site: Site) -> u32 {
        self.sites.push(site);
        (self.sites.len() - 1) as u32
    }
}

/// Derives all rendezvous from slices, wakeups, samples and spans. Threads that `endings` lists as running
/// until a stop request are not members of a join.
pub fn derive(
    trace: &Trace,
    classes: &SampleClasses,
    (timelines, roles): (&Timelines, &Roles),
    endings: &Endings,
) -> Rendezvous {
    let mut rendezvous = Rendezvous::default();
    let spinners = spinners::Spinners::collect(trace, classes);
    let own = OwnFrames::new(trace);
    let mut places = Places::new(trace, &own);
    releases::add((trace, roles), &spinners, (&mut places, &mut rendezvous));
    spinners::add((trace, roles), &spinners, (&mut places, &mut rendezvous));
    joins::add(trace, endings, &mut rendezvous);
    stops::add(trace, &mut rendezvous);
    rendezvous.meetings.sort_by_key(|meeting| (meeting.site, meeting.release));
    rendezvous.follow_on();
    let displaced = causes::Displaced::new(timelines);
    let cpus = sweep::usable_cpus(trace, timelines);
    let look = causes::Look { trace, classes, timelines, roles, displaced: &displaced, cpus };
    rendezvous.uses = summary::derive(trace, &rendezvous, look);
    rendezvous.lates = lates::derive(&rendezvous, look);
    rendezvous
}

/// The place of the program that most of these stacks are in.
fn most_seen(places: &mut Places, stacks: impl Iterator<Item = StackId>) -> Option<FrameId> {
    let mut seen: BTreeMap<FrameId, u64> = BTreeMap::new();
    for place in stacks.filter_map(|stack| places.nearest_own(stack)) {
        *seen.entry(place).or_default() += 1;
    }
    seen.into_iter().max_by_key(|(place, times)| (*times, std::cmp::Reverse(*place))).map(|(place, _)| place)
}
