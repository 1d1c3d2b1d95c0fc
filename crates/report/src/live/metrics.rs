//! Prometheus' text (exposition format 0.0.4) of the ledger and its surroundings: sums since holdup began to watch.

use std::collections::BTreeMap;
use std::fmt::Write;

use holdup_findings::derive::class::{CLASSES, Class};
use holdup_findings::derive::ledger::RunQueueSplit;
use holdup_findings::glance::Glance;

use super::{Moment, Spent};
use crate::text::clean;

/// Maximum number of locks with series of their own. All others share one. A series that has begun stays, so
/// that no sum decreases.
const LOCKS_MAX: usize = 50;
/// Minimum time waited for a lock within one interval (ns) for series of its own.
const WAIT_MIN_NS: u64 = 1_000_000;
/// Minimum share of that time in the interval's lock wait, as a divisor.
const WAIT_SHARE_MIN: u64 = 20;
/// Process and lock of the series that all other locks share.
const OTHER: &str = "(other)";

/// Locks with the same name in processes with the same name: numbers of processes and addresses would make series without end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LockName {
    process: String,
    lock: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LockSums {
    waits: u64,
    wait_ns: u64,
}

impl LockSums {
    fn add(&mut self, more: LockSums) {
        self.waits += more.waits;
        self.wait_ns += more.wait_ns;
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    seen_ns: u64,
    classes: [u64; CLASSES],
    run_queue: RunQueueSplit,
    locks: BTreeMap<LockName, LockSums>,
    other_locks: LockSums,
    /// Program's, others', stolen and idle time (ns), by CPU.
    cpus: BTreeMap<u16, [u64; 4]>,
    /// Collections of the young and the old generation, pauses, and their time (ns).
    collections: [u64; 4],
    lost: u64,
    skipped: u64,
    threads: u64,
    spent: Spent,
    fired: BTreeMap<String, u64>,
    saved: u64,
}

impl Metrics {
    /// Empty sums. The triggers are listed from the start.
    pub fn new(triggers: &[String]) -> Metrics {
        Metrics { fired: triggers.iter().map(|trigger| (trigger.clone(), 0)).collect(), ..Metrics::default() }
    }

    /// Adds a stretch.
    pub fn add(&mut self, moment: &Moment) {
        let glance = &moment.glance;
        self.seen_ns += glance.length_ns();
        self.classes.iter_mut().zip(glance.classes).for_each(|(sum, ns)| *sum += ns);
        self.run_queue.add(glance.run_queue);
        self.threads = glance.threads.len() as u64;
        self.lost += glance.lost;
        self.skipped += moment.skipped;
        self.spent.recorder_cpu_ns += moment.spent.recorder_cpu_ns;
        self.spent.kernel_cpu_ns += moment.spent.kernel_cpu_ns;
        self.spent.memory_bytes = moment.spent.memory_bytes;
        self.add_locks(glance);
        for cpu in &glance.cpus {
            let stolen = cpu.classes[Class::Stolen as usize];
            let own = cpu.classes.iter().sum::<u64>() - stolen;
            let sums = self.cpus.entry(cpu.cpu.0).or_default();
            let new = [own, cpu.others_ns, stolen, cpu.idle_ns];
            sums.iter_mut().zip(new).for_each(|(sum, ns)| *sum += ns);
        }
        if let Some(told) = &glance.collections {
            let new = [told.minor, told.major, told.pauses, told.paused_ns];
            self.collections.iter_mut().zip(new).for_each(|(sum, new)| *sum += new);
        }
    }

    /// A trigger fired.
    pub fn fired(&mut self, trigger: &str) {
        *self.fired.entry(trigger.to_owned()).or_default() += 1;
    }

    /// Sets the number of saved recordings.
    pub fn saved(&mut self, recordings: u64) {
        self.saved = recordings;
    }

    fn add_locks(&mut self, glance: &Glance) {
        let mut new: BTreeMap<LockName, LockSums> = BTreeMap::new();
        for lock in &glance.locks {
            let name = LockName { process: lock.process.clone(), lock: lock.symbolic.clone() };
            new.entry(name).or_default().add(LockSums { waits: lock.waits, wait_ns: lock.wait_ns });
        }
        let other = LockSums { waits: glance.other_lock_waits, wait_ns: glance.other_lock_wait_ns };
        self.other_locks.add(other);
        let total_ns = other.wait_ns + new.values().map(|sums| sums.wait_ns).sum::<u64>();
        let is_large = |ns: u64| ns >= WAIT_MIN_NS && ns.saturating_mul(WAIT_SHARE_MIN) >= total_ns;
        let mut new: Vec<(LockName, LockSums)> = new.into_iter().collect();
        new.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.wait_ns));
        for (name, sums) in new {
            let has_room = self.locks.len() < LOCKS_MAX && is_large(sums.wait_ns);
            match self.locks.get_mut(&name) {
                Some(known) => known.add(sums),
                None if has_room => drop(self.locks.insert(name, sums)),
                None => self.other_locks.add(sums),
            }
        }
    }

    /// The text.
    pub fn text(&self) -> String {
        let mut out = Out::default();
        let classes =
            Class::ALL.map(|class| (vec![("class", class.name().to_owned())], self.classes[class as usize]));
        out.seconds("thread_seconds_total", "Time of the program's threads by class of the ledger.", classes);
        let queue = self.run_queue;
        let behind = [
            ("own", queue.own_ns),
            ("others", queue.others_ns),
            ("throttled", queue.throttled_ns),
            ("idle", queue.idle_ns),
        ];
        let behind = behind.map(|(who, ns)| (vec![("behind", who.to_owned())], ns));
        out.seconds("run_queue_seconds_total", "Run-queue delay by the CPU's use during the delay.", behind);
        self.locks_text(&mut out);
        let uses = self.cpus.iter().flat_map(|(cpu, sums)| {
            let labels = |used: &str| vec![("cpu", cpu.to_string()), ("use", used.to_owned())];
            ["program", "others", "stolen", "idle"].map(labels).into_iter().zip(*sums).collect::<Vec<_>>()
        });
        out.seconds("cpu_seconds_total", "What each CPU did.", uses);
        let [minor, major, pauses, paused_ns] = self.collections;
        let generations = [("minor", minor), ("major", major)];
        let generations = generations.map(|(name, count)| (vec![("generation", name.to_owned())], count));
        out.counts("gc_collections_total", "Collections that a runtime reported.", generations);
        out.counts(
            "gc_pauses_total",
            "Pauses for collections, as threads experienced them.",
            [(Vec::new(), pauses)],
        );
        out.seconds("gc_pause_seconds_total", "Time of these pauses.", [(Vec::new(), paused_ns)]);
        let fired = self.fired.iter().map(|(trigger, count)| (vec![("trigger", trigger.clone())], *count));
        out.counts("triggers_fired_total", "How often each trigger fired.", fired);
        out.counts("recordings_saved_total", "Recordings that were saved.", [(Vec::new(), self.saved)]);
        out.counts("records_lost_total", "Records of the kernel that were lost.", [(Vec::new(), self.lost)]);
        out.counts(
            "intervals_skipped_total",
            "Intervals that are in no figure: the machine was too busy.",
            [(Vec::new(), self.skipped)],
        );
        out.seconds(
            "observed_seconds_total",
            "Wall time that the figures cover.",
            [(Vec::new(), self.seen_ns)],
        );
        let own = [("recorder", self.spent.recorder_cpu_ns), ("kernel", self.spent.kernel_cpu_ns)];
        let own = own.map(|(part, ns)| (vec![("part", part.to_owned())], ns));
        out.seconds("own_cpu_seconds_total", "CPU time of holdup itself.", own);
        out.gauge("own_memory_bytes", "Greatest memory of holdup itself.", self.spent.memory_bytes);
        out.gauge("threads", "Threads of the program in the last interval.", self.threads);
        out.text
    }

    fn locks_text(&self, out: &mut Out) {
        let labels =
            |process: &str, lock: &str| vec![("process", process.to_owned()), ("lock", lock.to_owned())];
        let named = self.locks.iter().map(|(name, sums)| (labels(&name.process, &name.lock), *sums));
        let rows: Vec<(Labels, LockSums)> =
            named.chain(std::iter::once((labels(OTHER, OTHER), self.other_locks))).collect();
        let times = rows.iter().map(|(labels, sums)| (labels.clone(), sums.wait_ns));
        out.seconds("lock_wait_seconds_total", "Time waited for locks.", times);
        let counts = rows.iter().map(|(labels, sums)| (labels.clone(), sums.waits));
        out.counts("lock_waits_total", "Waits for locks.", counts);
    }
}

/// Names and values of labels.
type Labels = Vec<(&'static str, String)>;

#[derive(Default)]
struct Out {
    text: String,
}

impl Out {
    // Writing to a string does not fail.
    fn family(
        &mut self,
        name: &str,
        (kind, help): (&str, &str),
        rows: impl Iterator<Item = (Labels, String)>,
    ) {
        let _ = writeln!(self.text, "# HELP holdup_{name} {help}\n# TYPE holdup_{name} {kind}");
        for (labels, value) in rows {
            let labels: Vec<String> =
                labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.text, "holdup_{name}{labels} {value}");
        }
    }

    /// `rows` in nanoseconds.
    fn seconds(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, u64)>) {
        let value = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        self.family(name, ("counter", help), rows.into_iter().map(|(labels, ns)| (labels, value(ns))));
    }

    fn counts(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, u64)>) {
        self.family(
            name,
            ("counter", help),
            rows.into_iter().map(|(labels, count)| (labels, count.to_string())),
        );
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, ("gauge", help), std::iter::once((Vec::new(), value.to_string())));
    }
}

/// The value of a label: a foreign name.
fn escaped(value: &str) -> String {
    clean(value).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use holdup_events::Timestamp;
    use holdup_findings::glance::LockGlance;

    use super::*;

    fn moment(locks: &[(&str, u64)]) -> Moment {
        let lock = |(name, ns): &(&str, u64)| LockGlance {
            symbolic: (*name).to_owned(),
            process: "app".to_owned(),
            waits: 2,
            wait_ns: *ns,
            ..LockGlance::default()
        };
        let mut classes = [0; CLASSES];
        classes[Class::LockWait as usize] = 1_500_000_000;
        let glance = Glance {
            end: Timestamp(1_000_000_000),
            classes,
            locks: locks.iter().map(lock).collect(),
            ..Glance::default()
        };
        Moment { glance, ..Moment::default() }
    }

    /// Each line is a comment or `name{label="value",...} number`, and each name was declared.
    fn parsed(text: &str) -> BTreeMap<String, f64> {
        let mut declared = std::collections::BTreeSet::new();
        let mut values = BTreeMap::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                assert!(declared.insert(rest.split(' ').next().unwrap().to_owned()), "twice: {line}");
            }
            if line.starts_with('#') {
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            assert!(declared.contains(name), "{line}");
            assert_eq!(series.contains('{'), series.ends_with('}'), "{line}");
            assert!(values.insert(series.to_owned(), value.parse().unwrap()).is_none(), "twice: {line}");
        }
        values
    }

    #[test]
    fn sums_grow_and_names_are_harmless() {
        let mut metrics = Metrics::new(&["pause:lock>20ms".to_owned()]);
        metrics.add(&moment(&[("a\"b\\c\nd", 500_000_000)]));
        metrics.add(&moment(&[("a\"b\\c\nd", 250_000_000)]));
        metrics.fired("pause:lock>20ms");
        let values = parsed(&metrics.text());
        assert_eq!(values["holdup_thread_seconds_total{class=\"lock-wait\"}"], 3.0);
        assert_eq!(
            values["holdup_lock_wait_seconds_total{process=\"app\",lock=\"a\\\"b\\\\c\\\\nd\"}"],
            0.75
        );
        assert_eq!(values["holdup_lock_waits_total{process=\"app\",lock=\"a\\\"b\\\\c\\\\nd\"}"], 4.0);
        assert_eq!(values["holdup_triggers_fired_total{trigger=\"pause:lock>20ms\"}"], 1.0);
        assert_eq!(values["holdup_observed_seconds_total"], 2.0);
    }

    /// Series of the waits for locks, by process and lock.
    fn lock_series(metrics: &Metrics) -> BTreeMap<String, f64> {
        let values = parsed(&metrics.text()).into_iter();
        let own = |(name, value): (String, f64)| {
            Some((name.strip_prefix("holdup_lock_wait_seconds_total")?.to_owned(), value))
        };
        values.filter_map(own).collect()
    }

    #[test]
    fn series_of_locks_are_bounded_never_fall_and_add_up() {
        let mut metrics = Metrics::default();
        let (mut before, mut waited_ns) = (BTreeMap::new(), 0u64);
        for number in 0..500u64 {
            let ms = |factor: u64| (number * factor % 97 + 1) * 1_000_000;
            let names: Vec<String> = (0..4).map(|lock| format!("lock{}", number * 3 + lock)).collect();
            let locks: Vec<(&str, u64)> =
                names.iter().zip(1..).map(|(name, factor)| (name.as_str(), ms(factor))).collect();
            let mut moment = moment(&locks);
            (moment.glance.other_lock_waits, moment.glance.other_lock_wait_ns) = (5, 3_000_000);
            waited_ns += locks.iter().map(|(_, ns)| ns).sum::<u64>() + 3_000_000;
            metrics.add(&moment);
            let series = lock_series(&metrics);
            assert!(series.len() <= LOCKS_MAX + 1, "{}", series.len());
            assert!(before.iter().all(|(name, value)| series[name] >= *value), "{before:?} {series:?}");
            before = series;
        }
        assert_eq!(before.len(), LOCKS_MAX + 1);
        assert!((before.values().sum::<f64>() - waited_ns as f64 / 1e9).abs() < 1e-6);
        let waits: u64 =
            metrics.locks.values().map(|sums| sums.waits).sum::<u64>() + metrics.other_locks.waits;
        assert_eq!(waits, 500 * (4 * 2 + 5));
    }

    #[test]
    fn only_locks_with_a_large_part_of_an_intervals_wait_have_series() {
        let mut metrics = Metrics::default();
        metrics.add(&moment(&[("short", 999_999)]));
        metrics.add(&moment(&[("large", 500_000_000), ("small", 20_000_000)]));
        metrics.add(&moment(&[("small", 20_000_000)]));
        let named = |lock: &str| format!("{{process=\"app\",lock=\"{lock}\"}}");
        let other = format!("{{process=\"{OTHER}\",lock=\"{OTHER}\"}}");
        let expected = [(named("large"), 0.5), (named("small"), 0.02), (other, 0.020_999_999)];
        assert_eq!(lock_series(&metrics), BTreeMap::from(expected));
    }
}
