//! Syscall sums in BPF maps (`bpf/calls.h`) → events. The maps only grow, so each event holds the increase
//! since the last read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use holdup_events::event::{CallSums, ObjectName};
use holdup_events::socket_name::{Side, SocketName};
use holdup_events::tables::CallPartKind;
use holdup_events::{Event, ObjectKind, Timestamp};

use crate::fields::Fields;

/// Sizes of the structs of `bpf/wire.h`, in bytes.
pub mod size {
    /// `struct wire_call_key`
    pub const KEY: usize = 24;
    /// `struct wire_call_sums`
    pub const SUMS: usize = 488;
    /// `struct wire_call_error_key`, and `struct wire_call_stack_key`
    pub const PART_KEY: usize = KEY + 8;
    /// `struct wire_object_key`
    pub const OBJECT_KEY: usize = 16;
    /// `struct wire_object_name`
    pub const OBJECT_NAME: usize = 48 + PATH_PARTS * PATH_PART;
    /// `WIRE_PATH_PARTS`
    pub const PATH_PARTS: usize = 6;
    /// `WIRE_PATH_PART_BYTES`
    pub const PATH_PART: usize = 40;
}

const SIZE_BUCKETS: usize = 33;
const TIME_BUCKETS: usize = 40;
const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const AF_NETLINK: u16 = 16;

/// One of the kernel programs' maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMap {
    /// Key and sums of each CPU.
    Sums,
    /// Key with an error, and its count on each CPU.
    Errors,
    /// Key with a stack, and for how many calls it stands.
    Stacks,
    /// An object and its name.
    Names,
}

/// Reports the increase since the last read.
#[derive(Default)]
pub struct CallDecoder {
    last: BTreeMap<Key, Sums>,
    now: BTreeMap<Key, Sums>,
    names: BTreeMap<(ObjectKind, u64), String>,
    fresh: Vec<(ObjectKind, u64)>,
    bad: u64,
}

/// `struct wire_call_key`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    tid: u32,
    syscall: i32,
    object_kind: ObjectKind,
    op: u32,
    object: u64,
}

/// The sums of all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sums {
    tgid: u32,
    count: u64,
    errors: u64,
    returned: u64,
    time_ns: u64,
    time_max_ns: u64,
    timed: u64,
    parts: BTreeMap<(CallPartKind, u64), u64>,
}

impl CallDecoder {
    /// Takes the current value of a map entry. `values` has one value per CPU, or a single one. Invalid
    /// entries are skipped and counted.
    pub fn take(&mut self, map: CallMap, key: &[u8], values: &[Vec<u8>]) {
        let taken = match map {
            CallMap::Sums => self.sums(key, values),
            CallMap::Errors => self.part(CallPartKind::Error, key, values),
            CallMap::Stacks => self.part(CallPartKind::Stack, key, values),
            CallMap::Names => self.name(key, values),
        };
        self.bad += u64::from(taken.is_none());
    }

    /// How many names were taken.
    pub fn named(&self) -> usize {
        self.names.len()
    }

    /// Entries that were not understood.
    pub fn bad(&self) -> u64 {
        self.bad
    }

    /// Emits the increase of the entries taken since the last call. Entries not taken again are unchanged.
    pub fn emit(&mut self, (start, end): (Timestamp, Timestamp), sink: &mut dyn FnMut(Event)) {
        for id in std::mem::take(&mut self.fresh) {
            let name = self.names.get(&id).cloned().unwrap_or_default();
            sink(Event::ObjectName(ObjectName { at: start, kind: id.0, object: id.1, name }));
        }
        for (key, sums) in std::mem::take(&mut self.now) {
            let last = self.last.entry(key).or_default();
            let more = difference(&sums, last);
            if more.count > 0 || !more.parts.is_empty() {
                sink(Event::Calls(Box::new(event(key, &more, (start, end)))));
            }
            keep_greatest(last, sums);
        }
    }

    fn sums(&mut self, key: &[u8], values: &[Vec<u8>]) -> Option<()> {
        let key = read_key(&mut Fields(key))?;
        let sums = self.now.entry(key).or_default();
        values.iter().try_for_each(|value| add_cpu(sums, &mut Fields(value)))
    }

    fn part(&mut self, what: CallPartKind, key: &[u8], values: &[Vec<u8>]) -> Option<()> {
        let mut fields = Fields(key);
        let of = read_key(&mut fields)?;
        let part = match what {
            CallPartKind::Error => u64::from(fields.u32()?),
            _ => fields.u64()?,
        };
        let sums = self.now.entry(of).or_default();
        for value in values {
            let count = Fields(value).u64()?;
            add(sums, (what, part), count);
        }
        Some(())
    }

    fn name(&mut self, key: &[u8], values: &[Vec<u8>]) -> Option<()> {
        let mut fields = Fields(key);
        let kind = kind_of(fields.u32()?)?;
        fields.u32()?;
        let id = (kind, fields.u64()?);
        if let Entry::Vacant(place) = self.names.entry(id) {
            place.insert(read_name(kind, &mut Fields(values.first()?))?);
            self.fresh.push(id);
        }
        Some(())
    }
}

fn kind_of(code: u32) -> Option<ObjectKind> {
    ObjectKind::from_code(u8::try_from(code).ok()?)
}

fn read_key(fields: &mut Fields) -> Option<Key> {
    Some(Key {
        tid: fields.u32()?,
        syscall: fields.u32()? as i32,
        object_kind: kind_of(fields.u32()?)?,
        op: fields.u32()?,
        object: fields.u64()?,
    })
}

fn add_cpu(sums: &mut Sums, fields: &mut Fields) -> Option<()> {
    sums.count = sums.count.saturating_add(fields.u64()?);
    sums.errors = sums.errors.saturating_add(fields.u64()?);
    sums.returned = sums.returned.saturating_add(fields.u64()?);
    sums.time_ns = sums.time_ns.saturating_add(fields.u64()?);
    sums.time_max_ns = sums.time_max_ns.max(fields.u64()?);
    sums.timed = sums.timed.saturating_add(fields.u64()?);
    let error_count = fields.u64()?;
    let (tgid, error) = (fields.u32()?, fields.u32()?);
    if tgid != 0 {
        sums.tgid = tgid; // a CPU that it never ran on has zeros
    }
    add(sums, (CallPartKind::Error, u64::from(error)), error_count);
    let lists = [
        (CallPartKind::Asked, SIZE_BUCKETS),
        (CallPartKind::Returned, SIZE_BUCKETS),
        (CallPartKind::Time, TIME_BUCKETS),
    ];
    for (what, buckets) in lists {
        for bucket in 0..buckets as u64 {
            let count = u64::from(fields.u32()?);
            add(sums, (what, bucket), count);
        }
    }
    Some(())
}

fn add(sums: &mut Sums, part: (CallPartKind, u64), count: u64) {
    if count > 0 {
        let sum = sums.parts.entry(part).or_default();
        *sum = sum.saturating_add(count);
    }
}

/// `now` minus `last`. If only some parts of an entry were taken again, the difference covers only these.
fn difference(now: &Sums, last: &Sums) -> Sums {
    let more = |(part, count): (&(CallPartKind, u64), &u64)| {
        let more = count.saturating_sub(last.parts.get(part).copied().unwrap_or(0));
        (more > 0).then_some((*part, more))
    };
    Sums {
        tgid: if now.tgid != 0 { now.tgid } else { last.tgid },
        count: now.count.saturating_sub(last.count),
        errors: now.errors.saturating_sub(last.errors),
        returned: now.returned.saturating_sub(last.returned),
        time_ns: now.time_ns.saturating_sub(last.time_ns),
        time_max_ns: now.time_max_ns,
        timed: now.timed.saturating_sub(last.timed),
        parts: now.parts.iter().filter_map(more).collect(),
    }
}

/// Sums only grow. Reading may miss an entry while others are inserted, so the last known value is kept.
fn keep_greatest(last: &mut Sums, now: Sums) {
    let pairs = [
        (&mut last.count, now.count),
        (&mut last.errors, now.errors),
        (&mut last.returned, now.returned),
        (&mut last.time_ns, now.time_ns),
        (&mut last.time_max_ns, now.time_max_ns),
        (&mut last.timed, now.timed),
    ];
    for (kept, new) in pairs {
        *kept = new.max(*kept);
    }
    last.tgid = if now.tgid != 0 { now.tgid } else { last.tgid };
    for (part, count) in now.parts {
        let kept = last.parts.entry(part).or_default();
        *kept = count.max(*kept);
    }
}

fn event(key: Key, sums: &Sums, (at, until): (Timestamp, Timestamp)) -> CallSums {
    CallSums {
        at,
        until,
        tid: key.tid,
        tgid: sums.tgid,
        syscall: key.syscall,
        op: key.op,
        object_kind: key.object_kind,
        object: key.object,
        count: sums.count,
        errors: sums.errors,
        returned: sums.returned,
        time_ns: sums.time_ns,
        time_max_ns: sums.time_max_ns,
        timed: sums.timed,
        parts: sums.parts.iter().map(|((what, part), count)| (*what, *part, *count)).collect(),
    }
}

fn read_name(kind: ObjectKind, fields: &mut Fields) -> Option<String> {
    let [family, local_port, peer_port, side] = [(); 4].map(|()| fields.bytes(2));
    let [family, local_port, peer_port, side] =
        [word(family?)?, word(local_port?)?, word(peer_port?)?, word(side?)?];
    let (local, peer) = (fields.bytes(16)?, fields.bytes(16)?);
    let peer_object = fields.u64()?;
    if kind == ObjectKind::Socket {
        return Some(match family {
            AF_UNIX => {
                let address = unix_address(fields.bytes(size::PATH_PARTS * size::PATH_PART)?);
                let side = match side {
                    1 => Some(Side::Connected),
                    2 => Some(Side::Accepted),
                    _ => None,
                };
                SocketName::Unix { side, address: &address, other_end: peer_object }.to_string()
            }
            AF_INET | AF_INET6 => {
                let local = address(family, local)?;
                let peer = address(family, peer)?;
                let (local, peer) = (at_port(local, local_port), at_port(peer, peer_port));
                SocketName::Internet { local: &local, peer: &peer }.to_string()
            }
            AF_NETLINK => "netlink".to_owned(),
            family => format!("family {family}"),
        });
    }
    let mut parts = Vec::new();
    while let Some(part) = fields.bytes(size::PATH_PART) {
        let text = part.split(|byte| *byte == 0).next().unwrap_or_default();
        if text.is_empty() {
            break;
        }
        parts.push(String::from_utf8_lossy(text).into_owned());
    }
    Some(path(parts))
}

/// Written as `ss` does: an abstract address begins with `@` for its leading zero byte.
fn unix_address(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let is_abstract = bytes.first() == Some(&0);
    let said = bytes.get(..end).unwrap_or_default();
    let said = if is_abstract { said } else { said.split(|byte| *byte == 0).next().unwrap_or_default() };
    String::from_utf8_lossy(said).replace('\0', "@")
}

fn word(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn address(family: u16, bytes: &[u8]) -> Option<IpAddr> {
    if family == AF_INET {
        let four: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        return Some(Ipv4Addr::from(four).into());
    }
    let sixteen: [u8; 16] = bytes.try_into().ok()?;
    Some(Ipv6Addr::from(sixteen).to_canonical())
}

fn at_port(address: IpAddr, port: u16) -> String {
    match address {
        IpAddr::V4(address) => format!("{address}:{port}"),
        IpAddr::V6(address) => format!("[{address}]:{port}"),
    }
}

/// File name first, then its parent directories. The root of a file system is named `/`.
fn path(mut parts: Vec<String>) -> String {
    let whole = parts.last().is_some_and(|part| part == "/");
    if whole && parts.len() > 1 {
        parts.pop();
    }
    if whole && parts.first().is_some_and(|part| part == "/") {
        return "/".to_owned();
    }
    parts.reverse();
    let from_root = if whole { "/" } else { "" };
    let cut = if parts.len() >= size::PATH_PARTS && !whole { "…/" } else { from_root };
    format!("{cut}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tid: u32, syscall: i32, object: u64) -> Vec<u8> {
        let words = [tid, syscall as u32, ObjectKind::Pipe as u32, 0];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(object.to_le_bytes());
        bytes
    }

    /// One CPU's part: calls, of which some failed with EAGAIN, the others returned one byte.
    fn sums(count: u64, errors: u64) -> Vec<u8> {
        let moved = count - errors;
        let wide = [count, errors, moved, count * 100, 150, count, errors];
        let mut bytes: Vec<u8> = wide.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut narrow = vec![7u32, if errors > 0 { 11 } else { 0 }];
        let bucket = |at: usize, of: usize, value: u64| {
            (0..of).map(move |bucket| if bucket == at { value as u32 } else { 0 })
        };
        narrow.extend(bucket(1, SIZE_BUCKETS, count));
        narrow.extend(bucket(1, SIZE_BUCKETS, moved));
        narrow.extend(bucket(7, TIME_BUCKETS, count));
        bytes.extend(narrow.iter().flat_map(|word| word.to_le_bytes()));
        assert_eq!(bytes.len(), size::SUMS);
        bytes
    }

    fn emitted(decoder: &mut CallDecoder) -> Vec<CallSums> {
        let mut all = Vec::new();
        decoder.emit((Timestamp(5), Timestamp(9)), &mut |event| {
            if let Event::Calls(sums) = event {
                all.push(*sums);
            }
        });
        all
    }

    #[test]
    fn sums_of_cpus_are_added_and_only_increases_are_emitted() {
        let mut decoder = CallDecoder::default();
        decoder.take(CallMap::Sums, &key(3, 1, 40), &[sums(10, 4), sums(5, 0)]);
        let first = emitted(&mut decoder).remove(0);
        assert_eq!((first.tid, first.tgid, first.count, first.errors, first.returned), (3, 7, 15, 4, 11));
        assert_eq!((first.object_kind, first.object, first.time_ns), (ObjectKind::Pipe, 40, 1500));
        let expected = [
            (CallPartKind::Time, 7, 15),
            (CallPartKind::Asked, 1, 15),
            (CallPartKind::Returned, 1, 11),
            (CallPartKind::Error, 11, 4),
        ];
        assert_eq!(first.parts, expected);
        decoder.take(CallMap::Sums, &key(3, 1, 40), &[sums(10, 4), sums(7, 1)]);
        let second = emitted(&mut decoder).remove(0);
        assert_eq!((second.count, second.errors, second.returned), (2, 1, 1));
        decoder.take(CallMap::Sums, &key(3, 1, 40), &[sums(10, 4), sums(7, 1)]);
        assert_eq!(emitted(&mut decoder), []);
    }

    #[test]
    fn other_errors_and_stacks_belong_to_their_call() {
        let mut decoder = CallDecoder::default();
        decoder.take(CallMap::Sums, &key(3, 1, 40), &[sums(10, 4)]);
        let with = |word: u64| [key(3, 1, 40), word.to_le_bytes().to_vec()].concat();
        let one = |count: u64| vec![count.to_le_bytes().to_vec()];
        decoder.take(CallMap::Errors, &with(32), &one(2));
        decoder.take(CallMap::Stacks, &with(0xabc), &one(9));
        let parts = emitted(&mut decoder).remove(0).parts;
        assert!(parts.contains(&(CallPartKind::Error, 32, 2)), "{parts:?}");
        assert!(parts.contains(&(CallPartKind::Stack, 0xabc, 9)), "{parts:?}");
    }

    #[test]
    fn names_are_paths_and_addresses() {
        let parts = |names: &[&str]| path(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(parts(&["log", "var", "/"]), "/var/log");
        assert_eq!(parts(&["/"]), "/");
        assert_eq!(parts(&["f", "e", "d", "c", "b", "a"]), "…/a/b/c/d/e/f");
        let mut name = Vec::new();
        for word in [AF_INET, 80, 443, 0] {
            name.extend(word.to_le_bytes());
        }
        name.extend([127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        name.extend([10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        name.resize(size::OBJECT_NAME, 0);
        let said = read_name(ObjectKind::Socket, &mut Fields(&name)).unwrap();
        assert_eq!(said, "127.0.0.1:80 → 10.1.2.3:443");
    }

    #[test]
    fn unix_sockets_are_named_by_their_listener() {
        let said = |side: u16, other: u64, path: &[u8]| {
            let mut name: Vec<u8> =
                [AF_UNIX, 0, 0, side].iter().flat_map(|word| word.to_le_bytes()).collect();
            name.resize(40, 0);
            name.extend(other.to_le_bytes());
            name.extend(path);
            name.resize(size::OBJECT_NAME, 0);
            read_name(ObjectKind::Socket, &mut Fields(&name)).unwrap()
        };
        assert_eq!(said(1, 7, b"/run/db.sock"), "unix → /run/db.sock, other end socket:[7]");
        assert_eq!(said(2, 0, b"\0db"), "unix ← @db");
        assert_eq!(said(0, 0, b"/run/db.sock\0rest"), "unix at /run/db.sock");
        assert_eq!(said(9, 7, b""), "unix, other end socket:[7]");
    }

    #[test]
    fn cut_entries_are_counted_and_left_out() {
        let mut decoder = CallDecoder::default();
        for length in 0..size::SUMS {
            decoder.take(CallMap::Sums, &key(length as u32, 1, 40), &[sums(1, 0)[..length].to_vec()]);
        }
        decoder.take(CallMap::Names, &[9, 0], &[]);
        assert_eq!(decoder.bad(), size::SUMS as u64 + 1);
    }
}
