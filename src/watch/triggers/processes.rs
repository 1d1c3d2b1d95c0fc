//! Which processes' threads may fire a trigger.

use holdup_events::recording::Fired;
use holdup_events::standing::Standing;

/// Bytes of a process's name that the kernel keeps (`TASK_COMM_LEN` without its zero byte).
const NAME_BYTES: usize = 15;

/// The processes named by `--trigger-process`. Empty for every recorded process.
#[derive(Clone, Debug, Default)]
pub struct Processes(Vec<Named>);

#[derive(Clone, Debug)]
enum Named {
    Pid(u32),
    Name(String),
}

impl Processes {
    /// Each text is a PID or the name of a process.
    pub fn parse(texts: &[String]) -> Processes {
        let named = |text: &String| match text.parse() {
            Ok(pid) => Named::Pid(pid),
            Err(_) => Named::Name(shortened(text).to_owned()),
        };
        Processes(texts.iter().map(named).collect())
    }

    fn allow(&self, pid: u32, name: &str) -> bool {
        let is_it = |named: &Named| match named {
            Named::Pid(wanted) => *wanted == pid,
            Named::Name(wanted) => shortened(name) == wanted,
        };
        self.0.is_empty() || self.0.iter().any(is_it)
    }
}

/// A name as the kernel keeps it.
fn shortened(name: &str) -> &str {
    let end = (0..=NAME_BYTES.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}

/// A trigger that fired, and the process of the thread that made it fire.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    /// The event.
    pub fired: Fired,
    /// Name of the process. Empty if no thread fired it.
    pub process: String,
}

/// Takes what fires, except for threads of other processes.
#[derive(Debug, Default)]
pub struct Firings {
    processes: Processes,
    new: Vec<Firing>,
}

impl Firings {
    /// Only threads of `processes` fire.
    pub fn new(processes: Processes) -> Firings {
        Firings { processes, new: Vec::new() }
    }

    /// Takes one. It is dropped if its thread is not recorded, or belongs to a process that was not named.
    pub fn take(&mut self, fired: Fired, standing: &Standing) {
        let Some(process) = self.process(fired.tid, standing) else { return };
        self.new.push(Firing { fired, process });
    }

    /// Returns the firings since the last call.
    pub fn drain(&mut self) -> Vec<Firing> {
        std::mem::take(&mut self.new)
    }

    /// The name of a thread's process, if that may fire.
    fn process(&self, tid: u32, standing: &Standing) -> Option<String> {
        if tid == 0 {
            return Some(String::new());
        }
        let threads = standing.threads();
        let thread = threads.get(tid);
        if thread.is_some_and(|thread| !thread.target) {
            return None;
        }
        let pid = thread.map_or(0, |thread| thread.tgid);
        let name = threads.get(pid).or(thread).map(|thread| thread.name.to_string()).unwrap_or_default();
        self.processes.allow(pid, &name).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_events::event::{Lifecycle, LifecycleChange};
    use holdup_events::{Event, Timestamp};

    /// Process 7 (`redis-server`) with thread 8 (`bio_close_file`), process 20 (`flock`), and 30, which is not recorded.
    fn standing() -> Standing {
        let mut standing = Standing::default();
        let mut born = |tid, tgid, name: &str, target| {
            let change = LifecycleChange::Rename;
            let name = name.to_owned();
            standing.fold(&Event::Lifecycle(Lifecycle { at: Timestamp(1), change, tid, tgid, name, target }));
        };
        born(7, 7, "redis-server", true);
        born(8, 7, "bio_close_file", true);
        born(20, 20, "flock", true);
        born(30, 30, "redis-server", false);
        standing
    }

    /// Threads and processes that fire, if each thread tries.
    fn firing(named: &[&str]) -> Vec<String> {
        let named: Vec<String> = named.iter().map(|text| (*text).to_owned()).collect();
        let mut firings = Firings::new(Processes::parse(&named));
        for tid in [0, 7, 8, 20, 30, 99] {
            firings.take(Fired { tid, ..Fired::default() }, &standing());
        }
        firings.drain().iter().map(|one| format!("{} {}", one.fired.tid, one.process)).collect()
    }

    #[test]
    fn threads_that_are_not_recorded_fire_nothing() {
        assert_eq!(firing(&[]), ["0 ", "7 redis-server", "8 redis-server", "20 flock", "99 "]);
    }

    #[test]
    fn only_named_processes_fire_and_signals_always_do() {
        assert_eq!(firing(&["redis-server"]), ["0 ", "7 redis-server", "8 redis-server"]);
        assert_eq!(firing(&["20"]), ["0 ", "20 flock"]);
        assert_eq!(firing(&["flock", "7"]), ["0 ", "7 redis-server", "8 redis-server", "20 flock"]);
        assert_eq!(firing(&["bio_close_file"]), ["0 "], "the name of a thread is not that of its process");
    }

    #[test]
    fn a_long_name_matches_as_the_kernel_shortens_it() {
        let processes = Processes::parse(&["a-very-long-program".to_owned()]);
        assert!(processes.allow(1, "a-very-long-pro"));
        assert!(!processes.allow(1, "a-very-long"));
        assert_eq!(shortened("ääääääää"), "äääääää", "cut between characters");
    }
}
