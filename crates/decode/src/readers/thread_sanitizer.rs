//! Text of ThreadSanitizer (gcc, clang): the data races that it saw.

use holdup_events::Event;

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::fields::number_after;
use crate::imported::races::{self, Line, short};

/// The format.
pub struct Format;

const BEGIN: &str = "WARNING: ThreadSanitizer: data race";

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "thread-sanitizer", summary: "ThreadSanitizer's report: data races with both stacks" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        bytes.windows(BEGIN.len()).any(|window| window == BEGIN.as_bytes())
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let text = String::from_utf8_lossy(bytes);
        races::emit("ThreadSanitizer", text.lines(), parse_line, sink)
    }
}

fn parse_line(line: &str) -> Line<'_> {
    let text = line.trim();
    if text.starts_with(BEGIN) {
        return Line::Begin;
    }
    if text.starts_with("SUMMARY:") || text.starts_with("======") || text.starts_with("WARNING:") {
        return Line::End;
    }
    if let Some(location) = text.strip_prefix("Location is ") {
        return Line::Location(location.to_owned());
    }
    if let Some(frame) = text.strip_prefix('#') {
        return Line::Frame(function(frame));
    }
    match (text.split_once(" at 0x"), text.rsplit_once(" by ")) {
        (Some((what, _)), Some((_, thread))) if what.contains(" of size ") && text.ends_with(':') => {
            Line::Access {
                what: what.to_owned(),
                thread: thread.trim_end_matches(':').split(" (mutexes").next().unwrap_or_default().to_owned(),
                address: number_after(text, " at 0x"),
            }
        }
        _ if text.is_empty() => Line::Nothing,
        _ => Line::Aside,
    }
}

/// `0 name /path/file.c:12 (module+0x34)`: a name may have blanks, a path has a line or is `<null>`.
fn function(frame: &str) -> String {
    let named = frame.trim_start_matches(|c: char| c.is_ascii_digit()).trim();
    let named =
        named.rsplit_once(" (").filter(|(_, end)| end.contains("+0x")).map_or(named, |(name, _)| name);
    match named.rsplit_once(' ') {
        Some((name, "<null>")) => name.to_owned(),
        Some((name, place)) if place.contains(':') || place.contains('/') => {
            format!("{name} ({})", short(place))
        }
        _ => named.to_owned(),
    }
}
