//! Places in the source: file names and the functions of each are coded by how recently they were used.

use std::sync::Arc;

use crate::imported::{Bytes, TEXT_MAX, cut};

/// Size of the name cache. This number as an index means that a new name follows.
const REMEMBERED: usize = 31;

/// A line of the source. Places take six bytes in the file: they share their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub function: Arc<str>,
    pub file: Arc<str>,
    pub line: u32,
}

/// The last file names, the last used one first, each with the last names of functions in it.
#[derive(Default)]
pub(super) struct Locations {
    files: Vec<(Arc<str>, Vec<Arc<str>>)>,
}

impl Locations {
    /// Reads the next place: its code address, and its calls. Inlined calls come last.
    pub fn read(&mut self, bytes: &mut Bytes<'_>) -> Option<(u64, Vec<Location>)> {
        let code = bytes.u64()?;
        let count = bytes.u8()?;
        let locations = (0..count).map(|_| self.location(bytes)).collect::<Option<_>>()?;
        Some((code, locations))
    }

    fn location(&mut self, bytes: &mut Bytes<'_>) -> Option<Location> {
        let coded = u64::from(bytes.u32()?) | u64::from(bytes.u16()?) << 32;
        let field = |shift: u32, width: u32| (coded >> shift) & ((1 << width) - 1);
        let file = field(38, 5) as usize;
        if file == REMEMBERED {
            let name = name(bytes)?;
            // The first version's writer went on with the functions of the file that is forgotten here.
            let functions = match self.files.len() {
                REMEMBERED => self.files.pop().map(|(_, functions)| functions).unwrap_or_default(),
                _ => Vec::new(),
            };
            self.files.insert(0, (name, functions));
        } else {
            self.files.get_mut(..=file)?.rotate_right(1);
        }
        let (file, functions) = self.files.first_mut()?;
        let function = field(43, 5) as usize;
        if function == REMEMBERED {
            functions.truncate(REMEMBERED - 1);
            functions.insert(0, name(bytes)?);
        } else {
            functions.get_mut(..=function)?.rotate_right(1);
        }
        Some(Location { function: functions.first()?.clone(), file: file.clone(), line: field(0, 20) as u32 })
    }
}

fn name(bytes: &mut Bytes<'_>) -> Option<Arc<str>> {
    Some(cut(&text(bytes)?, TEXT_MAX).into())
}

/// Text up to a zero byte.
pub(super) fn text(bytes: &mut Bytes<'_>) -> Option<String> {
    let length = bytes.0.iter().position(|byte| *byte == 0)?;
    let text = Bytes::text(bytes.take(length as u64)?);
    bytes.u8()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place of one location: which remembered file and function it is of, and the names of new ones.
    fn place(code: u64, (file, function): (u64, u64), names: &[&str]) -> Vec<u8> {
        let coded = (file << 38 | function << 43 | 9).to_le_bytes();
        let names: Vec<u8> = names.iter().flat_map(|name| [name.as_bytes(), &[0]].concat()).collect();
        [&code.to_le_bytes()[..], &[1], &coded[..6], &names].concat()
    }

    #[test]
    fn names_are_shared_and_cut() {
        let (long, new) = ("f".repeat(3 * TEXT_MAX), REMEMBERED as u64);
        let bytes = [place(1, (new, new), &["a.ml", &long]), place(2, (0, 0), &[])].concat();
        let (mut bytes, mut locations) = (Bytes(&bytes), Locations::default());
        let mut read = || locations.read(&mut bytes).unwrap().1.remove(0);
        let (first, second) = (read(), read());
        assert_eq!((&*first.file, first.function.len(), first.line), ("a.ml", TEXT_MAX, 9));
        assert!(Arc::ptr_eq(&first.file, &second.file) && Arc::ptr_eq(&first.function, &second.function));
    }
}
