//! Reads a BPF ring buffer (`BPF_MAP_TYPE_RINGBUF`) through its memory map, with bounded work per call and
//! without callbacks.
//!
//! Layout (Linux, kernel/bpf/ringbuf.c): first a page with the consumer's position, which we write. Then,
//! read-only, a page with the producer's position and the data. The data is mapped twice in a row so that a
//! record never wraps. A record is an 8-byte header (u32 length with two flag bits, u32 page offset) and the
//! bytes, rounded up to 8.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::CaptureError;

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: u64 = 8;

/// The consumer's side of one ring.
pub struct Ring {
    bell: Bell,
    consumer: *mut u8,
    producer: *mut u8,
    page: usize,
    size: usize,
}

// The mappings belong to this value alone.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring `map` of `size` bytes.
    pub fn open(map: BorrowedFd<'_>, size: usize) -> Result<Ring, CaptureError> {
        let bell = Bell::new(map)?;
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let mapped = |length, protection, offset: usize| {
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    length,
                    protection,
                    libc::MAP_SHARED,
                    map.as_raw_fd(),
                    offset as libc::off_t,
                )
            };
            if at == libc::MAP_FAILED {
                Err(CaptureError::last("mapping a ring buffer"))
            } else {
                Ok(at.cast::<u8>())
            }
        };
        let consumer = mapped(page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let producer = match mapped(page + 2 * size, libc::PROT_READ, page) {
            Ok(producer) => producer,
            Err(error) => {
                unsafe { libc::munmap(consumer.cast(), page) };
                return Err(error);
            }
        };
        Ok(Ring { bell, consumer, producer, page, size })
    }

    /// How full it is, from 0 to 1.
    pub fn fill(&self) -> f64 {
        let waiting = self.produced().saturating_sub(self.consumed().load(Ordering::Relaxed));
        waiting as f64 / self.size as f64
    }

    /// Passes on the records that exist at the call. Later records are left for the next call, because a busy
    /// producer would never let a reader catch up. An incomplete record, and all records after it, also wait
    /// for the next call. Returns the number of records.
    pub fn drain(&mut self, sink: &mut dyn FnMut(&[u8])) -> usize {
        self.bell.silence();
        let mut position = self.consumed().load(Ordering::Relaxed);
        let end = self.produced();
        let mut records = 0;
        while position < end {
            let at = self.page + (position as usize & (self.size - 1));
            // Within the double mapping: `at` is below page + size, a record at most `size` long.
            let header = unsafe { &*self.producer.add(at).cast::<AtomicU32>() }.load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let length = (header & !(BUSY | DISCARDED)) as usize;
            if length > self.size {
                break;
            }
            if header & DISCARDED == 0 {
                sink(unsafe { std::slice::from_raw_parts(self.producer.add(at + HEADER as usize), length) });
                records += 1;
            }
            position += (length as u64 + HEADER + 7) & !7;
            self.consumed().store(position, Ordering::Release);
        }
        records
    }

    /// Readable once a producer has requested a wakeup since the last [`Ring::drain`]. Ordinary records do
    /// not request one.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.0.as_fd()
    }

    fn consumed(&self) -> &AtomicU64 {
        unsafe { &*self.consumer.cast::<AtomicU64>() }
    }

    fn produced(&self) -> u64 {
        unsafe { &*self.producer.cast::<AtomicU64>() }.load(Ordering::Acquire)
    }
}

/// Reports wakeups by a producer (`BPF_RB_FORCE_WAKEUP`). A poll of the ring itself returns at once if the
/// ring contains any record, even if it is not urgent. An edge-triggered epoll(7) reports only wakeups.
struct Bell(OwnedFd);

impl Bell {
    fn new(ring: BorrowedFd<'_>) -> Result<Bell, CaptureError> {
        // SAFETY: plain numbers. The returned descriptor is ours.
        let bell = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if bell < 0 {
            return Err(CaptureError::last("waiting for a ring buffer"));
        }
        let bell = unsafe { OwnedFd::from_raw_fd(bell) };
        let mut wanted = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
        // SAFETY: both descriptors are open, and the kernel reads one event.
        match unsafe { libc::epoll_ctl(bell.as_raw_fd(), libc::EPOLL_CTL_ADD, ring.as_raw_fd(), &mut wanted) }
        {
            0 => Ok(Bell(bell)),
            _ => Err(CaptureError::last("waiting for a ring buffer")),
        }
    }

    /// Clears the wakeup, because the ring is being drained.
    fn silence(&self) {
        let mut rang = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: there is room for one event, and the call does not wait.
        unsafe { libc::epoll_wait(self.0.as_raw_fd(), &mut rang, 1, 0) };
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        unsafe {
            libc::munmap(self.consumer.cast(), self.page);
            libc::munmap(self.producer.cast(), self.page + 2 * self.size);
        }
    }
}
