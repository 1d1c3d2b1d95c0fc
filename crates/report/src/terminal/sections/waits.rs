//! WAITS: reasons of waits, the ends of their chains, and which thread waited for which.

use holdup_findings::derive::blame::KindBlame;
use holdup_findings::derive::peers::{Peer, PeerKind};

use crate::numbers::{count, duration, percent, share};
use crate::terminal::table::{self, Column};
use crate::terminal::{View, ends};
use crate::text::{Tint, clean};

pub(super) const SUMMARY: &str = "Waits by reason and object, and what ended them";

const ROWS_MAX: usize = 12;
const FUNCTIONS_MAX: usize = 3;

pub(super) fn lines(view: &View) -> Vec<String> {
    let derived = &view.analysis.derived;
    let mut lines = view.heading("WAITS");
    if derived.waits.is_empty() {
        lines.push(super::nothing(view, "No thread of the program waited."));
        return lines;
    }
    let columns = [
        Column::Text("for"),
        Column::Figure("waits"),
        Column::Figure("in vain"),
        Column::Figure("waited"),
        Column::Figure("share"),
    ];
    let rows: Vec<Vec<String>> = derived.waits.iter().map(|kind| row(view, kind)).collect();
    let mut table = table::lines(&columns, &rows, view.style).into_iter();
    lines.extend(table.next());
    for (line, kind) in table.zip(&derived.waits) {
        lines.push(line);
        lines.extend(details(view, kind));
    }
    lines.extend(blamed(view));
    lines.extend(edges(view));
    lines.extend(peers(view));
    lines
}

fn row(view: &View, kind: &KindBlame) -> Vec<String> {
    vec![
        kind.kind.name().to_owned(),
        count(kind.waits),
        count(kind.false_wakeups),
        duration(kind.waiting_ns),
        percent(share(kind.waiting_ns, view.analysis.derived.blame.total_ns)),
    ]
}

fn details(view: &View, kind: &KindBlame) -> Vec<String> {
    let mut lines = vec![format!("    root cause: {}", ends::classes(&kind.ends, kind.waiting_ns))];
    if !kind.functions.is_empty() {
        let functions = kind.functions.iter().take(FUNCTIONS_MAX);
        let functions = functions.map(|(name, ns)| format!("{} {}", clean(name), duration(*ns)));
        lines.push(format!("    running in {}", functions.collect::<Vec<_>>().join(", ")));
    }
    let faint = |line: &String| view.style.paint(Tint::Faint, &view.style.fit(line, view.style.columns()));
    lines.iter().map(faint).collect()
}

fn blamed(view: &View) -> Vec<String> {
    let total_ns = view.analysis.derived.blame.total_ns;
    let columns =
        [Column::Text("root causes of all waits"), Column::Figure("blamed"), Column::Figure("share")];
    let ends = view.analysis.derived.blame.ends();
    let cells =
        |(end, ns): &(_, u64)| vec![ends::phrase(view, end), duration(*ns), percent(share(*ns, total_ns))];
    let rows: Vec<Vec<String>> = ends.iter().take(ROWS_MAX).map(cells).collect();
    let mut lines = vec![String::new()];
    lines.extend(table::lines(&columns, &rows, view.style));
    if ends.len() > ROWS_MAX {
        lines.push(super::nothing(view, &format!("and {} more", ends.len() - ROWS_MAX)));
    }
    lines
}

fn edges(view: &View) -> Vec<String> {
    let edges = &view.analysis.derived.blame.edges;
    if edges.is_empty() {
        return Vec::new();
    }
    let columns = [
        Column::Text("waiter"),
        Column::Text("holder"),
        Column::Text("for"),
        Column::Figure("waits"),
        Column::Figure("waited"),
    ];
    let cells = edges.iter().take(ROWS_MAX).map(|edge| {
        vec![
            view.thread(edge.waiter),
            view.thread(edge.holder),
            edge.kind.name().to_owned(),
            count(edge.waits),
            duration(edge.ns),
        ]
    });
    let mut lines = vec![String::new()];
    lines.extend(table::lines(&columns, &cells.collect::<Vec<_>>(), view.style));
    if edges.len() > ROWS_MAX {
        lines.push(super::nothing(view, &format!("and {} more", edges.len() - ROWS_MAX)));
    }
    lines
}

/// Waits at sockets by the peer's address.
fn peers(view: &View) -> Vec<String> {
    let peers = &view.analysis.derived.peers;
    if peers.rows.is_empty() {
        return Vec::new();
    }
    let columns = [
        Column::Text("waiter"),
        Column::Text("at a socket for"),
        Column::Figure("sockets"),
        Column::Figure("waits"),
        Column::Figure("waited"),
        Column::Figure("longest"),
    ];
    let cells = peers.rows.iter().take(ROWS_MAX).map(|peer| {
        vec![
            clean(&peer.process),
            peer_text(peer),
            count(peer.connections as u64),
            count(peer.waits),
            duration(peer.ns),
            duration(peer.longest_ns),
        ]
    });
    let mut lines = vec![String::new()];
    lines.extend(table::lines(&columns, &cells.collect::<Vec<_>>(), view.style));
    if peers.rows.len() > ROWS_MAX {
        lines.push(super::nothing(view, &format!("and {} more", peers.rows.len() - ROWS_MAX)));
    }
    for (ns, what) in [
        (peers.any_ns, "polled for any event (epoll): the peer is not known"),
        (peers.unnamed_ns, "waited at sockets whose ends were not seen"),
    ] {
        if ns > 0 {
            lines.push(super::nothing(view, &format!("{} {what}", duration(ns))));
        }
    }
    lines
}

fn peer_text(peer: &Peer) -> String {
    let address = clean(&peer.address);
    match peer.kind {
        _ if address.is_empty() => "a socket pair's other end".to_owned(),
        PeerKind::Asked | PeerKind::Unknown => address,
        PeerKind::Client => format!("clients at {address}"),
        PeerKind::Listens => format!("connections at {address}"),
    }
}
