//! What the writers of one format vary: units, locale, clock, order, optional parts, missing events (fixtures/variants).

#[path = "variants/chrome.rs"]
mod chrome;
#[path = "variants/folded.rs"]
mod folded;
#[path = "variants/ghc.rs"]
mod ghc;
#[path = "variants/hotspot.rs"]
mod hotspot;
#[path = "variants/perf.rs"]
mod perf;
#[path = "variants/pprof.rs"]
mod pprof;

#[path = "variants/versions.rs"]
mod versions;

use std::collections::BTreeMap;

use holdup_decode::assemble_named;
use holdup_decode::readers::{self, Facts, ReadError, Wanted};
use holdup_decode::symbols::{NoFiles, Symbols};
use holdup_events::recording::Manifest;
use holdup_events::tables::{SpanKind, ThreadState};
use holdup_events::{Event, StackId, Timestamp, Trace};

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/../../fixtures/variants/{name}", env!("CARGO_MANIFEST_DIR"));
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    readers::unpack(&packed, 1 << 24).unwrap().into_owned()
}

/// An imported file.
struct Imported {
    reader: &'static str,
    trace: Trace,
    facts: Facts,
}

impl Imported {
    fn read(bytes: &[u8]) -> Result<Imported, ReadError> {
        let (mut events, mut last) = (Vec::new(), Timestamp(0));
        let mut take = |event: Event| {
            // A loss states its own span.
            if !matches!(event, Event::Loss(_)) {
                assert!(last <= event.at(), "not in the order of time: {event:?} after {last:?}");
                last = event.at();
            }
            events.push(event);
        };
        let reader = readers::detect(bytes)?;
        let facts = reader.read(bytes, &Wanted::default(), &mut take)?;
        let manifest = Manifest {
            start_ns: facts.span.0.0,
            end_ns: facts.span.1.0,
            backend: facts.backend,
            sample_period_ns: facts.sample_period_ns,
            sources: facts.sources.clone(),
            ..Manifest::default()
        };
        let names = facts.names.clone();
        let trace = assemble_named(events, manifest, |catalogue, _| match names {
            Some(names) => names.resolve(catalogue),
            None => Symbols::new(&NoFiles, "").resolve(catalogue),
        });
        Ok(Imported { reader: reader.info().name, trace, facts })
    }

    fn from_fixture(name: &str) -> Imported {
        Imported::read(&fixture(name)).unwrap()
    }

    /// Leaf function, empty without a stack.
    fn leaf(&self, stack: StackId) -> String {
        if stack == StackId::NONE {
            return String::new();
        }
        self.trace.frames[self.trace.stacks.rows()[stack.index()].frame.index()].function.clone()
    }

    /// Time of the samples of each leaf (ns).
    fn time_by_leaf(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for sample in &self.trace.samples {
            *sums.entry(self.leaf(sample.stack)).or_default() += self.facts.sample_period_ns;
        }
        sums
    }

    /// Events lost, by reason.
    fn losses(&self) -> BTreeMap<String, u64> {
        self.trace.losses.iter().map(|loss| (loss.reason.clone(), loss.events)).collect()
    }
}
