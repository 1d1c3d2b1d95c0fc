//! A heap profile: sampled allocations for each stack, and what of them is still in use.

use holdup_events::event::{Allocated, Freed, RawStack};
use holdup_events::tables::CENSUS;
use holdup_events::{Event, Timestamp};

use super::message::{Profile, Sample};
use super::stacks::Places;
use super::values::{Columns, HeapColumns};
use super::{EmittedRows, ROWS_MAX, THREAD, TID};
use crate::imported::LaneThread;

/// Makes it sure that an object is sampled, where all of them are.
const SURELY: u64 = 64;

/// How a heap's values were sampled.
pub(super) struct Heap<'a> {
    columns: HeapColumns,
    every_bytes: u64,
    places: &'a Places,
}

/// A stack's objects, all of them of about the same size.
#[derive(Clone, Copy)]
struct Site {
    objects: f64,
    /// Bytes of one.
    each: f64,
    live: f64,
    /// Bytes in use that were not allocated within the profile: a delta has those of before, and some profiles have nothing else.
    older_bytes: u64,
    /// With which probability one was sampled.
    probability: f64,
}

impl<'a> Heap<'a> {
    pub fn new(columns: HeapColumns, profile: &'a Profile, places: &'a Places) -> Heap<'a> {
        Heap { columns, every_bytes: Columns::new(profile, places).sampled_every_bytes(), places }
    }

    /// Emits the rows of each stack.
    pub fn emit(&self, profile: &Profile, sink: &mut dyn FnMut(Event)) -> EmittedRows {
        let sites = || profile.sample.iter().filter_map(|sample| Some((sample, self.site(sample)?)));
        let wanted: f64 = sites().map(|(_, site)| site.rows(1.0)).sum();
        let thinner = (ROWS_MAX as f64 / wanted.max(1.0)).min(1.0);
        let thread = LaneThread { tid: TID, pid: TID, name: THREAD.to_owned() };
        thread.begin(Timestamp(0), Timestamp(0), sink);
        let (mut rows, mut id) = (0, 0);
        for (sample, site) in sites() {
            id += 1;
            sink(Event::Stack(RawStack { id, tgid: TID, ..self.places.stack(&sample.location_id) }));
            rows = self.emit_site(&site, (id, rows, thinner), sink);
        }
        let negative = profile.sample.iter().filter(|sample| self.is_negative(sample)).count() as u64;
        EmittedRows {
            source: "allocations",
            limits: self.limits(negative),
            rows,
            wanted: wanted as u64,
            period_ns: 0,
            span: (Timestamp(0), Timestamp(0)),
        }
    }

    /// Returns the number of rows so far.
    fn emit_site(
        &self,
        site: &Site,
        (stack, mut address, thinner): (u64, u64, f64),
        sink: &mut dyn FnMut(Event),
    ) -> u64 {
        let rows = site.rows(thinner);
        let like = match self.columns.live {
            Some(_) => site.row(rows, stack),
            // Freed memory is unknown, so each row is a weight.
            None => weight((site.objects * site.each / rows.max(1.0)) as u64, 0, stack),
        };
        let kept = (rows * site.live / site.objects.max(1.0)).round() as u64;
        for nth in 0..rows as u64 {
            address += 1;
            sink(Event::Allocated(Allocated { address, ..like }));
            if nth >= kept && self.columns.live.is_some() {
                sink(Event::Freed(Freed { at: Timestamp(0), tid: 0, tgid: TID, address }));
            }
        }
        if site.older_bytes > 0 {
            address += 1;
            sink(Event::Allocated(Allocated { address, ..weight(site.older_bytes, CENSUS, stack) }));
        }
        address
    }

    fn limits(&self, negative: u64) -> String {
        let mut text =
            "a heap profile: it has only sums by stack, estimated by the profiler, without times and threads"
                .to_owned();
        if self.columns.allocated.is_none() {
            text.push_str(", memory in use only, not all allocations");
        }
        if self.columns.live.is_none() {
            text.push_str(", all allocations only, not memory in use");
        }
        if negative > 0 {
            text.push_str(&format!(
                "; negative values, as the difference of two profiles has them, are left out (stacks: {negative})"
            ));
        }
        text
    }

    fn is_negative(&self, sample: &Sample) -> bool {
        let columns = [self.columns.allocated, self.columns.live];
        columns.into_iter().flatten().any(|column| column.value(&sample.value) < 0)
    }

    fn site(&self, sample: &Sample) -> Option<Site> {
        let amount =
            |column: Option<super::values::Column>| column.map_or(0, |column| column.amount(&sample.value));
        let HeapColumns { allocated, allocated_objects, live, live_objects } = self.columns;
        let (bytes, live_bytes) = (amount(allocated), amount(live));
        // Go keeps sizes apart, and has them in labels: its counts of objects are cut to whole ones.
        let size = sample.label.iter().find(|label| self.places.text(label.key) == "bytes");
        let (part, objects) =
            if bytes > 0 { (bytes, amount(allocated_objects)) } else { (live_bytes, amount(live_objects)) };
        let each = size.map_or(part as f64 / objects.max(1) as f64, |label| label.number as f64);
        if !(each >= 1.0 && each.is_finite() && part as f64 >= each) {
            return None;
        }
        // Go's `scaleHeapSample` (runtime/pprof/protomem.go) divides by this.
        let probability = -(-each / self.every_bytes as f64).exp_m1();
        let probability = if self.every_bytes <= 1 || probability <= 0.0 { 1.0 } else { probability };
        let objects = bytes as f64 / each;
        let kept = (live_bytes as f64 / each).clamp(0.0, objects);
        // A difference of less than an object is rounding.
        let older_bytes = live_bytes.saturating_sub(bytes);
        let older_bytes = if older_bytes as f64 >= each { older_bytes } else { 0 };
        Some(Site { objects, each, live: kept, older_bytes, probability })
    }
}

impl Site {
    /// How many objects were sampled for an estimate, less those that are thinned out.
    fn rows(&self, thinner: f64) -> f64 {
        if self.objects <= 0.0 { 0.0 } else { (self.objects * self.probability * thinner).round().max(1.0) }
    }

    /// One of `rows` allocations that together represent all of the site's objects.
    fn row(&self, rows: f64, stack: u64) -> Allocated {
        let probability = rows / self.objects.max(1.0);
        // The probability is 1 - exp(-bytes / every_bytes).
        let (every, own_bytes) = match probability < 1.0 {
            true => (-self.each / (-probability).ln_1p(), 0),
            false => (1.0, SURELY),
        };
        Allocated {
            every_bytes: (every.round() as u64).max(1),
            ..weight(self.each.round() as u64, own_bytes, stack)
        }
    }
}

/// A row that represents `bytes` bytes.
fn weight(bytes: u64, own_bytes: u64, stack: u64) -> Allocated {
    Allocated { at: Timestamp(0), tid: TID, tgid: TID, address: 0, bytes, every_bytes: 0, own_bytes, stack }
}
