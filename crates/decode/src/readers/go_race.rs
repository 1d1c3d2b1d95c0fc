//! Text of Go's race detector (`go test -race`, `go run -race`): the data races that it saw.

use holdup_events::Event;

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::fields::number_after;
use crate::imported::races::{self, Line};

/// The format.
pub struct Format;

const BEGIN: &str = "WARNING: DATA RACE";

impl Reader for Format {
    fn info(&self) -> Info {
        Info {
            name: "go-race",
            summary: "The report of Go's race detector (go test -race): data races with both stacks",
        }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        bytes.windows(BEGIN.len()).any(|window| window == BEGIN.as_bytes())
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let text = String::from_utf8_lossy(bytes);
        races::emit("Go's race detector", text.lines(), parse_line, sink)
    }
}

fn parse_line(line: &str) -> Line<'_> {
    let text = line.trim();
    if text == BEGIN {
        return Line::Begin;
    }
    if text.starts_with("======") {
        return Line::End;
    }
    if let (Some((what, _)), Some((_, thread))) = (text.split_once(" at 0x"), text.rsplit_once(" by "))
        && text.ends_with(':')
    {
        return Line::Access {
            what: what.to_owned(),
            thread: thread.trim_end_matches(':').to_owned(),
            address: number_after(text, " at 0x"),
        };
    }
    // The name stands indented by two, its place below by six.
    if let Some(place) = line.strip_prefix("      ") {
        return Line::Place(place.split(" +0x").next().unwrap_or(place).trim());
    }
    match line.strip_prefix("  ") {
        Some(function) => Line::Frame(function.trim().trim_end_matches("()").to_owned()),
        None if text.is_empty() => Line::Nothing,
        None => Line::Aside,
    }
}
