//! The long tables: row groups of bounded size, each sorted by thread, then time.

use std::path::Path;

use crate::recording::RecordingError;
use crate::recording::parquet::{TableWriter, Values, schema};
use crate::tables::{CounterRow, Deadline, MarkRow, SampleRow, SliceRow, SpanRow, Steal, Wakeup};

/// Rows of a group: at most about 50 MB in memory.
const GROUP_ROWS: usize = 1 << 18;

/// A row of a long table.
pub trait Row: Copy {
    /// The table's name.
    const TABLE: &'static str;
    /// Sorted by this within a group, stably.
    fn key(&self) -> (u32, u64);
    /// The columns of the table, in the schema's order.
    fn columns(rows: &[Self]) -> Vec<Values>;
}

/// Collects rows and writes them group by group.
pub struct RowTable<R> {
    writer: TableWriter,
    rows: Vec<R>,
}

impl<R: Row> RowTable<R> {
    pub fn create(dir: &Path) -> Result<RowTable<R>, RecordingError> {
        Ok(RowTable { writer: TableWriter::create(dir, schema(R::TABLE))?, rows: Vec::new() })
    }

    pub fn push(&mut self, row: R) -> Result<(), RecordingError> {
        self.rows.push(row);
        if self.rows.len() >= GROUP_ROWS { self.group() } else { Ok(()) }
    }

    fn group(&mut self) -> Result<(), RecordingError> {
        self.rows.sort_by_key(Row::key);
        let written = self.writer.group(R::columns(&self.rows));
        // Also where there was no room: else the whole group would be sorted and tried again with each row that comes.
        self.rows.clear();
        written
    }

    pub fn finish(mut self) -> Result<(), RecordingError> {
        if !self.rows.is_empty() {
            self.group()?;
        }
        self.writer.finish()
    }
}

/// A 32-bit column.
pub fn narrow<R>(rows: &[R], field: impl Fn(&R) -> u32) -> Values {
    Values::Narrow(rows.iter().map(|row| field(row) as i32).collect())
}

/// A 64-bit column.
pub fn wide<R>(rows: &[R], field: impl Fn(&R) -> u64) -> Values {
    Values::Wide(rows.iter().map(|row| field(row) as i64).collect())
}

impl Row for SliceRow {
    const TABLE: &'static str = "slices";

    fn key(&self) -> (u32, u64) {
        (self.thread.0, self.start.0)
    }

    fn columns(rows: &[SliceRow]) -> Vec<Values> {
        vec![
            narrow(rows, |row| row.thread.0),
            wide(rows, |row| row.start.0),
            narrow(rows, |row| row.state as u32),
            narrow(rows, |row| u32::from(row.cpu.0)),
            narrow(rows, |row| row.wait.0),
            narrow(rows, |row| row.stack.0),
            narrow(rows, |row| u32::from(row.stack_every)),
        ]
    }
}

impl Row for Wakeup {
    const TABLE: &'static str = "wakeups";

    fn key(&self) -> (u32, u64) {
        (self.wakee.0, self.at.0)
    }

    fn columns(rows: &[Wakeup]) -> Vec<Values> {
        vec![
            narrow(rows, |row| row.wakee.0),
            wide(rows, |row| row.at.0),
            narrow(rows, |row| row.waker.0),
            narrow(rows, |row| u32::from(row.cpu.0)),
            narrow(rows, |row| row.context as u32),
            narrow(rows, |row| row.stack.0),
            narrow(rows, |row| u32::from(row.stack_every)),
            wide(rows, |row| row.waker_object),
        ]
    }
}

impl Row for SampleRow {
    const TABLE: &'static str = "samples";

    fn key(&self) -> (u32, u64) {
        (self.thread.0, self.at.0)
    }

    fn columns(rows: &[SampleRow]) -> Vec<Values> {
        vec![
            narrow(rows, |row| row.thread.0),
            wide(rows, |row| row.at.0),
            narrow(rows, |row| u32::from(row.cpu.0)),
            narrow(rows, |row| u32::from(row.in_kernel)),
            narrow(rows, |row| row.syscall as u32),
            narrow(rows, |row| row.stack.0),
            wide(rows, |row| row.data.address),
            narrow(rows, |row| row.data.kind as u32),
            narrow(rows, |row| u32::from(row.data.bytes)),
            narrow(rows, |row| u32::from(row.counter.register)),
            wide(rows, |row| row.counter.value),
        ]
    }
}

impl Row for Steal {
    const TABLE: &'static str = "steals";

    fn key(&self) -> (u32, u64) {
        (self.thread.0, self.slice_start.0)
    }

    fn columns(rows: &[Steal]) -> Vec<Values> {
        vec![
            narrow(rows, |row| row.thread.0),
            wide(rows, |row| row.slice_start.0),
            wide(rows, |row| row.stolen.0),
        ]
    }
}

impl Row for Deadline {
    const TABLE: &'static str = "deadlines";

    fn key(&self) -> (u32, u64) {
        (self.thread.0, self.slice_start.0)
    }

    fn columns(rows: &[Deadline]) -> Vec<Values> {
        vec![
            narrow(rows, |row| row.thread.0),
            wide(rows, |row| row.slice_start.0),
            wide(rows, |row| row.due.0),
        ]
    }
}

impl Row for SpanRow {
    const TABLE: &'static str = "spans";

    fn key(&self) -> (u32, u64) {
        (self.thread.0, self.start.0)
    }

    fn columns(rows: &[SpanRow]) -> Vec<Values> {
        vec![
            narrow(rows, |row| row.thread.0),
            wide(rows, |row| row.start.0),
            wide(rows, |row| row.end.0),
            narrow(rows, |row| row.lane),
            narrow(rows, |row| row.name),
        ]
    }
}

impl Row for CounterRow {
    const TABLE: &'static str = "counters";

    fn key(&self) -> (u32, u64) {
        (self.thread.0, self.at.0)
    }

    fn columns(rows: &[CounterRow]) -> Vec<Values> {
        vec![
            narrow(rows, |row| row.thread.0),
            wide(rows, |row| row.at.0),
            narrow(rows, |row| row.lane),
            narrow(rows, |row| row.name),
            wide(rows, |row| row.value),
        ]
    }
}

impl Row for MarkRow {
    const TABLE: &'static str = "marks";

    fn key(&self) -> (u32, u64) {
        (self.thread.0, self.at.0)
    }

    fn columns(rows: &[MarkRow]) -> Vec<Values> {
        vec![
            narrow(rows, |row| row.thread.0),
            wide(rows, |row| row.at.0),
            narrow(rows, |row| row.lane),
            narrow(rows, |row| row.name),
            wide(rows, |row| row.value),
            narrow(rows, |row| row.text),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_finds_no_room_is_not_tried_again_with_each_row() {
        let dir = std::env::temp_dir().join(format!("holdup-rows-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::os::unix::fs::symlink("/dev/full", dir.join("slices.parquet")).unwrap();
        let mut table = RowTable::<SliceRow>::create(&dir).unwrap();
        let pushed = (0..=GROUP_ROWS).filter(|_| table.push(SliceRow::default()).is_err()).count();
        let finished = table.finish();
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(pushed <= 1, "{pushed} rows failed");
        assert!(pushed == 1 || finished.is_err());
    }
}
