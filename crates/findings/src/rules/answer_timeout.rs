//! # answer-timeout: threads wait for a response until a timeout, and try again
//!
//! ## Symptoms
//! Waits for a socket (`poll`, `select`, `recv` with a timeout) that ended only by their own timeout. After
//! that the thread continued with other work. The functions on the stack show whether the thread was looking
//! up a name.
//!
//! ## Why it hurts
//! A first peer that never responds costs the whole timeout each time, be it one second or five. The program
//! stands still, and all CPUs are idle. The usual cause is a name server that is down but still configured.
//! Another is a firewall that drops packets.
//!
//! ## How it decides
//! It counts waits with a recorded deadline that a timer ended at that deadline. Two kinds are left out. A
//! thread that repeats the same request, and looks up no name, polls by the clock (poll-loop). A thread for
//! which no thread waits does housekeeping. The gain is the time that the run would be shorter if these
//! responses had arrived at once. If the stack shows no name look-up, the timeout may be intended (a pause, a
//! deadline for more input). Then the finding is a hint.
//!
//! ## What to do
//! Find the peer that does not respond, and remove it, or do not try it first. Use a shorter timeout. Cache
//! the responses.
//!
//! ## Blind spots
//! Timers of an event loop are not visible. connect-retry reports connections that the kernel retries. A lost
//! response looks like a peer that never responds.
//!
//! ## References
//! Linux `resolv.conf(5)` (options `timeout`, `attempts`, `rotate`, `single-request`), `poll(2)`.

use std::collections::BTreeSet;

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ObjectKind, StackId, ThreadId, Trace, WaitReason};

use crate::charge::Charge;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::removal::Removal;
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    estimate: Estimate::Replayed,
    explains: &[
        // A client that sends one request at a time waits for a timer of the server. If the client holds a lock
        // or a pool item during the request, then that is the cause.
        Explains::shared(&super::one_at_a_time::INFO),
    ],
    ..Info::new("answer-timeout", "Threads wait for a response until the timeout, and ask again")
};

/// One alone may be a deadline.
const TIMES_MIN: u64 = 2;

/// Shorter waits are pauses (ns): an answer from another machine takes as long.
const SHORT_NS: u64 = 10_000_000;

/// Functions of C libraries that look up names.
const RESOLVER: [&str; 12] = [
    "getaddrinfo",
    "__GI_getaddrinfo",
    "gethostbyname",
    "gethostbyaddr",
    "getnameinfo",
    "__res_context_send",
    "__libc_res_nsend",
    "__res_nsend",
    "__res_msend",
    "res_nquery",
    "res_nsearch",
    "res_nsend",
];

pub(super) struct AnswerTimeout;

impl Rule for AnswerTimeout {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let trace = scene.trace;
        let keeps_house = |thread: ThreadId| {
            let clocked = &scene.derived.clocked;
            let row = clocked.binary_search_by_key(&thread, |one| one.thread).ok();
            row.is_some_and(|row| clocked[row].keeps_house)
        };
        let of_kind = |is_names: bool| {
            let charge = Charge::of_rows(trace, |thread, take| {
                let is_one = |row: &usize| {
                    let names = looks_up(trace, trace.slices.at(thread, *row).stack);
                    names == is_names && (names || !keeps_house(thread))
                };
                given_up(trace, thread).into_iter().filter(is_one).for_each(take);
            });
            finding(scene, charge, is_names)
        };
        Ok([true, false].into_iter().filter_map(of_kind).collect())
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        Removal::slices(cause.charge)
    }
}

/// Rows of waits for a response that a timeout ended. Either the thread looked up a name, or it did not
/// repeat the request.
fn given_up(trace: &Trace, thread: ThreadId) -> Vec<usize> {
    let blocked = trace.slices.rows(thread).zip(trace.slices.of_thread(thread));
    let blocked: Vec<(usize, Slice)> =
        blocked.filter(|(_, slice)| slice.state == ThreadState::Blocked).collect();
    let gave_up = |slice: &Slice| {
        let wait = trace.wait(slice.wait);
        // A poll without descriptors is a sleep. An event loop's timers are on an epoll instance.
        let asks = match wait.reason {
            WaitReason::Multiplex => wait.object_kind != ObjectKind::Epoll && wait.op != 0,
            reason => reason == WaitReason::Socket,
        };
        asks && slice.duration().0 >= SHORT_NS && trace.timed_out(slice)
    };
    let is_again = |at: usize, other: Option<usize>| {
        let other = other.and_then(|other| blocked.get(other)).map(|(_, slice)| slice);
        other.is_some_and(|other| other.wait == blocked[at].1.wait && trace.timed_out(other))
    };
    let goes_on = |at: usize| !is_again(at, at.checked_sub(1)) && !is_again(at, Some(at + 1));
    let rows = blocked
        .iter()
        .enumerate()
        .filter(|(at, (_, slice))| gave_up(slice) && (goes_on(*at) || looks_up(trace, slice.stack)));
    rows.map(|(_, (row, _))| *row).collect()
}

fn finding(scene: &Scene, charge: Charge, is_names: bool) -> Option<Charged> {
    let trace = scene.trace;
    let (mut threads, mut times, mut wait_ns) = (BTreeSet::new(), 0u64, 0u64);
    for thread in trace.target_threads() {
        for (_, span) in charge.spans_of(trace, thread) {
            threads.insert(thread);
            (times, wait_ns) = (times + 1, wait_ns + span.end.since(span.start).0);
        }
    }
    let high = scene.of_wall(scene.stall_quiet(&charge).saved_ns).clamp(0.0, 1.0);
    if times < TIMES_MIN || high < GAIN_MIN {
        return None;
    }
    let mut summary = vec![format!(
        "{} waited {} for a response until the timeout: {} each on average, {} in total.",
        count(threads.len() as u64, "thread"),
        count(times, "time"),
        time(wait_ns / times),
        time(wait_ns),
    )];
    summary.extend(is_names.then(|| "They were DNS lookups: a name server did not respond.".to_owned()));
    summary.extend(scene.charged_come_from(&charge));
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: format!("{} without a response", count(times, if is_names { "lookup" } else { "wait" })),
        summary,
        cost_ns: wait_ns,
        gain: Gain { low: 0.0, high },
        likely: None,
        confidence: scene.confidence(if is_names { Confidence::High } else { Confidence::Low }),
        evidence: scene.longest_of(&charge, |_| "waits for a response until the timeout".to_owned()),
        advice: advice(is_names),
    };
    Some(Charged { finding, charge })
}

/// The stack is one of a thread that looks up a name.
fn looks_up(trace: &Trace, stack: StackId) -> bool {
    let is_one = |function: &str| RESOLVER.iter().any(|name| function.starts_with(name));
    stack != StackId::NONE && trace.stack_frames(stack).any(|id| is_one(&trace.frames[id.index()].function))
}

fn advice(is_names: bool) -> Vec<String> {
    let advice: &[&str] = match is_names {
        true => &[
            "Query each name server of /etc/resolv.conf (dig @SERVER NAME). Remove the server that does not respond, or list it last",
            "If each server fails for some names only: set `options single-request`, or run a local resolver",
            "Keep results: a DNS cache, or connections that stay open",
        ],
        false => &[
            "Find the peer that does not respond, and do not ask it first",
            "Use a shorter timeout, or ask the next peer in parallel",
        ],
    };
    advice.iter().map(|text| (*text).to_owned()).collect()
}
