//! Meetings: threads that wait until the last of them has come. Barriers of every library, the ends of fork and join,
//! and, from a runtime's spans, stop-the-world pauses have the same shape: asked, arrivals, release.
//!
//! Found without names: a thread wakes all that sleep on one futex word, again and again, and is at other times
//! among those that sleep there, or the word's protocol is a barrier's. Threads that spin before they sleep, or
//! only spin, belong to the meeting that their spinning ends with; that is as exact as samples are. A meeting at which two
//! threads take turns on a condition variable cannot be told from a queue, and is left out.
//!
//! `causes.rs` says what the last did, `summary.rs` adds it up for each place of meeting, `lates.rs` names one cause for
//! each stop-the-world pause. It judges nothing.

mod causes;
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

/// What kind of meeting it is.
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
}

/// A place of meeting.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// What kind.
    pub kind: MeetingKind,
    /// Whose.
    pub process: ProcessId,
    /// The futex word; 0 where nobody slept, and of joins.
    pub object: u64,
    /// The loop in which members spin; none if nobody was seen to.
    pub spins_in: Option<FrameId>,
    /// The function of the program that waits here, if stacks tell.
    pub waits_in: Option<FrameId>,
    /// Who waits for the ends; none of barriers.
    pub waiter: Option<ThreadId>,
}

/// One meeting.
#[derive(Clone, Debug, Default)]
pub struct Meeting {
    /// Row of [`Rendezvous::sites`].
    pub site: u32,
    /// When its members last went on from here: since then they work for this meeting.
    pub since: Timestamp,
    /// When the first came, or when a runtime asked for it.
    pub asked: Timestamp,
    /// Who asked, where somebody does.
    pub leader: Option<ThreadId>,
    /// When the last had come.
    pub release: Timestamp,
    /// Who came last; none if that cannot be told.
    pub last: Option<ThreadId>,
    /// Rows of [`Rendezvous::arrivals`], by the time of arrival.
    pub arrivals: Range<usize>,
}

/// One member's part in a meeting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Who.
    pub thread: ThreadId,
    /// When it was done with its own work.
    pub at: Timestamp,
    /// When it ran again after the release; the release itself of the last, and of joined threads.
    pub resumed: Timestamp,
    /// It was seen to spin: `at` is as exact as samples are.
    pub spun: bool,
}

/// A member that waited for the last one of a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptWaiting {
    /// Who.
    pub thread: ThreadId,
    /// Row of [`Rendezvous::sites`].
    pub site: u32,
    /// Since when it waited, and until when: the part that was asked about.
    pub from: Timestamp,
    /// See there.
    pub to: Timestamp,
}

/// All meetings of a trace.
#[derive(Clone, Debug, Default)]
pub struct Rendezvous {
    /// Places of meeting.
    pub sites: Vec<Site>,
    /// By site, then time.
    pub meetings: Vec<Meeting>,
    /// Of all meetings.
    pub arrivals: Vec<Arrival>,
    /// Each site's sums, the costliest first.
    pub uses: Vec<SiteUse>,
    /// Why the last of each stop-the-world pause was late, by meeting.
    pub lates: Vec<Late>,
}

impl Rendezvous {
    /// The members of a meeting, by the time of arrival.
    pub fn members(&self, meeting: &Meeting) -> &[Arrival] {
        self.arrivals.get(meeting.arrivals.clone()).unwrap_or_default()
    }

    /// Who waited for `thread` between two moments because it came last, the longest waits first.
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

    /// Appends a meeting of a site that is there. `members` may come in any order.
    pub fn append(&mut self, meeting: Meeting, mut members: Vec<Arrival>) {
        members.sort_by_key(|arrival| (arrival.at, arrival.thread));
        let from = self.arrivals.len();
        self.arrivals.extend(members);
        self.meetings.push(Meeting { arrivals: from..self.arrivals.len(), ..meeting });
    }

    /// Work for a meeting begins where the meeting before it ended, however each was found.
    fn follow_on(&mut self) {
        let mut before: Option<(u32, Timestamp)> = None;
        for meeting in &mut self.meetings {
            if let Some((_, release)) = before.filter(|(site, _)| *site == meeting.site) {
                meeting.since = meeting.since.max(release).min(meeting.asked);
            }
            before = Some((meeting.site, meeting.release));
        }
    }

    /// Appends a place of meeting.
    pub fn append_site(&mut self, site: Site) -> u32 {
        self.sites.push(site);
        (self.sites.len() - 1) as u32
    }
}

/// Derives all meetings that slices, wakeups and samples show. Threads that `endings` knows to go on until they are told to
/// stop are no party of the join at which they are told.
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
    spinners::add(trace, &spinners, (&mut places, &mut rendezvous));
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
    for place in stacks.filter_map(|stack| places.of(stack)) {
        *seen.entry(place).or_default() += 1;
    }
    seen.into_iter().max_by_key(|(place, times)| (*times, std::cmp::Reverse(*place))).map(|(place, _)| place)
}
