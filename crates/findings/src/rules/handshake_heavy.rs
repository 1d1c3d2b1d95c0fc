//! # handshake-heavy: much of the time goes by making connections
//!
//! ## What it sees
//! Samples of the CPU in TLS handshakes and in what dials: Go's `crypto/tls` and `net/http`, OpenSSL (and what stands on it: Node, Python, PostgreSQL, nginx), Java's
//! `sun.security.ssl`, GnuTLS; and for which functions of the program.
//!
//! ## Why it hurts
//! A handshake takes one or two round trips and a millisecond or so of both sides' CPU time for signatures and the exchange of keys;
//! a request over a connection that is there takes none of that. Where each request makes a connection of its own, both sides do
//! hardly anything else, and more threads do not help.
//!
//! ## How it decides
//! Descriptors say which functions do that (role `handshake`, docs/descriptors.md), with all that they call; a sample counts for the
//! program's own function nearest to it. From 8 % of the running time on it is told. The upper end of the gain is that all of it went;
//! the lower end is 0, since peers that come for the first time must be greeted: how many do, only the reader knows. With a quarter of the
//! running time or more it is more than a hint, unless nearly all of that was in the first part of the run: connections that are made
//! once, and kept, are what it advises.
//!
//! ## What to do
//! Keep connections open and use them again: as many in the client's pool as requests are under way (Go's `MaxIdleConnsPerHost` is 2),
//! bodies of answers read to their end and closed, keep-alive at the server and at what is between, a pool in front of a database. Where
//! peers do come anew: sessions that are resumed (tickets), certificates with elliptic curves in place of RSA.
//!
//! ## Blind spots
//! A handshake's round trips, and what the kernel does for a connection outside of it, are not counted here. Libraries that are linked in without their names hide
//! it. Handshakes of other protocols (SSH, databases' passwords) are the program's own work.
//!
//! ## References
//! RFC 8446 (TLS 1.3), 2.2 on resumption. golang/go#16012.

use super::{Info, Verdict};
use crate::derive::services::{self, Service, ServiceUse};
use crate::finding::Confidence;
use crate::scene::Scene;
use crate::served::{self, Words};
use crate::wording::percent;

pub(super) const INFO: Info = Info {
    name: "handshake-heavy",
    summary: "Much of the running time goes by making connections (TLS handshakes)",
    of_waits_alone: false,
};

/// A program that spends so much of its running time so makes connections for what it does, not now and then.
const MUCH: f64 = 0.25;
/// Of the run, so much is its beginning.
const BEGINNING: f64 = 0.3;

pub(super) fn judge(scene: &Scene) -> Verdict {
    let words = Words {
        rule: INFO.name,
        doing: "making connections (handshakes)",
        advice: vec![
            "Keep connections open and use them again: as many in the client's pool as requests are under way (Go: MaxIdleConnsPerHost), answers read to their end"
                .into(),
            "Where peers come anew: resumed sessions (tickets), certificates with elliptic curves in place of RSA".into(),
        ],
    };
    let mut found = served::judge_beside(scene, Service::Handshake, MUCH, words)?;
    let within = served::costly(scene, Service::Handshake).map(|used| within(scene, used));
    if let Some(part) = within.filter(|part| *part <= BEGINNING) {
        for finding in &mut found {
            finding.confidence = scene.confidence(Confidence::Low);
            finding.summary.push(format!(
                "{} of it was in the first {} of the run: connections that were made then seem to be kept.",
                percent(services::MOST),
                percent(part),
            ));
        }
    }
    Ok(found)
}

/// Within which part of the run (0 to 1), from its beginning, nearly all of it was.
fn within(scene: &Scene, used: &ServiceUse) -> f64 {
    scene.of_wall(used.most_by.since(scene.trace.start()).0 as f64)
}
