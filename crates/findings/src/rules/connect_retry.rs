//! # connect-retry: connections wait for a second because their first packet got no response
//!
//! ## Symptoms
//! Waits in `connect`, or for a descriptor (`poll`, `epoll`), that end soon after a whole second. At that
//! time the kernel counted retransmitted first packets of connections (SYN). It also sees how often
//! connections found the queue of a listening socket full.
//!
//! ## Why it hurts
//! A listening socket queues the connections that are not accepted yet: `listen(fd, N)`, and at most
//! `net.core.somaxconn`. A connection that finds the queue full is dropped silently. The client retransmits
//! its packet a second later, and then after the same or twice the time. A program that otherwise takes
//! milliseconds waits for seconds, and all CPUs are idle.
//!
//! ## How it decides
//! It adds up those waits, as far as no thread of the program was runnable. That is the upper bound of the
//! gain. The kernel's counts are of the program's whole network namespace. In `connect` itself only
//! retransmission takes a whole second. For waits for descriptors this is likely, if there are at most as
//! many of them as retransmitted packets. A finding with only such waits is less sure. An event loop that
//! connects has no separate wait. If a queue was full, and threads of the program accept, their waits are
//! used instead.
//!
//! ## What to do
//! If a queue was full: make it longer (`listen`, and `net.core.somaxconn`), and accept sooner (a dedicated
//! thread, or more processes). Otherwise the peer does not respond: check the path of the packets. In both
//! cases, fewer new connections help: keep them open and reuse them.
//!
//! ## Blind spots
//! If an event loop connects, and no thread of the program accepts, there is no finding. Other network
//! namespaces than the program's are not counted.
//!
//! ## References
//! Linux `listen(2)`, `tcp(7)` (`tcp_syn_retries`, `tcp_abort_on_overflow`). RFC 6298.

use crate::derive::connects::{self, Connects, How, SECOND_NS};
use crate::finding::{About, Confidence, Finding, Gain};
use crate::gains::widened;
use crate::removal::Removal;
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    estimate: Estimate::Replayed,
    explains: &[
        // A client that sends one request at a time waits for a timer of the server. If the client holds a lock
        // or a pool item during the request, then that is the cause.
        Explains::shared(&super::one_at_a_time::INFO),
        Explains::shared(&super::answer_timeout::INFO),
    ],
    ..Info::new("connect-retry", "Connections take a second or more because their first packet was dropped")
};

/// Minimum number of waits. Fewer may be due to one host that is down.
const WAITS_MIN: u64 = 2;

pub(super) struct ConnectRetry;

impl Rule for ConnectRetry {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let found = connects::derive(scene.trace);
        // Others may have sent these packets.
        let is_theirs = found.how != How::Looks || found.waits <= found.sent_again;
        // An accepting thread also waits for other events. A retransmitted packet delays the program by at most a
        // second.
        let most_ns = match found.how {
            How::Accepts => found.sent_again as f64 * SECOND_NS as f64,
            How::Connects | How::Looks => f64::INFINITY,
        };
        let high = scene.of_wall(scene.stall_quiet(&found.charge).saved_ns.min(most_ns)).clamp(0.0, 1.0);
        if found.waits.min(found.sent_again) < WAITS_MIN || !is_theirs || high < GAIN_MIN {
            return Ok(Vec::new());
        }
        let mut summary = vec![waited(&found, high), kernel_counts_sentence(&found)];
        summary.extend(scene.charged_come_from(&found.charge));
        let confidence = if found.how == How::Connects { Confidence::High } else { Confidence::Medium };
        let finding = Finding {
            rule: INFO.name,
            about: About::Other,
            subject: match found.overflows {
                0 => "connections without a response to the first packet".to_owned(),
                _ => "connections to a listening socket whose queue is full".to_owned(),
            },
            summary,
            cost_ns: found.charge.ns(),
            gain: Gain { low: 0.0, high },
            likely: None,
            confidence: scene.confidence(confidence),
            evidence: scene
                .longest_of(&found.charge, |_| "connects, its first packet is sent again".to_owned()),
            advice: advice(&found),
        };
        Ok(vec![Charged { finding, charge: found.charge }])
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        Removal::slices(cause.charge)
    }

    fn gain(&self, cause: &Cause, forecast: Gain) -> Gain {
        // The accepting thread waits for the connecting thread. A replay removes the wait of one and leaves
        // it in the other.
        Gain { low: 0.0, high: forecast.high.max(widened(cause.finding.gain).high) }
    }
}

/// A sentence on the counted waits, and their maximum share of the run.
fn waited(found: &Connects, most: f64) -> String {
    if found.how == How::Accepts {
        return format!(
            "The clients are event loops, whose waits also have other reasons. The accepting thread waited {}, {} of the run while no thread of the program was runnable.",
            count(found.waits, "time"),
            percent(most)
        );
    }
    let what = if found.how == How::Connects { "connection" } else { "wait for a connection" };
    format!(
        "{} ended just after a whole second, {} in total.",
        count(found.waits, what),
        time(found.charge.ns())
    )
}

/// A sentence on the kernel's counts.
fn kernel_counts_sentence(found: &Connects) -> String {
    let again = count(found.sent_again, "first packet");
    match found.overflows {
        0 => format!(
            "The kernel retransmitted {again} of connections, and no listening socket here had a full queue: the packets were lost, or no server responds there."
        ),
        full => format!(
            "The kernel retransmitted {again} of connections, and found the queue of a listening socket full {} (in the program's network namespace).",
            count(full, "time")
        ),
    }
}

fn advice(found: &Connects) -> Vec<String> {
    let first = match found.overflows {
        0 => {
            "Find the destination and where packets are dropped: ss -tn state syn-sent; at the server: nstat -az TcpExtListenOverflows"
        }
        _ => {
            "Give the listening socket a longer queue: listen(fd, 4096), and net.core.somaxconn of the same size. `ss -tln` shows which queue is full (Recv-Q, Send-Q)"
        }
    };
    let sooner = "Accept sooner: a dedicated thread, or more accepting processes";
    let fewer = "Keep connections open and reuse them";
    let sooner = (found.overflows > 0).then_some(sooner);
    [first].into_iter().chain(sooner).chain([fewer]).map(str::to_owned).collect()
}
