//! Under which conditions a program is started: CPUs, scheduling policy, priority, where its memory lies, huge pages.
//!
//! They are set in the child between fork and exec, so that they are the program's and not the recorder's.

use std::io;

/// Most CPUs that a set has room for.
const CPUS_MAX: usize = 1024;
/// The stack's limit moves the place of libraries and mappings down by as much, from this size on (bytes).
const STACK_BASE: u64 = 160 << 20;
/// One step of the layout's number: a page.
const PAGE: u64 = 4096;
/// Layout numbers are below this.
const LAYOUTS: u64 = 16_384;

/// Run conditions. Conditions that are not named stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    cpus: Vec<usize>,
    policy: Option<(i32, i32)>,
    nice: Option<i32>,
    layout: Option<Layout>,
    huge_pages: Option<bool>,
}

/// Where the program's memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// As the kernel randomises it.
    Random,
    /// Always the same: the one of this number.
    Fixed(u64),
}

/// Names of the conditions that can fail, indexed by the code that the child reports.
const NAMES: [&str; 6] = ["", "cpus", "policy", "nice", "aslr", "thp"];

/// The name of the condition that could not be set.
pub(super) fn name(code: u8) -> &'static str {
    NAMES.get(usize::from(code)).copied().unwrap_or("")
}

impl Conditions {
    /// Parses texts such as `cpus=0,2-3`, `policy=batch`, `nice=5`, `aslr=off`, `aslr-seed=7`, `thp=off`.
    ///
    /// # Errors
    /// If a text is none of these.
    pub fn parse(texts: &[String]) -> Result<Conditions, String> {
        let mut conditions = Conditions::default();
        for text in texts {
            let (name, value) = text.split_once('=').ok_or_else(|| format!("'{text}' is not NAME=VALUE"))?;
            conditions.set(name, value)?;
        }
        Ok(conditions)
    }

    /// Sets one by its name.
    ///
    /// # Errors
    /// If there is no such condition, or no such value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let wrong = |wanted: &str| format!("{name}={value}: {wanted}");
        let switch = |value: &str| match value {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(wrong("on or off is wanted")),
        };
        match name {
            "cpus" => self.cpus = parse_cpus(value).ok_or_else(|| wrong("CPUs are wanted, such as 0,2-3"))?,
            "policy" => {
                self.policy =
                    Some(parse_policy(value).ok_or_else(|| wrong("other, batch, idle, fifo or rr"))?)
            }
            "nice" => {
                let nice = value.parse().ok().filter(|nice| (-20..=19).contains(nice));
                self.nice = Some(nice.ok_or_else(|| wrong("a number from -20 to 19 is wanted"))?);
            }
            "aslr" => self.layout = Some(if switch(value)? { Layout::Random } else { Layout::Fixed(0) }),
            "aslr-seed" => {
                let number: u64 = value.parse().map_err(|_| wrong("a number is wanted"))?;
                self.layout = Some(Layout::Fixed(number % LAYOUTS));
            }
            "thp" => self.huge_pages = Some(switch(value)?),
            _ => return Err(format!("there is no condition '{name}'")),
        }
        Ok(())
    }

    /// Sets the conditions for this process. The program inherits them. Does not allocate, because it is
    /// called after a fork.
    ///
    /// # Errors
    /// The code of the condition that could not be set. The reason is in errno.
    pub(super) fn apply(&self) -> Result<(), u8> {
        // SAFETY: system calls with plain arguments, all async-signal-safe.
        unsafe {
            if !self.cpus.is_empty() {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                for cpu in &self.cpus {
                    libc::CPU_SET(*cpu, &mut set);
                }
                check(1, libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set))?;
            }
            if let Some((policy, priority)) = self.policy {
                // musl's function of this name fails with ENOSYS, and its struct has more members than the kernel's.
                let done = libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority);
                check(2, done as libc::c_int)?;
            }
            if let Some(nice) = self.nice {
                check(3, libc::setpriority(libc::PRIO_PROCESS, 0, nice))?;
            }
            if let Some(layout) = self.layout {
                check(4, apply_layout(layout))?;
            }
            if let Some(on) = self.huge_pages {
                check(5, libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(!on), 0, 0, 0))?;
            }
        }
        Ok(())
    }
}

fn check(code: u8, result: i32) -> Result<(), u8> {
    if result == -1 { Err(code) } else { Ok(()) }
}

/// Without address randomization the kernel places mappings below the maximum size of the stack. The stack
/// limit therefore determines their addresses.
unsafe fn apply_layout(layout: Layout) -> i32 {
    unsafe {
        let now = libc::personality(0xffff_ffff);
        let fixed = libc::ADDR_NO_RANDOMIZE;
        let Layout::Fixed(number) = layout else {
            return libc::personality((now & !fixed) as libc::c_ulong);
        };
        if libc::personality((now | fixed) as libc::c_ulong) == -1 {
            return -1;
        }
        if number == 0 {
            return 0;
        }
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_STACK, &mut limit);
        limit.rlim_cur = (STACK_BASE + number * PAGE).min(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_STACK, &limit)
    }
}

/// `0,2-3`.
fn parse_cpus(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CPUS_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

fn parse_policy(name: &str) -> Option<(i32, i32)> {
    Some(match name {
        "other" => (libc::SCHED_OTHER, 0),
        "batch" => (libc::SCHED_BATCH, 0),
        "idle" => (libc::SCHED_IDLE, 0),
        "fifo" => (libc::SCHED_FIFO, 1),
        "rr" => (libc::SCHED_RR, 1),
        _ => return None,
    })
}

/// How the error of a condition reads.
pub(super) fn explain(code: u8, error: &io::Error) -> String {
    let hint = match (name(code), error.raw_os_error()) {
        ("policy" | "nice", Some(libc::EPERM | libc::EACCES)) => " (it needs root, or CAP_SYS_NICE)",
        ("cpus", Some(libc::EINVAL)) => " (none of these CPUs is there, or allowed)",
        _ => "",
    };
    format!("{error}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        let parse = |text: &str| Conditions::parse(&[text.to_owned()]);
        assert_eq!(parse("cpus=0,2-4").unwrap().cpus, [0, 2, 3, 4]);
        assert_eq!(parse("nice=-5").unwrap().nice, Some(-5));
        assert_eq!(parse("aslr-seed=16390").unwrap().layout, Some(Layout::Fixed(6)));
        for wrong in ["cpus=", "cpus=3-1", "cpus=9999", "nice=20", "policy=best", "thp=2", "x=1", "cpus"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
