//! Rows of any table, such as the answer to a query: figures to the right, times and bytes with their units.

use crate::numbers::{bytes, duration};
use crate::terminal::table::{Column, lines_within, narrowest};
use crate::text::{Style, clean};

/// A column: its name, and whether it holds numbers.
pub type Heading = (String, bool);

/// A table of rows. On a terminal, text is cut so that lines fit. If they cannot fit, or without a terminal,
/// nothing is cut.
pub fn render(headings: &[Heading], rows: &[Vec<String>], (style, terminal): (&Style, bool)) -> String {
    let names: Vec<String> = headings.iter().map(|(name, _)| clean(name)).collect();
    let mut columns = Vec::with_capacity(names.len());
    for ((_, number), name) in headings.iter().zip(&names) {
        columns.push(if *number { Column::Figure(name) } else { Column::Text(name) });
    }
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let fits = terminal && narrowest(&columns, &rows) <= style.columns();
    let columns_max = if fits { style.columns() } else { usize::MAX };
    style.finish(&lines_within(&columns, &rows, style, columns_max))
}

/// Moments, which are no lengths of time: their names in every table.
const MOMENTS: &[&str] =
    &["start_ns", "end_ns", "at_ns", "due_ns", "freed_ns", "slice_start_ns", "start_unix_ns"];

/// A whole number in readable form. Its column's name has the unit.
pub fn whole(name: &str, value: i64) -> String {
    let magnitude = value.unsigned_abs();
    let sign = if value < 0 { "-" } else { "" };
    match unit(name) {
        Unit::Time => format!("{sign}{}", duration(magnitude)),
        Unit::Bytes => format!("{sign}{}", bytes(magnitude)),
        Unit::None => value.to_string(),
    }
}

/// The same of a number with a fraction.
pub fn real(name: &str, value: f64) -> String {
    let magnitude = value.abs();
    let sign = if value < 0.0 { "-" } else { "" };
    match unit(name) {
        _ if !value.is_finite() => value.to_string(),
        Unit::Time => format!("{sign}{}", duration(magnitude.round() as u64)),
        Unit::Bytes => format!("{sign}{}", bytes(magnitude.round() as u64)),
        Unit::None if magnitude >= 1e15 || (magnitude > 0.0 && magnitude < 1e-4) => format!("{value:.3e}"),
        Unit::None => {
            let text = format!("{value:.6}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

enum Unit {
    Time,
    Bytes,
    None,
}

/// Functions of a column whose answer has its unit.
const KEEPING_THE_UNIT: [&str; 9] =
    ["sum", "min", "max", "avg", "median", "percentile", "first_value", "last_value", "approx_median"];

/// Characters in the name of an expression, but in no column's name.
const OPERATORS: [char; 13] = ['(', ')', '*', '/', '%', '<', '>', '=', '|', ',', '+', '&', '^'];

/// The unit that ends a column's name, also where it stands in such a function: `sum(slices.duration_ns)`. A count, a quotient or a
/// variance of times is no time.
fn unit(name: &str) -> Unit {
    let argument = name.split_once('(').and_then(|(function, rest)| {
        let first = rest.strip_suffix(')')?.split(',').next()?;
        KEEPING_THE_UNIT.contains(&function).then_some(first)
    });
    let column = argument.unwrap_or(name);
    if column.contains(OPERATORS) || column.contains(" - ") {
        return Unit::None;
    }
    let last = column.rsplit(['.', ' ']).next().unwrap_or(column);
    match last {
        moment if MOMENTS.iter().any(|one| moment == *one || moment.ends_with(&format!("_{one}"))) => {
            Unit::None
        }
        time if time.ends_with("_ns") => Unit::Time,
        size if size.ends_with("_bytes") || size == "bytes" => Unit::Bytes,
        _ => Unit::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_from_column_names() {
        assert_eq!(whole("duration_ns", 1_500_000), "1.50 ms");
        assert_eq!(whole("sum(slices.duration_ns)", -1_500_000), "-1.50 ms");
        assert_eq!(whole("start_ns", 1_500_000), "1500000", "a moment is no length of time");
        assert_eq!(whole("b_start_ns", 1_500_000), "1500000");
        assert_eq!(whole("bytes", 2048), "2.00 KiB");
        assert_eq!(whole("tid", 12_345), "12345");
        assert_eq!(real("avg(waits.duration_ns)", 999.7), "1.00 µs");
        assert_eq!(whole("percentile(waits.duration_ns,Int64(99))", 1_500_000), "1.50 ms");
        for no_time in [
            "count(waits.duration_ns)",
            "Float64(100) * threads.running_ns / threads.life_ns",
            "corr(a_ns,b_ns)",
        ] {
            assert_eq!(whole(no_time, 80), "80", "{no_time}");
        }
        assert_eq!([real("share", 0.25), real("share", 3.0), real("x", f64::NAN)], ["0.25", "3", "NaN"]);
    }

    #[test]
    fn one_column_alone_is_as_wide_as_what_stands_in_it() {
        let style = Style { colour: false, width: 80, ..Style::default() };
        let row = |text: &str| vec![text.to_owned()];
        let said = render(&[("tid".to_owned(), true)], &[row("12345"), row("7")], (&style, false));
        assert_eq!(said, "    tid\n  12345\n      7\n");
        let said = render(&[("n".to_owned(), false)], &[row("main;work")], (&style, true));
        assert_eq!(said, "  n\n  main;work\n");
    }

    #[test]
    fn output_that_is_no_terminal_is_not_truncated() {
        let headings = [("name".to_owned(), false), ("count".to_owned(), true)];
        let rows = [vec!["x".repeat(200), "7".to_owned()], vec!["a\nb".to_owned(), "12".to_owned()]];
        let style = Style { colour: false, width: 80, ..Style::default() };
        let wide = render(&headings, &rows, (&style, false));
        assert!(wide.contains(&"x".repeat(200)) && wide.contains("a\\nb"), "{wide}");
        let narrow = render(&headings, &rows, (&style, true));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    }
}
