//! What else the machine does during a run: CPU time of others, of the hypervisor, and the CPUs' frequency.

use holdup_findings::experiment::Drift;

/// The machine's CPU time, and that of our children that have ended, at a moment (ns, all CPUs together).
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    total_ns: f64,
    busy_ns: f64,
    stolen_ns: f64,
    ours_ns: f64,
    frequency_mhz: Option<f64>,
}

impl Moment {
    /// Now.
    pub fn now() -> Moment {
        let (total_ns, busy_ns, stolen_ns) = machine().unwrap_or_default();
        Moment { total_ns, busy_ns, stolen_ns, ours_ns: ours(), frequency_mhz: frequency_mhz() }
    }

    /// Returns the changes between this moment and `later`.
    pub fn until(&self, later: &Moment) -> Drift {
        let total = (later.total_ns - self.total_ns).max(1.0);
        let busy = later.busy_ns - self.busy_ns - (later.ours_ns - self.ours_ns);
        Drift {
            stolen: ((later.stolen_ns - self.stolen_ns) / total).clamp(0.0, 1.0),
            others: (busy / total).clamp(0.0, 1.0),
            frequency_mhz: self.frequency_mhz,
        }
    }
}

/// All, busy (without stolen) and stolen CPU time.
fn machine() -> Option<(f64, f64, f64)> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().next()?;
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
    // SAFETY: asks for a constant.
    let tick_ns = 1e9 / unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
    let busy = user + nice + system + irq + softirq;
    Some(((busy + idle + iowait + steal) * tick_ns, busy * tick_ns, steal * tick_ns))
}

/// CPU time of this process, and of its children that have ended with theirs.
fn ours() -> f64 {
    let of = |who| {
        // SAFETY: getrusage writes one struct of plain numbers.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &mut usage);
            usage
        };
        let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
        ns(usage.ru_utime) + ns(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

/// Mean frequency of the CPUs in MHz, if the kernel reports it.
fn frequency_mhz() -> Option<f64> {
    let cpus = std::fs::read_dir("/sys/devices/system/cpu").ok()?;
    let of = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path.join("cpufreq/scaling_cur_freq")).ok()?;
        text.trim().parse::<f64>().ok()
    };
    let khz: Vec<f64> = cpus.flatten().filter_map(|entry| of(entry.path())).collect();
    (!khz.is_empty()).then(|| khz.iter().sum::<f64>() / khz.len() as f64 / 1e3)
}
