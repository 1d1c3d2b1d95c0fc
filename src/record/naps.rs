//! Duration of the recorder's sleep between two drains: as long as the rings allow.
//!
//! Each wakeup costs two context switches with cold caches, far more than processing the records of a quiet
//! ring. Urgent events wake the recorder: a new program, large records that fill their ring, the program's
//! end. Mappings do not, because some programs map thousands of times per second. A wakeup is an interrupt
//! that the program sends to its own CPU (18 µs on a virtual machine).

use std::time::Duration;

/// In quiet.
const LONGEST: Duration = Duration::from_millis(100);
/// At first, and where a ring of a runtime's fills fast.
const USUAL: Duration = Duration::from_millis(10);
const SHORTEST: Duration = Duration::from_millis(1);
/// Where one binary was mapped, more follow: stacks through them need their tables.
const MAPPING_SPELL: Duration = Duration::from_millis(50);
const SETTLED: Duration = Duration::from_secs(1);
/// Where there are rings of runtimes, which are small: it is a third of one of theirs at 700,000 words a second.
const SHORTER: Duration = Duration::from_millis(25);
const RUNTIMES_HIGH: f64 = 1.0 / 32.0;
/// If a drain finds the rings fuller than this, the next one comes sooner. The rings have room for many
/// missed naps of a preempted recorder. Each avoided drain saves at least 0.1 ms.
const FILL_HIGH: f64 = 1.0 / 16.0;
const FILL_LOW: f64 = 1.0 / 32.0;

/// The length of naps, by what the last looks found.
pub struct Naps {
    longest: Duration,
}

/// Measurements that determine the next sleep.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// How full the rings were, from 0 to 1.
    pub fill: f64,
    /// Since something of the program's was mapped.
    pub since_mapped: Duration,
    /// How full the runtimes' rings were, if there are any.
    pub runtimes: Option<f64>,
}

impl Default for Naps {
    fn default() -> Naps {
        Naps { longest: USUAL }
    }
}

impl Naps {
    /// How long to sleep now.
    pub fn next(&mut self, found: Found) -> Duration {
        if found.fill > FILL_HIGH {
            self.longest = (self.longest / 2).max(SHORTEST);
        } else if found.fill < FILL_LOW {
            self.longest = (self.longest * 2).min(LONGEST);
        }
        let most = match found {
            Found { since_mapped, .. } if since_mapped < MAPPING_SPELL => SHORTEST,
            Found { since_mapped, .. } if since_mapped < SETTLED => USUAL,
            Found { runtimes: Some(fill), .. } if fill > RUNTIMES_HIGH => USUAL,
            Found { runtimes: Some(_), .. } => SHORTER,
            _ => LONGEST,
        };
        self.longest.min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Found = Found { fill: 0.0, since_mapped: Duration::from_secs(9), runtimes: None };

    fn settled() -> Naps {
        let mut naps = Naps::default();
        for _ in 0..10 {
            naps.next(QUIET);
        }
        naps
    }

    #[test]
    fn quiet_rings_are_left_alone_for_long() {
        assert_eq!(Naps::default().next(QUIET), USUAL * 2);
        assert_eq!(settled().next(QUIET), LONGEST);
        assert_eq!(settled().next(Found { runtimes: Some(0.01), ..QUIET }), SHORTER);
        assert_eq!(settled().next(Found { runtimes: Some(0.1), ..QUIET }), USUAL);
        assert_eq!(settled().next(Found { since_mapped: Duration::from_millis(30), ..QUIET }), SHORTEST);
        assert_eq!(settled().next(Found { since_mapped: Duration::from_millis(300), ..QUIET }), USUAL);
    }

    /// For any rate up to a full ring in 20 ms: after the first drains, no sleep fills more than a tenth of a
    /// ring.
    #[test]
    fn rings_that_fill_are_looked_at_sooner() {
        for full_in_ms in [20.0, 100.0, 700.0, 3_000.0, 60_000.0] {
            let (mut naps, mut fill) = (settled(), 0.0);
            for turn in 0..50 {
                let nap = naps.next(Found { fill, ..QUIET });
                fill = nap.as_secs_f64() * 1e3 / full_in_ms;
                assert!(turn < 8 || fill < 0.1, "{full_in_ms}: {nap:?}");
            }
        }
    }
}
