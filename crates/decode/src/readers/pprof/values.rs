//! Which columns of a profile are read, and in which units. Writers differ in both.

use super::message::{Profile, ValueType};
use super::stacks::Places;

/// Nanoseconds of a unit of time, `None` for other units. Names as in pprof's `internal/measurement`.
pub(super) fn time_unit_ns(unit: &str) -> Option<u64> {
    Some(match singular(unit).as_str() {
        "nanosecond" | "ns" => 1,
        "microsecond" | "us" | "µs" | "μs" => 1_000,
        "millisecond" | "ms" => 1_000_000,
        "second" | "sec" | "s" => 1_000_000_000,
        "minute" | "min" => 60_000_000_000,
        _ => return None,
    })
}

/// Bytes of a unit of memory, `None` for other units.
pub(super) fn memory_unit_bytes(unit: &str) -> Option<u64> {
    Some(match singular(unit).as_str() {
        "byte" | "b" => 1,
        "kilobyte" | "kibibyte" | "kb" | "kib" => 1 << 10,
        "megabyte" | "mebibyte" | "mb" | "mib" => 1 << 20,
        "gigabyte" | "gibibyte" | "gb" | "gib" => 1 << 30,
        _ => return None,
    })
}

/// The unit in lower case, without the plural's `s`.
fn singular(unit: &str) -> String {
    let unit = unit.trim().to_lowercase();
    match unit.strip_suffix('s').filter(|rest| rest.chars().count() > 2) {
        Some(rest) => rest.to_owned(),
        None => unit,
    }
}

/// A kind in lower case with one separator: `cpu_time` and `CPU Time` are `cpu-time`.
fn kind_name(kind: &str) -> String {
    kind.trim().to_lowercase().replace(['_', ' '], "-")
}

/// Whether values of this kind are time on a CPU.
fn is_cpu(kind: &str) -> bool {
    matches!(
        kind_name(kind).as_str(),
        "cpu"
            | "cpu-time"
            | "cputime"
            | "process-cpu"
            | "on-cpu"
            | "oncpu"
            | "cpu-clock"
            | "task-clock"
            | "itimer"
            | "ctimer"
    )
}

/// Whether values of this kind count samples.
fn is_sample_count(kind: &str, unit: &str) -> bool {
    let (kind, unit) = (kind_name(kind), singular(unit));
    let counts = matches!(unit.as_str(), "count" | "sample" | "");
    let samples = matches!(kind.as_str(), "sample" | "samples" | "cpu" | "cpu-sample" | "cpu-samples");
    // perf_data_converter writes the name of the event before the word.
    counts && (samples || kind.ends_with("-sample") || kind.ends_with("-samples"))
}

/// A column of values, with the number that makes its unit nanoseconds or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    index: usize,
    scale: u64,
}

impl Column {
    /// The value of a sample in nanoseconds or bytes. Negative in the difference of two profiles.
    pub fn value(self, values: &[i64]) -> i128 {
        i128::from(values.get(self.index).copied().unwrap_or(0)) * i128::from(self.scale)
    }

    /// [`Column::value`] where only an amount makes sense: 0 for a negative value.
    pub fn amount(self, values: &[i64]) -> u64 {
        u64::try_from(self.value(values).max(0)).unwrap_or(u64::MAX)
    }

    /// The unit (ns or bytes): how exact a value is.
    pub fn scale(self) -> u64 {
        self.scale
    }
}

/// The columns of a heap profile. A writer may leave out allocated memory, memory in use, or the numbers of
/// objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeapColumns {
    pub allocated: Option<Column>,
    pub allocated_objects: Option<Column>,
    pub live: Option<Column>,
    pub live_objects: Option<Column>,
}

impl HeapColumns {
    /// Both sums are there, so it is the profile of a heap before anything else.
    pub fn is_whole(&self) -> bool {
        self.allocated.is_some() && self.live.is_some()
    }
}

/// Value of a CPU profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CpuColumn {
    /// CPU time.
    Time(Column),
    /// Samples, and the CPU time of one (ns) if the profile has it.
    Samples(Column, Option<u64>),
}

/// Looks up columns by kind and unit.
pub(super) struct Columns<'a> {
    places: &'a Places,
    types: &'a [ValueType],
    period: Option<ValueType>,
    period_length: i64,
}

impl<'a> Columns<'a> {
    pub fn new(profile: &'a Profile, places: &'a Places) -> Columns<'a> {
        let (types, period) = (&profile.sample_type[..], profile.period_type);
        Columns { places, types, period, period_length: profile.period }
    }

    /// The columns of a heap profile. `None` if it has neither allocated memory nor memory in use.
    pub fn heap(&self) -> Option<HeapColumns> {
        let bytes = |kinds: &[&str]| self.find(kinds, memory_unit_bytes);
        let count = |kinds: &[&str]| self.find(kinds, |unit| (singular(unit) == "count").then_some(1));
        let columns = HeapColumns {
            allocated: bytes(&["alloc-space", "alloc-bytes"]),
            allocated_objects: count(&["alloc-objects"]),
            live: bytes(&["inuse-space", "inuse-bytes", "heap-space", "space"]),
            live_objects: count(&["inuse-objects", "objects"]),
        };
        (columns.allocated.is_some() || columns.live.is_some()).then_some(columns)
    }

    /// The column of a CPU profile: time if there is one. Otherwise the number of samples, unless the period
    /// is another kind of time.
    pub fn cpu(&self) -> Option<CpuColumn> {
        let all = || (0..).zip(self.types);
        let time = all().find_map(|(index, of)| {
            let scale = time_unit_ns(self.places.text(of.unit))?;
            is_cpu(self.places.text(of.kind)).then_some(CpuColumn::Time(Column { index, scale }))
        });
        let samples = || {
            let period_ns = self.period_ns();
            // Samples of a wall clock or of blocking, or in a profile with such times, are not CPU samples.
            let other_period =
                self.period.is_some_and(|of| self.unit_ns(of).is_some()) && period_ns.is_none();
            let other_time = self.types.iter().any(|of| self.unit_ns(*of).is_some());
            let is_samples =
                |of: &ValueType| is_sample_count(self.places.text(of.kind), self.places.text(of.unit));
            let (index, _) = all().find(|(_, of)| !other_period && !other_time && is_samples(of))?;
            Some(CpuColumn::Samples(Column { index, scale: 1 }, period_ns))
        };
        time.or_else(samples)
    }

    /// The profile's period if it is CPU time (ns).
    pub fn period_ns(&self) -> Option<u64> {
        let is_time =
            |kind: &str| is_cpu(kind) || matches!(kind_name(kind).as_str(), "" | "sample" | "samples");
        let of = self.period.filter(|of| is_time(self.places.text(of.kind)))?;
        let unit_ns = self.unit_ns(of)?;
        u64::try_from(self.period_length).ok().filter(|period| *period > 0)?.checked_mul(unit_ns)
    }

    /// Mean sampling interval in bytes. 1 if every byte was sampled, or if the period has another unit.
    pub fn sampled_every_bytes(&self) -> u64 {
        let scale = self.period.map_or(Some(1), |of| memory_unit_bytes(self.places.text(of.unit)));
        let period = u64::try_from(self.period_length).unwrap_or(0);
        scale.and_then(|scale| period.checked_mul(scale)).unwrap_or(1).max(1)
    }

    fn unit_ns(&self, of: ValueType) -> Option<u64> {
        time_unit_ns(self.places.text(of.unit))
    }

    /// The first column of one of these kinds whose unit `scale` knows.
    fn find(&self, kinds: &[&str], scale: impl Fn(&str) -> Option<u64>) -> Option<Column> {
        (0..).zip(self.types).find_map(|(index, of)| {
            let is_kind = kinds.contains(&kind_name(self.places.text(of.kind)).as_str());
            let scale = scale(self.places.text(of.unit)).filter(|_| is_kind)?;
            Some(Column { index, scale })
        })
    }
}
