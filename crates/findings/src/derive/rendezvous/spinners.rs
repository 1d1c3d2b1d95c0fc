//! Threads that spin until a barrier is complete: consecutive samples in one loop.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::ThreadState;
use holdup_events::{Duration, FrameId, ProcessId, StackId, ThreadId, Timestamp, Trace};

use super::{Arrival, Meeting, Rendezvous, Site, helpers};
use crate::derive::class::Class;
use crate::derive::on_cpu::SampleClasses;
use crate::derive::own_places::Places;
use crate::derive::roles::Roles;
use crate::derive::samples_of;
use crate::derive::spin::{Functions, user_leaf};

/// A thread spins in one loop for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spun {
    /// The spinning thread.
    pub thread: ThreadId,
    /// The loop: a frame that represents its function.
    pub place: FrameId,
    /// Stack of the first sample.
    pub stack: StackId,
    /// Start: half a sampling period before the first sample.
    pub from: Timestamp,
    /// End: half a sampling period after the last sample.
    pub to: Timestamp,
    /// Number of samples.
    pub samples: u64,
}

/// All spinning, by thread, then time.
#[derive(Debug, Default)]
pub struct Spinners {
    spun: Vec<Spun>,
    period: Duration,
}

/// Shorter spinning may be that of a lock, and its bounds are vague.
const SAMPLES_MIN: u64 = 3;
/// Minimum number of barrier rounds. Fewer may be chance.
const MEETINGS_MIN: usize = 3;
/// Minimum share of rounds in which another member runs. While threads spin at a barrier, a member works.
/// While they spin for a lock whose holder is not running, none does.
const WORKED_MIN: f64 = 0.5;

impl Spinners {
    /// Collects the rows of samples that spin.
    pub fn collect(trace: &Trace, classes: &SampleClasses) -> Spinners {
        let period = Duration(trace.manifest.sample_period_ns);
        let half = Duration(period.0 / 2);
        let mut functions = Functions::default();
        let mut spun: Vec<Spun> = Vec::new();
        for thread in trace.target_threads() {
            let mut goes_on = false;
            for sample in samples_of(trace, thread) {
                if classes.class_of(sample) != Class::Spin {
                    goes_on = false;
                    continue;
                }
                let Some(leaf) = user_leaf(trace, sample) else { continue };
                let place = functions.first_frame(trace, leaf);
                match spun.last_mut() {
                    Some(last) if goes_on && last.place == place => {
                        last.to = sample.at + half;
                        last.samples += 1;
                    }
                    _ => {
                        let from = sample.at - half;
                        let (to, stack) = (sample.at + half, sample.stack);
                        spun.push(Spun { thread, place, stack, from, to, samples: 1 });
                    }
                }
                goes_on = true;
            }
        }
        Spinners { spun, period }
    }

    /// The threads of a process that ever spin in a loop.
    pub fn in_loop<'a>(
        &'a self,
        trace: &'a Trace,
        (process, place): (ProcessId, FrameId),
    ) -> impl Iterator<Item = ThreadId> + 'a {
        let of_process = move |id: ThreadId| trace.threads[id.index()].process == process;
        let there = self.spun.iter().filter(move |spun| spun.place == place && of_process(spun.thread));
        there.map(|spun| spun.thread)
    }

    /// Spinning of a thread that ends at about `at`, without other samples in between.
    pub fn until(&self, thread: ThreadId, at: Timestamp) -> Option<Spun> {
        let near = at + self.period;
        let behind = self.spun.partition_point(|spun| (spun.thread, spun.from) < (thread, at));
        let spun = self.spun.get(..behind)?.last().filter(|spun| spun.thread == thread)?;
        (spun.to <= near + self.period && at <= spun.to + self.period + self.period).then_some(*spun)
    }
}

/// Adds barriers at which no thread slept. The threads spin in one loop while other threads that also spin
/// there at times do work. The spinning ends for all of them at once.
pub fn add(
    (trace, roles): (&Trace, &Roles),
    spinners: &Spinners,
    (places, rendezvous): (&mut Places, &mut Rendezvous),
) {
    let mut taken: BTreeMap<ThreadId, Vec<(Timestamp, Timestamp)>> = BTreeMap::new();
    for meeting in &rendezvous.meetings {
        for arrival in rendezvous.members(meeting) {
            taken.entry(arrival.thread).or_default().push((arrival.at, meeting.release));
        }
    }
    taken.values_mut().for_each(|spans| spans.sort());
    let is_taken = |spun: &&Spun| {
        let spans = taken.get(&spun.thread).map(Vec::as_slice).unwrap_or_default();
        let behind = spans.partition_point(|(from, _)| *from <= spun.to);
        spans.get(..behind).and_then(<[_]>::last).is_some_and(|(_, to)| *to >= spun.from)
    };
    let mut loops: BTreeMap<(ProcessId, FrameId), Vec<Spun>> = BTreeMap::new();
    for spun in spinners.spun.iter().filter(|spun| spun.samples >= SAMPLES_MIN && !is_taken(spun)) {
        let process = trace.threads[spun.thread.index()].process;
        loops.entry((process, spun.place)).or_default().push(*spun);
    }
    for ((process, place), spun) in loops {
        add_loop((trace, roles), (process, place), spun, (spinners, places, rendezvous));
    }
}

fn add_loop(
    (trace, roles): (&Trace, &Roles),
    (process, place): (ProcessId, FrameId),
    mut spun: Vec<Spun>,
    (spinners, places, rendezvous): (&Spinners, &mut Places, &mut Rendezvous),
) {
    spun.sort_by_key(|spun| (spun.to, spun.thread));
    let is_it = |site: &Site| (site.process, site.spins_in) == (process, Some(place));
    let known = rendezvous.sites.iter().position(is_it);
    let members: BTreeSet<ThreadId> = known.map_or_else(
        || workers(trace, process),
        |site| members(rendezvous, site as u32).chain(spun.iter().map(|spun| spun.thread)).collect(),
    );
    let together = |a: &Spun, b: &Spun| b.to.since(a.to) <= spinners.period + spinners.period;
    let found: Vec<Vec<Spun>> = spun.chunk_by(together).map(<[Spun]>::to_vec).collect();
    let found = by_members((trace, roles), found, &members);
    let worked = found.iter().filter(|group| someone_works(trace, group, &members)).count();
    if known.is_none() && (found.len() < MEETINGS_MIN || (worked as f64) < WORKED_MIN * found.len() as f64) {
        return;
    }
    let site = known.map_or_else(
        || rendezvous.append_site(Site { process, spins_in: Some(place), ..Site::default() }),
        |site| site as u32,
    );
    if known.is_none() {
        let waits_in = super::most_seen(places, spun.iter().map(|spun| spun.stack));
        rendezvous.sites[site as usize].waits_in = waits_in;
    }
    let mut since = trace.start();
    for group in found {
        since = add_round(rendezvous, (site, since), &group, &members);
    }
}

/// Leaves out the groups that wait for a helper of the spinning threads, which is no member.
fn by_members(
    (trace, roles): (&Trace, &Roles),
    mut found: Vec<Vec<Spun>>,
    members: &BTreeSet<ThreadId>,
) -> Vec<Vec<Spun>> {
    let spinning: BTreeSet<ThreadId> = found.iter().flatten().map(|spun| spun.thread).collect();
    let mut lasts: BTreeMap<ThreadId, Vec<Timestamp>> = BTreeMap::new();
    for group in &found {
        let ends = group.iter().map(|spun| spun.to).max();
        if let (Some(last), Some(end)) = (last_of(group, members), ends) {
            lasts.entry(last).or_default().push(end);
        }
    }
    let helpers = helpers::among((trace, roles), &spinning, &lasts);
    found.retain(|group| last_of(group, members).is_none_or(|last| !helpers.contains(&last)));
    found
}

/// The only member that did not spin.
fn last_of(group: &[Spun], members: &BTreeSet<ThreadId>) -> Option<ThreadId> {
    let mut absent = members.iter().filter(|id| !group.iter().any(|spun| spun.thread == **id));
    absent.next().copied().filter(|_| absent.next().is_none())
}

/// Adds the barrier round that ended a group's spinning. Returns its release.
fn add_round(
    rendezvous: &mut Rendezvous,
    (site, since): (u32, Timestamp),
    group: &[Spun],
    members: &BTreeSet<ThreadId>,
) -> Timestamp {
    let release = group.iter().map(|spun| spun.to).max().unwrap_or(since);
    let spun = |spun: &Spun| Arrival { thread: spun.thread, at: spun.from, resumed: release, spun: true };
    let mut arrivals: Vec<Arrival> = group.iter().map(spun).collect();
    let last = last_of(group, members);
    arrivals.extend(last.map(|thread| Arrival { thread, at: release, resumed: release, spun: false }));
    let asked = arrivals.iter().map(|arrival| arrival.at).min().unwrap_or(release);
    let since = since.min(asked);
    rendezvous.append(Meeting { site, since, asked, release, last, ..Meeting::default() }, arrivals);
    release
}

fn members(rendezvous: &Rendezvous, site: u32) -> impl Iterator<Item = ThreadId> + '_ {
    let meetings = rendezvous.meetings.iter().filter(move |meeting| meeting.site == site);
    meetings.flat_map(|meeting| rendezvous.members(meeting)).map(|arrival| arrival.thread)
}

/// A thread does a fair part of the work if it ran at least this share of what the busiest one ran.
const FAIR_PART: f64 = 0.1;

/// The threads of a process that do a fair part of its work.
fn workers(trace: &Trace, process: ProcessId) -> BTreeSet<ThreadId> {
    let of_process = trace.target_threads().filter(|id| trace.threads[id.index()].process == process);
    let ran: Vec<(ThreadId, u64)> = of_process
        .map(|id| {
            let running = trace.slices.of_thread(id).filter(|slice| slice.state == ThreadState::Running);
            (id, running.map(|slice| slice.duration().0).sum())
        })
        .collect();
    let most = ran.iter().map(|(_, ns)| *ns).max().unwrap_or(0) as f64;
    ran.into_iter().filter(|(_, ns)| *ns as f64 >= FAIR_PART * most).map(|(id, _)| id).collect()
}

/// Another member runs when the middle of the spinning is.
fn someone_works(trace: &Trace, group: &[Spun], members: &BTreeSet<ThreadId>) -> bool {
    let Some(first) = group.iter().min_by_key(|spun| spun.from) else { return false };
    let middle = Timestamp(first.from.0 / 2 + first.to.0 / 2);
    let others = members.iter().filter(|id| !group.iter().any(|spun| spun.thread == **id));
    let mut states =
        others.filter_map(|id| Some(trace.slices.at(*id, trace.slices.covering(*id, middle)?).state));
    states.any(|state| state == ThreadState::Running)
}
