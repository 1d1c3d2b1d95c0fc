//! A thread's own account: its phases by its own clocks, and the kernel's schedstat.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Activity of a thread. The name is used for the flag and in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Arithmetic.
    Compute,
    /// Re-reading memory until another thread changes it.
    Spin,
    /// Blocked on a timer.
    Sleep,
    /// Blocked on a mutex.
    Lock,
    /// Blocked on a pipe.
    Pipe,
    /// Writing to the disk: partly running, partly blocked.
    Disk,
    /// Wanting a CPU that another thread is on too.
    Runqueue,
    /// Waiting for a thread to end.
    Join,
    /// Setting up a phase with the partner, which is short.
    Handshake,
}

const KINDS: usize = 9;

impl Kind {
    /// Kinds with a flag.
    pub const DIALLED: &[Kind] =
        &[Kind::Compute, Kind::Spin, Kind::Sleep, Kind::Lock, Kind::Pipe, Kind::Disk, Kind::Runqueue];

    const ALL: [Kind; KINDS] = [
        Kind::Compute,
        Kind::Spin,
        Kind::Sleep,
        Kind::Lock,
        Kind::Pipe,
        Kind::Disk,
        Kind::Runqueue,
        Kind::Join,
        Kind::Handshake,
    ];

    /// As in the flags and the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Compute => "compute",
            Kind::Spin => "spin",
            Kind::Sleep => "sleep",
            Kind::Lock => "lock",
            Kind::Pipe => "pipe",
            Kind::Disk => "disk",
            Kind::Runqueue => "runqueue",
            Kind::Join => "join",
            Kind::Handshake => "handshake",
        }
    }
}

/// Sums of one kind of phase.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    wall_ns: u64,
    cpu_ns: u64,
    queue_ns: u64,
    count: u64,
}

/// `/proc/thread-self/schedstat`, kept open: the scheduler's totals of the thread that opened it.
#[derive(Debug)]
struct SchedstatFile(Option<File>);

/// The three numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Schedstat {
    run_ns: u64,
    queue_ns: u64,
    slices: u64,
}

impl SchedstatFile {
    fn open() -> SchedstatFile {
        SchedstatFile(File::open("/proc/thread-self/schedstat").ok())
    }

    /// All zero where the kernel keeps none.
    fn read(&self) -> Schedstat {
        let mut bytes = [0; 80];
        let Some(length) = self.0.as_ref().and_then(|file| file.read_at(&mut bytes, 0).ok()) else {
            return Schedstat::default();
        };
        let text = String::from_utf8_lossy(&bytes[..length]);
        let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Schedstat { run_ns: next(), queue_ns: next(), slices: next() }
    }
}

/// One thread's account of its life.
#[derive(Debug)]
pub struct Log {
    name: String,
    tid: i64,
    start_ns: u64,
    end_ns: u64,
    schedstat: SchedstatFile,
    totals: Schedstat,
    sums: [Sum; KINDS],
}

impl Log {
    /// Begins the account of the calling thread.
    pub fn start(name: &str) -> Log {
        // SAFETY: gettid takes no arguments and cannot fail.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) };
        let sums = [Sum::default(); KINDS];
        Log {
            name: name.to_owned(),
            tid,
            start_ns: monotonic_ns(),
            end_ns: 0,
            schedstat: SchedstatFile::open(),
            totals: Schedstat::default(),
            sums,
        }
    }

    /// Does it, and adds its wall, CPU and run-queue time to the kind's sums.
    pub fn measure<T>(&mut self, kind: Kind, body: impl FnOnce() -> T) -> T {
        let queue_ns = self.schedstat.read().queue_ns;
        let (wall_ns, cpu_ns) = (monotonic_ns(), thread_cpu_ns());
        let result = body();
        let (cpu_ns, wall_ns) = (thread_cpu_ns() - cpu_ns, monotonic_ns() - wall_ns);
        let sum = &mut self.sums[kind as usize];
        sum.cpu_ns += cpu_ns;
        sum.wall_ns += wall_ns;
        sum.queue_ns += self.schedstat.read().queue_ns.saturating_sub(queue_ns);
        sum.count += 1;
        result
    }

    /// Ends the account. Must be called by the same thread.
    pub fn finish(&mut self) {
        self.totals = self.schedstat.read();
        self.end_ns = monotonic_ns();
    }

    /// Returns one JSON object. Names in it need no escaping.
    pub fn json(&self) -> String {
        let phase = |kind: &Kind| {
            let Sum { wall_ns, cpu_ns, queue_ns, count } = self.sums[*kind as usize];
            (count > 0).then(|| {
                format!(
                    "\"{}\":{{\"wall_ns\":{wall_ns},\"cpu_ns\":{cpu_ns},\"queue_ns\":{queue_ns},\"count\":{count}}}",
                    kind.name()
                )
            })
        };
        let phases: Vec<String> = Kind::ALL.iter().filter_map(phase).collect();
        let Schedstat { run_ns, queue_ns, slices } = self.totals;
        format!(
            "{{\"name\":\"{}\",\"tid\":{},\"start_ns\":{},\"end_ns\":{},\"schedstat\":{{\"run_ns\":{run_ns},\"queue_ns\":{queue_ns},\"slices\":{slices}}},\"phases\":{{{}}}}}",
            self.name,
            self.tid,
            self.start_ns,
            self.end_ns,
            phases.join(",")
        )
    }
}

#[cfg(test)]
impl Log {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn life_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    pub fn phases_wall_ns(&self) -> u64 {
        self.sums.iter().map(|sum| sum.wall_ns).sum()
    }

    pub fn count(&self, kind: Kind) -> u64 {
        self.sums[kind as usize].count
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` outlives the call, and both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut at) };
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

/// A number of milliseconds in nanoseconds.
pub fn ns(ms: f64) -> u64 {
    (ms * 1e6) as u64
}

/// Sleeps by the clock that the phases are measured with.
pub fn sleep_ns(length: u64) {
    let wait =
        libc::timespec { tv_sec: (length / 1_000_000_000) as i64, tv_nsec: (length % 1_000_000_000) as i64 };
    // SAFETY: `wait` outlives the call, and no remainder is requested. No signal handler interrupts it.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &wait, std::ptr::null_mut()) };
}
