//! The screen of `holdup top`: its content, keys and layout. It draws into a buffer, without access to the
//! terminal or the clock.

mod layout;
#[cfg(test)]
mod tests;

use ratatui::Frame;

use super::Moment;
use super::bars::Palette;
use super::order::{self, Order};

/// A key, as far as it may mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// Many rows up.
    PageUp,
    /// Many rows down.
    PageDown,
    /// Done.
    Enter,
    /// Not so.
    Escape,
    /// The last character goes.
    Backspace,
}

/// A key's request to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// To end.
    Quit,
    /// Save the kept events as a recording.
    Save,
}

/// Rows of a page, whatever the size of the terminal.
const PAGE: usize = 10;
/// A filter is no longer.
const FILTER_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Screen {
    /// Description of the subject.
    title: String,
    palette: Palette,
    moment: Option<Moment>,
    /// The next ones are not shown.
    is_frozen: bool,
    order: Order,
    filter: String,
    /// Characters go to the filter.
    is_typing: bool,
    /// The selected thread.
    selected: Option<u32>,
    /// More is shown of it.
    shows_thread: bool,
    shows_help: bool,
    /// The last message, shown with the figures.
    said: String,
}

impl Screen {
    /// A screen with this title.
    pub fn new(title: String, colour: bool, unicode: bool) -> Screen {
        Screen {
            title,
            palette: Palette { colour, unicode },
            moment: None,
            is_frozen: false,
            order: Order::default(),
            filter: String::new(),
            is_typing: false,
            selected: None,
            shows_thread: false,
            shows_help: false,
            said: String::new(),
        }
    }

    /// Shows a stretch, unless the screen is frozen.
    pub fn show(&mut self, moment: Moment) {
        if !self.is_frozen {
            self.moment = Some(moment);
        }
    }

    /// Shows a line of words at the bottom.
    pub fn show_message(&mut self, text: &str) {
        self.said = crate::text::clean(text);
    }

    /// Takes a key.
    pub fn key(&mut self, key: Key) -> Option<Ask> {
        if self.is_typing {
            self.type_filter(key);
            return None;
        }
        match key {
            Key::Char('q') => return Some(Ask::Quit),
            Key::Char('w') => return Some(Ask::Save),
            Key::Char('s') => self.order = self.order.next(),
            Key::Char('/') => self.is_typing = true,
            Key::Char('f' | ' ') => self.is_frozen = !self.is_frozen,
            Key::Char('?' | 'h') => self.shows_help = !self.shows_help,
            Key::Enter => self.shows_thread = !self.shows_thread && self.selected.is_some(),
            Key::Escape if self.shows_help => self.shows_help = false,
            Key::Escape if self.shows_thread => self.shows_thread = false,
            Key::Escape if self.selected.is_some() => self.selected = None,
            Key::Escape => self.filter.clear(),
            Key::Up | Key::Char('k') => self.move_by(-1),
            Key::Down | Key::Char('j') => self.move_by(1),
            Key::PageUp => self.move_by(-(PAGE as isize)),
            Key::PageDown => self.move_by(PAGE as isize),
            Key::Char(_) | Key::Backspace => {}
        }
        None
    }

    /// Draws it all.
    pub fn draw(&self, frame: &mut Frame) {
        layout::draw(self, frame);
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Char(c) if self.filter.chars().count() < FILTER_MAX && !c.is_control() => {
                self.filter.push(c)
            }
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.is_typing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    /// Selects another thread, in the order in which they are shown.
    fn move_by(&mut self, rows: isize) {
        let Some(moment) = &self.moment else { return };
        let threads = order::threads(&moment.glance, self.order, &self.filter);
        let Some(last) = threads.len().checked_sub(1) else { return };
        let here = self.place(&threads);
        let next = match here {
            Some(here) => here.saturating_add_signed(rows).min(last),
            None if rows > 0 => 0,
            None => last,
        };
        self.selected = Some(threads[next].tid);
    }

    /// The row of the selected thread, if it is among those that are shown.
    fn place(&self, threads: &[&holdup_findings::glance::ThreadGlance]) -> Option<usize> {
        let selected = self.selected?;
        threads.iter().position(|thread| thread.tid == selected)
    }
}
