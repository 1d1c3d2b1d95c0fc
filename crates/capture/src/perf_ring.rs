//! `perf_event_open` and its ring: opens an event, maps its ring, and copies the bytes.
//!
//! [`records`] decodes the bytes. The callers choose the events. The ring is not trusted: sizes are checked
//! before any read.

pub mod records;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// `struct perf_event_attr` up to `PERF_ATTR_SIZE_VER5`, which every kernel since 4.1 takes.
#[repr(C)]
#[derive(Clone, Debug, Default)]
pub struct Attr {
    /// `PERF_TYPE_*`.
    pub kind: u32,
    /// Size of this struct, set by [`Attr::new`].
    pub size: u32,
    /// Which event of that type.
    pub config: u64,
    /// Number of events per sample (for `CPU_CLOCK`: ns). 0 for none.
    pub sample_period: u64,
    /// `sample::*` bits.
    pub sample_type: u64,
    /// `PERF_FORMAT_*` bits.
    pub read_format: u64,
    /// `flag::*` bits.
    pub flags: u64,
    /// Bytes in the ring before a poll wakes, with [`flag::WATERMARK`].
    pub wakeup: u32,
    /// Kind of hardware breakpoint.
    pub breakpoint_kind: u32,
    /// Address of the breakpoint, or config1.
    pub config1: u64,
    /// Length of the breakpoint, or config2.
    pub config2: u64,
    /// Which branches to record.
    pub branch_sample_type: u64,
    /// Which user registers samples carry.
    pub sample_regs_user: u64,
    /// How many bytes of user stack samples carry.
    pub sample_stack_user: u32,
    /// A `CLOCK_*`, with [`flag::USE_CLOCKID`].
    pub clockid: i32,
    /// Which registers of the interrupted code samples carry.
    pub sample_regs_intr: u64,
    /// Bytes in the AUX area before a poll wakes.
    pub aux_watermark: u32,
    /// Maximum length of callchains. 0 for the system's limit.
    pub sample_max_stack: u16,
    /// Zero.
    pub reserved: u16,
}

const _: () = assert!(size_of::<Attr>() == 112);

/// `PERF_TYPE_HARDWARE`.
pub const TYPE_HARDWARE: u32 = 0;
/// `PERF_TYPE_SOFTWARE`.
pub const TYPE_SOFTWARE: u32 = 1;
/// `PERF_TYPE_TRACEPOINT`.
pub const TYPE_TRACEPOINT: u32 = 2;
/// `PERF_TYPE_BREAKPOINT`.
pub const TYPE_BREAKPOINT: u32 = 5;
/// `PERF_COUNT_SW_CPU_CLOCK`.
pub const SW_CPU_CLOCK: u64 = 0;
/// `PERF_COUNT_SW_PAGE_FAULTS_MIN`.
pub const SW_MINOR_FAULTS: u64 = 5;
/// `PERF_COUNT_SW_PAGE_FAULTS_MAJ`.
pub const SW_MAJOR_FAULTS: u64 = 6;
/// `PERF_COUNT_SW_CONTEXT_SWITCHES`.
pub const SW_CONTEXT_SWITCHES: u64 = 3;
/// `PERF_COUNT_SW_DUMMY`.
pub const SW_DUMMY: u64 = 9;

/// Bits of [`Attr::sample_type`]: which fields records carry.
#[allow(missing_docs, reason = "the kernel's own names")]
pub mod sample {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const ID: u64 = 1 << 6;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of [`Attr::flags`].
#[allow(missing_docs, reason = "the kernel's own names")]
pub mod flag {
    pub const DISABLED: u64 = 1 << 0;
    pub const INHERIT: u64 = 1 << 1;
    pub const EXCLUDE_USER: u64 = 1 << 4;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const EXCLUDE_HV: u64 = 1 << 6;
    pub const MMAP: u64 = 1 << 8;
    pub const COMM: u64 = 1 << 9;
    /// `sample_period` is a frequency in Hz.
    pub const FREQ: u64 = 1 << 10;
    pub const TASK: u64 = 1 << 13;
    pub const WATERMARK: u64 = 1 << 14;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
    pub const MMAP2: u64 = 1 << 23;
    pub const COMM_EXEC: u64 = 1 << 24;
    pub const USE_CLOCKID: u64 = 1 << 25;
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
    pub const BUILD_ID: u64 = 1 << 34;
    /// New threads inherit the event, new processes do not (since 5.13).
    pub const INHERIT_THREAD: u64 = 1 << 35;
}

impl Attr {
    /// An event that counts and records nothing yet, on `CLOCK_MONOTONIC`.
    pub fn new(kind: u32, config: u64) -> Attr {
        Attr {
            kind,
            size: size_of::<Attr>() as u32,
            config,
            flags: flag::USE_CLOCKID,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attr::default()
        }
    }

    /// The same event with records that carry these fields.
    pub fn carrying(mut self, sample_type: u64) -> Attr {
        self.sample_type = sample_type;
        self
    }

    /// The same event with more flags.
    pub fn with(mut self, flags: u64) -> Attr {
        self.flags |= flags;
        self
    }
}

/// Opens `attr` for task `pid` (0 self, -1 all) on `cpu` (-1 any).
pub fn open(attr: &Attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    // SAFETY: the kernel reads `attr.size` bytes at a valid reference, and keeps no pointer.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, ptr::from_ref(attr), pid, cpu, -1, CLOSE_ON_EXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, and it is ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Why [`open`] failed, with the remedy if there is one.
///
/// Kernels of Debian and Ubuntu reserve `perf_event_open` above `kernel.perf_event_paranoid=2` for CAP_SYS_ADMIN, which a
/// recording gives up once its programs are loaded.
pub fn refusal(error: &io::Error) -> String {
    let level = crate::host::perf_event_paranoid();
    match (error.raw_os_error(), level) {
        (Some(libc::EACCES | libc::EPERM), Some(level @ 3..)) => format!(
            "{error}: kernel.perf_event_paranoid={level} allows perf events with CAP_SYS_ADMIN only \
             (remedy: sudo sysctl kernel.perf_event_paranoid=2)"
        ),
        _ => error.to_string(),
    }
}

/// Opens `attr`, without its build ids where the kernel (before 5.12) does not know them.
pub fn open_build_ids(attr: &Attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    match open(&attr.clone().with(flag::BUILD_ID), pid, cpu) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open(attr, pid, cpu),
        other => other,
    }
}

/// The id that records carry in `IDENTIFIER` fields for this event and its inherited copies.
pub fn event_id(fd: &OwnedFd) -> io::Result<u64> {
    const IOC_ID: libc::Ioctl = 0x8008_2407_u32 as libc::Ioctl;
    let mut id = 0u64;
    // SAFETY: IOC_ID writes one u64 behind the pointer.
    match unsafe { libc::ioctl(fd.as_raw_fd(), IOC_ID, &raw mut id) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(id),
    }
}

/// Sends `fd`'s records into the ring of `ring` (same CPU, same clock).
pub fn redirect(fd: &OwnedFd, ring: &Ring) -> io::Result<()> {
    const IOC_SET_OUTPUT: libc::Ioctl = 0x2405_u32 as libc::Ioctl;
    // SAFETY: both descriptors are open, and the kernel accesses no memory of ours.
    match unsafe { libc::ioctl(fd.as_raw_fd(), IOC_SET_OUTPUT, ring.fd.as_raw_fd()) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A mapped ring: we consume, the kernel produces.
pub struct Ring {
    fd: OwnedFd,
    base: *mut u8,
    mapped_bytes: usize,
    data_offset: usize,
    data_bytes: usize,
    tail: u64,
}

// SAFETY: the mapping belongs to this value alone. Head and tail synchronize it with the kernel.
unsafe impl Send for Ring {}

/// Offsets in `struct perf_event_mmap_page`.
const HEAD_OFFSET: usize = 1024;
const TAIL_OFFSET: usize = 1032;

impl Ring {
    /// Maps the ring of `fd` with `bytes` (a power of two of pages). If the user's limit of locked memory is
    /// lower, tries a half, a quarter, and so on.
    pub fn map(fd: OwnedFd, bytes: usize) -> io::Result<Ring> {
        let page = page_bytes();
        let mut data_bytes = bytes.next_power_of_two().max(page);
        loop {
            match map_shared(&fd, data_bytes + page) {
                Ok(base) => {
                    let mapped_bytes = data_bytes + page;
                    return Ok(Ring { fd, base, mapped_bytes, data_offset: page, data_bytes, tail: 0 });
                }
                Err(error) if data_bytes == page => return Err(error),
                Err(_) => data_bytes /= 2,
            }
        }
    }

    /// The event that owns the ring.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// How many bytes fit.
    pub fn capacity(&self) -> usize {
        self.data_bytes
    }

    /// Replaces `taken` by the ring's content and frees the ring. Returns `false` if the ring's counters were
    /// invalid and the content was skipped.
    pub fn take(&mut self, taken: &mut Vec<u8>) -> bool {
        taken.clear();
        // SAFETY: both counters lie inside the first mapped page, aligned, and live as long as `self`.
        let (head_cell, tail_cell) = unsafe {
            let head = AtomicU64::from_ptr(self.base.add(HEAD_OFFSET).cast());
            let tail = AtomicU64::from_ptr(self.base.add(TAIL_OFFSET).cast());
            (head, tail)
        };
        // Acquire: the bytes before `head` are written. Release: we are done with those before `tail`.
        let head = head_cell.load(Ordering::Acquire);
        // SAFETY: `data_bytes` bytes are mapped from `data_offset`, and the kernel does not write to
        // tail..head.
        let whole =
            unsafe { copy_span(self.base.add(self.data_offset), self.data_bytes, self.tail, head, taken) };
        self.tail = head;
        tail_cell.store(head, Ordering::Release);
        whole
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: unmaps the mapping of `map_shared`. No reference into it outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.mapped_bytes) };
    }
}

fn map_shared(fd: &OwnedFd, bytes: usize) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping at an address that the kernel chooses.
    let base = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
    if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(base.cast()) }
}

pub(crate) fn page_bytes() -> usize {
    // SAFETY: reads a constant of the system.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Appends the bytes `tail..head` of a ring of `size` bytes to `out`. Returns `false` and appends nothing if
/// the counters are invalid.
///
/// # Safety
/// `size` bytes from `ring` on must be readable, and not be written between `tail` and `head` during the
/// call.
unsafe fn copy_span(ring: *const u8, size: usize, tail: u64, head: u64, out: &mut Vec<u8>) -> bool {
    let Ok(length) = usize::try_from(head.wrapping_sub(tail)) else { return false };
    if size == 0 || length > size {
        return false;
    }
    let from = (tail % size as u64) as usize;
    let first = length.min(size - from);
    out.reserve(length);
    // SAFETY: from + first <= size, length - first <= from <= size. `out` has room for `length` more.
    unsafe {
        let end = out.as_mut_ptr().add(out.len());
        ptr::copy_nonoverlapping(ring.add(from), end, first);
        ptr::copy_nonoverlapping(ring, end.add(first), length - first);
        out.set_len(out.len() + length);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(ring: &[u8], tail: u64, head: u64) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        // SAFETY: the slice is readable and not written.
        unsafe { copy_span(ring.as_ptr(), ring.len(), tail, head, &mut out) }.then_some(out)
    }

    #[test]
    fn spans_are_copied_across_the_end() {
        let ring: Vec<u8> = (0..16).collect();
        for tail in 0..40u64 {
            for length in 0..=16u64 {
                let expected: Vec<u8> = (tail..tail + length).map(|at| (at % 16) as u8).collect();
                assert_eq!(span(&ring, tail, tail + length), Some(expected));
            }
        }
    }

    #[test]
    fn absurd_counters_copy_nothing() {
        let ring = [0u8; 16];
        assert_eq!(span(&ring, 0, 17), None);
        assert_eq!(span(&ring, 5, 4), None);
        assert_eq!(span(&ring, 0, u64::MAX), None);
        assert_eq!(span(&[], 0, 0), None);
    }

    #[test]
    fn a_ring_of_this_process_delivers() {
        let attr = Attr::new(TYPE_SOFTWARE, SW_DUMMY).with(
            flag::EXCLUDE_KERNEL | flag::COMM | flag::MMAP | flag::MMAP2 | flag::TASK | flag::SAMPLE_ID_ALL,
        );
        let fd = match open(&attr, 0, -1) {
            Ok(fd) => fd,
            Err(error) => return println!("skipped: perf_event_open: {error}"),
        };
        let mut ring = match Ring::map(fd, 64 << 10) {
            Ok(ring) => ring,
            Err(error) => return println!("skipped: mmap of the ring: {error}"),
        };
        // SAFETY: renames this thread. The string is terminated.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"ring-test".as_ptr()) };
        let mut bytes = Vec::new();
        assert!(ring.take(&mut bytes));
        let names: Vec<_> = records::split(&bytes).filter_map(|record| records::parse(record, 0)).collect();
        let renamed = |parsed: &records::Parsed| matches!(&parsed.record, records::Record::Comm(comm) if comm.name == "ring-test");
        assert!(names.iter().any(renamed), "{names:?}");
        assert!(ring.take(&mut bytes) && bytes.is_empty());
    }
}
