//! Decodes the records of a perf ring. Never panics. An invalid record is `None`.

use super::sample;

const TYPE_LOST: u32 = 2;
const TYPE_COMM: u32 = 3;
const TYPE_EXIT: u32 = 4;
const TYPE_THROTTLE: u32 = 5;
const TYPE_UNTHROTTLE: u32 = 6;
const TYPE_FORK: u32 = 7;
const TYPE_SAMPLE: u32 = 9;
const TYPE_MMAP2: u32 = 10;
const TYPE_LOST_SAMPLES: u32 = 13;
const TYPE_SWITCH: u32 = 14;
const TYPE_SWITCH_CPU_WIDE: u32 = 15;

const MISC_CPUMODE_MASK: u16 = 7;
const MISC_KERNEL: u16 = 1;
const MISC_BIT_13: u16 = 1 << 13;
const MISC_BIT_14: u16 = 1 << 14;

/// Callchain entries from here up are context markers (`PERF_CONTEXT_*`), not addresses.
const CONTEXT_FIRST: u64 = -4095i64 as u64;
const CONTEXT_KERNEL: u64 = -128i64 as u64;
const CONTEXT_USER: u64 = -512i64 as u64;

const HEADER_BYTES: usize = 8;
/// Longer callchains than the kernel's own maximum are cut.
const CALLCHAIN_MAX: u64 = 4096;

/// Process, thread, time and CPU: the trailer of every record with `sample_id_all`, the head of every sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Process. 0 if the record does not have it, `u32::MAX` if it has exited.
    pub tgid: u32,
    /// Thread, likewise.
    pub tid: u32,
    /// Nanoseconds of the event's clock. 0 if the record does not have it.
    pub at_ns: u64,
    /// CPU. `u32::MAX` if the record does not have it.
    pub cpu: u32,
    /// Id of the event. 0 if the record does not have it.
    pub id: u64,
}

/// A record and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Process, thread, time and CPU.
    pub origin: Origin,
    /// The content.
    pub record: Record,
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Memory was mapped.
    Mmap(Mmap),
    /// A thread has another name.
    Comm(Comm),
    /// A thread was born.
    Fork(Task),
    /// A thread exits.
    Exit(Task),
    /// A sample.
    Sample(Sample),
    /// A thread arrives on, or leaves, a CPU.
    Switch(Switch),
    /// Number of records lost in a full ring.
    Lost(u64),
    /// Number of samples dropped before they became records.
    LostSamples(u64),
    /// The sampling rate exceeded the kernel's limit. Sampling stops until [`Record::Unthrottle`].
    Throttle,
    /// Sampling continues.
    Unthrottle,
    /// Another type of record.
    Other(u32),
}

/// See [`Record::Mmap`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mmap {
    /// Process.
    pub tgid: u32,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
    /// Offset of `start` in the file.
    pub file_offset: u64,
    /// `PROT_*` bits.
    pub protection: u32,
    /// Build id. Empty if the record has none.
    pub build_id: Vec<u8>,
    /// File name, or a name in brackets, or empty for anonymous memory.
    pub path: String,
}

/// See [`Record::Comm`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comm {
    /// Process.
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    /// Whether the process runs another program.
    pub exec: bool,
    /// The new name.
    pub name: String,
}

/// See [`Record::Fork`] and [`Record::Exit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Process.
    pub tgid: u32,
    /// Process of the parent.
    pub parent_tgid: u32,
    /// Thread.
    pub tid: u32,
    /// The thread that made it.
    pub parent_tid: u32,
    /// When, on the event's clock (ns).
    pub at_ns: u64,
}

/// See [`Record::Sample`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Instruction pointer.
    pub ip: u64,
    /// The CPU was in kernel mode.
    pub in_kernel: bool,
    /// Number of kernel addresses in `addresses`, which come first.
    pub kernel_frames: u16,
    /// Callchain, leaf first.
    pub addresses: Vec<u64>,
}

/// See [`Record::Switch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// Whether the thread leaves the CPU. Otherwise it arrives.
    pub out: bool,
    /// Whether the thread leaves by preemption.
    pub preempted: bool,
    /// For a CPU-wide event: TID of the previous or next thread.
    pub other_tid: Option<u32>,
}

/// Returns the complete records of `bytes`, in order, up to the first invalid size. The sum of their lengths
/// shows whether there was one.
pub fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let size = usize::from(u16::from_le_bytes(rest.get(6..8)?.try_into().ok()?));
        if size < HEADER_BYTES {
            return None;
        }
        let (record, behind) = rest.split_at_checked(size)?;
        rest = behind;
        Some(record)
    })
}

/// One record, header included. `sample_type` is that of the event (all events of a ring have the
/// same), with `sample_id_all` set.
pub fn parse(bytes: &[u8], sample_type: u64) -> Option<Parsed> {
    let mut reader = Reader { rest: bytes };
    let kind = reader.u32()?;
    let misc = reader.u16()?;
    let size = usize::from(reader.u16()?);
    if size != bytes.len() {
        return None;
    }
    if kind == TYPE_SAMPLE {
        return sample_record(reader, misc, sample_type);
    }
    let (body, origin) = split_trailer(reader.rest, sample_type)?;
    let record = body_record(kind, misc, Reader { rest: body })?;
    Some(Parsed { origin, record })
}

fn body_record(kind: u32, misc: u16, mut body: Reader) -> Option<Record> {
    Some(match kind {
        TYPE_MMAP2 => Record::Mmap(mmap(misc, body)?),
        TYPE_COMM => Record::Comm(Comm {
            tgid: body.u32()?,
            tid: body.u32()?,
            exec: misc & MISC_BIT_13 != 0,
            name: body.text(),
        }),
        TYPE_FORK => Record::Fork(task(body)?),
        TYPE_EXIT => Record::Exit(task(body)?),
        TYPE_SWITCH | TYPE_SWITCH_CPU_WIDE => {
            let out = misc & MISC_BIT_13 != 0;
            let other_tid = if kind == TYPE_SWITCH { None } else { Some((body.u32()?, body.u32()?).1) };
            Record::Switch(Switch { out, preempted: out && misc & MISC_BIT_14 != 0, other_tid })
        }
        TYPE_LOST => Record::Lost((body.u64()?, body.u64()?).1),
        TYPE_LOST_SAMPLES => Record::LostSamples(body.u64()?),
        TYPE_THROTTLE => Record::Throttle,
        TYPE_UNTHROTTLE => Record::Unthrottle,
        other => Record::Other(other),
    })
}

fn mmap(misc: u16, mut body: Reader) -> Option<Mmap> {
    let (tgid, _tid) = (body.u32()?, body.u32()?);
    let (start, length, file_offset) = (body.u64()?, body.u64()?, body.u64()?);
    let identity = body.take(24)?;
    let build_id = if misc & MISC_BIT_14 != 0 {
        let length = usize::from(*identity.first()?);
        identity.get(4..)?.get(..length.min(20))?.to_vec()
    } else {
        Vec::new()
    };
    let (protection, _flags) = (body.u32()?, body.u32()?);
    let path = match body.text() {
        anonymous if anonymous == "//anon" => String::new(),
        path => path,
    };
    Some(Mmap { tgid, start, length, file_offset, protection, build_id, path })
}

fn task(mut body: Reader) -> Option<Task> {
    Some(Task {
        tgid: body.u32()?,
        parent_tgid: body.u32()?,
        tid: body.u32()?,
        parent_tid: body.u32()?,
        at_ns: body.u64()?,
    })
}

fn sample_record(mut body: Reader, misc: u16, sample_type: u64) -> Option<Parsed> {
    const KNOWN: u64 = sample::IDENTIFIER
        | sample::IP
        | sample::TID
        | sample::TIME
        | sample::ADDR
        | sample::ID
        | sample::STREAM_ID
        | sample::CPU
        | sample::PERIOD
        | sample::CALLCHAIN;
    if sample_type & !KNOWN != 0 {
        return None;
    }
    let has = |bit| sample_type & bit != 0;
    let mut origin = Origin { cpu: u32::MAX, ..Origin::default() };
    let in_kernel = misc & MISC_CPUMODE_MASK == MISC_KERNEL;
    let mut taken = Sample { in_kernel, ..Sample::default() };
    if has(sample::IDENTIFIER) {
        origin.id = body.u64()?;
    }
    if has(sample::IP) {
        taken.ip = body.u64()?;
    }
    if has(sample::TID) {
        (origin.tgid, origin.tid) = (body.u32()?, body.u32()?);
    }
    if has(sample::TIME) {
        origin.at_ns = body.u64()?;
    }
    if has(sample::ADDR) {
        body.u64()?;
    }
    if has(sample::ID) {
        origin.id = body.u64()?;
    }
    if has(sample::STREAM_ID) {
        body.u64()?;
    }
    if has(sample::CPU) {
        (origin.cpu, _) = (body.u32()?, body.u32()?);
    }
    if has(sample::PERIOD) {
        body.u64()?;
    }
    if has(sample::CALLCHAIN) {
        callchain(&mut body, &mut taken)?;
    }
    Some(Parsed { origin, record: Record::Sample(taken) })
}

/// Sorts a callchain into kernel and user frames. Entries of other kinds (guests) are left out.
fn callchain(body: &mut Reader, taken: &mut Sample) -> Option<()> {
    let entries = body.u64()?;
    if entries > CALLCHAIN_MAX {
        return None;
    }
    let mut section = CONTEXT_USER;
    for _ in 0..entries {
        let address = body.u64()?;
        if address >= CONTEXT_FIRST {
            section = address;
        } else if section == CONTEXT_KERNEL && usize::from(taken.kernel_frames) == taken.addresses.len() {
            taken.addresses.push(address);
            taken.kernel_frames += 1;
        } else if section == CONTEXT_USER {
            taken.addresses.push(address);
        }
    }
    Some(())
}

/// Cuts the `sample_id` trailer off the end of a record that is no sample.
fn split_trailer(body: &[u8], sample_type: u64) -> Option<(&[u8], Origin)> {
    let mut origin = Origin { cpu: u32::MAX, ..Origin::default() };
    let fields = [sample::TID, sample::TIME, sample::ID, sample::STREAM_ID, sample::CPU, sample::IDENTIFIER];
    let length = fields.iter().filter(|&&bit| sample_type & bit != 0).count() * 8;
    let (body, trailer) = body.split_at_checked(body.len().checked_sub(length)?)?;
    let mut trailer = Reader { rest: trailer };
    for bit in fields.into_iter().filter(|bit| sample_type & bit != 0) {
        let value = trailer.u64()?;
        let halves = (value as u32, (value >> 32) as u32);
        match bit {
            sample::TID => (origin.tgid, origin.tid) = halves,
            sample::TIME => origin.at_ns = value,
            sample::ID | sample::IDENTIFIER => origin.id = value,
            sample::CPU => origin.cpu = halves.0,
            _ => (),
        }
    }
    Some((body, origin))
}

/// Takes little-endian fields off the front.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// The rest up to a zero byte.
    fn text(&mut self) -> String {
        let end = self.rest.iter().position(|byte| *byte == 0).unwrap_or(self.rest.len());
        let text = self.rest.get(..end).unwrap_or_default();
        self.rest = &[];
        String::from_utf8_lossy(text).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: u64 =
        sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU | sample::CALLCHAIN;

    struct Bytes(Vec<u8>);

    impl Bytes {
        fn u32(mut self, value: u32) -> Bytes {
            self.0.extend(value.to_le_bytes());
            self
        }
        fn u64(mut self, value: u64) -> Bytes {
            self.0.extend(value.to_le_bytes());
            self
        }
        fn text(mut self, text: &str) -> Bytes {
            self.0.extend(text.bytes());
            self.0.push(0);
            while !self.0.len().is_multiple_of(8) {
                self.0.push(0);
            }
            self
        }
        fn trailer(self) -> Bytes {
            self.u32(10).u32(11).u64(1000).u32(3).u32(0).u64(77)
        }
        fn record(self, kind: u32, misc: u16) -> Vec<u8> {
            let mut record = kind.to_le_bytes().to_vec();
            record.extend(misc.to_le_bytes());
            record.extend((self.0.len() as u16 + 8).to_le_bytes());
            record.extend(self.0);
            record
        }
    }

    fn body() -> Bytes {
        Bytes(Vec::new())
    }

    const ORIGIN: Origin = Origin { tgid: 10, tid: 11, at_ns: 1000, cpu: 3, id: 77 };

    fn mmap_record(misc: u16, path: &str) -> Vec<u8> {
        let identity = body().u32(20).u64(0x0807_0605_0403_0201).u64(9).u32(5);
        let mut fields = body().u32(10).u32(11).u64(0x1000).u64(0x2000).u64(0x3000);
        fields.0.extend(identity.0);
        fields.u32(5).u32(2).text(path).trailer().record(TYPE_MMAP2, misc)
    }

    fn every_record() -> Vec<Vec<u8>> {
        vec![
            mmap_record(MISC_BIT_14, "/lib/x.so"),
            mmap_record(0, "//anon"),
            body().u32(10).u32(11).text("worker").trailer().record(TYPE_COMM, MISC_BIT_13),
            body().u32(20).u32(10).u32(21).u32(11).u64(999).trailer().record(TYPE_FORK, 0),
            body().u32(10).u32(10).u32(11).u32(11).u64(999).trailer().record(TYPE_EXIT, 0),
            body().trailer().record(TYPE_SWITCH, MISC_BIT_13 | MISC_BIT_14),
            body().u32(5).u32(6).trailer().record(TYPE_SWITCH_CPU_WIDE, 0),
            body().u64(77).u64(42).trailer().record(TYPE_LOST, 0),
            body().u64(43).trailer().record(TYPE_LOST_SAMPLES, 0),
            body().u64(1).u64(2).u64(3).trailer().record(TYPE_THROTTLE, 0),
            sample_bytes(),
        ]
    }

    fn sample_bytes() -> Vec<u8> {
        let head = body().u64(77).u64(0xabc).u32(10).u32(11).u64(1000).u32(3).u32(0);
        let chain = [CONTEXT_KERNEL, 0x81, CONTEXT_USER, 0xabc, 0xdef];
        let head = head.u64(chain.len() as u64);
        chain.iter().fold(head, |bytes, entry| bytes.u64(*entry)).record(TYPE_SAMPLE, MISC_KERNEL)
    }

    #[test]
    fn every_kind_of_record_is_read() {
        let parsed: Vec<Parsed> = every_record().iter().map(|bytes| parse(bytes, TYPE).unwrap()).collect();
        assert!(parsed.iter().all(|parsed| parsed.origin == ORIGIN));
        let records: Vec<Record> = parsed.into_iter().map(|parsed| parsed.record).collect();
        let Record::Mmap(file) = &records[0] else { panic!("{records:?}") };
        assert_eq!((file.start, file.length, file.file_offset, file.protection), (0x1000, 0x2000, 0x3000, 5));
        assert_eq!((file.path.as_str(), file.build_id.len(), file.build_id[0]), ("/lib/x.so", 20, 1));
        let Record::Mmap(anonymous) = &records[1] else { panic!("{records:?}") };
        assert_eq!((anonymous.path.as_str(), anonymous.build_id.len()), ("", 0));
        assert_eq!(records[2], Record::Comm(Comm { tgid: 10, tid: 11, exec: true, name: "worker".into() }));
        let born = Task { tgid: 20, parent_tgid: 10, tid: 21, parent_tid: 11, at_ns: 999 };
        assert_eq!(records[3], Record::Fork(born));
        assert!(matches!(records[4], Record::Exit(Task { tid: 11, .. })));
        assert_eq!(records[5], Record::Switch(Switch { out: true, preempted: true, other_tid: None }));
        assert_eq!(records[6], Record::Switch(Switch { out: false, preempted: false, other_tid: Some(6) }));
        assert_eq!(records[7..10], [Record::Lost(42), Record::LostSamples(43), Record::Throttle]);
        let addresses = vec![0x81, 0xabc, 0xdef];
        let expected = Sample { ip: 0xabc, in_kernel: true, kernel_frames: 1, addresses };
        assert_eq!(records[10], Record::Sample(expected));
    }

    #[test]
    fn truncated_and_flipped_bytes_never_panic() {
        for record in every_record() {
            for length in 0..record.len() {
                let mut cut = record[..length].to_vec();
                assert_eq!(parse(&cut, TYPE), None, "the header's size is not the record's");
                if let Some(size) = cut.get_mut(6..8) {
                    size.copy_from_slice(&(length as u16).to_le_bytes());
                    let _ = parse(&cut, TYPE);
                }
            }
            for at in 0..record.len() {
                for value in [0, 0x7f, 0x80, 0xff] {
                    let mut flipped = record.clone();
                    flipped[at] = value;
                    let _ = parse(&flipped, TYPE);
                    let _ = split(&flipped).count();
                }
            }
        }
    }

    #[test]
    fn splitting_stops_at_nonsense() {
        let whole: Vec<u8> = every_record().concat();
        assert_eq!(split(&whole).count(), 11);
        let mut broken = every_record()[2].clone();
        broken.extend([0; 64]);
        assert_eq!(split(&broken).count(), 1);
        assert_eq!(split(&whole[..whole.len() - 1]).count(), 10);
        assert_eq!(split(&[1, 2, 3]).count(), 0);
    }

    #[test]
    fn an_absurd_callchain_length_is_refused() {
        let mut bytes = sample_bytes();
        bytes[48..56].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(parse(&bytes, TYPE), None);
    }
}
