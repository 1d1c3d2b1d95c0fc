//! The worker: goes through its phases and measures each.

use std::fs::File;
use std::io::{Result, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::clock::{self, Kind, Log};
use crate::partner::{self, Shared};

/// Steps of arithmetic between two reads of the clock, some tens of microseconds.
const STEPS_PER_LOOK: u64 = 20_000;

/// One worker with what its phases need.
pub struct Worker {
    shared: Arc<Shared>,
    path: PathBuf,
    file: File,
    number: u64,
}

impl Worker {
    /// A worker with a file of its own in that directory, removed with the worker.
    pub fn new(shared: Arc<Shared>, directory: &Path, number: usize) -> Result<Worker> {
        let path = directory.join(format!("holdup-dial-{}-{number}", std::process::id()));
        let file = File::create(&path)?;
        Ok(Worker { shared, path, file, number: number as u64 })
    }

    /// All phases, again and again for that time.
    pub fn work(mut self, phases: &[(Kind, f64)], seconds: f64) -> Result<Log> {
        let mut log = Log::start(std::thread::current().name().unwrap_or("worker"));
        let end_ns = clock::monotonic_ns() + (seconds * 1e9) as u64;
        while clock::monotonic_ns() < end_ns {
            for (kind, ms) in phases {
                self.phase(&mut log, *kind, clock::ns(*ms))?;
            }
        }
        self.shared.order(0, 0)?;
        log.finish();
        Ok(log)
    }

    fn phase(&mut self, log: &mut Log, kind: Kind, length_ns: u64) -> Result<()> {
        match kind {
            Kind::Compute => log.measure(kind, || compute(length_ns, self.number)),
            Kind::Sleep => log.measure(kind, || clock::sleep_ns(length_ns)),
            Kind::Lock => {
                log.measure(Kind::Handshake, || self.shared.order(partner::HOLD, length_ns))?;
                log.measure(kind, || self.shared.lock.hold(|| {}));
            }
            Kind::Pipe => {
                log.measure(Kind::Handshake, || self.shared.order(partner::ANSWER, length_ns))?;
                log.measure(kind, || self.shared.await_answer())?;
            }
            Kind::Spin => {
                log.measure(Kind::Handshake, || self.shared.order(partner::SET_FLAG, length_ns))?;
                log.measure(kind, || {
                    while !self.shared.flag.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                });
            }
            Kind::Disk => log.measure(kind, || self.force_to_disk(length_ns))?,
            Kind::Runqueue => self.share_a_cpu(log, length_ns)?,
            Kind::Join | Kind::Handshake => {}
        }
        Ok(())
    }

    fn force_to_disk(&mut self, length_ns: u64) -> Result<()> {
        let end_ns = clock::monotonic_ns() + length_ns;
        while clock::monotonic_ns() < end_ns {
            self.file.rewind()?;
            self.file.write_all(&[self.number as u8; 4096])?;
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Both want the CPU that the worker is on: about half of the time each waits for it.
    fn share_a_cpu(&self, log: &mut Log, length_ns: u64) -> Result<()> {
        // SAFETY: takes no arguments. Fails only on kernels without it, and then returns no CPU.
        let cpu = unsafe { libc::sched_getcpu() }.max(0) as u64;
        self.shared.cpu.store(cpu, Ordering::SeqCst);
        let before = partner::pin_to(&partner::one_cpu(cpu as usize))?;
        log.measure(Kind::Handshake, || self.shared.order(partner::TAKE_CPU, length_ns))?;
        log.measure(Kind::Runqueue, || {
            let end_ns = clock::monotonic_ns() + length_ns;
            while clock::monotonic_ns() < end_ns {}
        });
        self.shared.stop.store(true, Ordering::SeqCst);
        partner::pin_to(&before)?;
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Arithmetic until the thread's own CPU time has grown by that much.
fn compute(length_ns: u64, seed: u64) {
    let end_ns = clock::thread_cpu_ns() + length_ns;
    let mut number = seed | 1;
    while clock::thread_cpu_ns() < end_ns {
        for step in 0..STEPS_PER_LOOK {
            number = (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(step);
        }
        std::hint::black_box(number);
    }
}
