//! Interned names.

use std::collections::HashMap;
use std::sync::Arc;

use crate::imported::{NAME_MAX, cut};

/// More distinct names than this are not kept: the rest share an empty one.
const WORDS_MAX: usize = 1 << 20;

/// Index of a name. 0 is the empty name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Word(pub u32);

/// Each name once.
#[derive(Default)]
pub(super) struct Words {
    list: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, Word>,
}

impl Words {
    /// The number of a name.
    pub fn intern(&mut self, text: &str) -> Word {
        let text = cut(text, NAME_MAX);
        if let Some(word) = self.ids.get(text) {
            return *word;
        }
        if self.list.is_empty() {
            self.list.push("".into());
        }
        if text.is_empty() || self.list.len() >= WORDS_MAX {
            return Word(0);
        }
        let word = Word(self.list.len() as u32);
        let text: Arc<str> = text.into();
        self.list.push(text.clone());
        self.ids.insert(text, word);
        word
    }

    /// All, by number.
    pub fn list(self) -> Vec<Arc<str>> {
        self.list
    }
}
