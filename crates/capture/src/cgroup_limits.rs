//! What control groups allow the processes in them: the tightest limit of a process's own and those above it, of both versions.

/// Limits of a process. `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// CPUs' worth of time.
    pub cpus: Option<f64>,
    /// Memory limit (bytes).
    pub memory_bytes: Option<u64>,
}

impl Limits {
    /// Returns the limits of a process, given by its PID or `self`. No limits if it has exited.
    pub fn of_process(process: &str) -> Limits {
        Limits::of_cgroups(&text(&format!("/proc/{process}/cgroup")))
    }

    /// Returns the limits of the cgroups in `/proc/PID/cgroup`.
    fn of_cgroups(cgroups: &str) -> Limits {
        let mut limits = Limits::default();
        for directory in cgroup_directories(cgroups, "") {
            let base = format!("/sys/fs/cgroup{directory}");
            limits.tighten(cpu_max(&text(&format!("{base}/cpu.max"))), None);
            // From the first on memory is taken back, beyond the second there is none.
            for file in ["memory.high", "memory.max"] {
                limits.tighten(None, bytes_limit(&text(&format!("{base}/{file}"))));
            }
        }
        for directory in cgroup_directories(cgroups, "cpu") {
            let base = format!("/sys/fs/cgroup/cpu{directory}");
            let [quota, period] = ["quota", "period"].map(|name| text(&format!("{base}/cpu.cfs_{name}_us")));
            limits.tighten(cpu_max(&format!("{} {}", quota.trim(), period.trim())), None);
        }
        for directory in cgroup_directories(cgroups, "memory") {
            let file = format!("/sys/fs/cgroup/memory{directory}/memory.limit_in_bytes");
            limits.tighten(None, bytes_limit(&text(&file)));
        }
        limits
    }

    fn tighten(&mut self, cpus: Option<f64>, memory_bytes: Option<u64>) {
        self.cpus = [self.cpus, cpus].into_iter().flatten().reduce(f64::min);
        self.memory_bytes = [self.memory_bytes, memory_bytes].into_iter().flatten().min();
    }
}

/// The directory of a controller (`""`: version 2) in `/proc/self/cgroup`, and those above it up to the root
/// (`""`). In a container the own cgroup may be mounted as the root, which is therefore always among them.
fn cgroup_directories(cgroups: &str, controller: &str) -> Vec<String> {
    let path = cgroups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_hierarchy, names, path) = (fields.next()?, fields.next()?, fields.next()?);
        names.split(',').any(|name| name == controller).then_some(path)
    });
    let Some(mut path) = path.map(|path| path.trim_end_matches('/')) else { return Vec::new() };
    let mut directories = vec![path.to_owned()];
    while let Some((parent, _)) = path.rsplit_once('/') {
        path = parent;
        directories.push(path.to_owned());
    }
    directories
}

/// Number of CPUs from `QUOTA PERIOD` (µs). `None` for `max` or -1.
fn cpu_max(line: &str) -> Option<f64> {
    let (quota, period) = line.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// `None` for `max` and for version 1's "no limit", a number near the end of the range.
fn bytes_limit(line: &str) -> Option<u64> {
    let bytes: u64 = line.trim().parse().ok()?;
    (bytes < 1 << 60).then_some(bytes)
}

fn text(path: &str) -> String {
    std::fs::read(path).map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_limits_of_both_versions() {
        assert_eq!(cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(cpu_max("max 100000\n"), None);
        assert_eq!(cpu_max("-1 100000"), None);
        assert_eq!(cpu_max("1 0"), None);
        assert_eq!(bytes_limit("1048576\n"), Some(1 << 20));
        assert_eq!(bytes_limit("max\n"), None);
        assert_eq!(bytes_limit("9223372036854771712\n"), None);
        let cgroups = "4:memory:/a/b\n2:cpu,cpuacct:/\n0::/x\n";
        assert_eq!(cgroup_directories(cgroups, "memory"), ["/a/b", "/a", ""]);
        assert_eq!(cgroup_directories(cgroups, "cpu"), [""]);
        assert_eq!(cgroup_directories(cgroups, ""), ["/x", ""]);
        assert!(cgroup_directories(cgroups, "io").is_empty());
        let mut limits = Limits::default();
        limits.tighten(Some(2.0), None);
        limits.tighten(Some(1.5), Some(9));
        limits.tighten(None, Some(10));
        assert_eq!(limits, Limits { cpus: Some(1.5), memory_bytes: Some(9) });
    }
}
