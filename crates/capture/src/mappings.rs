//! Mapped files of processes: executable memory only.
//!
//! [`read_maps`] returns the current content of /proc. [`MappingFeed`] reports each new mapping of the whole
//! machine. Neither reads the files.

use std::collections::{BTreeMap, BTreeSet};
use std::{fs, io};

use holdup_events::event::RawMapping;
use holdup_events::{CpuId, Event, Loss, Timestamp};

use crate::lower::procfs;
use crate::perf_ring::records::{self, Parsed, Record};
use crate::perf_ring::{self, Attr, Ring, flag, sample};

/// Returns the executable mappings and the vDSO of a process. Empty if it has exited or may not be read.
/// Paths are in the process's view: for a container, prepend `/proc/PID/root`.
pub fn read_maps(tgid: u32) -> Vec<RawMapping> {
    let read = |pid: u32| fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut bytes = read(tgid);
    if bytes.is_empty() {
        bytes = read(procfs::shown_as(tgid));
    }
    parse_maps(&String::from_utf8_lossy(&bytes), tgid, crate::lower::now())
}

/// The bytes of the vdso, which is the same for every process of the machine.
pub fn own_vdso() -> Option<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let own = read_maps(std::process::id());
    let vdso = own.iter().find(|mapping| mapping.path == "[vdso]")?;
    let mut bytes = vec![0; usize::try_from(vdso.end.checked_sub(vdso.start)?).ok()?];
    fs::File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, vdso.start).ok()?;
    Some(bytes)
}

/// The executable lines of a `maps` file.
pub fn parse_maps(text: &str, tgid: u32, at: Timestamp) -> Vec<RawMapping> {
    text.lines().filter_map(|line| parse_maps_line(line, tgid, at)).collect()
}

fn parse_maps_line(line: &str, tgid: u32, at: Timestamp) -> Option<RawMapping> {
    let mut rest = line;
    let mut word = || {
        let (word, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = behind;
        word
    };
    let (range, protection, offset, _device, _inode) = (word(), word(), word(), word(), word());
    if protection.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let path = rest.trim_start_matches(' ');
    if path == "[vsyscall]" {
        return None;
    }
    Some(RawMapping {
        at,
        tgid,
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        file_offset: u64::from_str_radix(offset, 16).ok()?,
        path: path.strip_suffix(" (deleted)").unwrap_or(path).to_owned(),
        build_id: Vec::new(),
    })
}

/// Executable mappings of each followed process. A new mapping replaces the ones that it overlaps, a fork
/// copies them. An exec or an exit clears them.
#[derive(Clone, Debug, Default)]
pub struct AddressSpaces {
    mappings: BTreeMap<u32, Vec<RawMapping>>,
}

impl AddressSpaces {
    /// Takes a mapping in. `false`: it was known already.
    pub fn map(&mut self, mapping: &RawMapping) -> bool {
        let space = self.mappings.entry(mapping.tgid).or_default();
        let same = |known: &RawMapping| {
            (known.start, known.end, known.file_offset, &known.path)
                == (mapping.start, mapping.end, mapping.file_offset, &mapping.path)
        };
        if space.iter().any(same) {
            return false;
        }
        space.retain(|known| known.end <= mapping.start || mapping.end <= known.start);
        space.push(mapping.clone());
        true
    }

    /// `child` starts with the memory of `parent`: gives its mappings.
    pub fn fork(&mut self, parent: u32, child: u32, at: Timestamp) -> Vec<RawMapping> {
        let Some(space) = self.mappings.get(&parent) else { return Vec::new() };
        let copied: Vec<RawMapping> =
            space.iter().map(|mapping| RawMapping { at, tgid: child, ..mapping.clone() }).collect();
        self.mappings.insert(child, copied.clone());
        copied
    }

    /// The process has exited or replaced its memory. Returns `false` if it was unknown.
    pub fn clear(&mut self, tgid: u32) -> bool {
        self.mappings.remove(&tgid).is_some()
    }

    /// Returns the mappings of a process.
    pub fn of_process(&self, tgid: u32) -> &[RawMapping] {
        self.mappings.get(&tgid).map_or(&[], Vec::as_slice)
    }
}

/// The mapping of an `mmap` record.
pub fn mapping_of(mmap: records::Mmap, at: Timestamp) -> RawMapping {
    RawMapping {
        at,
        tgid: mmap.tgid,
        start: mmap.start,
        end: mmap.start.saturating_add(mmap.length),
        file_offset: mmap.file_offset,
        path: mmap.path,
        build_id: mmap.build_id,
    }
}

const SAMPLE_TYPE: u64 = sample::TID | sample::TIME | sample::CPU;
const RING_BYTES: usize = 256 << 10;
/// Reading all mappings again may take at most 1/20 of the time.
const READING_PART: u64 = 20;
/// No record is longer: the path is most of it.
const RECORD_BYTES_MAX: usize = 4400;

/// All new executable mappings of the machine. Needs `CAP_PERFMON` (or perf_event_paranoid ≤ 0).
pub struct MappingFeed {
    rings: Vec<(CpuId, Ring)>,
    spaces: AddressSpaces,
    /// Children of wanted processes: the caller may not have heard of them yet.
    children: BTreeSet<u32>,
    /// Processes whose first thread has ended, and others have not.
    without_first: BTreeSet<u32>,
    /// Threads that have ended since the last check of remaining threads, by process.
    ending: BTreeMap<u32, Vec<u32>>,
    /// Processes whose mappings changed since the last [`MappingFeed::take_changed`].
    changed: BTreeSet<u32>,
    drained: Timestamp,
    /// Records may be missing since then.
    missed: Option<Timestamp>,
    /// Mappings are not read again before this time.
    rests_until: Timestamp,
    bytes: Vec<u8>,
}

impl MappingFeed {
    /// Opens one event on each of `cpus`.
    pub fn open(cpus: &[u16]) -> io::Result<MappingFeed> {
        let mut rings = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            rings.push((CpuId(cpu), open_ring(cpu)?));
        }
        let drained = crate::lower::now();
        Ok(MappingFeed {
            rings,
            spaces: AddressSpaces::default(),
            children: BTreeSet::new(),
            without_first: BTreeSet::new(),
            ending: BTreeMap::new(),
            changed: BTreeSet::new(),
            drained,
            missed: None,
            rests_until: drained,
            bytes: Vec::new(),
        })
    }

    /// Follows a CPU again that came back online: the kernel has ended its event. The rest of its ring is
    /// lost. [`MappingFeed::catch_up`] returns the current mappings.
    pub fn begin_again(&mut self, cpu: u16) -> io::Result<()> {
        let ring = open_ring(cpu)?;
        self.rings.retain(|(known, _)| *known != CpuId(cpu));
        self.rings.push((CpuId(cpu), ring));
        Ok(())
    }

    /// Returns the mappings of a process that are new to the feed.
    pub fn catch_up(&mut self, tgid: u32) -> Vec<RawMapping> {
        let fresh: Vec<RawMapping> =
            read_maps(tgid).into_iter().filter(|mapping| self.spaces.map(mapping)).collect();
        if !fresh.is_empty() {
            self.changed.insert(tgid);
        }
        fresh
    }

    /// Returns mappings of these processes whose records were lost, with the time since which records may be
    /// missing. A program that maps thousands of pages at once can overflow the ring. Empty if no record was
    /// lost, or if the last read is too recent for its cost, because the overflow may continue.
    pub fn catch_up_missed(&mut self, tgids: impl IntoIterator<Item = u32>) -> Vec<RawMapping> {
        let Some(since) = self.missed.filter(|_| self.drained >= self.rests_until) else { return Vec::new() };
        self.missed = None;
        let began = crate::lower::now();
        let fresh: Vec<RawMapping> = tgids.into_iter().flat_map(|tgid| self.catch_up(tgid)).collect();
        let ended = crate::lower::now();
        self.rests_until = Timestamp(ended.0.saturating_add(READING_PART * ended.since(began).0));
        fresh.into_iter().map(|mapping| RawMapping { at: since, ..mapping }).collect()
    }

    /// Adds earlier mappings of a process (see [`read_maps`]), so that a fork copies them.
    pub fn add_known(&mut self, mappings: &[RawMapping]) {
        for mapping in mappings {
            self.spaces.map(mapping);
            self.changed.insert(mapping.tgid);
        }
    }

    /// Returns the processes whose mappings changed since the last call, with all current mappings. Empty
    /// mappings for a process that has exited.
    pub fn take_changed(&mut self) -> Vec<(u32, Vec<RawMapping>)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|tgid| (tgid, self.spaces.of_process(tgid).to_vec())).collect()
    }

    /// Passes on new mappings of the processes selected by `wanted` and of their children, in time order, and
    /// losses.
    pub fn drain(&mut self, wanted: &dyn Fn(u32) -> bool, sink: &mut dyn FnMut(Event)) {
        let seen = crate::lower::now();
        let mut batch: Vec<Parsed> = Vec::new();
        for (cpu, ring) in &mut self.rings {
            let whole = ring.take(&mut self.bytes);
            // The kernel reports lost records only with the next record that fits, possibly seconds later.
            if self.bytes.len() + RECORD_BYTES_MAX > RING_BYTES {
                self.missed = self.missed.or(Some(self.drained));
            }
            let mut used = 0;
            for record in records::split(&self.bytes) {
                used += record.len();
                batch.extend(records::parse(record, SAMPLE_TYPE));
            }
            if !whole || used < self.bytes.len() {
                sink(loss("unreadable", *cpu, (self.drained, seen), 0));
            }
        }
        batch.sort_by_key(|parsed| parsed.origin.at_ns);
        for parsed in batch {
            self.take(parsed, seen, wanted, sink);
        }
        self.end();
        self.drained = seen;
    }

    fn take(
        &mut self,
        parsed: Parsed,
        seen: Timestamp,
        wanted: &dyn Fn(u32) -> bool,
        sink: &mut dyn FnMut(Event),
    ) {
        let at = Timestamp(parsed.origin.at_ns);
        match parsed.record {
            Record::Mmap(mmap) if self.children.contains(&mmap.tgid) || wanted(mmap.tgid) => {
                let mapping = mapping_of(mmap, at);
                if self.spaces.map(&mapping) {
                    self.changed.insert(mapping.tgid);
                    sink(Event::Mapping(mapping));
                }
            }
            Record::Fork(task) if task.tgid != task.parent_tgid && self.follows_fork(task, wanted) => {
                // The TID is reused, so its earlier process has exited.
                if self.ending.remove(&task.tgid).is_some() {
                    self.spaces.clear(task.tgid);
                }
                self.children.insert(task.tgid);
                self.changed.insert(task.tgid);
                let copies = self.spaces.fork(task.parent_tgid, task.tgid, at);
                copies.into_iter().map(Event::Mapping).for_each(sink);
            }
            Record::Comm(comm) if comm.exec && self.spaces.clear(comm.tgid) => {
                self.changed.insert(comm.tgid);
            }
            Record::Exit(task) => self.exit(task),
            Record::Lost(events) => {
                let cpu = u16::try_from(parsed.origin.cpu).map_or(CpuId::NONE, CpuId);
                self.missed = self.missed.or(Some(self.drained));
                sink(loss("ring-full", cpu, (self.drained, seen), events));
            }
            _ => (),
        }
    }

    /// A thread has ended, and with it maybe its process: see [`MappingFeed::end`].
    fn exit(&mut self, task: records::Task) {
        let is_followed = self.children.contains(&task.tgid) || !self.spaces.of_process(task.tgid).is_empty();
        if is_followed && (task.tid == task.tgid || self.without_first.contains(&task.tgid)) {
            self.ending.entry(task.tgid).or_default().push(task.tid);
        }
    }

    /// A process ends with its last thread. The first thread may end earlier (`pthread_exit` in main). At
    /// this check, an ending thread may not have finished its exit yet.
    fn end(&mut self) {
        for (tgid, ended) in std::mem::take(&mut self.ending) {
            if procfs::has_threads(tgid, &ended) {
                self.without_first.insert(tgid);
                continue;
            }
            self.without_first.remove(&tgid);
            if self.spaces.clear(tgid) {
                self.changed.insert(tgid);
            }
            self.children.remove(&tgid);
        }
    }

    fn follows_fork(&self, task: records::Task, wanted: &dyn Fn(u32) -> bool) -> bool {
        self.children.contains(&task.parent_tgid) || wanted(task.parent_tgid) || wanted(task.tgid)
    }
}

fn open_ring(cpu: u16) -> io::Result<Ring> {
    let attr = Attr::new(perf_ring::TYPE_SOFTWARE, perf_ring::SW_DUMMY)
        .carrying(SAMPLE_TYPE)
        .with(flag::MMAP | flag::MMAP2 | flag::COMM | flag::COMM_EXEC | flag::TASK | flag::SAMPLE_ID_ALL);
    Ring::map(perf_ring::open_build_ids(&attr, -1, i32::from(cpu))?, RING_BYTES)
}

fn loss(reason: &str, cpu: CpuId, (start, end): (Timestamp, Timestamp), events: u64) -> Event {
    Event::Loss(Loss { source: "mappings".to_owned(), reason: reason.to_owned(), cpu, start, end, events })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
5560e8a00000-5560e8a02000 r--p 00000000 fe:00 1234                       /usr/bin/my prog
5560e8a02000-5560e8a07000 r-xp 00002000 fe:00 1234                       /usr/bin/my prog
7f00000000-7f00001000 rwxp 00000000 00:00 0
7f10000000-7f10001000 r-xp 00001000 fe:00 99                             /tmp/x.so (deleted)
7ffc1000-7ffc2000 r-xp 00000000 00:00 0                                  [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
garbage
zzz-yyy r-xp 0 0 0 x
";

    #[test]
    fn executable_lines_are_read() {
        let mappings = parse_maps(MAPS, 5, Timestamp(9));
        let paths: Vec<&str> = mappings.iter().map(|mapping| mapping.path.as_str()).collect();
        assert_eq!(paths, ["/usr/bin/my prog", "", "/tmp/x.so", "[vdso]"]);
        let first = &mappings[0];
        assert_eq!((first.start, first.end, first.file_offset), (0x5560e8a02000, 0x5560e8a07000, 0x2000));
        assert_eq!((first.tgid, first.at), (5, Timestamp(9)));
    }

    #[test]
    fn own_maps_hold_this_function() {
        let here = own_maps_hold_this_function as fn() as usize as u64;
        let own = read_maps(std::process::id());
        assert!(own.iter().any(|mapping| (mapping.start..mapping.end).contains(&here)));
        assert!(read_maps(u32::MAX).is_empty());
    }

    fn mapping(tgid: u32, start: u64, end: u64) -> RawMapping {
        RawMapping { tgid, start, end, path: "/x".to_owned(), ..RawMapping::default() }
    }

    #[test]
    fn address_spaces_follow_overlaps_forks_and_exits() {
        let mut spaces = AddressSpaces::default();
        assert!(spaces.map(&mapping(1, 0, 10)));
        assert!(!spaces.map(&mapping(1, 0, 10)));
        assert!(spaces.map(&mapping(1, 20, 30)));
        assert!(spaces.map(&mapping(1, 5, 15)));
        let copied = spaces.fork(1, 2, Timestamp(7));
        assert_eq!(copied.iter().map(|mapping| mapping.start).collect::<Vec<_>>(), [20, 5]);
        assert!(copied.iter().all(|mapping| mapping.tgid == 2 && mapping.at == Timestamp(7)));
        spaces.clear(1);
        assert!(spaces.fork(1, 3, Timestamp(8)).is_empty());
        assert!(spaces.map(&mapping(1, 0, 10)));
    }

    #[test]
    fn the_feed_reports_only_the_childs_mappings() {
        let mut feed = match MappingFeed::open(&crate::host::online_cpus()) {
            Ok(feed) => feed,
            Err(error) => return println!("skipped: perf events of the whole machine: {error}"),
        };
        let own = std::process::id();
        feed.add_known(&read_maps(own));
        let mut child = std::process::Command::new("/bin/sh").args(["-c", "exit 0"]).spawn().unwrap();
        child.wait().unwrap();
        let mut paths = Vec::new();
        feed.drain(&|tgid| tgid == own, &mut |event| match event {
            Event::Mapping(mapping) if mapping.tgid == child.id() => paths.push(mapping.path),
            Event::Mapping(_) | Event::Loss(_) => (),
            other => panic!("{other:?}"),
        });
        assert!(paths.iter().any(|path| path.contains("libc")), "{paths:?}");
        feed.drain(&|_| false, &mut |event| assert!(!matches!(event, Event::Mapping(_)), "{event:?}"));
    }
}
