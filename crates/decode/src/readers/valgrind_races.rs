//! Text of Valgrind's Helgrind and DRD: the data races that they saw. DRD knows the stack of one access only.

use holdup_events::Event;

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::fields::number_after;
use crate::imported::races::{self, Line};

/// The format.
pub struct Format;

const HELGRIND: &str = "Possible data race during ";
const CONFLICT: &str = "This conflicts with a previous ";
const DRD: &str = "Conflicting ";
const DRD_OTHER: &str = "Other segment start (thread ";

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "valgrind-races", summary: "Helgrind's or DRD's report: data races with their stacks" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        bytes.starts_with(b"==")
            && text.lines().any(|line| matches!(report_text(line).and_then(begin), Some(Line::Begin)))
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let text = String::from_utf8_lossy(bytes);
        // A line that begins a race also describes its first access.
        let lines = text.lines().filter_map(report_text);
        let twice = lines.flat_map(|line| [begin(line).map(|_| ""), Some(line)].into_iter().flatten());
        races::emit("Valgrind", twice, parse_line, sink)
    }
}

/// The text after `==PID==`.
fn report_text(line: &str) -> Option<&str> {
    line.strip_prefix("==")
        .and_then(|rest| rest.split_once("=="))
        .map(|(_, text)| text.trim())
        .filter(|text| !text.is_empty())
}

fn begin(text: &str) -> Option<Line<'_>> {
    let starts = text.starts_with(HELGRIND) || (text.starts_with(DRD) && text.contains(" by thread "));
    starts.then_some(Line::Begin)
}

fn parse_line(text: &str) -> Line<'_> {
    if text.is_empty() {
        return Line::Begin;
    }
    if let Some(access) = text.strip_prefix(HELGRIND).or_else(|| text.strip_prefix(CONFLICT)) {
        let (what, thread) = access.split_once(" by ").unwrap_or((access, ""));
        let what = what.split(" at 0x").next().unwrap_or(what).to_owned();
        return Line::Access { what, thread: thread.to_owned(), address: number_after(text, " at 0x") };
    }
    if let Some(access) = text.strip_prefix(DRD).filter(|_| begin(text).is_some()) {
        let (what, rest) = access.split_once(" by ").unwrap_or((access, ""));
        let thread = rest.split(" at 0x").next().unwrap_or(rest);
        let size = text.rsplit_once(" size ").map_or("", |(_, size)| size);
        let (what, thread) = (format!("{what} of size {size}"), thread.to_owned());
        return Line::Access { what, thread, address: number_after(text, " at 0x") };
    }
    if let Some(thread) = text.strip_prefix(DRD_OTHER).and_then(|rest| rest.split(')').next()) {
        let (what, thread) = ("access, its stack not known,".to_owned(), format!("thread {thread}"));
        return Line::Access { what, thread, address: 0 };
    }
    if let Some((_, frame)) = text.split_once(": ").filter(|(at, _)| is_frame(at)) {
        return Line::Frame(frame.to_owned());
    }
    let location = text.strip_prefix("Address ").or_else(|| text.strip_prefix("Allocation context: "));
    match location {
        Some(location) => Line::Location(location.to_owned()),
        None if text.starts_with("Locks held") => Line::Nothing,
        None if text.starts_with("------") => Line::End,
        None => Line::Aside,
    }
}

/// `at 0x109161`, `by 0x10919A`
fn is_frame(text: &str) -> bool {
    text.starts_with("at 0x") || text.starts_with("by 0x")
}
