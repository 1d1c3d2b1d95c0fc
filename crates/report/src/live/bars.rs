//! Bars with several classes in a row.

use holdup_findings::derive::class::Class;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

/// Capabilities of the terminal for bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Palette {
    pub colour: bool,
    pub unicode: bool,
}

/// A part of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Time of the program's threads.
    Class(Class),
    /// Other programs ran.
    Others,
    /// Idle CPU time.
    Idle,
}

impl Part {
    /// The letter without colour, and in the legend.
    fn letter(self) -> char {
        match self {
            Part::Others => 'o',
            Part::Idle => ' ',
            Part::Class(class) => match class {
                Class::Useful => 'u',
                Class::Kernel => 'k',
                Class::GcWork => 'g',
                Class::Spin => 's',
                Class::LockWait => 'L',
                Class::GcWait => 'G',
                Class::JoinWait => 'J',
                Class::WorkWait => '.',
                Class::IoWait => 'I',
                Class::NetWait => 'N',
                Class::PipeWait => 'P',
                Class::Sleep => 'z',
                Class::ChildWait => 'C',
                Class::FaultWait => 'F',
                Class::KernelWait => 'K',
                Class::Stopped => 'T',
                Class::RunQueue => 'Q',
                Class::Stolen => 'S',
                Class::Unknown => '?',
            },
        }
    }

    fn colour(self) -> Color {
        match self {
            Part::Others => Color::Blue,
            Part::Idle => Color::Reset,
            Part::Class(class) => match class {
                Class::Useful => Color::Green,
                Class::Kernel => Color::Cyan,
                Class::GcWork | Class::GcWait => Color::Magenta,
                Class::LockWait | Class::Spin => Color::Red,
                Class::RunQueue => Color::Yellow,
                Class::Stolen => Color::LightRed,
                Class::IoWait | Class::NetWait | Class::PipeWait | Class::FaultWait => Color::LightBlue,
                _ => Color::DarkGray,
            },
        }
    }

    fn name(self) -> &'static str {
        match self {
            Part::Class(class) => class.name(),
            Part::Others => "others",
            Part::Idle => "idle",
        }
    }

    /// Waiting for work or for a timer is no loss, so its bar is faint.
    fn is_quiet(self) -> bool {
        matches!(self, Part::Idle | Part::Class(Class::WorkWait | Class::Sleep))
    }
}

impl Palette {
    pub(super) fn style(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    fn cell(self, part: Part) -> char {
        match part {
            Part::Idle => ' ',
            // There are fewer colours than classes, so rarer classes keep their letter.
            part if !self.colour || matches!(part.colour(), Color::DarkGray | Color::LightBlue) => {
                part.letter()
            }
            _ if self.unicode => '█',
            _ => '#',
        }
    }

    /// `parts` of `whole` in `columns`.
    pub(super) fn bar(self, parts: &[(Part, u64)], whole: u64, columns: usize) -> Vec<Span<'static>> {
        let mut spans: Vec<Span<'static>> = Vec::new();
        let (mut sum, mut used) = (0u128, 0);
        for (part, ns) in parts {
            sum += u128::from(*ns);
            let until = ((sum * columns as u128 + u128::from(whole) / 2) / u128::from(whole.max(1))) as usize;
            let until = until.min(columns);
            if until > used {
                let text = self.cell(*part).to_string().repeat(until - used);
                spans.push(Span::styled(text, self.style(part.colour())));
                used = until;
            }
        }
        spans.push(Span::raw(" ".repeat(columns - used)));
        spans
    }

    /// Legend of the parts' signs.
    pub(super) fn legend(self, parts: &[Part]) -> Line<'static> {
        let mut spans = Vec::new();
        for part in parts.iter().filter(|part| **part != Part::Idle) {
            spans.push(Span::styled(self.cell(*part).to_string(), self.style(part.colour())));
            spans.push(Span::raw(format!(" {}  ", part.name())));
        }
        Line::from(spans)
    }
}

/// The classes in `ns` with a time, in the order of reports, quiet classes last.
pub(super) fn parts(ns: &[u64]) -> Vec<(Part, u64)> {
    let all = Class::ALL.map(|class| (Part::Class(class), ns[class as usize]));
    let mut parts: Vec<(Part, u64)> = all.into_iter().filter(|(_, ns)| *ns > 0).collect();
    parts.sort_by_key(|(part, _)| part.is_quiet());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Palette = Palette { colour: false, unicode: true };

    fn text(parts: &[(Part, u64)], whole: u64, columns: usize) -> String {
        PLAIN.bar(parts, whole, columns).iter().map(|span| span.content.to_string()).collect()
    }

    #[test]
    fn a_bar_is_as_wide_as_asked_whatever_it_holds() {
        let (useful, lock) = (Part::Class(Class::Useful), Part::Class(Class::LockWait));
        assert_eq!(text(&[(useful, 50), (lock, 25)], 100, 8), "uuuuLL  ");
        assert_eq!(text(&[(useful, 1), (lock, 1), (Part::Others, 1)], 3, 3), "uLo");
        assert_eq!(text(&[(useful, 300)], 100, 4), "uuuu", "more than the whole is cut");
        assert_eq!(text(&[(useful, 3)], 0, 2), "uu");
        assert_eq!(text(&[], 100, 3), "   ");
        assert_eq!(text(&[(useful, u64::MAX)], u64::MAX, 3), "uuu");
    }

    #[test]
    fn every_class_has_a_letter_of_its_own() {
        let mut letters: Vec<char> = Class::ALL.iter().map(|class| Part::Class(*class).letter()).collect();
        letters.push(Part::Others.letter());
        let count = letters.len();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), count);
    }
}
