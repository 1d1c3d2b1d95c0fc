//! Converts the events of an interval into a [`Moment`], with the same steps that make a recording's tables
//! and report.

use std::collections::{BTreeMap, BTreeSet};

use holdup_capture::host;
use holdup_decode::assemble_named;
use holdup_decode::reorder::{HORIZON, Reorder};
use holdup_decode::symbols::{KeptNames, Symbols};
use holdup_events::event::RawStack;
use holdup_events::recording::ring::named_stacks;
use holdup_events::recording::{Cost, Manifest};
use holdup_events::{CpuId, Event, Trace};
use holdup_findings::descriptors::Descriptors;
use holdup_findings::glance::Glance;
use holdup_report::live::{Moment, Spent};

use super::Stretch;
use crate::record::files::OwnFiles;
use crate::record::roots::Roots;
use crate::record::{finish, unix_ns};

/// See the module.
pub struct Looker {
    manifest: Manifest,
    descriptors: Descriptors,
    online: Vec<CpuId>,
    names: KeptNames,
    /// Stacks by id, and the stacks from before the last repetition of all stacks.
    stacks: BTreeMap<u64, RawStack>,
    past: BTreeMap<u64, RawStack>,
}

impl Looker {
    /// `manifest`: the manifest of the recordings.
    pub fn new(manifest: Manifest, descriptors: Descriptors) -> Looker {
        let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        Looker {
            manifest,
            descriptors,
            online: host::online_cpus().into_iter().map(CpuId).collect(),
            names: KeptNames::new(&kallsyms),
            stacks: BTreeMap::new(),
            past: BTreeMap::new(),
        }
    }

    /// Evaluates one interval.
    pub fn look(&mut self, stretch: Stretch) -> Moment {
        if stretch.is_anew {
            self.past = std::mem::take(&mut self.stacks);
        }
        self.stacks.extend(stretch.stacks.into_iter().map(|stack| (stack.id, stack)));
        let before = stretch.cut.mark.cost.clone();
        let (start, end) = (stretch.cut.start, stretch.cut.end);
        let trace = self.trace(stretch.cut.events(), (start.0, end.0), &stretch.roots);
        Moment {
            glance: Glance::derive(&trace, &self.descriptors, &self.online),
            unix_ns: unix_ns().saturating_sub(holdup_capture::lower::now().since(end).0),
            spent: spent(&stretch.spent, &before),
            skipped: stretch.skipped,
        }
    }

    /// The tables of `events`, which come nearly in order.
    pub fn trace(&mut self, events: Vec<Event>, (start_ns, end_ns): (u64, u64), roots: &Roots) -> Trace {
        let mut ordered: Vec<Event> = self.known(&events);
        let mut order = Reorder::new(HORIZON);
        for event in events {
            order.push(event, &mut |event| ordered.push(event));
        }
        order.finish(&mut |event| ordered.push(event));
        let manifest = Manifest { start_ns, end_ns, ..self.manifest.clone() };
        let files = OwnFiles::new(roots, &manifest);
        let names = &self.names;
        assemble_named(ordered, manifest.clone(), |catalogue, manifest| {
            finish::name_with(catalogue, manifest, &files, Symbols::with_kept(&files, names))
        })
    }

    /// Returns the stacks that `events` reference but do not contain, because an earlier interval did.
    fn known(&self, events: &[Event]) -> Vec<Event> {
        let mut named = BTreeSet::new();
        events.iter().for_each(|event| named_stacks(event, &mut |id| _ = named.insert(id)));
        for event in events {
            if let Event::Stack(stack) = event {
                named.remove(&stack.id);
            }
        }
        let known = named.iter().filter_map(|id| self.stacks.get(id).or_else(|| self.past.get(id)));
        let mut known: Vec<Event> = known.cloned().map(Event::Stack).collect();
        known.sort_by_key(Event::at);
        known
    }
}

fn spent(now: &Cost, before: &Cost) -> Spent {
    Spent {
        recorder_cpu_ns: now.recorder_cpu_ns.saturating_sub(before.recorder_cpu_ns),
        kernel_cpu_ns: now.probes_cpu_ns.saturating_sub(before.probes_cpu_ns),
        memory_bytes: now.recorder_memory_bytes,
    }
}
