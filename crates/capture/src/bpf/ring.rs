//! Reading a BPF ring buffer (`BPF_MAP_TYPE_RINGBUF`) through its memory map: bounded work per
//! call and no callbacks to keep alive.
//!
//! Layout (Linux, kernel/bpf/ringbuf.c): one page with the consumer's position, which we write;
//! then, read-only, one page with the producer's position and the data, mapped twice in a row so
//! that a record never wraps. A record is an 8-byte header (u32 length with two flag bits, u32
//! page offset) and the bytes, rounded up to 8.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::CaptureError;

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: u64 = 8;

/// The consumer's side of one ring.
pub struct Ring {
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
        Ok(Ring { consumer, producer, page, size })
    }

    /// How full it is, from 0 to 1.
    pub fn fill(&self) -> f64 {
        let waiting = self.produced().saturating_sub(self.consumed().load(Ordering::Relaxed));
        waiting as f64 / self.size as f64
    }

    /// Passes on what is there now: not what comes meanwhile, because a busy producer would never let a reader
    /// catch up. What is being written when we come to it, and all behind it, waits for the next call.
    /// Returns how many records.
    pub fn drain(&mut self, sink: &mut dyn FnMut(&[u8])) -> usize {
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

    fn consumed(&self) -> &AtomicU64 {
        unsafe { &*self.consumer.cast::<AtomicU64>() }
    }

    fn produced(&self) -> u64 {
        unsafe { &*self.producer.cast::<AtomicU64>() }.load(Ordering::Acquire)
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
