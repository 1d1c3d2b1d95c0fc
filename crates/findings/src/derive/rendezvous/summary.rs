//! Cost of all rendezvous at one site, how often each thread arrived last, and why.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdup_events::{FrameId, ThreadId, Timestamp, Trace};

use super::causes::{Causes, Look, Ran};
use super::{Arrival, Meeting, MeetingKind, Rendezvous, Site};
use crate::derive::class::Class;
use crate::derive::own_places::{OwnFrames, Places};

/// The sums of one site.
#[derive(Clone, Debug, Default)]
pub struct SiteUse {
    /// Row of [`Rendezvous::sites`].
    pub site: u32,
    /// For people.
    pub name: String,
    /// Number of rendezvous.
    pub meetings: u64,
    /// Members, by id.
    pub members: Vec<ThreadId>,
    /// Thread time that members waited for the last of them (ns).
    pub harm_ns: u64,
    /// Wait time per member: the mean over the waiting members, summed over all rendezvous (ns). Members that
    /// are seldom present do not lower it.
    pub harm_each_ns: u64,
    /// Part of `harm_ns` that members spent spinning, estimated from samples.
    pub spun_ns: u64,
    /// Thread time between releases and when the others ran again (ns).
    pub resume_ns: u64,
    /// From the first arrival to the last: median, 99th percentile and longest (ns).
    pub lateness_ns: [u64; 3],
    /// Last threads to arrive: thread, number of times, and wait time of the other members (ns). Largest wait
    /// time first.
    pub by_last: Vec<(ThreadId, u64, u64)>,
    /// States of the last thread while the other members waited.
    pub causes: Causes,
    /// Functions in which the last thread ran while the other members waited, with samples. Most samples
    /// first.
    pub late_at: Vec<(String, u64)>,
    /// Each member's running time for these rendezvous, without spinning as estimated from samples (ns).
    /// Longest first.
    pub work: Vec<(ThreadId, u64)>,
    /// Running time of the last thread to arrive and of an average member. Summed over the rendezvous in
    /// which both are known (ns).
    pub last_work_ns: u64,
    /// Running time of an average member, like `last_work_ns`.
    pub mean_work_ns: u64,
    /// Number of rendezvous in which both are known.
    pub compared: u64,
    /// Time in which the last thread to arrive did not run although it had work left (ns).
    pub held_up_ns: u64,
    /// Part of `held_up_ns` in which other programs occupied the thread's CPU (ns).
    pub strangers_ns: u64,
    /// Estimated saving if all members had equal shares of the work.
    pub imbalance: Saved,
    /// Estimated saving if the last thread had never been held up before its arrival.
    pub straggle: Saved,
    /// The most expensive rendezvous: row of [`Rendezvous::meetings`] and wait time (ns).
    pub worst: Vec<(usize, u64)>,
}

/// Estimated wall time saved by a change at one site (ns), as an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Lower end.
    pub low_ns: u64,
    /// Upper end.
    pub high_ns: u64,
}

/// Rows in [`SiteUse::worst`] and [`SiteUse::late_at`].
const WORST_MAX: usize = 10;
/// Maximum share of time for which a worker is blocked. A thread that waits more than it runs is not a worker
/// whose share could grow.
const BLOCKED_MAX: f64 = 0.5;
/// Minimum running time of a worker, as a share of the busiest member's.
const FAIR_PART: f64 = 0.02;

/// Sums up every site, the costliest first.
pub(super) fn derive(trace: &Trace, rendezvous: &Rendezvous, look: Look) -> Vec<SiteUse> {
    let mut ran = Ran::new(trace);
    let own = OwnFrames::new(trace);
    let mut uses = Vec::new();
    let rows: Vec<usize> = (0..rendezvous.meetings.len()).collect();
    for of_site in rows.chunk_by(|a, b| rendezvous.meetings[*a].site == rendezvous.meetings[*b].site) {
        let Some(site) = of_site.first().map(|row| rendezvous.meetings[*row].site) else { continue };
        let mut sums = Sums::default();
        for row in of_site {
            let meeting = &rendezvous.meetings[*row];
            sums.add(look, &mut ran, (*row, meeting, rendezvous.members(meeting)));
        }
        let mut used = sums.finish(site);
        used.name = name(trace, &rendezvous.sites[site as usize]);
        used.late_at = late_at(trace, &own, &used.causes);
        uses.push(used);
    }
    uses.sort_by_key(|used| (Reverse(used.harm_ns), used.site));
    uses
}

#[derive(Default)]
struct Sums {
    used: SiteUse,
    lateness_ns: Vec<u64>,
    by_last: BTreeMap<ThreadId, (u64, u64)>,
    work: BTreeMap<ThreadId, u64>,
}

impl SiteUse {
    /// Whether the last threads to arrive were held up mostly by other programs.
    pub fn is_due_to_other_programs(&self) -> bool {
        2 * self.strangers_ns > self.held_up_ns
    }
}

impl Sums {
    fn add(&mut self, look: Look, ran: &mut Ran, (row, meeting, members): (usize, &Meeting, &[Arrival])) {
        let release = meeting.release;
        let waited = |arrival: &Arrival| release.since(arrival.at.max(meeting.asked)).0;
        let others = members.iter().filter(|arrival| Some(arrival.thread) != meeting.last);
        let harm: u64 = others.clone().map(waited).sum();
        self.used.meetings += 1;
        self.used.harm_ns += harm;
        self.used.harm_each_ns += harm / (others.clone().count() as u64).max(1);
        self.used.spun_ns += others.clone().filter(|arrival| arrival.spun).map(waited).sum::<u64>();
        self.used.resume_ns += others.map(|arrival| arrival.resumed.since(release).0).sum::<u64>();
        self.lateness_ns.push(release.since(meeting.asked).0);
        self.used.worst.push((row, harm));
        if self.used.worst.len() >= 8 * WORST_MAX {
            keep_worst(&mut self.used.worst);
        }
        if let Some(last) = meeting.last {
            let sums = self.by_last.entry(last).or_default();
            (sums.0, sums.1) = (sums.0 + 1, sums.1 + harm);
            self.used.causes.add(&look, last, (meeting.asked, release));
            self.add_straggle(look, (meeting, last), members);
        }
        self.add_work((look, ran), meeting, members);
    }

    /// Adds the saving without delays of the last thread, limited by the arrival of the last but one.
    fn add_straggle(&mut self, look: Look, (meeting, last): (&Meeting, ThreadId), members: &[Arrival]) {
        let others = members.iter().filter(|arrival| arrival.thread != last);
        let Some(before) = others.map(|arrival| arrival.at).max() else { return };
        let before = before.max(meeting.asked);
        let late = meeting.release.since(before).0;
        let held_up = |from: Timestamp| Causes::held_up_between(&look, last, (from, meeting.release));
        let on_its_way = held_up(meeting.since);
        self.used.held_up_ns += on_its_way.total_ns();
        self.used.strangers_ns += on_its_way.others_ns;
        self.used.straggle.low_ns += held_up(before).total_ns().min(late);
        self.used.straggle.high_ns += on_its_way.total_ns().min(late);
    }

    fn add_work(&mut self, (look, ran): (Look, &mut Ran), meeting: &Meeting, members: &[Arrival]) {
        let mut works = Vec::with_capacity(members.len());
        for arrival in members {
            let since = meeting.since.min(arrival.at);
            let range = (since, arrival.at);
            let (running, blocked) = ran.between(arrival.thread, range);
            let running = look.worked_ns(arrival.thread, range, running);
            *self.work.entry(arrival.thread).or_default() += running;
            works.push((arrival, running, blocked));
        }
        let (Some(last), release) = (meeting.last, meeting.release) else { return };
        let most = works.iter().map(|(_, running, _)| *running).max().unwrap_or(0) as f64;
        works.retain(|(_, running, blocked)| {
            *running as f64 >= FAIR_PART * most && *blocked as f64 <= BLOCKED_MAX * (running + blocked) as f64
        });
        let count = works.len() as u64;
        let Some((_, of_last, _)) = works.iter().find(|(arrival, ..)| arrival.thread == last) else { return };
        if count < 2 {
            return;
        }
        let total: u64 = works.iter().map(|(_, running, _)| running).sum();
        self.used.compared += 1;
        self.used.last_work_ns += of_last;
        self.used.mean_work_ns += total / count;
        let late = |arrival: &Arrival| release.since(arrival.at).0;
        let late_mean = works.iter().map(|(arrival, ..)| late(arrival)).sum::<u64>() / count;
        let others = works.iter().filter(|(arrival, ..)| arrival.thread != last);
        let late_least = others.map(|(arrival, ..)| late(arrival)).min().unwrap_or(0);
        // Even with equal shares, the work needs the available CPUs.
        let at_once = count.min(u64::from(look.cpus.max(1)));
        let needed = total / at_once;
        let sure = of_last.saturating_sub(needed).min(late_mean);
        // With more threads than CPUs, the thread with the most work also shares its CPU at first. It would
        // not be last without that.
        let queued = Causes::held_up_between(&look, last, (meeting.since, release)).own_ns;
        self.used.imbalance.high_ns += (of_last + queued).saturating_sub(needed).min(late_mean).max(sure);
        self.used.imbalance.low_ns += sure.min(late_least);
    }

    fn finish(mut self, site: u32) -> SiteUse {
        self.lateness_ns.sort_unstable();
        let percentile = |percent: usize| {
            let rank = (self.lateness_ns.len() * percent).div_ceil(100).max(1);
            self.lateness_ns.get(rank - 1).copied().unwrap_or(0)
        };
        let mut by_last: Vec<(ThreadId, u64, u64)> =
            self.by_last.iter().map(|(thread, (times, harm))| (*thread, *times, *harm)).collect();
        by_last.sort_by_key(|(thread, times, harm)| (Reverse((*harm, *times)), *thread));
        let mut work: Vec<(ThreadId, u64)> = self.work.iter().map(|(thread, ns)| (*thread, *ns)).collect();
        work.sort_by_key(|(thread, ns)| (Reverse(*ns), *thread));
        keep_worst(&mut self.used.worst);
        SiteUse {
            site,
            members: self.work.keys().copied().collect(),
            lateness_ns: [50, 99, 100].map(percentile),
            by_last,
            work,
            ..self.used
        }
    }
}

fn keep_worst(worst: &mut Vec<(usize, u64)>) {
    worst.sort_by_key(|(row, harm)| (Reverse(*harm), *row));
    worst.truncate(WORST_MAX);
}

fn name(trace: &Trace, site: &Site) -> String {
    let whose = trace.process_name(site.process);
    let place = |id: FrameId| trace.frame_name(id);
    match (site.kind, site.waits_in) {
        (MeetingKind::Join, _) => {
            let waiter = site.waiter.map(|waiter| crate::wording::thread(trace, waiter));
            format!("threads joined by {}", waiter.unwrap_or_else(|| whose.to_owned()))
        }
        (MeetingKind::StopTheWorld, _) => format!("stop-the-world of {whose}"),
        (_, Some(waits_in)) => format!("barrier in {}", place(waits_in)),
        (_, None) if site.object != 0 => format!("barrier 0x{:x} in {whose}", site.object),
        _ => format!("barrier in {}", site.spins_in.map_or_else(|| whose.to_owned(), place)),
    }
}

/// Functions of the program in which the last ran while others waited.
fn late_at(trace: &Trace, own: &OwnFrames, causes: &Causes) -> Vec<(String, u64)> {
    let mut places = Places::new(trace, own);
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for ((class, stack), samples) in &causes.samples {
        let frame = places.nearest_own(*stack).or_else(|| trace.stack_frames(*stack).next());
        if let Some(frame) = frame.filter(|_| *class != Class::Spin) {
            *sums.entry(trace.frame_name(frame)).or_default() += samples;
        }
    }
    let mut ranked: Vec<(String, u64)> = sums.into_iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    ranked.truncate(WORST_MAX);
    ranked
}
