//! Spans of runtimes that record none themselves. Descriptors name the functions (`[[span]]`). They are
//! searched in the mapped binaries of each recorded process, and probed from then on.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use holdup_capture::bpf::{Session, SpanPlace};
use holdup_capture::{lower, privileges, sources};
use holdup_decode::probed::{Act, Meaning};
use holdup_decode::probes::{Functions, Prober, Site};
use holdup_decode::wire::WireDecoder;
use holdup_events::condition::Condition;
use holdup_events::event::RawMapping;
use holdup_events::recording::SourceState;
use holdup_events::{Duration, Event, Timestamp};
use holdup_findings::derive::stacks::folding::matches;
use holdup_findings::descriptors::{Descriptors, SpanProbe, plain_name};

use super::stack_tables::{Identity, identify, places};
use super::task_windows::{self, TaskWindows};
use super::{files, process_exists};

/// Maximum hits of one place per process and second. An ordinary hit costs 0.4 µs, which gives at most 0.4 %
/// of a CPU. If the kernel single-steps an instruction, a hit costs 14 µs on a virtual machine and 2 µs on
/// bare metal. That gives at most 0.7 %.
const CHEAP_PER_SECOND: u32 = 10_000;
const STEPPED_PER_SECOND: u32 = 500;
/// Maximum number of processes with probes.
const PROCESSES_MAX: usize = 256;
/// Reasons that are kept.
const PROBLEMS_MAX: usize = 12;

/// One span of one runtime.
#[derive(Clone)]
struct Wanted {
    /// As records name it.
    number: u32,
    runtime: String,
    /// Names of the files to search. Empty for all files.
    modules: Vec<String>,
    span: SpanProbe,
}

/// Where spans begin and end in a binary.
#[derive(Clone, Debug, Default)]
struct Found {
    places: Vec<Place>,
    /// Probes for waiting tasks, or why there are none.
    tasks: Option<Result<Arc<task_windows::Sites>, String>>,
    problems: Vec<String>,
}

#[derive(Clone, Debug)]
struct Place {
    /// As records name it.
    number: u32,
    site: Site,
    acts: Vec<Act>,
    per_second_max: u32,
    /// Condition on the arguments.
    when: Option<Condition>,
}

/// Probes for a process. Without a file, the process has exited.
struct Plan {
    tgid: u32,
    mapped: Timestamp,
    file: Option<PathBuf>,
    found: Arc<Found>,
}

/// The probes of a recording.
pub struct SpanProbes {
    sender: Option<Sender<(u32, Vec<RawMapping>)>>,
    plans: Receiver<Plan>,
    worker: Option<JoinHandle<()>>,
    armed: BTreeSet<u32>,
    /// Some process had probes.
    any_armed: bool,
    tasks: TaskWindows,
    /// Names of the wanted spans by number, with their runtime, and the numbers of those that were found.
    names: Vec<(String, String)>,
    found: BTreeSet<u32>,
    problems: Vec<String>,
    began: Timestamp,
    /// Longest time during which code ran in the recording before its probes were set.
    late: Duration,
}

impl SpanProbes {
    /// For these runtimes, with the decoder that knows their spans. Binaries are read in a thread of its own.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(descriptors: &Descriptors) -> io::Result<(SpanProbes, WireDecoder)> {
        let mut decoder = WireDecoder::default();
        let mut wanted = Vec::new();
        let mut names = Vec::new();
        let mut tasks = Vec::new();
        for runtime in descriptors.runtimes() {
            // A runtime that is known by its functions may be linked into any program.
            let is_anywhere = !runtime.function_marks.is_empty();
            let modules = || if is_anywhere { Vec::new() } else { runtime.module_marks.clone() };
            if let Some(probe) = runtime.task_waits.clone() {
                tasks.push((modules(), task_windows::Wanted { runtime: runtime.name.clone(), probe }));
            }
            for span in &runtime.spans {
                let number = decoder.probed().know(Meaning {
                    runtime: runtime.name.as_str().into(),
                    name: span.name.as_str().into(),
                    kind: span.kind,
                    is_mark: span.is_mark,
                    of_process: !span.end.is_empty(),
                });
                names.push((runtime.name.clone(), span.entry.join(", ")));
                let span = span.clone();
                wanted.push(Wanted { number, runtime: runtime.name.clone(), modules: modules(), span });
            }
        }
        let (sender, receiver) = channel();
        let (done, plans) = channel();
        let worker = (!wanted.is_empty() || !tasks.is_empty()).then(|| {
            std::thread::Builder::new().spawn(move || {
                privileges::restore_priority();
                let binaries = HashMap::new();
                let looker = Looker { wanted, tasks, binaries, seen: BTreeMap::new(), next: 0 };
                looker.work(&receiver, &done);
            })
        });
        let worker = worker.transpose()?;
        let sender = worker.is_some().then_some(sender);
        let (armed, found) = (BTreeSet::new(), BTreeSet::new());
        let (problems, began, late) = (Vec::new(), lower::now(), Duration(0));
        let tasks = TaskWindows::default();
        let any_armed = false;
        let probes = SpanProbes {
            sender,
            plans,
            worker,
            armed,
            any_armed,
            tasks,
            names,
            found,
            problems,
            began,
            late,
        };
        Ok((probes, decoder))
    }

    /// Updates the mappings of a process. Empty if it has exited.
    pub fn process(&self, tgid: u32, mappings: &[RawMapping]) {
        if let Some(sender) = &self.sender {
            let _ = sender.send((tgid, mappings.to_vec()));
        }
    }

    /// Sets the probes found since the last call, and removes those that are hit too often.
    pub fn step(&mut self, session: &mut Session, decoder: &mut WireDecoder, sink: &mut dyn FnMut(Event)) {
        while let Ok(plan) = self.plans.try_recv() {
            self.put((session, decoder), plan, sink);
        }
        self.tasks.step(session, decoder, sink);
        for (tgid, place) in decoder.probed().take_useless() {
            session.disarm_place(tgid, place);
        }
    }

    fn put(
        &mut self,
        (session, decoder): (&mut Session, &mut WireDecoder),
        plan: Plan,
        sink: &mut dyn FnMut(Event),
    ) {
        let Plan { tgid, mapped, file, found } = plan;
        found.problems.iter().for_each(|problem| self.problem(problem.clone()));
        let Some(file) = file else {
            decoder.probed().forget(tgid);
            self.tasks.forget(session, tgid);
            self.armed.remove(&tgid);
            return session.forget_places(tgid);
        };
        if !self.armed.contains(&tgid) && self.armed.len() >= PROCESSES_MAX {
            return self.problem(format!("more than {PROCESSES_MAX} processes have such runtimes"));
        }
        // Processes come and go faster than the kernel removes their probes.
        if session.are_many_probes_being_removed() {
            return self.problem(
                "processes that started while probes of many others were being removed have none".to_owned(),
            );
        }
        match &found.tasks {
            Some(Ok(sites)) => self.tasks.add(session, (tgid, &file, sites), sink),
            Some(Err(why)) => self.tasks.problem(why.clone()),
            None => {}
        }
        for place in &found.places {
            let &Place { number, site, per_second_max, .. } = place;
            decoder.probed().know_place(number, place.acts.clone());
            let Site { offset, semaphore } = site;
            let condition = place.when.as_ref();
            let at =
                SpanPlace { tgid, place: number, file: &file, offset, semaphore, per_second_max, condition };
            match session.arm_place(&at) {
                Ok(()) => {
                    self.armed.insert(tgid);
                    self.any_armed = true;
                    self.found.extend(place.acts.iter().map(|act| act.span));
                }
                // A process that has exited since needs no probes.
                Err(_) if !process_exists(tgid) => {}
                Err(error) => return self.problem(error.to_string()),
            }
        }
        self.late = self.late.max(lower::now().since(mapped.max(self.began)));
    }

    /// Ends the recording: reports the tasks that still wait for locks.
    pub fn end(&mut self, session: &mut Session, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        self.tasks.end(session, at, sink);
    }

    /// Returns the spans of a runtime that have no probe: no mapped file contains them, or why the probe
    /// failed.
    pub fn missing(&self, runtime: &str) -> Vec<String> {
        let of_it =
            |(number, (of, _)): &(u32, &(String, String))| of == runtime && !self.found.contains(number);
        let names = (0u32..).zip(&self.names).filter(of_it).map(|(_, (_, name))| name);
        names
            .map(|name| {
                match self
                    .problems
                    .iter()
                    .find(|problem| problem.starts_with(runtime) && problem.contains(name))
                {
                    Some(problem) => problem.clone(),
                    None => format!("no file that the program has mapped so far has {name}, or its symbols"),
                }
            })
            .collect()
    }

    fn problem(&mut self, what: String) {
        if self.problems.len() < PROBLEMS_MAX && !self.problems.contains(&what) {
            self.problems.push(what);
        }
    }

    /// Ends the probes. `task_waits`: number of recorded waits of tasks. `sources` gets the result, which is
    /// dropped if no runtime was found.
    pub fn finish(mut self, sources: &mut Vec<SourceState>, task_waits: u64) {
        self.sender = None;
        let _ = self.worker.take().map(JoinHandle::join);
        self.tasks.finish(sources, task_waits);
        let name = sources::RUNTIME_PROBES;
        if !self.any_armed && self.problems.is_empty() {
            return sources.retain(|source| source.name != name);
        }
        for source in sources.iter_mut().filter(|source| source.name == name) {
            source.active = self.any_armed;
            let early = late_note(self.late).filter(|_| source.active);
            source.missing = early.into_iter().chain(self.problems.clone()).collect::<Vec<_>>().join("; ");
        }
    }
}

/// Returns the note about spans missed before the probes were set, or `None`.
fn late_note(late: Duration) -> Option<String> {
    let ms = late.0.div_ceil(1_000_000);
    (ms > 0).then(|| {
        format!("spans before the probes were attached are not recorded: at most {ms} ms of a process")
    })
}

/// Reads binaries.
struct Looker {
    wanted: Vec<Wanted>,
    /// Each with the names of the files to search. Empty for all files.
    tasks: Vec<(Vec<String>, task_windows::Wanted)>,
    binaries: HashMap<Identity, Arc<Found>>,
    /// The files examined in each process.
    seen: BTreeMap<u32, Vec<Identity>>,
    /// The number of the next place.
    next: u32,
}

impl Looker {
    fn work(mut self, receiver: &Receiver<(u32, Vec<RawMapping>)>, done: &Sender<Plan>) {
        while let Ok((tgid, mappings)) = receiver.recv() {
            if mappings.is_empty() && self.seen.remove(&tgid).is_some() {
                let _ = done.send(Plan { tgid, mapped: Timestamp(0), file: None, found: Arc::default() });
            }
            for mapping in &mappings {
                if let Some(plan) = self.look(tgid, mapping)
                    && done.send(plan).is_err()
                {
                    return;
                }
            }
        }
    }

    /// Returns the probes for a mapping of a process when it is first seen.
    fn look(&mut self, tgid: u32, mapping: &RawMapping) -> Option<Plan> {
        let identity = identify(tgid, mapping).filter(|identity| *identity != Identity::Vdso)?;
        let seen = self.seen.entry(tgid).or_default();
        if seen.contains(&identity) {
            return None;
        }
        seen.push(identity.clone());
        let is_any_in = |files: &[String]| is_in(files, &mapping.path);
        if !self.wanted.iter().any(|wanted| is_any_in(&wanted.modules))
            && !self.tasks.iter().any(|(files, _)| is_any_in(files))
        {
            return None;
        }
        let known = self.binaries.get(&identity).cloned();
        let open = |place: &PathBuf| files::open(place).map(|file| (place.clone(), file));
        let (path, file) = places(tgid, mapping).iter().find_map(open)?;
        let found = match known {
            Some(found) => found,
            None => Arc::new(self.read(&file, &mapping.path)),
        };
        self.binaries.insert(identity, found.clone());
        let any = !found.places.is_empty() || !found.problems.is_empty() || found.tasks.is_some();
        any.then_some(Plan { tgid, mapped: mapping.at, file: Some(path), found })
    }

    fn read(&mut self, file: &File, path: &str) -> Found {
        super::shrunk::read_as_zeros();
        // SAFETY: the bytes are only read, as untrusted input. If the file is truncated, they turn to zeros.
        let bytes = unsafe { memmap2::Mmap::map(file) };
        let Ok(bytes) = bytes else { return Found::default() };
        let Some(prober) = Prober::parse(&bytes) else { return Found::default() };
        let wanted: Vec<&Wanted> = self.wanted.iter().filter(|one| is_in(&one.modules, path)).collect();
        let names = wanted.iter().flat_map(|one| one.span.entry.iter().chain(&one.span.end));
        let tasks: Vec<&task_windows::Wanted> =
            self.tasks.iter().filter(|(files, _)| is_in(files, path)).map(|(_, one)| one).collect();
        let names = names.chain(tasks.iter().flat_map(|one| one.names()));
        let plain: &dyn Fn(&str) -> Cow<'_, str> = &plain_name;
        let functions = prober.functions(&names.map(String::as_str).collect(), plain);
        let (mut begins, mut ends, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        for one in wanted {
            match found_in(&prober, &functions, &one.span) {
                Some(Ok((first, last))) => {
                    let place = |site, ends, is_cheap| Place {
                        number: 0,
                        site,
                        acts: vec![Act { span: one.number, ends }],
                        per_second_max: limit(one, is_cheap),
                        when: one.span.when.clone(),
                    };
                    begins.extend(first.into_iter().map(|site| place(site, false, true)));
                    ends.extend(last.into_iter().map(|site| place(site, true, !one.span.end.is_empty())));
                }
                Some(Err(why)) => {
                    problems.push(format!("{}: {} in {path}: {why}", one.runtime, one.span.name));
                }
                None => {}
            }
        }
        // A descriptor lists nested spans from outer to inner. At a shared end, the inner spans end first.
        ends.reverse();
        let tasks = tasks.iter().find_map(|one| {
            let found = one.find(&prober, &functions)?;
            Some(found.map(Arc::new).map_err(|why| format!("{}: {path}: {why}", one.runtime)))
        });
        Found { places: self.number(ends.into_iter().chain(begins)), tasks, problems }
    }

    /// One place for all that happens at one instruction under one condition.
    fn number(&mut self, all: impl Iterator<Item = Place>) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for one in all {
            let same = |place: &&mut Place| place.site == one.site && place.when == one.when;
            match places.iter_mut().find(same) {
                Some(place) => {
                    place.acts.extend(one.acts);
                    place.per_second_max = place.per_second_max.min(one.per_second_max);
                }
                None => {
                    places.push(Place { number: self.next, ..one });
                    self.next += 1;
                }
            }
        }
        places
    }
}

/// Whether a file is in the list. An empty list contains every file.
fn is_in(files: &[String], path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    files.is_empty() || files.iter().any(|mark| matches(mark, name))
}

/// How often in a second a place may be passed.
fn limit(wanted: &Wanted, is_cheap: bool) -> u32 {
    match wanted.span.per_second_max {
        0 if is_cheap => CHEAP_PER_SECOND,
        0 => STEPPED_PER_SECOND,
        own => own,
    }
}

/// Where a span begins, and where it ends.
type BeginsAndEnds = (Vec<Site>, Vec<Site>);

/// Returns where a span begins and ends. `None` if the binary does not have its begin. An error if the span
/// cannot be probed.
fn found_in(
    prober: &Prober<'_>,
    functions: &Functions,
    span: &SpanProbe,
) -> Option<Result<BeginsAndEnds, String>> {
    let arguments: Vec<u8> = span.when.iter().flat_map(Condition::arguments).collect();
    let begins = entered((prober, functions), &span.entry, &arguments)?;
    let ends = || match span.end.is_empty() {
        _ if span.is_mark => Ok(Vec::new()),
        false => entered((prober, functions), &span.end, &[])
            .unwrap_or_else(|| Err("nothing that ends it is there".to_owned())),
        true => match span.entry.iter().find_map(|name| functions.get(name)) {
            Some(function) => prober.returns(function),
            None => Err("a probe of its authors' does not return: name what ends it".to_owned()),
        },
    };
    Some(begins.and_then(|begins| Ok((begins, ends()?))))
}

/// Returns the sites of the first name that exists, at which these arguments still have the passed values.
fn entered(
    (prober, functions): (&Prober<'_>, &Functions),
    names: &[String],
    arguments: &[u8],
) -> Option<Result<Vec<Site>, String>> {
    names.iter().find_map(|name| match name.strip_prefix("usdt:") {
        Some(probe) => {
            let (provider, name) = probe.split_once(':')?;
            prober.usdt(provider, name).ok().map(Ok)
        }
        None => functions.get(name).map(|function| prober.entries(function, arguments)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_before_the_probes_is_rounded_up_to_milliseconds() {
        let text = |ms| {
            format!("spans before the probes were attached are not recorded: at most {ms} ms of a process")
        };
        assert_eq!(late_note(Duration(0)), None);
        assert_eq!(late_note(Duration(1)), Some(text(1)));
        assert_eq!(late_note(Duration(12_000_001)), Some(text(13)));
    }
}
