//! Why the last thread arrived late at each stop-the-world pause. Each pause has one cause: the one with the
//! largest part of the lateness.
//!
//! An idle thread is woken by the request. Up to the wakeup the request is late (`AskedLate`). From the
//! wakeup until the thread runs, the wakeup is late (`WokenLate`), even if the thread waited for a CPU.
//!
//! The cause of running time is sampled. If no sample falls into the lateness, the last sample before it is
//! used, because only a poll ends the current activity.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{SampleRow, Slice, ThreadState};
use holdup_events::{FrameId, StackId, ThreadId, Timestamp};

use super::causes::{Causes, Look, slices_between};
use super::{Meeting, MeetingKind, Rendezvous};
use crate::derive::class::Class;
use crate::derive::own_places::{OwnFrames, Places};
use crate::derive::samples_of;
use crate::derive::services::Faulting;

/// Why a thread came late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LateCause {
    /// Arrived as soon as the thread could see the request.
    Prompt = 0,
    /// Runnable while other threads occupied its CPU.
    NoCpu = 1,
    /// Throttled: the cgroup's CPU bandwidth was used up.
    Throttled = 2,
    /// Steal time: the hypervisor took the CPU away.
    Stolen = 3,
    /// Idle, and had to be woken first. Also a thread that answers for an idle one.
    WokenLate = 4,
    /// Ran without polling for stop requests.
    RanOn = 5,
    /// Ran in the kernel's page fault handler, or waited for a page.
    Faulted = 6,
    /// Slept in a call, and no other thread could answer for it.
    Slept = 7,
    /// The requesting thread sent the request to this thread late.
    AskedLate = 8,
    /// Not known.
    #[default]
    Unknown = 9,
}

/// Number of causes.
const CAUSES: usize = 10;

impl LateCause {
    /// All causes. If two have equal time, the first in this order is reported.
    pub const ALL: [LateCause; CAUSES] = [
        LateCause::NoCpu,
        LateCause::Throttled,
        LateCause::Stolen,
        LateCause::WokenLate,
        LateCause::AskedLate,
        LateCause::Faulted,
        LateCause::Slept,
        LateCause::RanOn,
        LateCause::Prompt,
        LateCause::Unknown,
    ];

    /// The stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            LateCause::Prompt => "prompt",
            LateCause::NoCpu => "no-cpu",
            LateCause::Throttled => "throttled",
            LateCause::Stolen => "stolen",
            LateCause::WokenLate => "woken-late",
            LateCause::AskedLate => "asked-late",
            LateCause::RanOn => "ran-on",
            LateCause::Faulted => "page-faults",
            LateCause::Slept => "slept-in-a-call",
            LateCause::Unknown => "unknown",
        }
    }
}

/// Why one pause's last thread was late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// Row of [`Rendezvous::meetings`].
    pub meeting: u32,
    /// Cause of the largest part of the lateness.
    pub cause: LateCause,
    /// Time of that cause (ns).
    pub cause_ns: u64,
    /// Thread that occupied the CPU for most of the time in which the last thread waited for it.
    pub occupant: Option<ThreadId>,
    /// Function of the program in which the last thread ran or slept. The leaf frame if no frame belongs to
    /// the program.
    pub place: Option<FrameId>,
}

/// Time of one cause, over all pauses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CauseUse {
    /// The cause.
    pub cause: LateCause,
    /// Number of pauses with this as the largest cause.
    pub times: u64,
    /// Total time of the cause in these pauses (ns).
    pub late_ns: u64,
    /// Thread that occupied the last thread's CPU in most of these pauses.
    pub occupant: Option<ThreadId>,
    /// Where the last ran or slept in most of them.
    pub place: Option<FrameId>,
}

impl Rendezvous {
    /// Why the last was late, by cause, the greatest first: at one site, or at all.
    pub fn late_causes(&self, site: Option<u32>) -> Vec<CauseUse> {
        let is_there = |late: &&Late| {
            let meeting = self.meetings.get(late.meeting as usize);
            meeting.is_some_and(|meeting| site.is_none_or(|site| meeting.site == site))
        };
        let mut sums: BTreeMap<LateCause, CauseSums> = BTreeMap::new();
        for late in self.lates.iter().filter(is_there) {
            sums.entry(late.cause).or_default().add(late);
        }
        let mut uses: Vec<CauseUse> = sums.into_iter().map(|(cause, sums)| sums.finish(cause)).collect();
        uses.sort_by_key(|used| (std::cmp::Reverse(used.late_ns), used.cause));
        uses
    }

    /// Pauses with a late last thread, longest lateness first, at most `count`.
    pub fn latest(&self, count: usize) -> Vec<(&Meeting, &Late)> {
        let with = |late: &Late| self.meetings.get(late.meeting as usize);
        let mut rows: Vec<(&Meeting, &Late)> =
            self.lates.iter().filter_map(|late| Some((with(late)?, late))).collect();
        rows.sort_by_key(|(meeting, late)| {
            (std::cmp::Reverse(meeting.release.since(meeting.asked)), late.meeting)
        });
        rows.truncate(count);
        rows
    }
}

#[derive(Default)]
struct CauseSums {
    times: u64,
    late_ns: u64,
    occupants: BTreeMap<ThreadId, u64>,
    places: BTreeMap<FrameId, u64>,
}

impl CauseSums {
    fn add(&mut self, late: &Late) {
        self.times += 1;
        self.late_ns += late.cause_ns;
        late.occupant.into_iter().for_each(|who| *self.occupants.entry(who).or_default() += late.cause_ns);
        late.place.into_iter().for_each(|place| *self.places.entry(place).or_default() += late.cause_ns);
    }

    fn finish(self, cause: LateCause) -> CauseUse {
        let CauseSums { times, late_ns, occupants, places } = self;
        CauseUse { cause, times, late_ns, occupant: most(&occupants), place: most(&places) }
    }
}

/// Maximum lateness of a prompt thread (ns). A thread sees a request only at its next poll.
const PROMPT_MAX_NS: u64 = 20_000;
/// If no sample falls into the lateness, an earlier sample is used up to this number of sampling periods
/// before it.
const PERIODS_BEFORE: u64 = 3;

/// Finds the cause of each stop-the-world pause. Sorted like `rendezvous.meetings`.
pub(super) fn derive(rendezvous: &Rendezvous, look: Look) -> Vec<Late> {
    let is_stop = |meeting: &Meeting| {
        rendezvous.sites.get(meeting.site as usize).is_some_and(|site| site.kind == MeetingKind::StopTheWorld)
    };
    let stops = rendezvous.meetings.iter().enumerate().filter(|(_, meeting)| is_stop(meeting));
    let own = OwnFrames::new(look.trace);
    let faulting = Faulting::new(look.trace);
    let mut judge = Judge { look, faulting: &faulting, places: Places::new(look.trace, &own) };
    stops.filter_map(|(row, meeting)| judge.late(row as u32, meeting)).collect()
}

/// Thread, start and end of a time range of a pause's last thread.
type Stretch = (ThreadId, Timestamp, Timestamp);

struct Judge<'a> {
    look: Look<'a>,
    faulting: &'a Faulting,
    places: Places<'a>,
}

impl<'a> Judge<'a> {
    fn late(&mut self, row: u32, meeting: &Meeting) -> Option<Late> {
        let last = meeting.last?;
        let (asked, release) = (meeting.asked, meeting.release);
        let late = Late { meeting: row, cause_ns: release.since(asked).0, ..Late::default() };
        if late.cause_ns <= PROMPT_MAX_NS {
            return Some(Late { cause: LateCause::Prompt, ..late });
        }
        // Three ranges: until the thread was woken (if it slept), until it ran, and from then on.
        let (woken, ran) = self.woken(last, (asked, release)).unwrap_or((asked, asked));
        let (mut until_ran, mut then) = (Causes::default(), Causes::default());
        until_ran.add(&self.look, last, (woken, ran));
        then.add(&self.look, last, (ran, release));
        let samples = self.samples((last, ran, release), meeting.since);
        let mut parts = self.parts((last, ran, release), &then, samples);
        parts[LateCause::AskedLate as usize] = woken.since(asked).0;
        parts[LateCause::WokenLate as usize] = ran.since(woken).0;
        let cause = LateCause::ALL.into_iter().rev().max_by_key(|cause| parts[*cause as usize])?;
        let occupants = if cause == LateCause::WokenLate { &until_ran.occupants } else { &then.occupants };
        let waited = matches!(cause, LateCause::NoCpu | LateCause::WokenLate);
        Some(Late {
            cause,
            cause_ns: parts[cause as usize],
            occupant: most(occupants).filter(|_| waited),
            place: self.place(cause, (last, ran, release), samples),
            ..late
        })
    }

    /// Time of the wakeup, and time at which the thread ran, if it was idle at the request.
    fn woken(
        &self,
        last: ThreadId,
        (asked, release): (Timestamp, Timestamp),
    ) -> Option<(Timestamp, Timestamp)> {
        let trace = self.look.trace;
        let class = |slice: &Slice| self.look.roles.class_of_wait(trace, slice);
        // A lock holder wakes the next waiter too, but a lock wait is a sleep in a call.
        let is_idle = |slice: &Slice| {
            slice.state == ThreadState::Blocked
                && matches!(class(slice), Class::WorkWait | Class::JoinWait | Class::GcWait)
        };
        let sleep = slices_between(trace, last, (asked, release)).filter(is_idle).last()?;
        let wakeups = trace.wakeups.of_thread(last);
        let behind = wakeups.partition_point(|wakeup| wakeup.at <= sleep.end);
        let wakeup = wakeups.get(..behind)?.last()?;
        if wakeup.at < sleep.start || wakeup.context != WakeContext::Thread {
            return None;
        }
        let runs = |slice: &Slice| slice.state == ThreadState::Running;
        let ran = slices_between(trace, last, (sleep.end, release)).find(runs);
        Some((wakeup.at, ran.map_or(release, |slice| slice.start)))
    }

    /// Samples of the last thread's activity while it ran.
    fn samples(&self, (last, ran, release): Stretch, since: Timestamp) -> &'a [SampleRow] {
        let trace = self.look.trace;
        let samples = samples_of(trace, last);
        let first = samples.partition_point(|sample| sample.at < ran);
        let behind = samples.partition_point(|sample| sample.at < release);
        if first < behind {
            return &samples[first..behind];
        }
        let earliest = Timestamp(ran.0.saturating_sub(PERIODS_BEFORE * trace.manifest.sample_period_ns));
        // The start of the work before the first pause is unknown.
        let since = if since < ran { since } else { Timestamp(0) };
        let before = samples[..first].last().filter(|sample| sample.at >= earliest.max(since));
        before.map(std::slice::from_ref).unwrap_or_default()
    }

    fn parts(&self, stretch: Stretch, then: &Causes, samples: &[SampleRow]) -> [u64; CAUSES] {
        let fault_wait = then.blocked_ns[Class::FaultWait as usize];
        let faults = samples.iter().filter(|sample| self.faults(sample)).count() as u64;
        let stolen = self.stolen(stretch).min(then.running_ns);
        let ran = then.running_ns - stolen;
        let faulted = ran * faults / (samples.len() as u64).max(1);
        let mut parts = [0; CAUSES];
        parts[LateCause::NoCpu as usize] = then.own_ns + then.others_ns + then.woken_late_ns;
        parts[LateCause::Throttled as usize] = then.throttled_ns;
        parts[LateCause::Stolen as usize] = stolen;
        parts[LateCause::Faulted as usize] = faulted + fault_wait;
        parts[LateCause::RanOn as usize] = ran - faulted;
        parts[LateCause::Slept as usize] = then.blocked_ns.iter().sum::<u64>() - fault_wait;
        parts[LateCause::Unknown as usize] = then.unknown_ns;
        parts
    }

    fn faults(&self, sample: &SampleRow) -> bool {
        self.faulting.holds(self.look.trace, sample)
    }

    /// Steal time within the range (ns). A slice's steal time is assumed to be spread evenly over the slice.
    fn stolen(&self, (last, from, to): Stretch) -> u64 {
        let trace = self.look.trace;
        let first = trace.steals.partition_point(|steal| (steal.thread, steal.slice_start) < (last, from));
        // The slice that it was in at first may have begun before.
        let steals = trace.steals.get(first.saturating_sub(1)..).unwrap_or_default();
        let part = |steal: &holdup_events::tables::Steal| {
            let slice = trace.slices.at(last, trace.slices.covering(last, steal.slice_start)?);
            let within = slice.end.min(to).since(slice.start.max(from)).0;
            Some(scaled(steal.stolen.0, within, slice.duration().0))
        };
        let near = steals.iter().take_while(|steal| steal.thread <= last && steal.slice_start < to);
        near.filter(|steal| steal.thread == last).filter_map(part).sum()
    }

    fn place(
        &mut self,
        cause: LateCause,
        (last, ran, release): Stretch,
        samples: &[SampleRow],
    ) -> Option<FrameId> {
        let trace = self.look.trace;
        let slices = || slices_between(trace, last, (ran, release));
        let stacks: Vec<StackId> = match cause {
            LateCause::RanOn => samples.iter().filter(|one| !self.faults(one)).map(|one| one.stack).collect(),
            LateCause::Faulted => {
                samples.iter().filter(|one| self.faults(one)).map(|one| one.stack).collect()
            }
            LateCause::Slept => slices().map(|slice| slice.stack).collect(),
            _ => return None,
        };
        let mut seen: BTreeMap<FrameId, u64> = BTreeMap::new();
        for stack in stacks {
            let place = self.places.nearest_own(stack).or_else(|| trace.stack_frames(stack).next());
            place.into_iter().for_each(|place| *seen.entry(place).or_default() += 1);
        }
        most(&seen)
    }
}

/// The key with the largest sum. If several are equal, the first one.
fn most<T: Copy + Ord>(sums: &BTreeMap<T, u64>) -> Option<T> {
    sums.iter().rev().max_by_key(|(_, sum)| **sum).map(|(what, _)| *what)
}

/// `ns` · `part` / `whole`.
fn scaled(ns: u64, part: u64, whole: u64) -> u64 {
    (u128::from(ns) * u128::from(part) / u128::from(whole.max(1))) as u64
}
