//! Which end of its connection a socket is: the connecting end or the accepting end. Covers sockets that
//! threads wait for.
//!
//! - A unix socket's name contains the side.
//! - Connections that one listener accepted share their own address and port. Connections to one listener
//!   share the remote address and port.
//! - If an end is not shared, the ports decide. The kernel assigns ports from 32768 to connecting sockets
//!   (`ip_local_port_range`; RFC 6335: from 49152). Listening sockets use lower, well-known ports. If both
//!   ports or neither are in that range, the side is unknown.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::socket_name::{Side, SocketName};
use holdup_events::{ObjectKind, ProcessId, ThreadId, Trace, Wait};

use super::in_flight::Messages;

/// Lowest port that the kernel assigns to sockets without a requested port.
const GIVEN_FROM: u16 = 32_768;

/// By a socket's identity.
pub(super) struct SocketSides(HashMap<u64, Side>);

impl SocketSides {
    /// Evaluates all sockets with known names.
    pub(super) fn new(trace: &Trace) -> SocketSides {
        let names: Vec<(u64, SocketName)> = trace
            .calls
            .objects
            .iter()
            .filter(|row| row.kind == ObjectKind::Socket)
            .filter_map(|row| Some((row.object, SocketName::parse(&row.name)?)))
            .collect();
        let mut ends: [HashMap<&str, BTreeSet<&str>>; 2] = Default::default();
        for (_, name) in &names {
            if let SocketName::Internet { local, peer } = name {
                ends[0].entry(local).or_default().insert(peer);
                ends[1].entry(peer).or_default().insert(local);
            }
        }
        let is_shared = |end: usize, name: &str| ends[end].get(name).is_some_and(|others| others.len() > 1);
        let side = |name: &SocketName| match *name {
            SocketName::Unix { side, .. } => side,
            SocketName::Internet { local, peer } => match (is_shared(0, local), is_shared(1, peer)) {
                (true, false) => Some(Side::Accepted),
                (false, true) => Some(Side::Connected),
                _ => by_ports(local, peer),
            },
        };
        SocketSides(names.iter().filter_map(|(object, name)| Some((*object, side(name)?))).collect())
    }

    /// Which end it is that is waited for.
    pub(super) fn side_of(&self, wait: &Wait) -> Option<Side> {
        (wait.object_kind == ObjectKind::Socket).then(|| self.0.get(&wait.object).copied())?
    }

    /// By pair of processes (lower id first): the one that connected. Pairs in which each connected are left
    /// out.
    pub(super) fn of_pairs(
        &self,
        trace: &Trace,
        messages: &Messages,
    ) -> BTreeMap<(ProcessId, ProcessId), ProcessId> {
        let mut connected = BTreeMap::new();
        for (pair, between) in messages {
            let who = between.iter().filter_map(|message| {
                let process = |thread: ThreadId| trace.threads[thread.index()].process;
                let wait = trace.wait(trace.slices.at(message.to, message.row as usize).wait);
                Some(match self.side_of(wait)? {
                    Side::Connected => process(message.to),
                    Side::Accepted => process(message.from),
                })
            });
            let who: BTreeSet<ProcessId> = who.collect();
            if who.len() == 1 {
                connected.extend(who.first().map(|one| (*pair, *one)));
            }
        }
        connected
    }
}

fn by_ports(local: &str, peer: &str) -> Option<Side> {
    let port = |end: &str| end.rsplit_once(':')?.1.parse::<u16>().ok().filter(|port| *port != 0);
    match (port(local)? >= GIVEN_FROM, port(peer)? >= GIVEN_FROM) {
        (true, false) => Some(Side::Connected),
        (false, true) => Some(Side::Accepted),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use holdup_events::tables::CallObject;

    use super::*;

    fn sides(names: &[&str]) -> Vec<Option<Side>> {
        let mut trace = Trace::default();
        for (object, name) in (1..).zip(names) {
            trace.calls.objects.push(CallObject {
                kind: ObjectKind::Socket,
                object,
                name: (*name).to_owned(),
            });
        }
        let sides = SocketSides::new(&trace);
        let wait = |object: usize| Wait {
            object_kind: ObjectKind::Socket,
            object: object as u64,
            ..Wait::default()
        };
        (1..=names.len()).map(|object| sides.side_of(&wait(object))).collect()
    }

    #[test]
    fn a_unix_sockets_side_comes_from_its_name() {
        let told = sides(&["unix → @db, other end socket:[9]", "unix ← @db", "unix, other end socket:[7]"]);
        assert_eq!(told, [Some(Side::Connected), Some(Side::Accepted), None]);
    }

    #[test]
    fn ephemeral_ports_belong_to_the_connecting_side() {
        let told =
            sides(&["10.0.0.1:40912 → 10.0.0.2:5432", "[::1]:80 → [::1]:50000", "1.1.1.1:700 → 1.1.1.2:800"]);
        assert_eq!(told, [Some(Side::Connected), Some(Side::Accepted), None]);
    }

    #[test]
    fn an_end_that_several_connections_share_is_the_listeners() {
        // A service on a port that the kernel chose. It accepted both connections.
        let told = sides(&["1.1.1.1:40000 → 1.1.1.2:50001", "1.1.1.1:40000 → 1.1.1.2:50002"]);
        assert_eq!(told, [Some(Side::Accepted); 2]);
        let told = sides(&["1.1.1.2:50001 → 1.1.1.1:40000", "1.1.1.2:50002 → 1.1.1.1:40000"]);
        assert_eq!(told, [Some(Side::Connected); 2]);
        // A single connection does not show the side.
        assert_eq!(sides(&["1.1.1.2:50001 → 1.1.1.1:40000"]), [None]);
        // A listening socket has no connection.
        assert_eq!(sides(&["0.0.0.0:80 → 0.0.0.0:0"]), [None]);
    }
}
