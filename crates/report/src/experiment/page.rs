//! A page of paragraphs and tables, written once for a terminal and for Markdown.

use crate::terminal::table::{self, Column};
use crate::text::{Style, Tint, clean, wrap};

/// The parts of a page, from top to bottom.
#[derive(Default)]
pub(super) struct Page {
    parts: Vec<Part>,
}

enum Part {
    /// The answer, in a colour.
    Verdict(String, Tint),
    Text(String),
    Faint(String),
    Heading(String),
    Table(Vec<Column<'static>>, Vec<Vec<String>>),
    Gap,
    /// Lines as they are: a plot.
    Picture(Vec<String>),
}

impl Page {
    /// The answer.
    pub fn verdict(&mut self, tint: Tint, text: impl Into<String>) {
        self.parts.push(Part::Verdict(clean(&text.into()), tint));
    }

    /// A paragraph.
    pub fn text(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Text(clean(&text.into())));
    }

    /// Adds a secondary remark.
    pub fn faint(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Faint(clean(&text.into())));
    }

    /// Adds the heading of the next part.
    pub fn heading(&mut self, text: &str) {
        self.parts.push(Part::Heading(text.to_owned()));
    }

    /// Adds a table with headings. Adds nothing without rows.
    pub fn table(&mut self, columns: &[Column<'static>], rows: Vec<Vec<String>>) {
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
        if !rows.is_empty() {
            self.parts.push(Part::Table(columns.to_vec(), rows));
        }
    }

    /// Room.
    pub fn gap(&mut self) {
        self.parts.push(Part::Gap);
    }

    /// Lines as they are.
    pub fn picture(&mut self, lines: Vec<String>) {
        self.parts.push(Part::Picture(lines));
    }

    pub fn for_terminal(&self, style: &Style) -> String {
        let mut lines: Vec<String> = Vec::new();
        for part in &self.parts {
            match part {
                Part::Verdict(text, tint) => {
                    lines.push(String::new());
                    lines.extend(wrap(text, style.columns(), 2).iter().map(|line| style.paint(*tint, line)));
                }
                Part::Text(text) => lines.extend(wrap(text, style.columns(), 2)),
                Part::Faint(text) => {
                    lines.extend(
                        wrap(text, style.columns(), 2).iter().map(|line| style.paint(Tint::Faint, line)),
                    );
                }
                Part::Heading(text) => lines.extend([String::new(), style.paint(Tint::Heading, text)]),
                Part::Table(columns, rows) => lines.extend(table::lines(columns, rows, style)),
                Part::Gap => lines.push(String::new()),
                Part::Picture(picture) => lines.extend(picture.iter().cloned()),
            }
        }
        style.finish(&lines)
    }

    pub fn for_markdown(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Verdict(text, _) => out.push_str(&format!("**{}**\n\n", escape(text))),
                Part::Text(text) => out.push_str(&format!("{}\n\n", escape(text))),
                Part::Faint(text) => out.push_str(&format!("<sub>{}</sub>\n\n", escape(text))),
                Part::Heading(text) => out.push_str(&format!("#### {}\n\n", sentence(text))),
                Part::Table(columns, rows) => out.push_str(&markdown_table(columns, rows)),
                Part::Gap => {}
                Part::Picture(lines) => out.push_str(&format!("```\n{}\n```\n\n", lines.join("\n"))),
            }
        }
        out
    }
}

fn markdown_table(columns: &[Column], rows: &[Vec<String>]) -> String {
    let heading = |column: &Column| match column {
        Column::Text(name) | Column::Figure(name) => (*name).to_owned(),
    };
    let side = |column: &Column| match column {
        Column::Text(_) => "---".to_owned(),
        Column::Figure(_) => "---:".to_owned(),
    };
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(columns.iter().map(heading).collect());
    out.push_str(&line(columns.iter().map(side).collect()));
    for row in rows {
        let cells = row.iter().map(|cell| escape(cell));
        // As many cells in each row, or it is no table.
        let empty = columns.len().saturating_sub(row.len());
        let cells = cells.map(|cell| if table::is_heading(row) { format!("**{cell}**") } else { cell });
        out.push_str(&line(cells.chain(vec![String::new(); empty]).collect()));
    }
    out.push('\n');
    out
}

/// Escapes Markdown's special characters.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '\\' | '#' | '@') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// `WHERE THE TIME WENT` as a heading of a page.
fn sentence(text: &str) -> String {
    let lower = text.to_lowercase();
    let mut letters = lower.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
