//! Loading and attaching the programs.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, OpenMapMut, OpenObject, UprobeOpts};

use super::choice::{Choice, Choices};
use super::counters::COUNTERS_MAX;
use super::kernel_types::KernelTypes;
use super::loading::{Loaded, MissingSource};
use super::map_sizes::{self, Planned};
use super::messages;
use super::session::{Options, Stacks, Target};
use super::slots::Layout;
use super::uprobes::{self, Form};
use crate::error::CaptureError;
use crate::sources::{self, Attached, Source};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/holdup.bpf.o"));

pub(super) fn refused(error: &libbpf_rs::Error) -> CaptureError {
    CaptureError::Refused { reason: messages::reason(error) }
}

/// Opens the object without loading it.
pub(super) fn open() -> libbpf_rs::Result<OpenObject> {
    // A static with the alignment of u8: libbpf copies all parts that it needs aligned.
    ObjectBuilder::default().name("holdup")?.open_memory(OBJECT)
}

/// Processes whose mappings are known at a time, where they are allocated in advance (16 KiB each).
const PROCESSES_PREALLOCATED: u32 = 512;

/// Inputs for the configuration of the object.
pub(super) struct Setup<'a> {
    pub(super) options: &'a Options,
    pub(super) layout: Layout,
    pub(super) choices: &'a Choices,
    /// User stacks are walked in the kernel.
    pub(super) walks_stacks: bool,
}

/// Sizes the maps, writes the configuration, and chooses the programs.
pub(super) fn configure(open: &mut OpenObject, setup: &Setup<'_>) -> libbpf_rs::Result<()> {
    let Setup { options, layout, choices, .. } = *setup;
    let types = choices.types();
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.contains("configuration")
            && let Some(values) = map.initial_value_mut()
        {
            write_configuration(values, setup);
        } else if name == "unwind_processes" && !types.has_function("bpf_mem_alloc_init") {
            // Before 6.1 programs on perf events may only use maps that are allocated in advance.
            map.set_map_flags(0)?;
            map.set_max_entries(PROCESSES_PREALLOCATED)?;
        } else if name == "records" {
            map.set_max_entries(layout.slots())?;
        } else if matches!(name.as_str(), "calls_away" | "ring_operations" | "ring_names")
            && !options.syscalls
        {
            map.set_max_entries(1)?;
        } else if matches!(name.as_str(), "scratch" | "unwind_scratches" | "raw_scratches") {
            map.set_max_entries(scratches(options, types) * layout.all_places())?;
        } else if name == "counter_events" {
            // Indexed by the CPU's number.
            map.set_max_entries(layout.cpus * COUNTERS_MAX as u32)?;
        } else if name == "ring_ends" {
            map.set_max_entries(layout.cpus)?;
        } else {
            follow_cpus(&mut map, layout.cpus)?;
        }
    }
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let section = program.section().to_string_lossy().into_owned();
        program.set_autoload(choices.for_program(&name, &section) == Choice::Load);
        if uprobes::PROGRAMS.contains(&name.as_str()) && choices.probe_form() == Some(Form::Single) {
            program.set_attach_type(uprobes::SINGLE);
        }
    }
    Ok(())
}

/// Gives a map the entries that fit this many possible CPUs.
fn follow_cpus(map: &mut OpenMapMut<'_>, cpus: u32) -> libbpf_rs::Result<()> {
    const NO_PREALLOC: u32 = 1;
    let planned = Planned {
        kind: map.map_type(),
        entries: map.max_entries(),
        value_bytes: map.value_size(),
        on_demand: map.map_flags() & NO_PREALLOC != 0,
    };
    match map_sizes::entries(planned, cpus) {
        entries if entries == planned.entries => Ok(()),
        entries => map.set_max_entries(entries),
    }
}

/// Slots of scratch memory on each CPU, as `bpf/stacks.h` numbers them: those of probes that no program passes are left out.
fn scratches(options: &Options, types: &KernelTypes) -> u32 {
    const WITHOUT_PROBES: u32 = 5;
    const PROBE_SLOTS: u32 = 4;
    if options.allocations.is_some() {
        WITHOUT_PROBES + 2 * PROBE_SLOTS
    } else if options.probes.on(types).is_some() {
        WITHOUT_PROBES + PROBE_SLOTS
    } else {
        WITHOUT_PROBES
    }
}

/// The layout of `struct configuration` in `bpf/common.h`.
fn write_configuration(values: &mut [u8], setup: &Setup<'_>) {
    let options = setup.options;
    let stacks = match options.stacks {
        _ if !setup.walks_stacks => 0,
        Stacks::All => u32::MAX,
        Stacks::None => 0,
        Stacks::Budgeted => 1,
    };
    let follow_all = u32::from(matches!(options.target, Target::All));
    let follow_none = u32::from(matches!(options.target, Target::Only(_)));
    let Layout { places, slots_bits, spares, spare_bits, .. } = setup.layout;
    let words = [
        follow_all,
        std::process::id(),
        stacks,
        slots_bits,
        follow_none,
        u32::from(options.syscalls),
        options.counters.len() as u32,
        places,
        spares,
        spare_bits,
        u32::from(setup.walks_stacks),
    ];
    for (at, word) in values.chunks_exact_mut(4).zip(words) {
        at.copy_from_slice(&word.to_ne_bytes());
    }
}

/// Links that keep programs attached.
#[derive(Default)]
pub struct Attachments {
    /// Throughout.
    pub links: Vec<Link>,
    /// Links of the programs at each timer, kept until the kernel's own timer state is located on every CPU.
    pub timers: Vec<Link>,
    /// Sources that this recording lacks.
    pub missing: Vec<MissingSource>,
}

impl Attachments {
    /// Adds one row per source, with the first reason for all of its programs.
    pub(super) fn lack(&mut self, source: &'static Source, reason: String) {
        if !self.missing.iter().any(|missing| missing.source == source) {
            self.missing.push(MissingSource { source, reason });
        }
    }
}

/// Programs at each timer.
const AT_TIMERS: [&str; 2] = ["on_timer_begin", "on_timer_end"];

/// Attaches every program that runs throughout. What an optional source has too little of is in
/// [`Attachments::missing`].
///
/// # Errors
/// A program that a recording cannot do without cannot be attached.
pub fn attach(loaded: &Loaded, options: &Options) -> Result<Attachments, CaptureError> {
    let mut all = Attachments::default();
    for missing in &loaded.missing {
        if let Some(source) = sources::of_program(&missing.name) {
            all.lack(source, missing.reason.clone());
        }
    }
    for program in loaded.object.progs_mut().filter(|program| program.autoload()) {
        let name = program.name().to_string_lossy().into_owned();
        let Some(source) = sources::of_program(&name) else { continue };
        let is_now = match source.attached {
            Attached::Throughout => true,
            Attached::OnDemand => options.syscalls,
            Attached::BySession | Attached::AtMarkers | Attached::AtFunctions => false,
        };
        if !is_now {
            continue;
        }
        match program.attach() {
            Ok(link) if AT_TIMERS.contains(&name.as_str()) => all.timers.push(link),
            Ok(link) => all.links.push(link),
            Err(error) if source.required() => return Err(refused(&error)),
            Err(error) => {
                all.lack(source, format!("program {name} cannot be attached: {}", messages::reason(&error)));
            }
        }
    }
    Ok(all)
}

/// Attaches the programs at each timer again. Empty if the kernel refuses one.
pub fn attach_timers(object: &Object) -> Vec<Link> {
    let loaded = |name: &str| object.progs_mut().any(|program| program.name() == name && program.autoload());
    let links = AT_TIMERS.into_iter().filter(|name| loaded(name)).map(|name| attach_one(object, name));
    links.collect::<Result<_, _>>().unwrap_or_default()
}

/// Attaches one program, now.
pub fn attach_one(object: &Object, name: &str) -> Result<Link, CaptureError> {
    let program = object.progs_mut().find(|program| program.name() == name);
    let program = program.ok_or_else(|| CaptureError::Refused { reason: format!("no program {name}") })?;
    program.attach().map_err(|error| refused(&error))
}

/// Sets probes on the functions of `library` that report allocations, in every process that has it mapped.
pub fn attach_markers(object: &Object, library: &Path) -> Result<Vec<Link>, CaptureError> {
    const EVERY_PROCESS: i32 = -1;
    let markers = [("on_allocated", "holdup_allocated"), ("on_freed", "holdup_freed")];
    let attach = |(name, function): (&str, &str)| {
        let program = object.progs_mut().find(|program| program.name() == name);
        let program =
            program.ok_or_else(|| CaptureError::Refused { reason: format!("no program {name}") })?;
        let at = UprobeOpts { func_name: Some(function.to_owned()), ..UprobeOpts::default() };
        program.attach_uprobe_with_opts(EVERY_PROCESS, library, 0, at).map_err(|error| refused(&error))
    };
    markers.into_iter().map(attach).collect()
}

/// Runs of one source's programs that the kernel skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Name of the source.
    pub source: &'static str,
    /// Number of runs, since the programs were loaded.
    pub runs: u64,
}

/// Returns by source the runs that the kernel skipped because the same program was already running on that
/// CPU. That happens in an interrupt or, on newer kernels, in another thread that preempted it
/// (`__bpf_trace_run` in kernel/trace/bpf_trace.c). Empty before 5.12, where the kernel does not count them.
pub fn skipped_runs(object: &Object) -> Vec<Skipped> {
    let mut skipped: Vec<Skipped> = Vec::new();
    for program in object.progs_mut().filter(|program| program.autoload()) {
        let Some(source) = sources::of_program(&program.name().to_string_lossy()) else { continue };
        let runs = recursion_misses(program.as_fd());
        match skipped.iter_mut().find(|row| row.source == source.name) {
            Some(row) => row.runs += runs,
            None => skipped.push(Skipped { source: source.name, runs }),
        }
    }
    skipped.retain(|row| row.runs > 0);
    skipped
}

fn recursion_misses(program: BorrowedFd<'_>) -> u64 {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: writes no more than `bytes` to `info`, whose pointers to more are null.
    let status = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut bytes) };
    if status == 0 { info.recursion_misses } else { 0 }
}

/// Makes a process a target.
pub fn add_target(object: &Object, tgid: u32) -> Result<(), CaptureError> {
    let targets = object.maps().find(|map| map.name() == "targets");
    let targets = targets.ok_or(CaptureError::Refused { reason: "no map of targets".to_owned() })?;
    targets.update(&tgid.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY).map_err(|error| refused(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_switch_program_load() {
        let options = Options {
            target: Target::Process(1),
            sample_hz: 0,
            stacks: Stacks::All,
            ring_bytes: 4096,
            syscalls: true,
            allocations: Some("/no/library".into()),
            counters: crate::bpf::Counter::named("page-faults").into_iter().collect(),
            probes: crate::bpf::ProbeForm::Best,
        };
        if let Err(error) = crate::doctor::bpf_ready() {
            return println!("skipped: BPF is not allowed here: {error}");
        }
        let choices = Choices::new(&options);
        let layout = Layout::of_machine(4096);
        for (wanted, other) in
            [("on_switch", "on_switch_before_5_18"), ("on_switch_before_5_18", "on_switch")]
        {
            let mut object = open().unwrap();
            let setup = Setup { options: &options, layout, choices: &choices, walks_stacks: true };
            configure(&mut object, &setup).unwrap();
            for mut program in object.progs_mut() {
                let name = program.name().to_string_lossy().into_owned();
                match name.as_str() {
                    name if name == wanted => program.set_autoload(true),
                    name if name == other => program.set_autoload(false),
                    _ => {}
                }
            }
            let object = object.load().unwrap_or_else(|error| panic!("{wanted}: {error}"));
            let loaded = Loaded { object, missing: Vec::new(), stacks_missing: String::new() };
            attach(&loaded, &options).unwrap_or_else(|error| panic!("{wanted}: {error}"));
        }
    }
}
