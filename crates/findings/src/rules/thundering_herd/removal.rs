//! Removal of wakeups in vain.

use std::collections::BTreeMap;

use holdup_events::Trace;

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::replay::{Change, Speed};
use crate::derive::syscall_names::{ACCEPT, CONNECT, HANDING};
use crate::removal::{Removal, locks, ran};
use crate::rule::Cause;

/// connect, accept and accept4, which wake the threads that watch a listening socket.
const CONNECTING: [i32; 3] = [CONNECT, ACCEPT[0], ACCEPT[1]];

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
pub(super) fn calls(trace: &Trace, derived: &Derived, charge: &Charge) -> Speed {
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
pub(super) fn wakeups(cause: &Cause) -> Removal {
    let (facts, derived, charge) = (cause.facts(), cause.derived(), cause.charge);
    let trace = facts.trace;
    let mut waits: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    for id in trace.target_threads() {
        for hold in derived.holders.of_thread(id) {
            let slice = trace.slices.at(id, hold.row as usize);
            if let Some(lock) = facts.locks.of_slice(&slice) {
                let [vain, all] = waits.entry(lock).or_default();
                *vain += if charge.has(hold.row as usize) { slice.duration().0 } else { 0 };
                *all += slice.duration().0;
            }
        }
    }
    let least = vec![Change::WithoutSlices(charge.clone()), ran(calls(trace, derived, charge))];
    let mut most = least.clone();
    for (number, [vain, all]) in waits {
        if vain as f64 >= HERDS_LOCK_MIN * all as f64 {
            most.extend(locks::without(cause.known.lock_calls(), facts, &derived.lines, number).least);
        }
    }
    Removal { least, most }
}
