//! Where the fields of the scheduler's tracepoints are in a sample's raw part. The file brings the kernel's own
//! description (`/sys/kernel/tracing/events/sched/*/format`).

use super::layout::{Feature, Layout};
use crate::imported::Bytes;

/// A field's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    offset: u16,
    length: u16,
}

/// A tracepoint that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracepoint {
    /// `sched:sched_switch`
    Switch { prev_comm: Field, prev_pid: Field, prev_state: Field, next_comm: Field, next_pid: Field },
    /// `sched:sched_waking`
    Waking { comm: Field, pid: Field },
    /// `sched:sched_wakeup` or `sched:sched_wakeup_new`
    Wakeup { comm: Field, pid: Field },
}

/// Tracepoints described by the file, by their number.
#[derive(Default)]
pub(super) struct Tracepoints {
    known: Vec<(u64, Tracepoint)>,
}

impl Field {
    /// The bytes of the field.
    pub fn bytes_in<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        Bytes::part(raw, u64::from(self.offset), u64::from(self.length))
    }

    /// As a number of 4 or 8 bytes.
    pub fn number(&self, raw: &[u8]) -> Option<u64> {
        let mut bytes = Bytes(self.bytes_in(raw)?);
        if self.length == 8 { bytes.u64() } else { bytes.u32().map(u64::from) }
    }

    /// As text.
    pub fn text(&self, raw: &[u8]) -> String {
        self.bytes_in(raw).map(Bytes::text).unwrap_or_default()
    }
}

impl Tracepoints {
    pub fn parse(layout: &Layout<'_>) -> Tracepoints {
        let text = String::from_utf8_lossy(layout.feature(Feature::Tracepoints).unwrap_or_default());
        let mut known = Vec::new();
        for (name, rest) in text.split("name: sched_").skip(1).filter_map(|part| part.split_once('\n')) {
            let number = rest.strip_prefix("ID: ").and_then(|rest| rest.split_once('\n'));
            let Some((number, format)) = number.and_then(|(id, rest)| Some((id.parse().ok()?, rest))) else {
                continue;
            };
            let format = format.split("print fmt:").next().unwrap_or_default();
            let tracepoint = match name {
                "switch" => switch(format),
                "waking" => waking(format).map(|(comm, pid)| Tracepoint::Waking { comm, pid }),
                "wakeup" | "wakeup_new" => waking(format).map(|(comm, pid)| Tracepoint::Wakeup { comm, pid }),
                _ => None,
            };
            known.extend(tracepoint.map(|tracepoint| (number, tracepoint)));
        }
        Tracepoints { known }
    }

    /// The tracepoint with a number.
    pub fn get(&self, number: u64) -> Option<Tracepoint> {
        self.known.iter().find(|(known, _)| *known == number).map(|(_, tracepoint)| *tracepoint)
    }
}

fn switch(format: &str) -> Option<Tracepoint> {
    Some(Tracepoint::Switch {
        prev_comm: field(format, "prev_comm")?,
        prev_pid: field(format, "prev_pid")?,
        prev_state: field(format, "prev_state")?,
        next_comm: field(format, "next_comm")?,
        next_pid: field(format, "next_pid")?,
    })
}

fn waking(format: &str) -> Option<(Field, Field)> {
    Some((field(format, "comm")?, field(format, "pid")?))
}

/// Parses a line such as `field:pid_t prev_pid; offset:24; size:4; signed:1;`.
fn field(format: &str, name: &str) -> Option<Field> {
    let line = format.lines().find(|line| {
        let declared = line.split(';').next().unwrap_or_default();
        let last = declared.rsplit([' ', '\t']).next().unwrap_or_default();
        last.split('[').next() == Some(name)
    })?;
    let number = |key: &str| {
        let part = line.split(';').map(str::trim).find_map(|part| part.strip_prefix(key))?;
        part.parse().ok()
    };
    Some(Field { offset: number("offset:")?, length: number("size:")? })
}
