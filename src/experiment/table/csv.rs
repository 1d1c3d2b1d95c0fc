//! Comma-separated values.

use super::{Column, Values};

/// The heading, and a line a row.
pub(super) fn text(columns: &[Column]) -> String {
    let heading = columns.iter().map(|(name, _)| quoted(name));
    let mut out = heading.collect::<Vec<_>>().join(",") + "\n";
    let rows = columns.first().map_or(0, |(_, values)| length(values));
    for row in 0..rows {
        let cells = columns.iter().map(|(_, values)| cell(values, row));
        out.push_str(&(cells.collect::<Vec<_>>().join(",") + "\n"));
    }
    out
}

fn length(values: &Values) -> usize {
    match values {
        Values::Whole(values) => values.len(),
        Values::Real(values) => values.len(),
        Values::Text(values) => values.len(),
    }
}

fn cell(values: &Values, row: usize) -> String {
    match values {
        Values::Whole(values) => values[row].map_or(String::new(), |value| value.to_string()),
        Values::Real(values) => values[row].map_or(String::new(), |value| value.to_string()),
        Values::Text(values) => quoted(&values[row]),
    }
}

/// As RFC 4180 wants it.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn rows_have_as_many_cells_as_the_heading() {
        let text = super::text(&super::super::columns(&super::super::example()));
        let mut lines = text.lines();
        let columns = lines.next().unwrap().split(',').count();
        let row = lines.next().unwrap();
        assert!(row.starts_with("\"cpus=0,1\",0,0,0,,,\"said \"\"no\"\"\","));
        assert_eq!(row.replace("0,1", "01").split(',').count(), columns);
        assert!(lines.next().unwrap().starts_with("\"cpus=0,1\",0,1,12,2.5,"));
    }
}
