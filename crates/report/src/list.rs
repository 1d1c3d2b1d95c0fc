//! The list of recordings, as text and JSON. Looks for none itself: the rows are the caller's.

use std::path::Path;

use serde_json::{Value, json};

use crate::numbers::{bytes, duration};
use crate::text::{Style, Tint, clean, left, right, width};

/// One recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Where it is.
    pub path: String,
    /// The recorded command, as one line.
    pub command: String,
    /// When it began: Unix time in ns.
    pub started_unix_ns: u64,
    /// How long it is (ns).
    pub wall_ns: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// Minimum length to which a command is cut.
const COMMAND_MIN: usize = 20;

/// One line each, in the given order. Times are UTC. Names are never cut, because other commands take them as
/// arguments. A common folder of all recordings is printed once.
pub fn render(rows: &[Row], style: &Style) -> String {
    if rows.is_empty() {
        return style.finish(&["No recordings here. `holdup run -- COMMAND` makes one.".to_owned()]);
    }
    let folder = folder(rows);
    let name = |row: &Row| {
        let path = Path::new(&row.path);
        let name = folder.and_then(|folder| path.strip_prefix(folder).ok()).unwrap_or(path);
        clean(&name.to_string_lossy())
    };
    let name_width = rows.iter().map(|row| width(&name(row))).max().unwrap_or(0).max(9);
    let mut lines = Vec::new();
    if let Some(folder) = folder {
        lines.extend([format!("In {}:", clean(&folder.to_string_lossy())), String::new()]);
    }
    let heading = line(["recording", "started (UTC)", "wall", "size", "command"], name_width, style);
    lines.push(style.paint(Tint::Faint, &heading));
    for row in rows {
        lines.push(line(
            [
                &name(row),
                &utc(row.started_unix_ns),
                &duration(row.wall_ns),
                &bytes(row.bytes),
                &clean(&row.command),
            ],
            name_width,
            style,
        ));
    }
    style.finish(&lines)
}

/// The one that all are in, unless they are named without any.
fn folder(rows: &[Row]) -> Option<&Path> {
    let mut folders = rows.iter().map(|row| Path::new(&row.path).parent());
    let first = folders.next()??;
    (!first.as_os_str().is_empty() && folders.all(|folder| folder == Some(first))).then_some(first)
}

fn line([path, started, wall, size, command]: [&str; 5], name_width: usize, style: &Style) -> String {
    let fixed = format!(
        "{}  {}  {}  {}  ",
        left(path, name_width),
        left(started, 16),
        right(wall, 7),
        right(size, 8)
    );
    let room = style.columns().saturating_sub(width(&fixed)).max(COMMAND_MIN);
    format!("{fixed}{}", style.fit(command, room))
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

    #[test]
    fn names_are_complete_and_their_folder_is_printed_once() {
        let long = "a-program-with-quite-a-long-name-20261121-043000.holdup";
        let row = |path: String| Row { path, command: "word ".repeat(40), ..Row::default() };
        let rows = ["b.holdup", long].map(|name| row(format!("/state/of/a/user/holdup/{name}")));
        let text = render(&rows, &Style::default());
        assert!(text.starts_with("In /state/of/a/user/holdup:\n\n"), "{text}");
        assert_eq!(text.matches("/state").count(), 1, "{text}");
        assert!(text.contains(&format!("\n{long}  ")), "{text}");
        let rows = ["/one/a.holdup", "/two/b.holdup"].map(|path| row(path.to_owned()));
        let text = render(&rows, &Style::default());
        assert!(text.contains("\n/one/a.holdup  ") && text.contains("\n/two/b.holdup  "), "{text}");
    }
}
