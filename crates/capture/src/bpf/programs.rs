//! Loading and attaching the programs.

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, OpenObject};

use super::messages;
use super::session::{Options, Stacks, Target};
use crate::error::CaptureError;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/holdup.bpf.o"));

/// Programs that only sharpen what others give: absent tracepoints are reported, not fatal.
const OPTIONAL: &[&str] = &["on_contention_begin", "on_contention_end", "on_irq_begin", "on_irq_end"];

/// Milliseconds of the window in which stacks are rationed, as in `bpf/stacks.h`.
const STACK_WINDOW_MS: u32 = 10;

fn refused(error: &libbpf_rs::Error) -> CaptureError {
    CaptureError::Refused { reason: messages::reason(error) }
}

/// Opens, configures and loads the object.
pub fn load(options: &Options) -> Result<Object, CaptureError> {
    messages::capture();
    // A static with the alignment of u8: libbpf copies what it needs aligned.
    let mut open = ObjectBuilder::default()
        .name("holdup")
        .and_then(|builder| builder.open_memory(OBJECT))
        .map_err(|error| refused(&error))?;
    configure(&mut open, options)?;
    open.load().map_err(|error| refused(&error))
}

fn configure(open: &mut OpenObject, options: &Options) -> Result<(), CaptureError> {
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.contains("configuration")
            && let Some(values) = map.initial_value_mut()
        {
            write_configuration(values, options);
        } else if name == "records" {
            map.set_max_entries(options.ring_bytes).map_err(|error| refused(&error))?;
        }
    }
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let section = program.section().to_string_lossy().into_owned();
        if OPTIONAL.contains(&name.as_str()) && !has_tracepoint(&section) {
            program.set_autoload(false);
        }
    }
    Ok(())
}

/// The layout of `struct configuration` in `bpf/common.h`: three u32.
fn write_configuration(values: &mut [u8], options: &Options) {
    let stacks = match options.stacks {
        Stacks::All => u32::MAX,
        Stacks::None => 0,
        Stacks::PerSecond(rate) => (rate * STACK_WINDOW_MS / 1000).max(1),
    };
    let follow_all = u32::from(matches!(options.target, Target::All));
    let words = [follow_all, std::process::id(), stacks];
    for (at, word) in values.chunks_exact_mut(4).zip(words) {
        at.copy_from_slice(&word.to_ne_bytes());
    }
}

/// Attaches every loaded program but the sampler and the iterator; says which optional ones are missing.
pub fn attach(object: &Object) -> Result<(Vec<Link>, Vec<String>), CaptureError> {
    let mut links = Vec::new();
    let mut missing = Vec::new();
    for program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if name == "on_sample" || name == "on_snapshot" {
            continue;
        }
        if !program.autoload() {
            missing.push(name);
            continue;
        }
        match program.attach() {
            Ok(link) => links.push(link),
            Err(_) if OPTIONAL.contains(&name.as_str()) => missing.push(name),
            Err(error) => return Err(refused(&error)),
        }
    }
    Ok((links, missing))
}

/// Makes a process a target.
pub fn add_target(object: &Object, tgid: u32) -> Result<(), CaptureError> {
    let targets = object.maps().find(|map| map.name() == "targets");
    let targets = targets.ok_or(CaptureError::Refused { reason: "no map of targets".to_owned() })?;
    targets.update(&tgid.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY).map_err(|error| refused(&error))
}

/// Whether the running kernel has the tracepoint of a `tp_btf/NAME` section.
fn has_tracepoint(section: &str) -> bool {
    let Some(name) = section.strip_prefix("tp_btf/") else { return true };
    let Ok(name) = std::ffi::CString::new(format!("btf_trace_{name}")) else { return false };
    // SAFETY: libbpf gives an owned object or null; it is freed once; the name outlives the call.
    unsafe {
        let types = libbpf_sys::btf__load_vmlinux_btf();
        if types.is_null() {
            return false;
        }
        let found = libbpf_sys::btf__find_by_name_kind(types, name.as_ptr(), libbpf_sys::BTF_KIND_TYPEDEF);
        libbpf_sys::btf__free(types);
        found > 0
    }
}
