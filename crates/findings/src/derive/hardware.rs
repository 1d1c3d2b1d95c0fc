//! Hardware counters, by class of running time and by thread.
//!
//! A count covers the time between two samples of a thread, without a context switch in between. The count is
//! attributed to the class of the second sample. Sample times are independent of the program's activity, so
//! each class gets its share on average. Threads that never run long enough are not counted. The covered
//! share of the running time is reported with the counts.

use std::collections::BTreeMap;

use holdup_events::tables::{COUNTED_NS, CounterRow, HARDWARE};
use holdup_events::{ThreadId, Timestamp, Trace};

use super::class::Class;
use super::ledger::Ledger;
use super::roles::Roles;
use super::samples_of;

/// Counts over some time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Stretches between two samples.
    pub stretches: u64,
    /// Counted time (ns).
    pub counted_ns: u64,
    /// By counter, in the order of [`Hardware::names`]: count, and counted time (ns). A multiplexed counter
    /// may lack some of the time.
    pub values: Vec<(u64, u64)>,
}

impl Counts {
    fn with_counters(counters: usize) -> Counts {
        Counts { values: vec![(0, 0); counters], ..Counts::default() }
    }

    fn add(&mut self, stretch: &Stretch) {
        let Stretch { counted_ns, values } = stretch;
        self.stretches += 1;
        self.counted_ns = self.counted_ns.saturating_add(*counted_ns);
        for (sum, value) in self.values.iter_mut().zip(values) {
            if let Some(value) = value {
                *sum = (sum.0.saturating_add(*value), sum.1.saturating_add(*counted_ns));
            }
        }
    }

    /// Rate of a counter per second.
    pub fn per_second(&self, counter: usize) -> Option<f64> {
        let (count, ns) = *self.values.get(counter)?;
        (ns > 0).then(|| count as f64 * 1e9 / ns as f64)
    }
}

/// Hardware counts of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hardware {
    /// The counters, by perf's names.
    pub names: Vec<String>,
    /// Everything.
    pub all: Counts,
    /// Share of the program's running time that the counts cover (0 to 1).
    pub covered: f64,
    /// By class of running time, those without any left out.
    pub by_class: Vec<(Class, Counts)>,
    /// The thread with the most counted time first.
    pub by_thread: Vec<(ThreadId, Counts)>,
}

impl Hardware {
    /// Instructions a cycle, where both were counted.
    pub fn ipc(&self, counts: &Counts) -> Option<f64> {
        let of = |name: &str| counts.per_second(self.names.iter().position(|one| one == name)?);
        let (instructions, cycles) = (of("instructions")?, of("cycles")?);
        (cycles > 0.0).then(|| instructions / cycles)
    }
}

/// Values of one moment: the counted time before it (ns), and each counter's value if it counted.
#[derive(Default)]
struct Stretch {
    counted_ns: u64,
    values: Vec<Option<u64>>,
}

/// Sums the recorded counts.
pub fn derive(trace: &Trace, roles: &Roles, ledger: &Ledger) -> Hardware {
    let (names, told) = counter_values(trace);
    let counters = names.len();
    let mut hardware = Hardware { all: Counts::with_counters(counters), names, ..Hardware::default() };
    let mut classes: BTreeMap<Class, Counts> = BTreeMap::new();
    let mut threads: BTreeMap<ThreadId, Counts> = BTreeMap::new();
    for ((thread, at), stretch) in &told {
        let samples = samples_of(trace, *thread);
        let Ok(place) = samples.binary_search_by_key(at, |sample| sample.at) else { continue };
        let class = classes.entry(roles.class_of_sample(&samples[place]));
        class.or_insert_with(|| Counts::with_counters(counters)).add(stretch);
        threads.entry(*thread).or_insert_with(|| Counts::with_counters(counters)).add(stretch);
        hardware.all.add(stretch);
    }
    // What the hypervisor took within a stretch is no running time.
    hardware.covered = (hardware.all.counted_ns as f64 / ledger.running_ns().max(1) as f64).min(1.0);
    hardware.by_class = classes.into_iter().collect();
    hardware.by_thread = threads.into_iter().collect();
    hardware.by_thread.sort_by_key(|(thread, counts)| (std::cmp::Reverse(counts.counted_ns), *thread));
    hardware
}

/// Names of the counters, and their values by thread and moment.
fn counter_values(trace: &Trace) -> (Vec<String>, BTreeMap<(ThreadId, Timestamp), Stretch>) {
    let is_hardware: Vec<bool> = trace.lanes.iter().map(|lane| lane.runtime == HARDWARE).collect();
    let counted = |row: &&CounterRow| is_hardware.get(row.lane as usize) == Some(&true);
    let mut names: Vec<String> = Vec::new();
    let mut told: BTreeMap<(ThreadId, Timestamp), Stretch> = BTreeMap::new();
    for row in trace.counters.iter().filter(counted) {
        let stretch = told.entry((row.thread, row.at)).or_default();
        let name = &trace.event_name(row.name).text;
        if name == COUNTED_NS {
            stretch.counted_ns = row.value;
            continue;
        }
        let place = names.iter().position(|one| one == name).unwrap_or_else(|| {
            names.push(name.clone());
            names.len() - 1
        });
        stretch.values.resize(stretch.values.len().max(place + 1), None);
        stretch.values[place] = Some(row.value);
    }
    (names, told)
}

#[cfg(test)]
mod tests {
    use holdup_events::tables::{Lane, SampleRow, SpanKind, TellName};

    use super::*;

    /// One thread with samples at these moments (ms), the second one in the kernel, with the counts up to
    /// each.
    fn trace(told: &[(u64, &str, u64)]) -> Trace {
        let (_, mut trace) = holdup_testkit::check::trace_of_lanes("A  00000000\n");
        let thread = trace.target_threads().next().expect("A");
        let at = |ms: u64| Timestamp(trace.start().0 + ms * 1_000_000);
        let sample = |ms| SampleRow { thread, at: at(ms), in_kernel: ms == 2, ..SampleRow::default() };
        let samples: Vec<SampleRow> = [1, 2, 3].map(sample).to_vec();
        let names = [COUNTED_NS, "cycles", "instructions"];
        let number = |name: &str| names.iter().position(|one| *one == name).expect("a name") as u32;
        let row = |(ms, name, value): &(u64, &str, u64)| CounterRow {
            thread,
            at: at(*ms),
            lane: 0,
            name: number(name),
            value: *value,
        };
        trace.counters = told.iter().map(row).collect();
        trace.samples = samples;
        trace.names = names.map(|text| TellName { kind: SpanKind::User, text: text.into() }).to_vec();
        trace.lanes = vec![Lane { runtime: HARDWARE.into(), ..Lane::default() }];
        trace
    }

    fn hardware(trace: &Trace) -> Hardware {
        let begun = crate::analysis::begin(trace, &crate::descriptors::Descriptors::built_in());
        derive(trace, &begun.roles, &begun.ledger)
    }

    #[test]
    fn a_stretch_is_of_the_class_of_its_end_and_rates_are_of_the_time_that_was_counted() {
        let told = [
            (2, COUNTED_NS, 1_000_000),
            (2, "cycles", 3_000_000),
            (2, "instructions", 1_500_000),
            (3, COUNTED_NS, 1_000_000),
            // Another tool used the instructions counter at that time.
            (3, "cycles", 2_000_000),
        ];
        let trace = trace(&told);
        let found = hardware(&trace);
        assert_eq!((found.all.stretches, found.all.counted_ns), (2, 2_000_000));
        assert_eq!((found.all.per_second(0), found.all.per_second(1)), (Some(2.5e9), Some(1.5e9)));
        let [(useful, of_useful), (kernel, of_kernel)] = &found.by_class[..] else { panic!("{found:?}") };
        assert_eq!((*useful, *kernel), (Class::Useful, Class::Kernel));
        assert_eq!((found.ipc(of_useful), found.ipc(of_kernel)), (None, Some(0.5)));
        assert_eq!(found.by_thread.len(), 1);
        let moments = [trace.end()];
        let shown = crate::derive::zoom::spans::CounterIndex::derive(&trace);
        assert_eq!(shown.at(&moments).count(), 0, "no values that last");
        let ran = trace.wall().0 as f64;
        assert!((found.covered - 2e6 / ran).abs() < 0.01, "{} of {ran}", found.covered);
    }

    #[test]
    fn what_other_lanes_count_and_what_belongs_to_no_sample_is_not_hardwares() {
        let told = [(2, COUNTED_NS, 1_000_000), (2, "cycles", 3_000_000)];
        let mut other = trace(&told);
        other.lanes[0].runtime = "ocaml 5.3.0".into();
        assert_eq!(hardware(&other).all.stretches, 0);
        let late = trace(&[(4, COUNTED_NS, 1_000_000), (4, "cycles", 3_000_000)]);
        assert_eq!(hardware(&late).all.stretches, 0);
    }
}
