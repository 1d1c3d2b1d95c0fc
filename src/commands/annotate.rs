//! `holdup report annotate FN`: reads the binary, and hands its code to the report.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use holdup_decode::code::{Code, CodeError};
use holdup_events::Trace;
use holdup_events::tables::PYTHON_MODULE;
use holdup_findings::derive::stacks::{FunctionCost, Selection, function_costs};
use holdup_report::annotate::{Annotation, MachineCode, render, to_json};
use holdup_report::numbers::duration;
use holdup_report::text::clean;

use super::locate;
use crate::cli::ReportArgs;

/// Other functions of a pattern that are named.
const OTHERS_MAX: usize = 8;

/// Prints the instructions of a function with their cost. If several functions match, the function with the
/// most own time is printed.
pub fn execute(before: &[OsString], after: &[OsString], args: &ReportArgs) -> Result<ExitCode> {
    let recording = match before {
        [] => None,
        [path] => Some(PathBuf::from(path)),
        _ => bail!("write `holdup report [RECORDING] annotate FN`"),
    };
    let function = match after {
        [name] => &*name.to_string_lossy(),
        _ => bail!("annotate which function? `holdup report stacks` lists them: `holdup report annotate FN`"),
    };
    let (_, trace) = locate::open(recording.as_deref())?;
    let ask = super::stacks::ask(&trace, &args.stacks)?;
    let whole = args.stacks.min == Some(0.0);
    annotated(&trace, (&ask.selection, whole), function, |annotation, others| {
        for other in others.iter().take(OTHERS_MAX) {
            let own = duration(other.between(0, u64::MAX).own.ns);
            let (name, module) = (clean(&other.function), clean(&other.module));
            say!("holdup: '{function}' also matches {name} in {module} (self {own})");
        }
        if others.len() > OTHERS_MAX {
            say!("holdup: and {} more", others.len() - OTHERS_MAX);
        }
        match args.results.json {
            true => super::print_json(&to_json(annotation)),
            false => super::print(&render(annotation, &super::style(&std::io::stdout()))),
        }
    })?
}

/// The whole listing of a function, for the viewer.
pub fn as_json(trace: &Trace, function: &str) -> Result<serde_json::Value> {
    annotated(trace, (&Selection::all(), true), function, |annotation, _| to_json(annotation))
}

/// Reads the binary that contains a function, and passes the function's instructions on, with the other
/// functions of that name.
fn annotated<T>(
    trace: &Trace,
    (selection, whole): (&Selection, bool),
    function: &str,
    then: impl FnOnce(&Annotation, &[FunctionCost]) -> T,
) -> Result<T> {
    let costs = function_costs(trace, selection, function);
    let Some((cost, others)) = costs.split_first() else {
        bail!(
            "no stack goes through a function '{function}' of the program; `holdup report stacks` lists them"
        )
    };
    let sources = Sources::default();
    let annotation = Annotation {
        cost,
        title: if is_address(function) { function } else { &cost.function },
        code: &MachineCode::default(),
        name_at: &|_| None,
        source: &|file, line| sources.line(file, line),
        whole,
    };
    if cost.module == PYTHON_MODULE {
        return Ok(then(&annotation, others));
    }
    let bytes =
        read_file(&cost.module, BINARY_BYTES_MAX).with_context(|| format!("reading {}", cost.module))?;
    let code = Code::parse(&bytes, &cost.build_id).with_context(|| cost.module.clone())?;
    let machine = machine_code(&code, cost, function)?;
    let name_at = |address| code.name_at(address);
    Ok(then(&Annotation { code: &machine, name_at: &name_at, ..annotation }, others))
}

/// Bytes that are shown behind the last place seen of a function whose end is not known.
const BEHIND: u64 = 64;

/// `file+0xoffset`: a place without a symbol.
fn is_address(name: &str) -> bool {
    name.rsplit_once("+0x").is_some_and(|(_, hex)| u64::from_str_radix(hex, 16).is_ok())
}

/// The code around the place that was asked for, or around the function's costliest.
fn machine_code(code: &Code, cost: &FunctionCost, asked: &str) -> Result<MachineCode> {
    let asked = asked.rsplit_once("+0x").and_then(|(_, hex)| u64::from_str_radix(hex, 16).ok());
    let costliest =
        cost.spots.iter().max_by_key(|(_, spot)| spot.own.ns + spot.below.ns).map(|(offset, _)| *offset);
    let offset = asked.or(costliest).unwrap_or(0);
    let known =
        code.function_at(offset).or_else(|error| match (error, cost.start, cost.spots.last_key_value()) {
            // The recording has the function's start. The end is unknown, so the code is read at least up to
            // the last sample.
            (CodeError::NoFunction, Some(start), Some((last, _))) => {
                code.between(start, last.saturating_add(BEHIND))
            }
            _ => Err(error),
        });
    let function = known.with_context(|| format!("{}+0x{offset:x}", cost.module))?;
    Ok(MachineCode { offset: function.offset, address: function.address, bytes: function.bytes })
}

/// A binary larger than this is not read.
const BINARY_BYTES_MAX: u64 = 4 << 30;
/// A source file larger than this is none.
const SOURCE_BYTES_MAX: u64 = 16 << 20;

/// Source files, each read once.
#[derive(Default)]
struct Sources {
    read: RefCell<BTreeMap<String, Vec<String>>>,
}

impl Sources {
    fn line(&self, file: &str, number: u32) -> Option<String> {
        let mut read = self.read.borrow_mut();
        let lines = read.entry(file.to_owned()).or_insert_with(|| read_lines(file));
        lines.get(number.checked_sub(1)? as usize).cloned()
    }
}

fn read_lines(file: &str) -> Vec<String> {
    let text = read_file(file, SOURCE_BYTES_MAX).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

/// The recording names the file: it may be anything by now, a device or a pipe too.
fn read_file(path: &str, bytes_max: u64) -> Result<Vec<u8>> {
    let found = std::fs::metadata(path)?;
    if !found.is_file() {
        bail!("it is no file");
    }
    if found.len() > bytes_max {
        bail!("it is larger than {bytes_max} bytes");
    }
    Ok(std::fs::read(path)?)
}
