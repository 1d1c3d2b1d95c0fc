//! Hardware watchpoints on threads of other programs: the CPU reports accesses to a few bytes. The kernel
//! counts the hits, and disables the watchpoint after a given number. A thread only pays for these hits: an
//! exception each (1 to 2 µs, 35 µs on a virtual machine).

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;

use crate::perf_ring::{self, Attr, TYPE_BREAKPOINT, flag};

/// A thread can have four watchpoints. One is left free for other users.
pub const PER_THREAD: usize = 3;
/// Maximum cost of a hit for the thread (ns), measured on a virtual machine.
pub const HIT_NS: u64 = 40_000;

/// Kinds of accesses that fire. x86 has no watchpoints for reads alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stops {
    /// `HW_BREAKPOINT_W`: writes.
    Writes = 2,
    /// `HW_BREAKPOINT_RW`: reads and writes.
    All = 3,
}
/// `PERF_FORMAT_TOTAL_TIME_RUNNING`.
const TIME_RUNNING: u64 = 1 << 1;
/// `PERF_EVENT_IOC_REFRESH`.
const REFRESH: libc::Ioctl = 0x2402_u32 as libc::Ioctl;

/// A watchpoint of one thread, removed on drop.
pub struct Watchpoint(File);

impl Watchpoint {
    /// Watches `bytes` (1, 2, 4, 8) from `address` on, a multiple of `bytes`, in user mode of thread `tid`.
    /// Fires at most `hits` times, at the accesses in `stops`.
    ///
    /// # Errors
    /// If all watchpoints are in use ([`is_taken`]), the thread has exited, or the machine has no
    /// watchpoints.
    pub fn open(
        tid: u32,
        (address, bytes): (u64, u32),
        (stops, hits): (Stops, u32),
    ) -> io::Result<Watchpoint> {
        let attr = Attr {
            sample_period: 1,
            read_format: TIME_RUNNING,
            breakpoint_kind: stops as u32,
            config1: address,
            config2: u64::from(bytes),
            ..Attr::new(TYPE_BREAKPOINT, 0).with(flag::DISABLED | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV)
        };
        let tid = i32::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
        let file = File::from(perf_ring::open(&attr, tid, -1)?);
        // SAFETY: the descriptor is open, and the argument is a plain number.
        match unsafe { libc::ioctl(file.as_raw_fd(), REFRESH, hits) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(Watchpoint(file)),
        }
    }

    /// Returns the number of hits so far, and the running time of the thread (ns) up to the last permitted
    /// hit.
    pub fn read(&self) -> io::Result<(u64, u64)> {
        let mut both = [[0; 8]; 2];
        (&self.0).read_exact(both.as_flattened_mut())?;
        let [hits, ran] = both.map(u64::from_ne_bytes);
        Ok((hits, ran))
    }
}

/// Others hold the thread's watchpoints: a debugger, or the program itself.
pub fn is_taken(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOSPC)
}

/// A debugger or another tracer holds the thread: its watchpoints are left alone.
pub fn is_traced(tid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_tid() -> u32 {
        // SAFETY: no arguments.
        unsafe { libc::syscall(libc::SYS_gettid) as u32 }
    }

    /// Prints the reason if the machine refuses it.
    fn try_open(place: (u64, u32), hits: u32) -> Option<Watchpoint> {
        Watchpoint::open(own_tid(), place, (Stops::All, hits))
            .inspect_err(|error| println!("skipped: watchpoints: {error}"))
            .ok()
    }

    #[test]
    fn so_many_accesses_are_counted_and_no_more() {
        let words = Box::new([0u64; 2]);
        let address = words.as_ptr().addr() as u64;
        let Some(watched) = try_open((address, 8), 3) else { return };
        assert_eq!(watched.read().unwrap().0, 0);
        // SAFETY: the box is alive.
        let touch = |k: usize| unsafe { std::ptr::read_volatile(words.as_ptr().add(k)) };
        touch(1);
        assert_eq!(watched.read().unwrap().0, 0, "its neighbour");
        touch(0);
        assert_eq!(watched.read().unwrap().0, 1);
        (0..100).for_each(|_| _ = touch(0));
        let (hits, ran) = watched.read().unwrap();
        // The kernel ends it by an interrupt to itself, which may come an access later.
        assert!((3..10).contains(&hits), "{hits}");
        assert!(ran > 0);
        let after = watched.read().unwrap();
        touch(0);
        assert_eq!(watched.read().unwrap(), after, "it is over");
    }

    #[test]
    fn reads_do_not_stop_at_one_for_writes() {
        let words = Box::new([0u64; 2]);
        let address = words.as_ptr().addr() as u64;
        let opened = Watchpoint::open(own_tid(), (address, 8), (Stops::Writes, 3));
        let Ok(watched) = opened.inspect_err(|error| println!("skipped: watchpoints: {error}")) else {
            return;
        };
        // SAFETY: the box is alive and not shared.
        let read = || unsafe { std::ptr::read_volatile(words.as_ptr()) };
        (0..10).for_each(|_| _ = read());
        assert_eq!(watched.read().unwrap().0, 0);
        let mut words = words;
        // SAFETY: as above.
        unsafe { std::ptr::write_volatile(words.as_mut_ptr(), 1) };
        assert_eq!(watched.read().unwrap().0, 1);
    }

    #[test]
    fn taken_debug_registers_are_reported() {
        let words = Box::new([0u64; 8]);
        let at = |k: u64| (words.as_ptr().addr() as u64 + 8 * k, 8);
        let Some(first) = try_open(at(0), 1) else { return };
        let held: Vec<Watchpoint> =
            (1..4).map_while(|k| Watchpoint::open(own_tid(), at(k), (Stops::All, 1)).ok()).collect();
        let refused = Watchpoint::open(own_tid(), at(4), (Stops::All, 1)).err().expect("a CPU has four");
        assert!(is_taken(&refused), "{refused}");
        drop((first, held));
        Watchpoint::open(own_tid(), at(4), (Stops::All, 1)).expect("given back");
    }

    #[test]
    fn a_watchpoint_on_an_exited_thread_is_an_error() {
        assert!(Watchpoint::open(u32::MAX, (64, 8), (Stops::All, 1)).is_err());
        assert!(Watchpoint::open(0x3fff_fffe, (64, 8), (Stops::All, 1)).is_err());
        assert!(!is_traced(0x3fff_fffe));
        assert!(!is_traced(own_tid()));
    }
}
