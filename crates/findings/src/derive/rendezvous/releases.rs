//! Barriers at which members sleep: one thread wakes all sleepers of a futex word.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::{FrameId, ThreadId, Timestamp, Trace};

use super::helpers;
use super::sleepers::{Sleep, Sleepers};
use super::spinners::{Spinners, Spun};
use super::{Arrival, Meeting, Rendezvous, Site};
use crate::derive::own_places::Places;
use crate::derive::roles::Roles;

/// Maximum time between wakeups of one call (ns). A wakeup takes a few microseconds, more if its thread is
/// interrupted.
const GAP_MAX_NS: u64 = 200_000;
/// Minimum number of releases. Fewer may be chance.
const MEETINGS_MIN: usize = 3;
/// Minimum share of releases that wake all sleepers. A barrier wakes all of them, but a few wakeups may be
/// missing from the trace.
const WHOLE_MIN: f64 = 0.9;
/// Minimum mean share of releases in which a member takes part. At a barrier each member takes part in every
/// release. Some are missed: a wakeup is lost, or a thread arrived so late that it did not sleep. Idle
/// threads of a pool only take part when there is work for them.
const ATTENDANCE_MIN: f64 = 0.75;

/// Adds the barriers at which members sleep, with the members that spun instead of sleeping.
pub fn add(
    (trace, roles): (&Trace, &Roles),
    spinners: &Spinners,
    (places, rendezvous): (&mut Places, &mut Rendezvous),
) {
    let sleepers = Sleepers::collect(trace, roles);
    for sleeps in sleepers.sleeps.chunk_by(|a, b| a.word == b.word) {
        let Some(first) = sleeps.first() else { continue };
        let releases = by_members((trace, roles), releases(sleeps));
        let counts_rounds = sleepers.counts_rounds.get(first.word as usize) == Some(&true);
        // Members that spin first are seen to take part only when that does not suffice.
        let attended = || spins_in(&releases, spinners, trace.start()).is_some() || is_attended(&releases);
        let is_barrier = if counts_rounds { attended() } else { wakes_like_a_barrier(&releases) };
        if !is_complete(trace, &releases) || !is_barrier {
            continue;
        }
        let (process, object) = sleepers.words[first.word as usize];
        let waits_in = super::most_seen(places, sleeps.iter().map(|sleep| sleep.stack));
        let site = rendezvous.append_site(Site { process, object, waits_in, ..Site::default() });
        add_site(trace, (site, &releases), spinners, rendezvous);
    }
}

/// Wakeups by one thread at once.
struct Release<'a> {
    sleeps: &'a [Sleep],
    /// Whether another thread slept on.
    partial: bool,
}

impl Release<'_> {
    fn at(&self) -> Timestamp {
        self.sleeps.first().map_or(Timestamp(0), |sleep| sleep.woken)
    }

    fn waker(&self) -> ThreadId {
        self.sleeps.first().map_or(ThreadId(0), |sleep| sleep.waker)
    }
}

/// Sleeps of one word, cut into releases.
fn releases(sleeps: &[Sleep]) -> Vec<Release<'_>> {
    // A thread that arrives after a wakeup waits for the next one.
    let together = |a: &Sleep, b: &Sleep| {
        a.waker == b.waker && b.woken.since(a.woken).0 <= GAP_MAX_NS && b.from <= a.woken
    };
    let mut releases: Vec<Release> =
        sleeps.chunk_by(together).map(|sleeps| Release { sleeps, partial: false }).collect();
    // Earliest start of all sleeps that end later.
    let mut earliest = Timestamp(u64::MAX);
    for release in releases.iter_mut().rev() {
        release.partial = earliest < release.at();
        let begin = release.sleeps.iter().map(|sleep| sleep.from).min();
        earliest = earliest.min(begin.unwrap_or(earliest));
    }
    releases
}

/// Leaves out the releases by a helper of the sleepers, which is no member.
fn by_members<'a>((trace, roles): (&Trace, &Roles), mut releases: Vec<Release<'a>>) -> Vec<Release<'a>> {
    let members = releases.iter().flat_map(|release| release.sleeps).map(|sleep| sleep.thread).collect();
    let mut lasts: BTreeMap<ThreadId, Vec<Timestamp>> = BTreeMap::new();
    for release in &releases {
        lasts.entry(release.waker()).or_default().push(release.at());
    }
    let helpers = helpers::among((trace, roles), &members, &lasts);
    releases.retain(|release| !helpers.contains(&release.waker()));
    releases
}

/// Whether there are enough releases, all by threads of the program, and nearly all of them wake everybody.
fn is_complete(trace: &Trace, releases: &[Release]) -> bool {
    let whole = releases.iter().filter(|release| !release.partial).count();
    let is_target = |id: ThreadId| trace.threads.get(id.index()).is_some_and(|thread| thread.target);
    releases.len() >= MEETINGS_MIN
        && whole as f64 >= WHOLE_MIN * releases.len() as f64
        && releases.iter().all(|release| is_target(release.waker()))
}

/// Whether the releases have the wakeup pattern of a barrier. A queue's workers are woken by its producer,
/// and a turn is passed from thread to thread. At a barrier each member is last at times and then wakes all
/// others.
fn wakes_like_a_barrier(releases: &[Release]) -> bool {
    let sleepers: BTreeSet<ThreadId> =
        releases.iter().flat_map(|release| release.sleeps).map(|sleep| sleep.thread).collect();
    let both: BTreeSet<ThreadId> =
        releases.iter().map(Release::waker).filter(|waker| sleepers.contains(waker)).collect();
    let several = releases.iter().filter(|release| release.sleeps.len() >= 2).count();
    both.len() >= 2 && several * 2 > releases.len() && is_attended(releases)
}

/// Whether members sleep or wake at most of the releases between their first and their last.
fn is_attended(releases: &[Release]) -> bool {
    let mut members: BTreeMap<ThreadId, Attendance> = BTreeMap::new();
    for (number, release) in releases.iter().enumerate() {
        let sleepers = release.sleeps.iter().map(|sleep| sleep.thread);
        for thread in sleepers.chain([release.waker()]) {
            let member =
                members.entry(thread).or_insert(Attendance { first: number, ..Attendance::default() });
            member.last = number;
            member.times += 1;
        }
    }
    let possible: usize = members.values().map(|member| member.last - member.first + 1).sum();
    let times: usize = members.values().map(|member| member.times).sum();
    times as f64 >= ATTENDANCE_MIN * possible as f64
}

/// The releases in which one thread takes part.
#[derive(Default)]
struct Attendance {
    first: usize,
    last: usize,
    times: usize,
}

fn add_site(
    trace: &Trace,
    (site, releases): (u32, &[Release]),
    spinners: &Spinners,
    rendezvous: &mut Rendezvous,
) {
    let mut members: BTreeSet<ThreadId> = BTreeSet::new();
    for release in releases {
        members.insert(release.waker());
        members.extend(release.sleeps.iter().map(|sleep| sleep.thread));
    }
    let place = spins_in(releases, spinners, trace.start());
    if let Some(known) = rendezvous.sites.get_mut(site as usize) {
        known.spins_in = place;
        // A member that never spins long enough to sleep is known only by the loop.
        members.extend(place.into_iter().flat_map(|place| spinners.in_loop(trace, (known.process, place))));
    }
    let mut since = trace.start();
    for release in releases {
        let arrivals = arrivals(release, (spinners, since), &members);
        let asked = arrivals.iter().map(|arrival| arrival.at).min().unwrap_or(release.at());
        let last = Some(release.waker());
        let meeting = Meeting { site, since, asked, release: release.at(), last, ..Meeting::default() };
        rendezvous.append(meeting, arrivals);
        since = release.at();
    }
}

/// The loop in which most that sleep here spin before.
fn spins_in(releases: &[Release], spinners: &Spinners, start: Timestamp) -> Option<FrameId> {
    let mut loops: BTreeMap<FrameId, u64> = BTreeMap::new();
    let mut since = start;
    for release in releases {
        let spun = release.sleeps.iter().filter_map(|sleep| spinners.until(sleep.thread, sleep.from));
        for spun in spun.filter(|spun| spun.from >= since) {
            *loops.entry(spun.place).or_default() += 1;
        }
        since = release.at();
    }
    loops.into_iter().max_by_key(|(place, times)| (*times, std::cmp::Reverse(*place))).map(|(place, _)| place)
}

/// Arrivals of the sleepers, the spinners and the waker.
fn arrivals(
    release: &Release,
    (spinners, since): (&Spinners, Timestamp),
    members: &BTreeSet<ThreadId>,
) -> Vec<Arrival> {
    let spun_until = |thread, at| spinners.until(thread, at).filter(|spun: &Spun| spun.from >= since);
    let slept = release.sleeps.iter().map(|sleep| {
        let spun = spun_until(sleep.thread, sleep.from);
        Arrival {
            thread: sleep.thread,
            at: spun.map_or(sleep.from, |spun| spun.from).max(since),
            resumed: sleep.resumed,
            spun: spun.is_some(),
        }
    });
    let mut arrivals: Vec<Arrival> = slept.collect();
    let present: BTreeSet<ThreadId> = arrivals.iter().map(|arrival| arrival.thread).collect();
    let (at, last) = (release.at(), release.waker());
    let others = members.iter().filter(|id| **id != last && !present.contains(id));
    arrivals.extend(others.filter_map(|thread| {
        let spun = spun_until(*thread, at)?;
        Some(Arrival { thread: *thread, at: spun.from.min(at), resumed: at, spun: true })
    }));
    arrivals.push(Arrival { thread: last, at, resumed: at, spun: false });
    arrivals
}
