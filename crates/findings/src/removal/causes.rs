//! The changes that remove each cause: waits that do not occur, and running time that is not needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdup_events::tables::{AccessKind, SampleRow, Thread, ThreadState};
use holdup_events::{ProcessId, StackId, ThreadId, Trace};

use super::Removal;
use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::ledger::Ledger;
use crate::derive::lines::{LINE_BYTES, SharedData};
use crate::derive::lock_calls::{Calls, LockCalls};
use crate::derive::paging::Flushing;
use crate::derive::replay::{Change, Facts, Forecast, Speed};
use crate::derive::round_trips::RoundTrips;
use crate::derive::spin::SpinUse;
use crate::derive::syscall_names::{ACCEPT, CONNECT, FUTEX, is_sync_call};
use crate::finding::Finding;
use crate::rules;
use crate::wording::time;

/// Share of the added speed that may be lost to splitting the work, distributing it, and uneven pieces.
const SPREAD_LOST: f64 = 0.25;

/// Minimum share of the removed thread time for a class to be listed.
const CLASS_MIN: f64 = 0.1;

/// Maximum number of listed classes.
const CLASSES_MAX: usize = 3;

/// The classes of thread time that the replay without the cause has less of, if several are involved. Running
/// time is not divided, because a replay has no samples. Waits for other threads follow from the cause, and
/// are not listed. A replay may wait for a lock where the program was still queued, so no class loses more
/// than `ledger` has of it.
pub fn classes_removed(forecast: &Forecast, ledger: &Ledger) -> Option<String> {
    let removed = |class: Class| {
        let recorded = if class == Class::Useful { ledger.running_ns() } else { ledger.class_ns(class) };
        let [before, after] = [forecast.classes_before, forecast.classes].map(|ns| ns[class as usize]);
        before.saturating_sub(after).min(recorded)
    };
    let is_part = |class: &Class| !matches!(class, Class::JoinWait | Class::WorkWait | Class::Unknown);
    let mut parts: Vec<(Class, u64)> =
        Class::ALL.into_iter().filter(is_part).map(|class| (class, removed(class))).collect();
    let total: u64 = parts.iter().map(|(_, ns)| ns).sum();
    parts.retain(|(_, ns)| *ns > 0 && *ns as f64 >= CLASS_MIN * total as f64);
    parts.sort_by_key(|(class, ns)| (std::cmp::Reverse(*ns), *class));
    parts.truncate(CLASSES_MAX);
    let name = |class: Class| if class == Class::Useful { "CPU time" } else { class.name() };
    let said: Vec<String> =
        parts.iter().map(|(class, ns)| format!("{} {}", name(*class), time(*ns))).collect();
    (said.len() > 1).then(|| format!("Takes part in: {} (upper bounds, by replay).", said.join(", ")))
}

/// Share of the cost of distributing tasks that remains with tasks ten times as coarse.
pub const TASKS_LEFT: f64 = 0.1;

/// Numbers of the syscalls through which threads hand work to each other (x86-64). These are read, write,
/// poll, readv, writev, select, sendto, recvfrom, sendmsg, recvmsg, semop, msgsnd, msgrcv, futex. The last
/// are epoll_wait, pselect6, ppoll and epoll_pwait.
const HANDING: [i32; 18] = [0, 1, 7, 19, 20, 23, 44, 45, 46, 47, 65, 69, 70, FUTEX, 232, 270, 271, 281];

/// connect, accept and accept4, which wake the threads that watch a listening socket.
const CONNECTING: [i32; 3] = [CONNECT, ACCEPT[0], ACCEPT[1]];

/// … and those that begin, follow and end processes: clone, fork, vfork, execve, exit, wait4, exit_group, waitid, clone3.
const PROCESSES: [i32; 9] = [56, 57, 58, 59, 60, 61, 231, 247, 435];

pub(super) fn ran(speed: Speed) -> Change {
    Change::Ran(Arc::new(speed))
}

/// Removes a lock: the code under the lock runs in parallel. Threads that spin during that time wait for the
/// other threads. Their spinning time shrinks with these threads' time. Upper bound: cache-line contention on
/// data next to the lock's word also ends.
pub fn lock(calls: &LockCalls, facts: Facts, shared: &[SharedData], lock: u32) -> Removal {
    let trace = facts.trace;
    let beside = lines_with_lock(facts, shared, lock);
    let lies_there = |sample: &SampleRow| {
        let told = sample.data.kind != AccessKind::None;
        told && beside
            .contains(&(trace.threads[sample.thread.index()].process, sample.data.address / LINE_BYTES))
    };
    let spins = |sample: &SampleRow| facts.roles.class_of_sample(sample) == Class::Spin;
    let spun = Speed::new(trace, 0.0, spins).taken();
    let with = |which: Calls| {
        let shares = calls.shares(lock, which);
        let speed = Speed::weighed(trace, |sample| match which == Calls::Whole && lies_there(sample) {
            true => 1.0,
            false => shares(sample),
        });
        let left = 1.0 - (speed.taken() / (1.0 - spun).max(f64::MIN_POSITIVE)).min(1.0);
        let mut changes = vec![Change::WithoutLock(lock), ran(speed)];
        if spun > 0.0 && left < 1.0 {
            changes.push(ran(Speed::new(trace, left, spins)));
        }
        changes
    };
    Removal { least: with(Calls::Contended), most: with(Calls::Whole) }
}

/// The lines of memory that threads take from each other together with the one in which the lock's word lies.
fn lines_with_lock(facts: Facts, shared: &[SharedData], lock: u32) -> BTreeSet<(ProcessId, u64)> {
    let Some((process, object, _)) = facts.locks.locks.get(lock as usize) else { return BTreeSet::new() };
    let with_it = |data: &&SharedData| {
        data.process == *process && data.lines.contains(&(object / LINE_BYTES * LINE_BYTES))
    };
    let lines = shared.iter().filter(with_it).flat_map(|data| &data.lines);
    lines.map(|line| (*process, line / LINE_BYTES)).collect()
}

/// Waits for locks whose holders waited: the holders wait all the same, without the lock.
pub(super) fn waits_for_locks(facts: Facts, charge: &Charge) -> Removal {
    let waits = within(facts.trace, charge, |_, slice| facts.locks.of_slice(slice).is_some());
    Removal::exact(vec![Change::WithoutSlices(waits)])
}

/// Holders that have no CPU: they keep theirs until they let the lock go.
pub(super) fn holders_queues(trace: &Trace, charge: &Charge) -> Removal {
    Removal::exact(vec![Change::KeptCpus(within(trace, charge, |_, slice| slice.state.waits_for_cpu()))])
}

/// Removes the sleeps at handovers of a lock: the next holder runs at once, without syscalls. Upper bound:
/// the lock is taken so rarely, or so briefly, that no thread queues for it.
pub(super) fn lock_handovers(facts: Facts, calls: &LockCalls, lock: u32) -> Removal {
    let trace = facts.trace;
    let waits = Charge::matching(trace, |slice| {
        slice.state == ThreadState::Blocked && facts.locks.of_slice(slice) == Some(lock)
    });
    let calls = ran(Speed::weighed(trace, calls.shares(lock, Calls::Contended)));
    Removal {
        least: vec![Change::AtOnce(waits), calls.clone()],
        most: vec![Change::WithoutLock(lock), calls],
    }
}

/// Minimum share of a lock's wait time that is due to threads woken in vain. The other waiters queue behind
/// these threads.
const HERDS_LOCK_MIN: f64 = 0.6;

/// Counts of a thread's wakeups and sleeps: in vain, and all.
#[derive(Clone, Copy, Default)]
struct InVain {
    wakes: [u64; 2],
    sleeps: [u64; 2],
}

impl InVain {
    fn share(self) -> f64 {
        let of = |[vain, all]: [u64; 2]| vain as f64 / all.max(1) as f64;
        of(self.wakes).max(of(self.sleeps))
    }
}

/// The share of each thread's sleeps and wakeups that is in vain.
fn in_vain(trace: &Trace, derived: &Derived, charge: &Charge) -> Vec<InVain> {
    let mut of_thread = vec![InVain::default(); trace.threads.len()];
    for id in trace.target_threads() {
        for hold in derived.holders.of_thread(id) {
            // The charge covers the thread's activity after a wait in vain, including its waits for a lock.
            let row = hold.row as usize;
            let vain = u64::from(hold.false_wakeup && charge.has(row + 1) || charge.has(row));
            let slice = trace.slices.at(id, hold.row as usize);
            of_thread[id.index()].sleeps[0] += vain;
            of_thread[id.index()].sleeps[1] += 1;
            let waker = trace.ended_by(&slice).and_then(|wakeup| of_thread.get_mut(wakeup.waker.index()));
            if let Some(waker) = waker {
                waker.wakes[0] += vain;
                waker.wakes[1] += 1;
            }
        }
    }
    of_thread
}

/// Running time of the calls that wake threads in vain, and send them to sleep again.
pub fn herd_calls(trace: &Trace, derived: &Derived, charge: &Charge) -> Speed {
    let of_thread = in_vain(trace, derived, charge);
    Speed::weighed(trace, |sample| {
        let hands =
            sample.in_kernel && (HANDING.contains(&sample.syscall) || CONNECTING.contains(&sample.syscall));
        let of_thread = of_thread.get(sample.thread.index()).filter(|_| hands);
        of_thread.map_or(0.0, |one| one.share())
    })
}

/// Removes wakeups in vain: the activity of the woken threads until they sleep again, and the calls that wake
/// them and put them to sleep. Upper bound: the queue for a lock for which mostly these threads wait, too.
pub(super) fn herd(facts: Facts, derived: &Derived, charge: &Charge, calls: &LockCalls) -> Removal {
    let trace = facts.trace;
    let mut locks: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    for id in trace.target_threads() {
        for hold in derived.holders.of_thread(id) {
            let slice = trace.slices.at(id, hold.row as usize);
            if let Some(lock) = facts.locks.of_slice(&slice) {
                let [vain, all] = locks.entry(lock).or_default();
                *vain += if charge.has(hold.row as usize) { slice.duration().0 } else { 0 };
                *all += slice.duration().0;
            }
        }
    }
    let least = vec![Change::WithoutSlices(charge.clone()), ran(herd_calls(trace, derived, charge))];
    let mut most = least.clone();
    for (number, [vain, all]) in locks {
        if vain as f64 >= HERDS_LOCK_MIN * all as f64 {
            most.extend(lock(calls, facts, &derived.lines, number).least);
        }
    }
    Removal { least, most }
}

/// Removes the interpreter's lock: its threads run in parallel. Upper bound: they make no syscalls for it.
/// They also do not wait at their other locks, whose order follows from the interpreter's lock.
pub(super) fn interpreter(facts: Facts, charge: &Charge) -> Removal {
    let trace = facts.trace;
    let waiters = threads_of(trace, charge);
    let calls =
        |sample: &SampleRow| sample.in_kernel && sample.syscall == FUTEX && has(&waiters, sample.thread);
    let at_locks = Charge::matching(trace, |slice| {
        slice.state == ThreadState::Blocked
            && has(&waiters, slice.thread)
            && facts.locks.of_slice(slice).is_some()
    });
    let least = vec![Change::WithoutSlices(charge.clone())];
    let mut most = least.clone();
    most.extend([Change::WithoutSlices(at_locks), ran(Speed::new(trace, 0.0, calls))]);
    Removal { least, most }
}

/// The loop that a finding is about.
pub(super) fn spin(facts: Facts, derived: &Derived, finding: &Finding) -> Option<Removal> {
    // Processes that run one program have the same loops and the same stacks. The threads identify the
    // process.
    let has = |spin: &SpinUse, thread: ThreadId| spin.by_thread.iter().any(|(id, _)| *id == thread);
    let seen = finding.evidence.first().map(|evidence| evidence.thread);
    let is_it = |spin: &&SpinUse| {
        rules::spin_subject(spin) == finding.subject && seen.is_none_or(|thread| has(spin, thread))
    };
    let spin = derived.spins.iter().find(is_it)?;
    let threads: BTreeSet<ThreadId> = spin.by_thread.iter().map(|(id, _)| *id).collect();
    let spins = |sample: &SampleRow| {
        spin.stacks.contains(&sample.stack)
            && threads.contains(&sample.thread)
            && facts.roles.class_of_sample(sample) == Class::Spin
    };
    Some(Removal::exact(vec![ran(Speed::new(facts.trace, 0.0, spins))]))
}

/// Spreads the time in which one thread ran alone over the CPUs. Upper bound: all work of the thread that
/// mostly ran alone is spread, because its work is the same when other threads run.
pub(super) fn serial(facts: Facts, derived: &Derived) -> Removal {
    let over = rules::spread_over(facts, derived);
    let serial = &derived.occupancy.serial;
    let left = |added: f64| 1.0 / (1.0 + added.max(0.0));
    let alone = |added: f64| Speed::spread(facts.trace, serial, left(added));
    let most = match serial.lone() {
        Some((lone, _)) if serial.is_mostly(lone) => Speed::spread_thread(lone, left(over - 1.0)),
        _ => alone(over - 1.0),
    };
    Removal { least: vec![ran(alone((over - 1.0) * (1.0 - SPREAD_LOST)))], most: vec![ran(most)] }
}

/// Removes the calls that force data to the disk. Upper bound: kernel threads do no work for them either.
pub(super) fn syncs(trace: &Trace) -> Option<Removal> {
    let waits = Charge::matching(trace, |slice| {
        slice.state == ThreadState::Blocked && is_sync_call(trace.wait(slice.wait).syscall)
    });
    if waits.is_empty() {
        return None;
    }
    let calls = Speed::new(trace, 0.0, |sample| sample.in_kernel && is_sync_call(sample.syscall));
    let least = vec![Change::WithoutSlices(waits), ran(calls)];
    let mut most = least.clone();
    most.push(Change::WithoutKernelThreads);
    Some(Removal { least, most })
}

/// Removes TLB shootdowns: no thread sends them and waits, and no thread is interrupted. Upper bound: the
/// syscalls that sent them are not made either.
pub(super) fn shootdowns(trace: &Trace, derived: &Derived) -> Option<Removal> {
    let paging = &derived.paging;
    let flushing = Flushing::new(trace);
    let running: BTreeMap<ThreadId, u64> =
        derived.ledger.threads.iter().map(|thread| (thread.thread, thread.running_ns())).collect();
    // An interrupt's handler is not sampled: it is as much of each moment of the thread that was interrupted.
    let of_thread: BTreeMap<ThreadId, f64> = paging
        .threads
        .iter()
        .filter_map(|(id, counts)| {
            Some((*id, counts.interrupt_ns as f64 / (*running.get(id)?).max(1) as f64))
        })
        .collect();
    let interrupts = |sample: &SampleRow| of_thread.get(&sample.thread).copied().unwrap_or(0.0);
    let sends = |sample: &SampleRow| paging.sent_in.iter().any(|(call, _)| *call == sample.syscall);
    let least = Speed::weighed(trace, |sample| match flushing.holds(sample) {
        true => 1.0,
        false => interrupts(sample),
    });
    let most = Speed::weighed(trace, |sample| {
        let call = sample.in_kernel && sample.syscall >= 0 && sends(sample);
        if call || flushing.holds(sample) { 1.0 } else { interrupts(sample) }
    });
    (!least.is_empty()).then(|| Removal { least: vec![ran(least)], most: vec![ran(most)] })
}

/// Makes tasks coarser, so that a part of the cost of distributing them remains. Upper bound: the whole cost
/// goes, and the collections caused by its allocations go too.
pub(super) fn tasks(facts: Facts, derived: &Derived) -> Option<Removal> {
    let pool = rules::fine_pool(derived)?;
    let part = pool.ns as f64 / (pool.ns + pool.task_ns).max(1) as f64;
    let hands = |sample: &SampleRow| {
        let class = facts.roles.class_of_sample(sample);
        pool.stacks.contains(&sample.stack) && matches!(class, Class::Useful | Class::Kernel)
    };
    let least = Speed::new(facts.trace, TASKS_LEFT, hands);
    let most = Speed::weighed(facts.trace, |sample| match facts.roles.class_of_sample(sample) {
        Class::GcWork => part,
        Class::Spin => 0.0,
        _ if pool.stacks.contains(&sample.stack) || pool.helping.contains(&sample.stack) => 1.0,
        _ => 0.0,
    });
    Some(Removal { least: vec![ran(least)], most: vec![ran(most)] })
}

/// Removes processes that handle single items: they are not started and do not exit. Upper bound: they do not
/// run at all. Processes that live longer handle several items: servers, and their helpers.
pub(super) fn children(trace: &Trace, charge: &Charge) -> Option<Removal> {
    let waiters = threads_of(trace, charge);
    let parents: Vec<ProcessId> = waiters.iter().map(|id| trace.threads[id.index()].process).collect();
    let lives_shortly = |thread: &&Thread| {
        let is_first =
            trace.processes.get(thread.process.index()).is_some_and(|process| process.pid == thread.tid);
        is_first && rules::child_lives_shortly(thread)
    };
    let short: BTreeSet<ProcessId> =
        trace.threads.iter().filter(lives_shortly).map(|thread| thread.process).collect();
    let is_child = |id: ThreadId| {
        let thread = &trace.threads[id.index()];
        let parent = trace.processes.get(thread.process.index()).and_then(|process| process.parent);
        let is_one = !thread.began_before && short.contains(&thread.process);
        is_one && parent.is_some_and(|parent| parents.contains(&parent))
    };
    let starts = |sample: &SampleRow| {
        let process = trace.threads[sample.thread.index()].process;
        let asks = PROCESSES.contains(&sample.syscall) && parents.contains(&process);
        sample.in_kernel && (asks || is_child(sample.thread))
    };
    let of_children = Charge::of_rows(trace, |id, take| {
        if is_child(id) {
            trace.slices.rows(id).for_each(take);
        }
    });
    let least = vec![ran(Speed::new(trace, 0.0, starts))];
    let mut most = least.clone();
    most.push(Change::WithoutSlices(of_children.and(trace, charge)));
    (!parents.is_empty()).then_some(Removal { least, most })
}

/// Removes handovers between two threads: no time in the kernel, and none in functions that call it only when
/// a thread sleeps or is woken. Upper bound: both threads work in parallel, and take no locks for handovers.
pub(super) fn handovers(facts: Facts, charge: &Charge) -> Removal {
    let trace = facts.trace;
    let pair = threads_of(trace, charge);
    let code = facts.roles.lock_code(trace);
    let contended = |stack: StackId| {
        trace.stack_frames(stack).filter_map(|frame| code.get(frame.index()).copied().flatten()).max()
    };
    let mut of_stack: BTreeMap<StackId, Option<bool>> = BTreeMap::new();
    for sample in &trace.samples {
        of_stack.entry(sample.stack).or_insert_with(|| contended(sample.stack));
    }
    let hands = |sample: &SampleRow, with_locks: bool| {
        let in_code = of_stack.get(&sample.stack).copied().flatten();
        let in_call = sample.in_kernel && HANDING.contains(&sample.syscall);
        (in_call || in_code.is_some_and(|contended| contended || with_locks)) && has(&pair, sample.thread)
    };
    let asking = RoundTrips::derive(trace, charge);
    let asks =
        |sample: &SampleRow| asking.as_ref().is_some_and(|asking| asking.has((trace, facts.roles), sample));
    let least = ran(Speed::new(trace, 0.0, |sample| hands(sample, false)));
    let most = ran(Speed::new(trace, 0.0, |sample| hands(sample, true) || asks(sample)));
    Removal {
        least: vec![Change::AtOnce(charge.clone()), least],
        most: vec![Change::WithoutSlices(charge.clone()), most],
    }
}

/// The charged slices that match.
fn within(
    trace: &Trace,
    charge: &Charge,
    matches: impl Fn(usize, &holdup_events::tables::Slice) -> bool + Sync,
) -> Charge {
    Charge::of_rows(trace, |id, take| {
        for (row, slice) in trace.slices.rows(id).zip(trace.slices.of_thread(id)) {
            if charge.has(row) && matches(row, &slice) {
                take(row);
            }
        }
    })
}

/// Threads with charged slices, by id.
fn threads_of(trace: &Trace, charge: &Charge) -> Vec<ThreadId> {
    let mut threads: Vec<ThreadId> = charge.slices(trace).map(|slice| slice.thread).collect();
    threads.dedup();
    threads
}

fn has(threads: &[ThreadId], thread: ThreadId) -> bool {
    threads.binary_search(&thread).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(parts: &[(Class, u64, u64, u64)]) -> Option<String> {
        let (mut forecast, mut ledger) = (Forecast::default(), Ledger::default());
        for (class, recorded, before, after) in parts {
            ledger.classes[*class as usize] = *recorded;
            forecast.classes_before[*class as usize] = *before;
            forecast.classes[*class as usize] = *after;
        }
        classes_removed(&forecast, &ledger)
    }

    #[test]
    fn classes_of_a_cost_are_listed_if_there_are_several() {
        let ms = 1_000_000;
        let lock = (Class::LockWait, 300 * ms, 900 * ms, 100 * ms);
        assert_eq!(text(&[lock]), None, "one class says nothing new");
        assert_eq!(text(&[lock, (Class::RunQueue, 100 * ms, 50 * ms, 40 * ms)]), None, "less than a tenth");
        assert_eq!(text(&[lock, (Class::JoinWait, 500 * ms, 500 * ms, 0)]), None, "a consequence");
        let queue = (Class::RunQueue, 900 * ms, 900 * ms, 500 * ms);
        let listed = "Takes part in: run-queue 400 ms, lock-wait 300 ms (upper bounds, by replay).";
        assert_eq!(text(&[lock, queue]).as_deref(), Some(listed), "no more than was recorded");
    }
}
