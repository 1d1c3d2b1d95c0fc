//! # handshake-heavy: much of the time is spent setting up connections
//!
//! ## Symptoms
//! CPU samples in TLS handshakes and in dialling code: Go's `crypto/tls` and `net/http`, OpenSSL (and its
//! users Node, Python, PostgreSQL, nginx), Java's `sun.security.ssl`, GnuTLS. It also sees the functions of
//! the program that call them.
//!
//! ## Why it hurts
//! A handshake takes one or two round trips, and about a millisecond of both sides' CPU time for signatures
//! and the key exchange. A request over an existing connection needs none of that. If each request opens a
//! new connection, both sides do hardly any other work, and more threads do not help.
//!
//! ## How it decides
//! Descriptors list the functions (role `handshake`, docs/descriptors.md), including their callees. A sample
//! counts for the nearest function of the program itself. The rule reports at least 8 % of the running time.
//! The upper bound of the gain removes all of it. The lower bound is 0, because new peers need a handshake.
//! Only the user knows how many there are. With a quarter of the running time or more, the finding is more
//! than a hint. The exception is if nearly all of that was in the first part of the run. Connections that are
//! opened once, and kept, are the finding's own advice.
//!
//! ## What to do
//! Keep connections open and reuse them. The client's pool needs as many as there are outstanding requests
//! (Go's `MaxIdleConnsPerHost` is 2). Read response bodies to their end and close them. Enable keep-alive at
//! the server and at proxies. Use a pool in front of a database. For new peers: resume sessions (tickets),
//! and use certificates with elliptic curves instead of RSA.
//!
//! ## Blind spots
//! A handshake's round trips, and the kernel's work for a connection outside the handshake, are not counted
//! here. Libraries that are linked in without symbols hide it. Handshakes of other protocols (SSH, databases'
//! passwords) count as the program's own work.
//!
//! ## References
//! RFC 8446 (TLS 1.3), 2.2 on resumption. golang/go#16012.

use crate::derive::services::{self, Service, ServiceUse};
use crate::finding::Confidence;
use crate::rule::{ChargedVerdict, Info, Rule, Verdict, uncharged};
use crate::scene::Scene;
use crate::service_findings::{self, Words};
use crate::wording::percent;

pub(super) static INFO: Info = Info {
    may_be_needed: true,
    ..Info::new("handshake-heavy", "Much of the CPU time is spent on TLS handshakes")
};

/// Minimum share of the running time for a program that opens connections as part of its normal work.
const MUCH: f64 = 0.25;
/// Share of the run that counts as its beginning.
const BEGINNING: f64 = 0.3;

pub(super) struct HandshakeHeavy;

impl Rule for HandshakeHeavy {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }
}

fn judge(scene: &Scene) -> Verdict {
    let words = Words {
        rule: INFO.name,
        doing: "TLS handshakes",
        advice: vec![
            "Keep connections open and reuse them: a client pool as large as the requests in flight (Go: MaxIdleConnsPerHost), responses read to the end"
                .into(),
            "For peers that reconnect: session resumption (tickets), elliptic-curve certificates instead of RSA".into(),
        ],
    };
    let mut found = service_findings::judge_as_hint(scene, Service::Handshake, MUCH, words)?;
    let within = service_findings::costly(scene, Service::Handshake).map(|used| within(scene, used));
    if let Some(part) = within.filter(|part| *part <= BEGINNING) {
        for finding in &mut found {
            finding.confidence = scene.confidence(Confidence::Low);
            finding.summary.push(format!(
                "{} of it was in the first {} of the run: these connections seem to be kept.",
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
