//! The partner of a worker: on request holds the mutex, writes late, or occupies the CPU.

use std::io::{PipeReader, PipeWriter, Read, Result, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::{self, Kind, Log};
use crate::locks::{Lock, LockKind};

/// Requests of a worker to its partner, one byte on a pipe.
pub const HOLD: u8 = b'h';
/// Write the answer later.
pub const ANSWER: u8 = b'a';
/// Set the flag later.
pub const SET_FLAG: u8 = b'f';
/// Spin on the CPU that `cpu` names, until `stop`.
pub const TAKE_CPU: u8 = b'c';

/// State shared by the two.
pub struct Shared {
    /// Held by the partner during [`HOLD`].
    pub lock: Lock,
    /// The partner has begun.
    pub ready: AtomicBool,
    /// Set by [`SET_FLAG`].
    pub flag: AtomicBool,
    /// Ends [`TAKE_CPU`].
    pub stop: AtomicBool,
    /// For how long (ns).
    pub length_ns: AtomicU64,
    /// The CPU to take.
    pub cpu: AtomicU64,
    orders: (PipeReader, PipeWriter),
    answers: (PipeReader, PipeWriter),
}

impl Shared {
    /// Two pipes and a free mutex.
    pub fn new(kind: LockKind) -> Result<Shared> {
        Ok(Shared {
            lock: Lock::new(kind),
            ready: AtomicBool::new(false),
            flag: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            length_ns: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
            orders: std::io::pipe()?,
            answers: std::io::pipe()?,
        })
    }

    /// Sends a request to the partner, which has started it when this returns.
    pub fn order(&self, order: u8, length_ns: u64) -> Result<()> {
        self.ready.store(false, Ordering::SeqCst);
        self.flag.store(false, Ordering::SeqCst);
        self.length_ns.store(length_ns, Ordering::SeqCst);
        (&self.orders.1).write_all(&[order])?;
        while order != 0 && !self.ready.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Blocks until the partner answers.
    pub fn await_answer(&self) -> Result<()> {
        (&self.answers.0).read_exact(&mut [0])
    }
}

/// Follows orders until a zero byte.
pub fn serve(shared: &Shared) -> Result<Log> {
    let mut log = Log::start(std::thread::current().name().unwrap_or("partner"));
    loop {
        let mut order = [0];
        log.measure(Kind::Pipe, || (&shared.orders.0).read_exact(&mut order))?;
        let length_ns = shared.length_ns.load(Ordering::SeqCst);
        let ready = || shared.ready.store(true, Ordering::SeqCst);
        match order[0] {
            HOLD => shared.lock.hold(|| {
                ready();
                log.measure(Kind::Sleep, || clock::sleep_ns(length_ns));
            }),
            ANSWER => {
                ready();
                log.measure(Kind::Sleep, || clock::sleep_ns(length_ns));
                (&shared.answers.1).write_all(&[1])?;
            }
            SET_FLAG => {
                ready();
                log.measure(Kind::Sleep, || clock::sleep_ns(length_ns));
                shared.flag.store(true, Ordering::SeqCst);
            }
            TAKE_CPU => {
                let before = pin_to(&one_cpu(shared.cpu.load(Ordering::SeqCst) as usize))?;
                // Cleared here: the worker's next order may come before this thread has seen the last one's end.
                shared.stop.store(false, Ordering::SeqCst);
                ready();
                log.measure(Kind::Runqueue, || {
                    while !shared.stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                pin_to(&before)?;
            }
            _ => break,
        }
    }
    log.finish();
    Ok(log)
}

/// The set of that CPU alone.
pub fn one_cpu(cpu: usize) -> libc::cpu_set_t {
    // SAFETY: a cpu_set_t is plain bits, and all zero is the empty set. CPU_SET checks the bound.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        set
    }
}

/// Restricts the calling thread to these CPUs. Returns its previous set.
pub fn pin_to(set: &libc::cpu_set_t) -> Result<libc::cpu_set_t> {
    // SAFETY: both sets have the given size and outlive the calls. 0 is the calling thread.
    unsafe {
        let mut before: libc::cpu_set_t = std::mem::zeroed();
        let size = std::mem::size_of::<libc::cpu_set_t>();
        if libc::sched_getaffinity(0, size, &mut before) != 0 || libc::sched_setaffinity(0, size, set) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(before)
    }
}
