//! Sockets with request-response traffic: at least about one message is received per message sent. Buffering
//! cannot reduce the number of messages.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::ObjectKind;
use holdup_events::socket_name::{Side, SocketName};

use super::calls::{CallUse, Calls};
use super::syscall_names::{moves_bytes, sends};

/// Minimum number of received messages per sent one. Two messages followed by one response are one too many.
const ANSWERED_MIN: f64 = 0.8;

/// One endpoint of a socket, with its side. Short windows see too few calls on most sockets, but all sockets
/// of a service share an endpoint.
type End<'a> = (bool, &'a str);

/// Sockets of exchanges, by their identity.
pub fn exchanges(calls: &Calls) -> BTreeSet<u64> {
    let mut sums: BTreeMap<End, (u64, u64)> = BTreeMap::new();
    for used in sockets(calls) {
        for end in ends(&used.object_name) {
            let (sent, received) = sums.entry(end).or_default();
            *(if sends(used.syscall) { sent } else { received }) += used.results.total();
        }
    }
    let answered = |end: End| {
        let (sent, received) = sums.get(&end).copied().unwrap_or_default();
        sent > 0 && received as f64 >= ANSWERED_MIN * sent as f64
    };
    let of_exchange = |used: &&CallUse| ends(&used.object_name).into_iter().any(answered);
    sockets(calls).filter(of_exchange).map(|used| used.object).collect()
}

/// Share (0 to 1) of the counted calls with this number that are on request-response sockets.
pub fn share(calls: &Calls, syscall: i32) -> f64 {
    let exchanges = exchanges(calls);
    let (mut of_exchange, mut all) = (0, 0);
    for used in calls.by_object.iter().filter(|used| used.syscall == syscall) {
        let is_one = used.object_kind == ObjectKind::Socket && exchanges.contains(&used.object);
        of_exchange += if is_one { used.count } else { 0 };
        all += used.count;
    }
    of_exchange as f64 / all.max(1) as f64
}

fn sockets(calls: &Calls) -> impl Iterator<Item = &CallUse> {
    calls.by_object.iter().filter(|used| used.object_kind == ObjectKind::Socket && moves_bytes(used.syscall))
}

/// Both endpoints of a socket. A socket without addresses is its own endpoint, and a unix socket has one
/// endpoint with an address.
fn ends(name: &str) -> Vec<End<'_>> {
    // A unix socket's number may come before (`calls::object_name`).
    let numbered = name.strip_prefix("socket:[").and_then(|rest| rest.split_once("] "));
    let told = numbered.map_or(name, |(_, told)| told);
    match SocketName::parse(told) {
        Some(SocketName::Internet { local, peer }) => vec![(false, local), (true, peer)],
        Some(SocketName::Unix { side: Some(Side::Connected), address, .. }) => vec![(true, address)],
        Some(SocketName::Unix { side: Some(Side::Accepted), address, .. }) => vec![(false, address)],
        Some(SocketName::Unix { .. }) | None => vec![(false, name)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::calls::Histogram;

    /// x86-64's write(2) and recvfrom(2).
    const WRITE: i32 = 1;
    const RECVFROM: i32 = 45;

    fn used(syscall: i32, object: u64, name: &str, count: u64) -> CallUse {
        CallUse {
            syscall,
            object_kind: ObjectKind::Socket,
            object,
            object_name: name.to_owned(),
            results: Histogram([(6, count)].into()),
            ..CallUse::default()
        }
    }

    fn found(by_object: Vec<CallUse>) -> Vec<u64> {
        exchanges(&Calls { by_object, ..Calls::default() }).into_iter().collect()
    }

    #[test]
    fn a_service_is_found_although_no_window_has_request_and_response() {
        let calls = vec![used(WRITE, 1, "a:1 → s:80", 1), used(RECVFROM, 2, "a:2 → s:80", 1)];
        assert_eq!(found(calls), [1, 2]);
    }

    #[test]
    fn the_share_is_of_all_calls_of_that_number() {
        let counted = |used: CallUse| CallUse { count: used.results.total(), ..used };
        let by_object = vec![
            counted(used(WRITE, 1, "a:1 → s:80", 30)),
            counted(used(RECVFROM, 1, "a:1 → s:80", 30)),
            counted(used(WRITE, 2, "a:9 → t:90", 10)),
        ];
        let calls = Calls { by_object, ..Calls::default() };
        assert_eq!((share(&calls, WRITE), share(&calls, 7)), (0.75, 0.0));
    }

    #[test]
    fn pieces_of_one_request_are_none() {
        assert!(
            found(vec![used(WRITE, 1, "a:1 → s:80", 300), used(RECVFROM, 1, "a:1 → s:80", 100)]).is_empty()
        );
    }

    #[test]
    fn data_passed_on_to_another_peer_is_no_exchange() {
        let calls = vec![used(RECVFROM, 1, "a:1 → s:80", 100), used(WRITE, 2, "a:9 → t:90", 100)];
        assert!(found(calls).is_empty());
    }

    #[test]
    fn sockets_without_addresses_are_distinct() {
        let calls = vec![
            used(WRITE, 1, "socket:[1] unix", 9),
            used(RECVFROM, 1, "socket:[1] unix", 9),
            used(WRITE, 2, "socket:[2] unix", 9),
        ];
        assert_eq!(found(calls), [1]);
    }

    #[test]
    fn connections_to_one_unix_socket_share_its_address() {
        // Each of them was seen for one call alone.
        let calls = vec![
            used(WRITE, 1, "socket:[1] unix → @db, other end socket:[3]", 9),
            used(RECVFROM, 2, "socket:[2] unix → @db", 9),
            used(RECVFROM, 3, "socket:[3] unix ← @db", 4),
        ];
        assert_eq!(found(calls), [1, 2]);
    }
}
