//! Shared parts of the rules about barriers and joins: which sites are reported, the sentences, the charged
//! slices and the evidence. Each rule judges itself why a site costs time.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::{ProcessId, ThreadId};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::rendezvous::{CauseUse, Causes, LateCause, MeetingKind, Saved, SiteUse};
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::rule::Charged;
use crate::scene::{EVIDENCE_MAX, GAIN_MIN, Scene};
use crate::wording::{count, other_program, percent, thread, time};

/// Minimum number of rendezvous at a site for a sure finding.
pub(crate) const MEETINGS_SURE: u64 = 10;
/// Places that a rule names.
const SITES_MAX: usize = 3;
/// Maximum number of threads that are named as last to arrive.
const LASTS_MAX: usize = 3;
/// Causes of a smaller part of the lateness are not named.
const CAUSE_MIN: f64 = 0.02;

/// A rule's texts for one site.
pub(crate) struct Said {
    pub summary: Vec<String>,
    pub confidence: Confidence,
    pub advice: Vec<String>,
}

/// Findings for the places at which a rule would save enough, the most rewarding first. Stop-the-world pauses have a
/// rule of their own.
pub(crate) fn judge(
    scene: &Scene,
    rule: &'static str,
    saved: impl Fn(&SiteUse) -> Saved,
    said: impl Fn(&SiteUse) -> Said,
) -> Result<Vec<Charged>, String> {
    scene.needs_wait_reasons()?;
    let rendezvous = &scene.derived.rendezvous;
    let herds = herds(scene);
    let is_herd = |used: &SiteUse| {
        let site = rendezvous.sites.get(used.site as usize);
        site.is_some_and(|site| herds.contains(&(site.process, site.object)))
    };
    let matters = |used: &&SiteUse| {
        scene.of_wall(saved(used).high_ns as f64) >= GAIN_MIN
            && !rendezvous.stops_the_world(used)
            && !is_herd(used)
    };
    let share = |ns: u64| scene.of_wall(ns as f64).clamp(0.0, 1.0);
    let charged = |used: &SiteUse| {
        let Said { summary, confidence, advice } = said(used);
        let Saved { low_ns, high_ns } = saved(used);
        let gain = Gain { low: share(low_ns), high: share(high_ns) };
        finding(
            scene,
            used,
            Finding {
                rule,
                about: About::Other,
                subject: used.name.clone(),
                summary,
                cost_ns: used.harm_ns,
                gain,
                likely: None,
                confidence,
                evidence: Vec::new(),
                advice,
            },
        )
    };
    let mut findings: Vec<Charged> = rendezvous.uses.iter().filter(matters).map(charged).collect();
    findings.sort_by(|a, b| b.finding.gain.high.total_cmp(&a.finding.gain.high));
    findings.truncate(SITES_MAX);
    Ok(findings)
}

/// Maximum share of false wakeups among the waits on a word. At a barrier, all threads continue when the last
/// one has arrived.
const IN_VAIN_MAX: f64 = 0.5;

/// Words whose waiters are all woken, and mostly wait again at once. Their threads compete for items and do
/// not wait for each other.
fn herds(scene: &Scene) -> BTreeSet<(ProcessId, u64)> {
    let (trace, holders) = (scene.trace, &scene.derived.holders);
    let sites = &scene.derived.rendezvous.sites;
    let words: BTreeSet<(ProcessId, u64)> = sites.iter().map(|site| (site.process, site.object)).collect();
    let mut waits: BTreeMap<(ProcessId, u64), [u64; 2]> = BTreeMap::new();
    let threads = trace.target_threads().filter(|_| !words.is_empty());
    for thread in threads {
        for hold in holders.of_thread(thread) {
            let wait = trace.wait(trace.slices.at(thread, hold.row as usize).wait);
            if wait.object != 0 && words.contains(&(wait.process, wait.object)) {
                let [all, in_vain] = waits.entry((wait.process, wait.object)).or_default();
                (*all, *in_vain) = (*all + 1, *in_vain + u64::from(hold.false_wakeup));
            }
        }
    }
    waits.retain(|_, [all, in_vain]| *in_vain as f64 > IN_VAIN_MAX * *all as f64);
    waits.into_keys().collect()
}

/// Adds the evidence and the charged slices to a finding about a site.
pub(crate) fn finding(scene: &Scene, used: &SiteUse, finding: Finding) -> Charged {
    let confidence = scene.confidence(finding.confidence);
    let finding = Finding { likely: None, confidence, evidence: evidence(scene, used), ..finding };
    Charged { finding, charge: charge(scene, used) }
}

/// How much was waited, and how late the last came.
pub(crate) fn waited(scene: &Scene, used: &SiteUse) -> String {
    let site = scene.derived.rendezvous.sites.get(used.site as usize);
    let noun = site.map_or(MeetingKind::default(), |site| site.kind).noun();
    format!(
        "At {} {} waited {} in total for the last to arrive (median {}, maximum {}).",
        count(used.meetings, noun),
        count(used.members.len() as u64, "thread"),
        time(used.harm_ns),
        time(used.lateness_ns[0]),
        time(used.lateness_ns[2]),
    )
}

/// The last threads to arrive, with their share of the rendezvous.
pub(crate) fn lasts(scene: &Scene, used: &SiteUse) -> String {
    let share = |times: u64| percent(times as f64 / used.meetings.max(1) as f64);
    let lasts = used.by_last.iter().take(LASTS_MAX);
    let said = lasts.map(|(id, times, _)| format!("{} {}", thread(scene.trace, *id), share(*times)));
    said.collect::<Vec<_>>().join(", ")
}

/// The states of the last thread while the other threads waited. `None` if these are not known.
pub(crate) fn why(scene: &Scene, used: &SiteUse) -> Option<String> {
    let causes = causes(scene, &used.causes);
    let named: Vec<String> =
        causes.iter().map(|(what, share)| format!("{what} {}", percent(*share))).collect();
    (!named.is_empty()).then(|| named.join(" · "))
}

/// The causes why the last thread to stop was late, each with its share of the lateness. `None` if no cause
/// is known.
pub(crate) fn why_late(scene: &Scene, causes: &[CauseUse]) -> Option<String> {
    let total: u64 = causes.iter().map(|used| used.late_ns).sum();
    let share = |used: &CauseUse| used.late_ns as f64 / total.max(1) as f64;
    let named = causes.iter().filter(|used| used.cause != LateCause::Unknown && share(used) >= CAUSE_MIN);
    let said: Vec<String> =
        named.map(|used| format!("{} {}", why_words(scene, used), percent(share(used)))).collect();
    (!said.is_empty()).then(|| said.join(" · "))
}

fn why_words(scene: &Scene, used: &CauseUse) -> String {
    let occupant = || used.occupant.map(|id| occupant(scene, id));
    let place = || used.place.map(|place| scene.trace.frame_name(place));
    match used.cause {
        LateCause::Prompt => "stopped as soon as it could see the request".to_owned(),
        LateCause::NoCpu => match occupant() {
            Some(who) => format!("was runnable while {who} had its CPU"),
            None => "was runnable without a CPU".to_owned(),
        },
        LateCause::Throttled => "was throttled".to_owned(),
        LateCause::Stolen => "had its CPU taken by the hypervisor".to_owned(),
        LateCause::WokenLate => match occupant() {
            Some(who) => format!("slept, was woken for it, and {who} had its CPU"),
            None => "slept and was woken for it".to_owned(),
        },
        LateCause::AskedLate => "received the request late".to_owned(),
        LateCause::RanOn => match place() {
            Some(place) => format!("ran in {place} without a safepoint check"),
            None => "ran without a safepoint check".to_owned(),
        },
        LateCause::Faulted => match place() {
            Some(place) => format!("was in page faults of {place}"),
            None => "was in page faults".to_owned(),
        },
        LateCause::Slept => match place() {
            Some(place) => format!("slept in a call ({place}) that keeps the runtime's lock"),
            None => "slept in a call that keeps the runtime's lock".to_owned(),
        },
        LateCause::Unknown => "not known".to_owned(),
    }
}

/// A thread of the program, or another program.
fn occupant(scene: &Scene, id: ThreadId) -> String {
    match scene.trace.threads.get(id.index()).filter(|one| !one.target) {
        Some(other) => other_program(scene.trace, other.process),
        None => thread(scene.trace, id),
    }
}

/// The states of the last thread, for people, with their share of the lateness, the greatest first.
fn causes(scene: &Scene, causes: &Causes) -> Vec<(String, f64)> {
    let total = causes.total_ns().max(1) as f64;
    let mut list = vec![
        ("ran".to_owned(), causes.running_ns),
        (format!("was runnable while {} had its CPU", own_occupant(scene, causes)), causes.own_ns),
        (format!("was runnable while {} had its CPU", other_occupant(scene, causes)), causes.others_ns),
        ("was throttled".to_owned(), causes.throttled_ns),
        ("was woken late".to_owned(), causes.woken_late_ns),
    ];
    let blocked =
        |class: Class| (format!("was blocked ({})", class.name()), causes.blocked_ns[class as usize]);
    list.extend(Class::ALL.into_iter().map(blocked));
    list.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let shares = list.into_iter().map(|(what, ns)| (what, ns as f64 / total));
    shares.filter(|(_, share)| *share >= CAUSE_MIN).collect()
}

/// The thread of the program that most had the CPU.
fn own_occupant(scene: &Scene, causes: &Causes) -> String {
    let is_own = |id: &ThreadId| scene.trace.threads.get(id.index()).is_some_and(|thread| thread.target);
    let own = causes.occupants.iter().filter(|(id, _)| is_own(id));
    let most = own.max_by_key(|(id, ns)| (**ns, std::cmp::Reverse(**id)));
    most.map_or("the program".to_owned(), |(id, _)| thread(scene.trace, *id))
}

/// The other program that most had the CPU.
fn other_occupant(scene: &Scene, causes: &Causes) -> String {
    let mut sums: BTreeMap<ProcessId, u64> = BTreeMap::new();
    for (id, ns) in &causes.occupants {
        if let Some(thread) = scene.trace.threads.get(id.index()).filter(|thread| !thread.target) {
            *sums.entry(thread.process).or_default() += ns;
        }
    }
    let most = sums.into_iter().max_by_key(|(id, ns)| (*ns, std::cmp::Reverse(*id)));
    most.map_or("another program".to_owned(), |(id, _)| other_program(scene.trace, id))
}

/// The costliest rendezvous: the last thread, from the request to the release.
fn evidence(scene: &Scene, used: &SiteUse) -> Vec<Evidence> {
    let rendezvous = &scene.derived.rendezvous;
    let meetings = used.worst.iter().filter_map(|(row, harm)| Some((rendezvous.meetings.get(*row)?, *harm)));
    let rows = meetings.filter_map(|(meeting, harm)| {
        let last = meeting.last?;
        Some(Evidence {
            table: "slices",
            thread: last,
            start: meeting.asked,
            duration: meeting.release.since(meeting.asked),
            note: format!("last to arrive at {}, the other threads waited {} for it", used.name, time(harm)),
        })
    });
    rows.take(EVIDENCE_MAX).collect()
}

/// The slices in which members, or the joining thread, waited for the last thread at this site, asleep or
/// spinning.
fn charge(scene: &Scene, used: &SiteUse) -> Charge {
    let rendezvous = &scene.derived.rendezvous;
    let mut spans: BTreeMap<ThreadId, Vec<(u64, u64)>> = BTreeMap::new();
    for meeting in rendezvous.meetings.iter().filter(|meeting| meeting.site == used.site) {
        for arrival in rendezvous.members(meeting).iter().filter(|one| Some(one.thread) != meeting.last) {
            spans.entry(arrival.thread).or_default().push((arrival.at.0, meeting.release.0));
        }
        // Joined threads have exited by then, but the joining thread still waits.
        if let Some(waiter) = meeting.leader.filter(|_| rendezvous.is_join(used)) {
            spans.entry(waiter).or_default().push((meeting.asked.0, meeting.release.0));
        }
    }
    Charge::of_rows(scene.trace, |thread, take| {
        let Some(spans) = spans.get(&thread) else { return };
        let mut spans = spans.iter().copied().peekable();
        for row in scene.trace.slices.rows(thread) {
            let slice = scene.trace.slices.at(thread, row);
            while spans.next_if(|(_, to)| *to <= slice.start.0).is_some() {}
            let Some((from, to)) = spans.peek() else { return };
            // Most of the slice is the wait.
            let shared = slice.end.0.min(*to).saturating_sub(slice.start.0.max(*from));
            if 2 * shared > slice.duration().0 {
                take(row);
            }
        }
    })
}
