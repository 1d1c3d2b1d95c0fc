//! Text for a terminal: cleaning of foreign names, widths, wrapping, colour. Independent of the report's
//! content.

/// Properties of the output. The caller determines them from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// ANSI colours may be used.
    pub colour: bool,
    /// Number of columns, limited to [`NARROWEST`] to [`WIDEST`].
    pub width: usize,
    /// Names are never cut: the text goes into a file or a pipe, where another program reads them.
    pub whole: bool,
    /// The reader's font and locale have more than ASCII.
    pub unicode: bool,
    /// All findings in full, not only the first three.
    pub full: bool,
}

impl Default for Style {
    fn default() -> Style {
        Style { colour: false, width: 80, whole: false, unicode: true, full: false }
    }
}

/// Columns of a line at least: figures and a few letters of a name take as much.
pub const NARROWEST: usize = 40;
/// Columns of a text next to a name at least, however long the name is.
pub(crate) const TEXT_MIN: usize = 20;
/// Columns of a line at most: longer lines of prose are hard to read.
pub const WIDEST: usize = 120;

/// Colour of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tint {
    /// A heading.
    Heading,
    /// Most important.
    Strong,
    /// Secondary.
    Faint,
    /// Fine.
    Good,
    /// Worth a look.
    Warning,
    /// Wrong, or lost time.
    Bad,
    /// A bar, a command.
    Accent,
}

impl Style {
    /// Columns in use.
    pub fn columns(&self) -> usize {
        self.width.clamp(NARROWEST, WIDEST)
    }

    /// Columns left for a text after a mark of `behind` columns, at least [`TEXT_MIN`].
    pub(crate) fn columns_behind(&self, behind: usize) -> usize {
        self.columns().saturating_sub(behind).max(TEXT_MIN)
    }

    /// Cuts a text with names to `columns`. Not if names must be complete.
    pub(crate) fn fit(&self, text: &str, columns: usize) -> String {
        if self.whole { text.to_owned() } else { cut(text, columns) }
    }

    /// `text` in a colour, if colours may be used.
    pub(crate) fn paint(&self, tint: Tint, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match tint {
            Tint::Heading | Tint::Strong => "1",
            Tint::Faint => "2",
            Tint::Good => "32",
            Tint::Warning => "33",
            Tint::Bad => "31",
            Tint::Accent => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Joins lines to a text. Without Unicode, each other character becomes a similar ASCII character.
    pub(crate) fn finish(&self, lines: &[String]) -> String {
        let mut out = String::new();
        for line in lines {
            out.push_str(&line.trim_end().replace('\u{a0}', " "));
            out.push('\n');
        }
        if self.unicode { out } else { out.chars().map(ascii).collect() }
    }
}

fn ascii(c: char) -> char {
    match c {
        c if c.is_ascii() => c,
        'µ' => 'u',
        '±' => '~',
        '·' | '–' | '─' => '-',
        '…' => '~',
        '█' | '▉' | '▊' | '▋' | '▌' => '#',
        '▍' | '▎' | '▏' => '-',
        '⣿' => '#',
        '╭' | '╰' => '+',
        '│' | '⋮' => '|',
        '▶' => '>',
        '√' => '^',
        '×' => 'x',
        '≤' => '<',
        '✓' => '+',
        '✗' => 'x',
        _ => '?',
    }
}

/// A foreign name made harmless: control and formatting characters are shown, not obeyed.
pub fn clean(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() && (c as u32) < 0x100 => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if is_invisible(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// The same of a text of several lines, which stay lines.
pub fn clean_lines(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// Characters that change how others are shown: direction marks, joiners, separators, tags.
fn is_invisible(c: char) -> bool {
    matches!(c as u32,
        0xad | 0x61c | 0x115f..=0x1160 | 0x180b..=0x180f | 0x200b..=0x200f | 0x2028..=0x202e
        | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb
        | 0xe000..=0xf8ff | 0xe0000..=0xe0fff)
}

/// The time of day, UTC, of a moment of the calendar (ns since 1970).
pub fn clock(unix_ns: u64) -> String {
    let second = unix_ns / 1_000_000_000 % 86_400;
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Columns that a character takes.
fn char_width(c: char) -> usize {
    match c as u32 {
        0x300..=0x36f | 0x483..=0x489 | 0x591..=0x5bd | 0x610..=0x61a | 0x64b..=0x65f => 0,
        0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0xfe20..=0xfe2f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xa960..=0xa97f | 0xac00..=0xd7a3 | 0xf900..=0xfaff => 2,
        0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f000..=0x1faff | 0x20000..=0x3fffd => 2,
        0x231a..=0x231b | 0x23e9..=0x23ec | 0x2614..=0x2615 | 0x26a1 | 0x2705 | 0x274c | 0x2753..=0x2757 => 2,
        _ => 1,
    }
}

/// Columns that a text without escapes takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// At most `columns` of a text, the cut marked.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        if used + char_width(c) + 1 > columns {
            break;
        }
        used += char_width(c);
        out.push(c);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// Cut and filled to `columns`, text to the left.
pub(crate) fn left(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let gap = columns.saturating_sub(width(&text));
    format!("{text}{:gap$}", "")
}

/// Cut and filled to `columns`, text to the right.
pub(crate) fn right(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let gap = columns.saturating_sub(width(&text));
    format!("{:gap$}{text}", "")
}

/// As one word of a shell's command line.
pub fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+:,@%=".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Wraps words at `columns`. Each line except the first is indented by `indent` blanks. A word longer than a
/// line is broken. A no-break space joins words.
pub(crate) fn wrap(text: &str, columns: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut empty = true;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !empty && width(&line) + 1 + width(word) > columns {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        for c in word.chars() {
            if width(&line) + char_width(c) > columns && width(&line) > indent {
                lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            }
            line.push(c);
        }
        empty = false;
    }
    if !empty {
        lines.push(line);
    }
    lines
}

/// A bar in eighths of a column: `share` (0 to 1) of `columns`.
pub(crate) fn bar(share: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * columns as f64 * 8.0).round() as usize;
    // Any value above 0 is visible.
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_and_not_obeyed() {
        assert_eq!(clean("a\x1b[2J\u{9b}\u{202e}\tb\n"), "a\\x1b[2J\\x9b\\u{202e}\\tb\\n");
        assert_eq!(clean("λ 日本"), "λ 日本");
    }

    #[test]
    fn the_clock_is_of_the_day() {
        assert_eq!(
            [0, 86_399_999_999_999, 1_700_000_000_000_000_000].map(clock),
            ["00:00:00", "23:59:59", "22:13:20"]
        );
    }

    #[test]
    fn widths_are_columns_not_bytes() {
        assert_eq!((width("日本"), width("é"), width("e\u{301}")), (4, 1, 1));
        assert_eq!([cut("abcdef", 4), cut("日本日本", 4)], ["abc…", "日…"]);
        assert_eq!([left("ab", 4), right("ab", 4)], ["ab  ", "  ab"]);
    }

    #[test]
    fn lines_are_wrapped_and_long_words_broken() {
        assert_eq!(wrap("one two three", 7, 1), ["one two", " three"]);
        assert_eq!(wrap("abcdefgh", 4, 1), ["abcd", " efg", " h"]);
        assert!(wrap("", 10, 0).is_empty());
    }

    #[test]
    fn a_word_of_a_shell_is_one_whatever_is_in_it() {
        let words = ["a/b-1.holdup", "a b", "", "it's", "x#t=1&thread=2"].map(shell_word);
        assert_eq!(words, ["a/b-1.holdup", "'a b'", "''", "'it'\\''s'", "'x#t=1&thread=2'"]);
    }

    #[test]
    fn bars_show_what_is_there() {
        assert_eq!([bar(0.0, 8), bar(0.0001, 8), bar(0.5, 8), bar(2.0, 2)], ["", "▏", "████", "██"]);
    }

    #[test]
    fn without_unicode_all_is_ascii() {
        let style = Style { unicode: false, ..Style::default() };
        assert_eq!(style.finish(&["µ±█▏日".to_owned()]), "u~#-?\n");
    }
}
