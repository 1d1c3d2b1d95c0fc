//! The list of recordings, as text and JSON. Looks for none itself: the rows are the caller's.

use serde_json::{Value, json};

use crate::numbers::{bytes, duration};
use crate::text::{Style, Tint, clean, cut, left, right, width};

/// One recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Where it is.
    pub path: String,
    /// What was recorded, as one line.
    pub command: String,
    /// When it began: Unix time in ns.
    pub started_unix_ns: u64,
    /// How long it is (ns).
    pub wall_ns: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// One line each, in the order given. Times are UTC.
pub fn render(rows: &[Row], style: &Style) -> String {
    if rows.is_empty() {
        return style.finish(&["No recordings here. `holdup run -- COMMAND` makes one.".to_owned()]);
    }
    let path_width = rows.iter().map(|row| width(&clean(&row.path))).max().unwrap_or(0).clamp(9, 30);
    let heading = line(["recording", "started (UTC)", "wall", "size", "command"], path_width, style);
    let mut lines = vec![style.paint(Tint::Faint, &heading)];
    for row in rows {
        lines.push(line(
            [
                &clean(&row.path),
                &utc(row.started_unix_ns),
                &duration(row.wall_ns),
                &bytes(row.bytes),
                &clean(&row.command),
            ],
            path_width,
            style,
        ));
    }
    style.finish(&lines)
}

fn line([path, started, wall, size, command]: [&str; 5], path_width: usize, style: &Style) -> String {
    let fixed = format!(
        "{}  {}  {}  {}  ",
        left(path, path_width),
        left(started, 16),
        right(wall, 7),
        right(size, 8)
    );
    let room = style.columns().saturating_sub(width(&fixed));
    format!("{fixed}{}", cut(command, room))
}

/// `2026-11-21 04:30`, by the proleptic Gregorian calendar.
fn utc(unix_ns: u64) -> String {
    let minutes = unix_ns / 60_000_000_000;
    let (days, minute) = (minutes / 1440, minutes % 1440);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minute / 60, minute % 60)
}

/// Year, month and day of a day since 1970-01-01.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

/// The same as JSON: an array.
pub fn to_json(rows: &[Row]) -> Value {
    let one = |row: &Row| {
        json!({
            "path": row.path,
            "command": row.command,
            "started_unix_ns": row.started_unix_ns,
            "wall_ns": row.wall_ns,
            "bytes": row.bytes,
        })
    };
    rows.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_the_calendars() {
        let said =
            [0, 951_782_400, 1_709_210_096, 1_795_235_400].map(|seconds: u64| utc(seconds * 1_000_000_000));
        assert_eq!(said, ["1970-01-01 00:00", "2000-02-29 00:00", "2024-02-29 12:34", "2026-11-21 04:30"]);
    }
}
