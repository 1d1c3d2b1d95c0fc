//! What the faults are made of: measured computing, CPUs, priorities, glibc's mutexes.

use std::cell::UnsafeCell;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The CPU (by its place among those allowed) on which victims of a hog run, and the hog.
pub const VICTIMS: usize = 0;
/// The CPU for the others.
pub const OTHERS: usize = 1;

/// Rounds of arithmetic in a millisecond.
static ROUNDS_PER_MS: AtomicU64 = AtomicU64::new(100_000);

/// Measures how fast this machine computes: the best of a few tries, since others may disturb.
pub fn calibrate() {
    const ROUNDS: u64 = 200_000;
    let rounds_per_ms = |_| {
        let start = Instant::now();
        arithmetic(ROUNDS);
        (ROUNDS as f64 / (start.elapsed().as_secs_f64() * 1e3)) as u64
    };
    let best = (0..5).map(rounds_per_ms).max().unwrap_or(ROUNDS);
    ROUNDS_PER_MS.store(best.max(1), Ordering::Relaxed);
}

/// Computes for about as long, by the amount of work: being off the CPU makes it later, not less.
pub fn compute(length: Duration) {
    arithmetic((length.as_secs_f64() * 1e3 * ROUNDS_PER_MS.load(Ordering::Relaxed) as f64) as u64);
}

fn arithmetic(rounds: u64) {
    let mut sum = black_box(1u64);
    for round in 0..rounds {
        sum = sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
    }
    black_box(sum);
}

/// Names the calling thread.
pub fn name_thread(name: &str) {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    // SAFETY: the string ends with 0, and the kernel copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, bytes.as_ptr()) };
}

/// Binds the calling thread to the nth CPU that it may use, or the last one if there are fewer.
pub fn bind(nth: usize) {
    // SAFETY: plain masks of the right size. 0 is the calling thread.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let size = std::mem::size_of::<libc::cpu_set_t>();
        libc::sched_getaffinity(0, size, &mut allowed);
        let cpus: Vec<usize> =
            (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &allowed)).collect();
        let Some(cpu) = cpus.get(nth).or(cpus.last()) else { return };
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(*cpu, &mut one);
        libc::sched_setaffinity(0, size, &one);
    }
}

/// Gives the calling thread a third of an ordinary thread's weight.
pub fn be_nice() {
    const NICE: i32 = 5;
    // SAFETY: 0 is the calling thread. Lowering the priority needs no privilege.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Gives the calling thread a real-time priority.
pub fn real_time(priority: i32) -> std::io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: 0 is the calling thread, and the parameter lives for the call.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// A control group with a CPU quota, of which this process is a member while this lives.
pub struct Quota {
    group: PathBuf,
    parent: PathBuf,
}

impl Quota {
    /// Makes a cgroup limited to this percentage of one CPU, and enters it. Its weight is high, so that only
    /// the quota limits it.
    pub fn enter(percent: u64) -> std::io::Result<Quota> {
        const PERIOD_US: u64 = 100_000;
        let quota_us = PERIOD_US * percent / 100;
        let name = format!("holdup-faults-{}", std::process::id());
        // Version 1 has a tree for each controller, version 2 one for all.
        let old = Path::new("/sys/fs/cgroup/cpu");
        let parent = if old.is_dir() { old } else { Path::new("/sys/fs/cgroup") }.to_owned();
        let group = parent.join(name);
        fs::create_dir(&group)?;
        let quota = Quota { group, parent };
        if old.is_dir() {
            fs::write(quota.group.join("cpu.cfs_quota_us"), quota_us.to_string())?;
            fs::write(quota.group.join("cpu.shares"), "262144")?;
        } else {
            fs::write(quota.group.join("cpu.max"), format!("{quota_us} {PERIOD_US}"))?;
            fs::write(quota.group.join("cpu.weight"), "10000")?;
        }
        fs::write(quota.group.join("cgroup.procs"), std::process::id().to_string())?;
        Ok(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // The group is empty then. If it cannot be removed, it does no harm.
        let _ = fs::write(self.parent.join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&self.group);
    }
}

/// Each mutex has a cache line of its own: two locks in one line would be false sharing, an unwanted fault.
#[repr(align(64))]
struct OwnLine(UnsafeCell<libc::pthread_mutex_t>);

/// glibc's mutex, in a box that does not move: its address is the futex's.
pub struct Mutex(Box<OwnLine>);

// SAFETY: a pthread mutex may be used by several threads, and never moves out of its box.
unsafe impl Sync for Mutex {}
// SAFETY: as above, and a free mutex belongs to no thread.
unsafe impl Send for Mutex {}

impl Mutex {
    /// A plain one.
    pub fn new() -> Mutex {
        Mutex(Box::new(OwnLine(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))))
    }

    /// One with priority inheritance: the kernel hands it to the first waiter.
    pub fn inheriting() -> Mutex {
        let mutex = Mutex::new();
        // SAFETY: attributes are made, used and destroyed here. The mutex is not shared yet.
        unsafe {
            let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attributes);
            libc::pthread_mutexattr_setprotocol(&mut attributes, libc::PTHREAD_PRIO_INHERIT);
            libc::pthread_mutex_init(mutex.0.0.get(), &attributes);
            libc::pthread_mutexattr_destroy(&mut attributes);
        }
        mutex
    }

    /// Does it with the mutex held.
    pub fn hold<T>(&self, body: impl FnOnce() -> T) -> T {
        // SAFETY: initialized above, and unlocked below by the same thread.
        unsafe { libc::pthread_mutex_lock(self.0.0.get()) };
        let result = body();
        // SAFETY: this thread holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.0.get()) };
        result
    }

    /// As a verdict names it.
    pub fn address(&self) -> String {
        format!("0x{:x}", self.0.0.get() as usize)
    }
}

/// Runs each body on a thread of that name, until all have ended.
pub fn together<'a>(bodies: Vec<(String, Box<dyn FnOnce() + Send + 'a>)>) -> std::io::Result<()> {
    std::thread::scope(|scope| {
        for (name, body) in bodies {
            std::thread::Builder::new().name(name).spawn_scoped(scope, body)?;
        }
        Ok(())
    })
}
