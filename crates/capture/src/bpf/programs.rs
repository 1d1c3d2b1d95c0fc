//! Loading and attaching the programs.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, UprobeOpts};

use super::counters::COUNTERS_MAX;
use super::kernel_types::KernelTypes;
use super::messages;
use super::session::{Options, Stacks, Target};
use super::slots::Layout;
use crate::error::CaptureError;
use crate::sources::{self, Attached, Source};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/holdup.bpf.o"));

fn refused(error: &libbpf_rs::Error) -> CaptureError {
    CaptureError::Refused { reason: messages::reason(error) }
}

/// Opens, configures and loads the object.
pub fn load(options: &Options, layout: Layout) -> Result<Object, CaptureError> {
    messages::capture();
    // A static with the alignment of u8: libbpf copies what it needs aligned.
    let mut open = ObjectBuilder::default()
        .name("holdup")
        .and_then(|builder| builder.open_memory(OBJECT))
        .map_err(|error| refused(&error))?;
    configure(&mut open, options, layout)?;
    open.load().map_err(|error| refused(&error))
}

/// Processes whose mappings are known at a time, where they are allocated in advance (16 KiB each).
const PROCESSES_PREALLOCATED: u32 = 512;

const MULTI_UPROBES: &str = "bpf_uprobe_multi_link_attach";

fn configure(open: &mut OpenObject, options: &Options, layout: Layout) -> Result<(), CaptureError> {
    let types = KernelTypes::load();
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.contains("configuration")
            && let Some(values) = map.initial_value_mut()
        {
            write_configuration(values, options, layout);
        } else if name == "unwind_processes" && !types.has_function("bpf_mem_alloc_init") {
            // Before 6.1 programs on perf events may only use maps that are allocated in advance.
            map.set_map_flags(0).map_err(|error| refused(&error))?;
            map.set_max_entries(PROCESSES_PREALLOCATED).map_err(|error| refused(&error))?;
        } else if name == "records" {
            map.set_max_entries(layout.slots()).map_err(|error| refused(&error))?;
        } else if matches!(name.as_str(), "calls_away" | "ring_operations" | "ring_names")
            && !options.syscalls
        {
            map.set_max_entries(1).map_err(|error| refused(&error))?;
        } else if matches!(name.as_str(), "scratch" | "unwind_scratches" | "raw_scratches") {
            let entries = scratches(options, &types) * layout.all_places();
            map.set_max_entries(entries).map_err(|error| refused(&error))?;
        } else if name == "counter_events" {
            // Indexed by the CPU's number.
            map.set_max_entries(layout.cpus * COUNTERS_MAX as u32).map_err(|error| refused(&error))?;
        } else if name == "ring_ends" {
            map.set_max_entries(layout.cpus).map_err(|error| refused(&error))?;
        }
    }
    let hands_over_state = types.switch_hands_over_state();
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let section = program.section().to_string_lossy().into_owned();
        let wanted = match name.as_str() {
            "on_switch" => hands_over_state,
            "on_switch_before_5_18" => !hands_over_state,
            "on_blocked_stacks" => types.has_function("bpf_copy_from_user_task"), // 5.18
            "on_nothing" => types.has_tracepoint(&section),
            "on_allocated" | "on_freed" => options.allocations.is_some(),
            "on_place" | "on_task" => types.has_function(MULTI_UPROBES), // 6.6
            "on_ring_answer" => options.syscalls && types.ring_answers_are_told(),
            "on_call_begin" | "on_ring_submit" | "on_ring_complete" => {
                options.syscalls && types.has_tracepoint(&section)
            }
            _ => is_required(&name) || types.has_tracepoint(&section),
        };
        program.set_autoload(wanted);
    }
    Ok(())
}

/// Slots of scratch memory on each CPU, as `bpf/stacks.h` numbers them: those of probes that no program passes are left out.
fn scratches(options: &Options, types: &KernelTypes) -> u32 {
    const WITHOUT_PROBES: u32 = 5;
    const PROBE_SLOTS: u32 = 4;
    if options.allocations.is_some() {
        WITHOUT_PROBES + 2 * PROBE_SLOTS
    } else if types.has_function(MULTI_UPROBES) {
        WITHOUT_PROBES + PROBE_SLOTS
    } else {
        WITHOUT_PROBES
    }
}

fn is_required(program: &str) -> bool {
    sources::of_program(program).is_none_or(|source| source.required())
}

/// The layout of `struct configuration` in `bpf/common.h`.
fn write_configuration(values: &mut [u8], options: &Options, layout: Layout) {
    let stacks = match options.stacks {
        Stacks::All => u32::MAX,
        Stacks::None => 0,
        Stacks::Budgeted => 1,
    };
    let follow_all = u32::from(matches!(options.target, Target::All));
    let follow_none = u32::from(matches!(options.target, Target::Only(_)));
    let (syscalls, counters) = (u32::from(options.syscalls), options.counters.len() as u32);
    let Layout { places, slots_bits, spares, spare_bits, .. } = layout;
    let targets = [follow_all, std::process::id(), stacks, slots_bits, follow_none, syscalls, counters];
    let words = targets.into_iter().chain([places, spares, spare_bits]);
    for (at, word) in values.chunks_exact_mut(4).zip(words) {
        at.copy_from_slice(&word.to_ne_bytes());
    }
}

/// What keeps programs running.
#[derive(Default)]
pub struct Attachments {
    /// Throughout.
    pub links: Vec<Link>,
    /// Of the programs at each timer: until the kernel's own bookkeeping of timers is found on every CPU.
    pub timers: Vec<Link>,
    /// Sources that this kernel has no place for.
    pub missing: Vec<&'static Source>,
}

/// Programs at each timer.
const AT_TIMERS: [&str; 2] = ["on_timer_begin", "on_timer_end"];

/// Attaches every program that runs throughout.
pub fn attach(object: &Object, options: &Options) -> Result<Attachments, CaptureError> {
    let mut all = Attachments::default();
    for program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let Some(source) = sources::of_program(&name) else { continue };
        if source.attached == Attached::BySession {
            if !program.autoload() {
                all.missing.push(source);
            }
            continue;
        }
        if source.attached == Attached::OnDemand && !options.syscalls
            || matches!(source.attached, Attached::AtMarkers | Attached::AtFunctions)
        {
            continue;
        }
        if !program.autoload() && source.required() {
            continue; // the other form of a program was loaded
        }
        match program.autoload().then(|| program.attach()) {
            Some(Ok(link)) if AT_TIMERS.contains(&name.as_str()) => all.timers.push(link),
            Some(Ok(link)) => all.links.push(link),
            Some(Err(error)) if source.required() => return Err(refused(&error)),
            _ if !all.missing.contains(&source) => all.missing.push(source),
            _ => {}
        }
    }
    Ok(all)
}

/// Attaches the programs at each timer again; none where the kernel refuses one.
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

/// Puts probes on the functions by which `library`, wherever it is loaded, tells of allocations.
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

/// The programs of every switch and wakeup.
const OF_EVERY_SWITCH: [&str; 3] = ["on_switch", "on_switch_before_5_18", "on_waking"];

/// Runs of [`OF_EVERY_SWITCH`] that the kernel left out, since an interrupt's would have begun within another one of the same program; 0 where it
/// does not count them.
pub fn skipped_runs(object: &Object) -> u64 {
    let programs = object.progs_mut();
    let of_interest = programs.filter(|program| {
        program.autoload() && OF_EVERY_SWITCH.contains(&program.name().to_string_lossy().as_ref())
    });
    of_interest.map(|program| recursion_misses(program.as_fd())).sum()
}

fn recursion_misses(program: BorrowedFd<'_>) -> u64 {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: writes no more than `bytes` to `info`, whose pointers to more are null.
    let told = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut bytes) };
    if told == 0 { info.recursion_misses } else { 0 }
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
        };
        if let Err(error) = crate::doctor::bpf_ready() {
            return println!("skipped: BPF is not allowed here: {error}");
        }
        for (wanted, other) in
            [("on_switch", "on_switch_before_5_18"), ("on_switch_before_5_18", "on_switch")]
        {
            let mut open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
            configure(&mut open, &options, Layout::of_machine(4096)).unwrap();
            for mut program in open.progs_mut() {
                let name = program.name().to_string_lossy().into_owned();
                match name.as_str() {
                    name if name == wanted => program.set_autoload(true),
                    name if name == other => program.set_autoload(false),
                    _ => {}
                }
            }
            let object = open.load().unwrap_or_else(|error| panic!("{wanted}: {error}"));
            attach(&object, &options).unwrap_or_else(|error| panic!("{wanted}: {error}"));
        }
    }
}
