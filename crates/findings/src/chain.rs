//! Why a thread did not run, in words: the links of [`crate::derive::why`].

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ObjectKind, ThreadId, Trace, WaitReason};

use crate::analysis::Derived;
use crate::derive::class::Class;
use crate::derive::holders::{Basis, HoldKind};
use crate::derive::ledger::ByClass;
use crate::derive::why::{Link, What};
use crate::wording::{count, time};

/// Formats links of one recording.
#[derive(Clone, Copy)]
pub struct Teller<'a> {
    /// The recording.
    pub trace: &'a Trace,
    /// Facts derived from the recording.
    pub derived: &'a Derived,
}

impl Teller<'_> {
    /// A link in words, and how it is known.
    pub fn words(&self, link: &Link) -> (String, &'static str) {
        let name = &link.thread.map_or_else(|| "?".to_owned(), |id| self.named(id));
        match &link.what {
            What::Slice => (self.itself(link, name), ""),
            What::Held(hold, did) => (
                format!("{name} {}, and {} during that time", holding(hold.kind), deeds(did)),
                hold.basis.name(),
            ),
            What::Nobody(hold) => (ending(hold.basis).to_owned(), hold.basis.name()),
            What::HadCpu(cpu, length, others) => {
                let others = match others {
                    0 => String::new(),
                    others => format!(", {} the rest", count(u64::from(*others), "other thread")),
                };
                (format!("CPU {} was used by {name} for {} of it{others}", cpu.0, time(length.0)), "occupant")
            }
            What::CpuIdle => (
                "no thread is known to have run there: the thread was woken late, or migrated".to_owned(),
                "occupant",
            ),
            What::Throttled => ("its cgroup had used up its CPU bandwidth (cpu.max)".to_owned(), "slices"),
        }
    }

    /// A thread by name and number: names are often all alike.
    fn named(&self, id: ThreadId) -> String {
        let thread = self.trace.threads.get(id.index());
        thread.map_or_else(|| "?".to_owned(), |thread| format!("{} ({})", thread.name, thread.tid))
    }

    fn itself(&self, link: &Link, name: &str) -> String {
        let length = time(link.end.since(link.start).0);
        let (Some(thread), Some(row)) = (link.thread, link.row) else { return format!("{name}: {length}") };
        let slice = self.trace.slices.at(thread, row);
        match slice.state {
            ThreadState::Running => format!("{name} ran for {length} on CPU {}", slice.cpu.0),
            ThreadState::Blocked => {
                let wait = self.trace.wait(slice.wait);
                let object = self.object_name(&slice);
                let object = if object.is_empty() { object } else { format!(" ({object})") };
                format!("{name} waited {length} {}{object}", reason_words(wait.reason))
            }
            ThreadState::Preempted => {
                format!("{name} lost its CPU to another thread and waited {length} for one")
            }
            ThreadState::Throttled => format!("{name} was throttled for {length}"),
            state if state.waits_for_cpu() => format!("{name} could run but waited {length} for a CPU"),
            _ => format!("{name}: not recorded for {length}"),
        }
    }

    fn lock_name(&self, slice: &Slice) -> Option<String> {
        let derived = self.derived;
        let key = derived.occupancy.locks.locks.get(derived.occupancy.locks.of_slice(slice)? as usize)?;
        let lock = derived.locks.iter().find(|lock| *key == (lock.process, lock.object, lock.reason))?;
        Some(lock.name.clone())
    }

    /// Name of the object of a wait, for people. Empty if it is not known.
    pub fn object_name(&self, slice: &Slice) -> String {
        let wait = self.trace.wait(slice.wait);
        let whose = self.trace.process_name(wait.process);
        if let Some(name) = self.lock_name(slice) {
            return name;
        }
        match wait.object_kind {
            _ if wait.object == 0 => String::new(),
            ObjectKind::None => String::new(),
            ObjectKind::Futex => format!("futex 0x{:x} in {whose}", wait.object),
            ObjectKind::Descriptor => format!("descriptor {} of {whose}", wait.op),
            // The object is a number that holdup assigns to distinguish open descriptors.
            ObjectKind::Epoll | ObjectKind::EventFd | ObjectKind::TimerFd => {
                wait.object_kind.name().to_owned()
            }
            kind if !self.trace.calls.name_of(kind, wait.object).is_empty() => {
                self.trace.calls.name_of(kind, wait.object).to_owned()
            }
            kind => format!("{} {}", kind.name(), wait.object),
        }
    }
}

/// The holder's part in the wait.
fn holding(kind: HoldKind) -> &'static str {
    match kind {
        HoldKind::Lock => "held it",
        HoldKind::Work => "was expected to deliver work",
        HoldKind::Join => "was the thread to join",
        HoldKind::Barrier => "was the last to arrive",
        HoldKind::Child => "is the child process",
        HoldKind::PipeFull => "was expected to read",
        HoldKind::PipeEmpty => "was expected to write",
        HoldKind::Socket | HoldKind::Poll => "was the peer",
        _ => "ended the wait",
    }
}

/// How a wait ended that no thread is known to have ended.
fn ending(basis: Basis) -> &'static str {
    match basis {
        Basis::Timer => "a timer ended the wait",
        Basis::Interrupt => "a device or soft interrupt ended the wait (disk, network)",
        Basis::StillWaiting => "it still waited when the recording, or its life, ended",
        Basis::Exit => "it ended when its object was destroyed",
        _ => "the holder is not known",
    }
}

fn reason_words(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::Unknown => "for an unknown reason",
        WaitReason::Lock => "for a lock",
        WaitReason::Park => "for a notification (condition variable, queue)",
        WaitReason::Join => "for a thread to exit",
        WaitReason::Barrier => "at a barrier",
        WaitReason::Sleep => "for its own timer",
        WaitReason::Multiplex => "for one of several descriptors",
        WaitReason::Disk => "for a disk or file system",
        WaitReason::Pipe => "for the other end of a pipe",
        WaitReason::Socket => "for the peer of a socket",
        WaitReason::EventFd => "for an event descriptor",
        WaitReason::Child => "for a child process",
        WaitReason::Fault => "for a page",
        WaitReason::MmapLock => "for its address space's lock",
        WaitReason::Signal => "for a signal",
        WaitReason::Device => "for a device",
        WaitReason::FileLock => "for a lock on a file",
        WaitReason::Stopped => "because it was stopped",
        WaitReason::Kernel => "inside the kernel",
        WaitReason::IoUring => "for io_uring",
        WaitReason::Ipc => "for a message or semaphore",
    }
}

/// The at most three classes in which a thread spent the most time, with their durations.
fn deeds(did: &ByClass) -> String {
    let mut ranked: Vec<(Class, u64)> =
        Class::ALL.into_iter().map(|class| (class, did[class as usize])).collect();
    let total: u64 = ranked.iter().map(|(_, ns)| ns).sum();
    ranked.retain(|(_, ns)| *ns > 0 && *ns >= total / 20);
    ranked.sort_by_key(|(class, ns)| (std::cmp::Reverse(*ns), *class));
    let words: Vec<String> =
        ranked.iter().take(3).map(|(class, ns)| format!("{} {}", deed(*class), time(*ns))).collect();
    if words.is_empty() { "has no recorded state".to_owned() } else { words.join(", ") }
}

/// The verb for a class of time. The duration follows it.
fn deed(class: Class) -> String {
    match class {
        Class::Useful => "ran for".to_owned(),
        Class::Kernel => "ran in the kernel for".to_owned(),
        Class::RunQueue => "waited for a CPU for".to_owned(),
        Class::LockWait => "waited for a lock for".to_owned(),
        Class::JoinWait => "waited for other threads for".to_owned(),
        Class::WorkWait => "was idle for".to_owned(),
        Class::Sleep => "slept for".to_owned(),
        class => format!("was in {} for", class.name()),
    }
}
