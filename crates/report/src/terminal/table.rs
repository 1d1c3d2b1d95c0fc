//! Tables: columns of fixed kinds, the widest text column giving way so that lines fit.

use crate::text::{Style, Tint, cut, left, right, width};

/// A column's heading and side.
#[derive(Clone, Copy)]
pub(crate) enum Column<'a> {
    /// Text. The first such column is shortened if space is short.
    Text(&'a str),
    /// A figure, to the right.
    Figure(&'a str),
}

/// Between columns.
const GAP: usize = 2;
/// Before the first.
const INDENT: usize = 2;
/// A column of text is not made narrower.
const TEXT_MIN: usize = 8;

/// Heading and rows as lines. Rows must be free of control characters. A row of one cell alone heads those below it, and has
/// the whole line.
pub(crate) fn lines(columns: &[Column], rows: &[Vec<String>], style: &Style) -> Vec<String> {
    lines_within(columns, rows, style, if style.whole { usize::MAX } else { style.columns() })
}

/// The same, in lines of another length.
pub(crate) fn lines_within(
    columns: &[Column],
    rows: &[Vec<String>],
    style: &Style,
    columns_max: usize,
) -> Vec<String> {
    let heading = |column: &Column| match column {
        Column::Text(name) | Column::Figure(name) => (*name).to_owned(),
    };
    let headings: Vec<String> = columns.iter().map(heading).collect();
    let mut widths: Vec<usize> = headings.iter().map(|name| width(name)).collect();
    // In a table of one column each row has one cell, and none heads the others.
    for row in rows.iter().filter(|row| columns.len() == 1 || !is_heading(row)) {
        for (place, cell) in widths.iter_mut().zip(row) {
            *place = (*place).max(width(cell));
        }
    }
    give_way(columns, &mut widths, columns_max);
    let mut lines = vec![style.paint(Tint::Faint, &line(columns, &headings, &widths, columns_max))];
    lines.extend(rows.iter().map(|row| line(columns, row, &widths, columns_max)));
    lines
}

/// The minimum width of the lines in columns, with text cut as far as possible.
pub(crate) fn narrowest(columns: &[Column], rows: &[Vec<String>]) -> usize {
    let of = |(index, column): (usize, &Column)| {
        let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| width(cell)).max().unwrap_or(0);
        match column {
            Column::Text(name) => cells.max(width(name)).min(TEXT_MIN),
            Column::Figure(name) => cells.max(width(name)),
        }
    };
    INDENT + columns.iter().enumerate().map(of).map(|width| width + GAP).sum::<usize>()
}

fn give_way(columns: &[Column], widths: &mut [usize], columns_max: usize) {
    let total = |widths: &[usize]| INDENT + widths.iter().map(|width| width + GAP).sum::<usize>() - GAP;
    while total(widths) > columns_max {
        let text = |index: &usize| matches!(columns[*index], Column::Text(_));
        let widest = (0..columns.len()).filter(text).max_by_key(|index| widths[*index]);
        match widest {
            Some(index) if widths[index] > TEXT_MIN => widths[index] -= 1,
            _ => return,
        }
    }
}

/// A heading of the rows below it.
pub(crate) fn is_heading(row: &[String]) -> bool {
    row.len() == 1
}

fn line(columns: &[Column], cells: &[String], widths: &[usize], columns_max: usize) -> String {
    if let [heading] = cells
        && columns.len() > 1
    {
        return cut(&format!("{:INDENT$}{heading}", ""), columns_max);
    }
    let mut parts = Vec::new();
    for ((column, cell), width) in columns.iter().zip(cells).zip(widths) {
        parts.push(match column {
            Column::Text(_) => left(cell, *width),
            Column::Figure(_) => right(cell, *width),
        });
    }
    let text = format!("{:INDENT$}{}", "", parts.join("  "));
    cut(text.trim_end(), columns_max)
}
