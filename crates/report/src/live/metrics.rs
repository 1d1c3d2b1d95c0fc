//! Prometheus' text (exposition format 0.0.4) of the ledger and its surroundings: sums since holdup began to watch.

use std::collections::BTreeMap;
use std::fmt::Write;

use holdup_findings::derive::class::{CLASSES, Class};
use holdup_findings::derive::ledger::RunQueueSplit;
use holdup_findings::glance::Glance;

use super::{Moment, Spent};
use crate::text::clean;

/// Locks of which sums are kept; those that are waited for later count together.
const LOCKS_MAX: usize = 1024;
/// Locks that are told, those that were waited for longest.
const LOCKS_TOLD: usize = 20;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    seen_ns: u64,
    classes: [u64; CLASSES],
    run_queue: RunQueueSplit,
    /// Waits for, and time (ns), by process and name.
    locks: BTreeMap<(u32, String), (u64, u64)>,
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
    /// Nothing seen; the triggers that may fire are told from the beginning.
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

    /// So many recordings are there by now.
    pub fn saved(&mut self, recordings: u64) {
        self.saved = recordings;
    }

    fn add_locks(&mut self, glance: &Glance) {
        for lock in &glance.locks {
            let key = (lock.pid, lock.name.clone());
            let has_room = self.locks.len() < LOCKS_MAX || self.locks.contains_key(&key);
            let sums = self.locks.entry(if has_room { key } else { (0, "(others)".to_owned()) }).or_default();
            sums.0 += lock.waits;
            sums.1 += lock.wait_ns;
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
        out.seconds("run_queue_seconds_total", "Run-queue delay by what the CPU did meanwhile.", behind);
        self.locks_text(&mut out);
        let uses = self.cpus.iter().flat_map(|(cpu, sums)| {
            let labels = |used: &str| vec![("cpu", cpu.to_string()), ("use", used.to_owned())];
            ["program", "others", "stolen", "idle"].map(labels).into_iter().zip(*sums).collect::<Vec<_>>()
        });
        out.seconds("cpu_seconds_total", "What each CPU did.", uses);
        let [minor, major, pauses, paused_ns] = self.collections;
        let generations = [("minor", minor), ("major", major)];
        let generations = generations.map(|(name, count)| (vec![("generation", name.to_owned())], count));
        out.counts("gc_collections_total", "Collections that a runtime told of.", generations);
        out.counts(
            "gc_pauses_total",
            "Pauses for collections, as threads felt them.",
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
        let mut locks: Vec<_> = self.locks.iter().collect();
        locks.sort_by_key(|(key, (_, ns))| (std::cmp::Reverse(*ns), *key));
        locks.truncate(LOCKS_TOLD);
        let labels = |key: &(u32, String)| vec![("pid", key.0.to_string()), ("lock", key.1.clone())];
        let times = locks.iter().map(|(key, (_, ns))| (labels(key), *ns));
        out.seconds("lock_wait_seconds_total", "Time waited for the locks that are waited for most.", times);
        let counts = locks.iter().map(|(key, (waits, _))| (labels(key), *waits));
        out.counts("lock_waits_total", "Waits for these locks.", counts);
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
            name: (*name).to_owned(),
            pid: 7,
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
        assert_eq!(values["holdup_lock_wait_seconds_total{pid=\"7\",lock=\"a\\\"b\\\\c\\\\nd\"}"], 0.75);
        assert_eq!(values["holdup_lock_waits_total{pid=\"7\",lock=\"a\\\"b\\\\c\\\\nd\"}"], 4.0);
        assert_eq!(values["holdup_triggers_fired_total{trigger=\"pause:lock>20ms\"}"], 1.0);
        assert_eq!(values["holdup_observed_seconds_total"], 2.0);
    }

    #[test]
    fn however_many_locks_there_are_memory_and_text_are_bounded() {
        let mut metrics = Metrics::default();
        for number in 0..5_000u64 {
            metrics.add(&moment(&[(&format!("lock{number}"), number)]));
        }
        assert!(metrics.locks.len() <= LOCKS_MAX + 1);
        let told = parsed(&metrics.text()).keys().filter(|name| name.contains("lock_waits_total")).count();
        assert_eq!(told, LOCKS_TOLD);
        let all: u64 = metrics.locks.values().map(|(waits, _)| waits).sum();
        assert_eq!(all, 10_000, "none is forgotten");
    }
}
