//! pprof's gzipped protobuf: samples, CPU time and waiting time of each stack, with class and thread as
//! labels. Only the written messages and fields are declared, with the numbers of `profile.proto`.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use holdup_events::Trace;
use holdup_findings::Analysis;
use holdup_findings::derive::stacks::{Folding, PlaceId, Profile, StackUse};
use prost::Message;

use super::{Exporter, Holds, Info, Options};
use crate::text::clean;

pub(super) struct Format;

#[derive(Clone, PartialEq, Message)]
struct ProfileFile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
    #[prost(int64, tag = "3")]
    num: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}

impl Exporter for Format {
    fn info(&self) -> Info {
        Info {
            name: "pprof",
            summary: "Stacks with CPU and waiting time for pprof: `go tool pprof -http : FILE`",
            extension: "pb.gz",
            holds: Holds::Stacks,
            cannot_carry: "when it happened, CPUs, wakeups, findings, errors of sampled figures",
        }
    }

    fn write(&self, trace: &Trace, _: &Analysis, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let folding = options.folding.clone().unwrap_or_else(Folding::none);
        let profile = Profile::derive(trace, &options.selection, &folding);
        let file = Writer::new(trace, &profile).file();
        // No time of day in the header: the same trace gives the same bytes.
        let mut packed = GzBuilder::new().mtime(0).write(out, Compression::default());
        packed.write_all(&file.encode_to_vec())?;
        packed.finish()?;
        Ok(())
    }
}

struct Writer<'a> {
    trace: &'a Trace,
    profile: &'a Profile,
    file: ProfileFile,
    strings: HashMap<String, i64>,
    mappings: BTreeMap<&'a str, u64>,
}

impl<'a> Writer<'a> {
    fn new(trace: &'a Trace, profile: &'a Profile) -> Writer<'a> {
        let mut writer = Writer {
            trace,
            profile,
            file: ProfileFile::default(),
            strings: HashMap::new(),
            mappings: BTreeMap::new(),
        };
        // The format asks for an empty string first.
        writer.string("");
        writer
    }

    fn string(&mut self, text: &str) -> i64 {
        let text = clean(text);
        if let Some(known) = self.strings.get(&text) {
            return *known;
        }
        let row = self.file.string_table.len() as i64;
        self.file.string_table.push(text.clone());
        self.strings.insert(text, row);
        row
    }

    fn file(mut self) -> ProfileFile {
        let types = [("samples", "count"), ("cpu", "nanoseconds"), ("wait", "nanoseconds")];
        for (name, unit) in types {
            let value = ValueType { r#type: self.string(name), unit: self.string(unit) };
            self.file.sample_type.push(value);
        }
        self.file.default_sample_type = self.string("cpu");
        let manifest = &self.trace.manifest;
        self.file.time_nanos = manifest.start_unix_ns as i64;
        self.file.duration_nanos = self.trace.wall().0 as i64;
        self.file.period = manifest.sample_period_ns as i64;
        self.file.period_type =
            Some(ValueType { r#type: self.string("cpu"), unit: self.string("nanoseconds") });
        let command = manifest.command.join(" ");
        let comment = self.string(&command);
        self.file.comment.push(comment);
        for id in 0..self.profile.places.len() as u32 {
            self.add_place(PlaceId(id));
        }
        for used in &self.profile.stacks {
            let sample = self.sample(used);
            self.file.sample.push(sample);
        }
        self.file
    }

    /// A place is one function and one location, both numbered from 1 in the order of places.
    fn add_place(&mut self, id: PlaceId) {
        let place = self.profile.place(id);
        let name = self.string(&place.name);
        let number = u64::from(id.0) + 1;
        let mapping_id = match self.mappings.get(place.module.as_str()) {
            _ if place.module.is_empty() => 0,
            Some(known) => *known,
            None => {
                let next = self.mappings.len() as u64 + 1;
                let filename = self.string(&place.module);
                self.file.mapping.push(Mapping { id: next, filename, has_functions: true });
                self.mappings.insert(&place.module, next);
                next
            }
        };
        self.file.function.push(Function { id: number, name, system_name: name });
        let line = vec![Line { function_id: number }];
        self.file.location.push(Location { id: number, mapping_id, line });
    }

    fn sample(&mut self, used: &StackUse) -> Sample {
        let path = &self.profile.paths[used.path];
        let ns = used.tally.ns as i64;
        let (cpu, wait) = if used.class.on_cpu() { (ns, 0) } else { (0, ns) };
        let mut label =
            vec![Label { key: self.string("class"), str: self.string(used.class.name()), num: 0 }];
        if let Some(thread) = self.trace.threads.get(used.thread.index()) {
            label.push(Label { key: self.string("thread"), str: self.string(&thread.name), num: 0 });
            label.push(Label { key: self.string("tid"), str: 0, num: i64::from(thread.tid) });
        }
        Sample {
            location_id: path.iter().rev().map(|id| u64::from(id.0) + 1).collect(),
            value: vec![(used.tally.samples + used.tally.slices) as i64, cpu, wait],
            label,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use holdup_testkit::check::trace_of_lanes;

    use super::*;

    #[test]
    fn what_was_written_can_be_read() {
        let (_, trace) =
            trace_of_lanes("@samples A 0..4 user main;work\nA  0000mmmm\nB  mmmm1111  holds m 4..8\n");
        let mut out = Vec::new();
        Format.write(&trace, &Analysis::default(), &Options::default(), &mut out).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(out.as_slice()).read_to_end(&mut bytes).unwrap();
        let file = ProfileFile::decode(bytes.as_slice()).unwrap();
        assert_eq!(file.string_table[0], "");
        let sum = |row: usize| file.sample.iter().map(|sample| sample.value[row]).sum::<i64>();
        assert_eq!((sum(0), sum(1), sum(2)), (4, 8_000_000, 8_000_000));
        let name = |id: u64| {
            let location = file.location.iter().find(|location| location.id == id).unwrap();
            let function = location.line[0].function_id;
            let function = file.function.iter().find(|one| one.id == function).unwrap();
            file.string_table[function.name as usize].as_str()
        };
        let sampled = file.sample.iter().find(|sample| sample.value[0] == 4).unwrap();
        let leaf_first: Vec<&str> = sampled.location_id.iter().map(|id| name(*id)).collect();
        assert_eq!(leaf_first, ["work", "main"]);
        for sample in &file.sample {
            assert_eq!(sample.value.len(), file.sample_type.len());
            assert!(sample.label.iter().all(|label| (label.key as usize) < file.string_table.len()));
        }
    }
}
