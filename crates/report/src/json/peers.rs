//! Peers for which threads waited at sockets.

use holdup_findings::derive::peers::Peers;
use serde_json::{Value, json};

/// Peers that are listed.
const PEERS_MAX: usize = 200;

pub(super) fn to_json(peers: &Peers) -> Value {
    let rows = peers.rows.iter().take(PEERS_MAX).map(|peer| {
        json!({
            "process": peer.process,
            "kind": peer.kind.name(),
            "address": peer.address,
            "threads": peer.threads,
            "connections": peer.connections,
            "waits": peer.waits,
            "ns": peer.ns,
            "max_ns": peer.longest_ns,
        })
    });
    json!({"rows": rows.collect::<Value>(), "any_ns": peers.any_ns, "unnamed_ns": peers.unnamed_ns})
}
