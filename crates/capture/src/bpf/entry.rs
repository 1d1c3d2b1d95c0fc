//! Cost of running a BPF program on an event, in addition to the program itself. It is an indirect call, with
//! the CPU's mitigations for returns and indirect calls (30 to 120 ns).
//!
//! Measured with an empty program on an event that is rare otherwise: one of our threads disables the
//! process's interval timer, which is already disabled.

use libbpf_rs::Object;

use super::programs;
use super::trial::Trial;
use crate::lower::now;

/// Tries on each side, and calls in each: 1 ms in all.
const TRIES: usize = 40;
const CALLS: usize = 64;

/// Of one run. `None`: it could not be tried here.
pub(super) fn measure(object: &Object) -> Option<Trial> {
    let _warm = put_off()?;
    let bare = put_off()?;
    let _attached = programs::attach_one(object, "on_nothing").ok()?;
    let _warm = put_off();
    Some(put_off()?.above(bare))
}

/// One call that brings about `itimer_state` (kernel/time/itimer.c).
fn put_off() -> Option<Trial> {
    let off = libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
        it_value: libc::timeval { tv_sec: 0, tv_usec: 0 },
    };
    let calls = || {
        let began = now().0;
        for _ in 0..CALLS {
            // SAFETY: reads a value of ours, and writes none.
            unsafe { libc::setitimer(libc::ITIMER_VIRTUAL, &raw const off, std::ptr::null_mut()) };
        }
        now().0.saturating_sub(began) as f64 / CALLS as f64
    };
    let mut tries: Vec<f64> = (0..TRIES).map(|_| calls()).collect();
    Trial::from_times(&mut tries)
}
