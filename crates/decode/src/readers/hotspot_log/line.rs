//! One line: its decorations in brackets, and its text.

/// Levels of unified logging.
const LEVELS: [&str; 5] = ["error", "warning", "info", "debug", "trace"];

/// A line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// When it was written (ns), by the finest clock that the line has.
    pub at: u64,
    /// Thread id of the writer, if the line has it.
    pub tid: u32,
    /// The line has a level (`info`), the default in the VM's log.
    pub has_level: bool,
    pub text: &'a str,
}

impl Line<'_> {
    /// Parses `[decoration][decoration]… text`. `None` without a time.
    pub fn parse(line: &str) -> Option<Line<'_>> {
        let mut rest = line;
        let (mut best, mut tid, mut has_level): (Option<(u8, u64)>, u32, bool) = (None, 0, false);
        while let Some((inside, behind)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            rest = behind;
            let inside = inside.trim();
            has_level |= LEVELS.contains(&inside);
            if let Some(time) = time(inside) {
                // If two times have the same kind, the first counts: time of day and uptime.
                best = Some(best.map_or(time, |best| if time.0 < best.0 { time } else { best }));
            } else if let Ok(number) = inside.parse::<u32>() {
                // With process and thread, the thread comes last.
                tid = number;
            }
        }
        Some(Line { at: best?.1, tid, has_level, text: rest.strip_prefix(' ').unwrap_or(rest).trim_end() })
    }
}

/// A time and how coarse its clock is: `123ns`, `123ms`, `1.234s`, `2026-11-21T12:00:00.123+0000`.
fn time(text: &str) -> Option<(u8, u64)> {
    if let Some(ns) = text.strip_suffix("ns") {
        return Some((0, ns.parse().ok()?));
    }
    if let Some(ms) = text.strip_suffix("ms") {
        return Some((2, ms.parse::<u64>().ok()?.checked_mul(1_000_000)?));
    }
    if let Some(seconds) = text.strip_suffix('s') {
        return Some((1, nanoseconds(decimal(seconds)?, 1e9)?));
    }
    Some((3, time_of_day(text)?))
}

/// A number as the VM's locale writes it: with a point, a comma or the Arabic separator.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let is_number = text.starts_with(|first: char| first.is_ascii_digit());
    text.replacen([',', '٫'], ".", 1).parse().ok().filter(|_| is_number)
}

/// A length of time with its unit: `139.931ms`, `0.031s`, `0.5 seconds`.
pub(super) fn length(text: &str) -> Option<u64> {
    let units = [(" seconds", 1e9), ("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (number, unit_ns) = units.iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, *ns)))?;
    nanoseconds(decimal(number.trim_end())?, unit_ns)
}

/// A number of units as nanoseconds.
pub(super) fn nanoseconds(number: f64, unit_ns: f64) -> Option<u64> {
    let ns = (number * unit_ns).round();
    (0.0..1e18).contains(&ns).then_some(ns as u64)
}

/// The time of day of an ISO 8601 time, of whose date only the day counts: a log is not months long.
fn time_of_day(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T')?;
    let day: u64 = date.rsplit('-').next()?.parse().ok()?;
    let mut parts = time.get(..12)?.splitn(3, ':');
    let hours: u64 = parts.next()?.parse().ok()?;
    let minutes: u64 = parts.next()?.parse().ok()?;
    let seconds = decimal(parts.next()?)?;
    let whole = day.min(31) * 86_400 + hours.min(24) * 3_600 + minutes.min(60) * 60;
    Some(whole * 1_000_000_000 + nanoseconds(seconds, 1e9)?)
}
