//! Registers that show the progress of a loop: they change monotonically from sample to sample of a thread at
//! one place.
//!
//! Examples are a loop counter, a pointer that walks through memory, and the counter of an outer loop in a
//! callee-saved register. Their meaning is unknown and not needed, because their rate of change gives the
//! loop's rate. Other registers move in both directions: for eight random values, 1 in 20,000 orders is
//! monotonic.

use std::collections::HashMap;

use holdup_events::event::Registers;
use holdup_events::tables::Counter;

/// Maximum number of (thread, place) pairs (0.3 KB each).
const PLACES_MAX: usize = 1 << 14;
/// Minimum number of changes before a register is taken for a counter.
const MOVES_MIN: u32 = 7;
/// Share of changes that may go the other way: 1 in this many, for a loop that restarts.
const OTHER_WAY: u32 = 32;
/// The stack pointer is none.
const RSP: usize = 4;

/// How the registers of a thread move at one place.
#[derive(Default)]
struct Place {
    last: Registers,
    seen: bool,
    up: [u32; 16],
    down: [u32; 16],
    /// The one that is taken, by number and one more.
    taken: u8,
}

/// All places of all threads.
#[derive(Default)]
pub struct Counters {
    places: HashMap<(u32, u64), Place>,
}

impl Counters {
    /// A thread's sample at an instruction: the register there that counts, if one does.
    pub fn next(&mut self, tid: u32, ip: u64, registers: &Registers) -> Counter {
        if self.places.len() >= PLACES_MAX && !self.places.contains_key(&(tid, ip)) {
            self.places.clear();
        }
        let place = self.places.entry((tid, ip)).or_default();
        place.add(registers);
        place.choose();
        let number = usize::from(place.taken).checked_sub(1);
        let value = number.and_then(|number| registers.get(number));
        value.map_or(Counter::default(), |value| Counter { register: place.taken, value: *value })
    }
}

impl Place {
    fn add(&mut self, registers: &Registers) {
        let last = std::mem::replace(&mut self.last, *registers);
        if !std::mem::replace(&mut self.seen, true) {
            return;
        }
        let counts = self.up.iter_mut().zip(&mut self.down);
        for ((now, before), (up, down)) in registers.iter().zip(&last).zip(counts) {
            *up += u32::from(now > before);
            *down += u32::from(now < before);
        }
    }

    /// How often a register moved, if it goes one way.
    fn moves(&self, number: usize) -> Option<u32> {
        let (up, down) = (*self.up.get(number)?, *self.down.get(number)?);
        let most = up.max(down);
        (number != RSP && most >= MOVES_MIN && up.min(down) <= most / OTHER_WAY).then_some(most)
    }

    /// Stays with the one that was taken while it counts: the finest does not change for little.
    fn choose(&mut self) {
        let kept = usize::from(self.taken).checked_sub(1).and_then(|number| self.moves(number)).unwrap_or(0);
        let best = (0..16).filter_map(|number| Some((self.moves(number)?, std::cmp::Reverse(number)))).max();
        match best {
            None => self.taken = 0,
            Some((moves, number)) if kept == 0 || moves > kept + kept / 4 => self.taken = number.0 as u8 + 1,
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counters for `count` samples, with registers filled in by `at`.
    fn counters_of(count: u64, at: impl Fn(u64, &mut Registers)) -> Vec<Counter> {
        let mut counters = Counters::default();
        let next = |n| {
            let mut registers = Registers::default();
            at(n, &mut registers);
            counters.next(1, 0x1000, &registers)
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn a_monotonic_register_is_a_counter_after_enough_samples() {
        let up = counters_of(20, |n, registers| registers[3] = n * n);
        assert_eq!(up[..7], [Counter::default(); 7], "it may be chance");
        assert_eq!(up[7], Counter { register: 4, value: 49 });
        let down = counters_of(20, |n, registers| registers[0] = 1000 - n);
        assert_eq!(down[19], Counter { register: 1, value: 981 });
    }

    #[test]
    fn what_moves_to_and_fro_is_no_counter_nor_is_the_stack() {
        let mixed = counters_of(100, |n, registers| {
            registers[1] = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            registers[2] = n % 10;
            registers[RSP] = n;
        });
        assert!(mixed[10..].iter().all(|one| *one == Counter::default()));
        // It counts well until it does not.
        let broken = counters_of(60, |n, registers| registers[1] = if n < 20 { n } else { n % 2 });
        assert_eq!((broken[19].register, broken[59].register), (2, 0));
    }

    #[test]
    fn the_finer_counter_is_used_and_loops_may_restart() {
        // One register changes with each eighth sample. The other always changes, and restarts after fifty
        // samples.
        let both = counters_of(200, |n, registers| (registers[3], registers[5]) = (n / 8, n % 50));
        assert_eq!(both[199].register, 6);
        assert_eq!(both[100].value, 0);
    }

    #[test]
    fn counters_are_kept_per_place_and_thread_in_bounded_memory() {
        let mut counters = Counters::default();
        let registers: Registers = [7; 16];
        for place in 0..3 * PLACES_MAX as u64 {
            counters.next(1, place, &registers);
        }
        assert!(counters.places.len() <= PLACES_MAX);
        for n in 0..20 {
            let registers: Registers = [n; 16];
            // Both go up, but seen together they would move to and fro.
            counters.next(1, 0x1000, &registers);
            let one = counters.next(2, 0x1000, &[1000 - n; 16]);
            assert!(n < 8 || one.register == 1);
        }
    }
}
