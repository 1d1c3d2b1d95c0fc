//! speedscope's JSON: one sampled profile a thread, weights in nanoseconds, the ledger's class as the first frame.

use std::collections::BTreeMap;
use std::io::{self, Write};

use holdup_events::{ThreadId, Trace};
use holdup_findings::Analysis;
use holdup_findings::derive::stacks::{Folding, Profile, StackUse};
use serde_json::{Value, json};

use super::{Exporter, Holds, Info, Options};
use crate::text::clean;

pub(super) struct Format;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

impl Exporter for Format {
    fn info(&self) -> Info {
        Info {
            name: "speedscope",
            summary: "Stacks of each thread in time, for speedscope.app: on-CPU and by wait class",
            extension: "speedscope.json",
            holds: Holds::Stacks,
            cannot_carry: "when it happened, CPUs, wakeups, findings, errors of sampled figures",
        }
    }

    fn write(&self, trace: &Trace, _: &Analysis, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let folding = options.folding.clone().unwrap_or_else(Folding::none);
        let profile = Profile::derive(trace, &options.selection, &folding);
        let mut by_thread: BTreeMap<ThreadId, Vec<&StackUse>> = BTreeMap::new();
        for used in profile.stacks.iter().filter(|used| used.tally.ns > 0) {
            by_thread.entry(used.thread).or_default().push(used);
        }
        let mut frames: Vec<Value> = profile
            .places
            .iter()
            .map(|place| json!({"name": clean(&place.name), "file": clean(&place.module)}))
            .collect();
        let mut of_class: BTreeMap<&str, usize> = BTreeMap::new();
        let mut profiles = Vec::new();
        for (thread, _) in profile.by_thread(None) {
            let Some(stacks) = by_thread.get(&thread) else { continue };
            let mut samples = Vec::new();
            for used in stacks {
                let class = *of_class.entry(used.class.name()).or_insert_with(|| {
                    frames.push(json!({"name": used.class.name()}));
                    frames.len() - 1
                });
                let path = profile.paths[used.path].iter().filter(|id| !profile.is_bare(**id));
                samples.push([class].into_iter().chain(path.map(|id| id.index())).collect::<Vec<usize>>());
            }
            let weights: Vec<u64> = stacks.iter().map(|used| used.tally.ns).collect();
            profiles.push(json!({
                "type": "sampled",
                "name": clean(&holdup_findings::wording::thread(trace, thread)),
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": weights.iter().sum::<u64>(),
                "samples": samples,
                "weights": weights,
            }));
        }
        let file = json!({
            "$schema": SCHEMA,
            "name": clean(&trace.manifest.command.join(" ")),
            "exporter": format!("holdup {}", trace.manifest.holdup),
            "activeProfileIndex": 0,
            "shared": {"frames": frames},
            "profiles": profiles,
        });
        serde_json::to_writer(out, &file).map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use holdup_testkit::check::trace_of_lanes;

    use super::*;

    #[test]
    fn profiles_add_up_and_point_at_frames() {
        let (_, trace) =
            trace_of_lanes("@samples A 0..4 user main;work\nA  0000mmmm\nB  mmmm1111  holds m 4..8\n");
        let mut out = Vec::new();
        Format.write(&trace, &Analysis::default(), &Options::default(), &mut out).unwrap();
        let file: Value = serde_json::from_slice(&out).unwrap();
        let frames = file["shared"]["frames"].as_array().unwrap();
        let profiles = file["profiles"].as_array().unwrap();
        assert_eq!(profiles.len(), 2);
        for profile in profiles {
            let (samples, weights) =
                (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
            assert_eq!(samples.len(), weights.len());
            let sum: u64 = weights.iter().map(|ns| ns.as_u64().unwrap()).sum();
            assert_eq!((sum, profile["endValue"].as_u64().unwrap()), (8_000_000, 8_000_000));
            for frame in samples.iter().flat_map(|sample| sample.as_array().unwrap()) {
                assert!((frame.as_u64().unwrap() as usize) < frames.len());
            }
        }
        let stack: Vec<&str> = profiles[0]["samples"][0]
            .as_array()
            .unwrap()
            .iter()
            .map(|frame| frames[frame.as_u64().unwrap() as usize]["name"].as_str().unwrap())
            .collect();
        assert_eq!(stack, ["useful", "main", "work"]);
    }
}
