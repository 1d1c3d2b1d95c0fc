//! Places in the source: file names and the functions of each are coded by how recently they were used.

use crate::imported::Bytes;

/// Names that are remembered; this number says that a new one follows.
const REMEMBERED: usize = 31;

/// A line of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub function: String,
    pub file: String,
    pub line: u32,
}

/// The last file names, the last used one first, each with the last names of functions in it.
#[derive(Default)]
pub(super) struct Locations {
    files: Vec<(String, Vec<String>)>,
}

impl Locations {
    /// The next place's code, and what is there: calls that were inlined into it are the last ones.
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
            let name = text(bytes)?;
            // The first version's writer went on with the functions of the file that is forgotten here.
            let functions = match self.files.len() {
                REMEMBERED => self.files.pop().map(|(_, functions)| functions).unwrap_or_default(),
                _ => Vec::new(),
            };
            self.files.insert(0, (name, functions));
        } else {
            self.files.get_mut(..=file)?.rotate_right(1);
        }
        let (name, functions) = self.files.first_mut()?;
        let function = field(43, 5) as usize;
        if function == REMEMBERED {
            functions.truncate(REMEMBERED - 1);
            functions.insert(0, text(bytes)?);
        } else {
            functions.get_mut(..=function)?.rotate_right(1);
        }
        Some(Location { function: functions.first()?.clone(), file: name.clone(), line: field(0, 20) as u32 })
    }
}

/// Text up to a zero byte.
pub(super) fn text(bytes: &mut Bytes<'_>) -> Option<String> {
    let length = bytes.0.iter().position(|byte| *byte == 0)?;
    let text = Bytes::text(bytes.take(length as u64)?);
    bytes.u8()?;
    Some(text)
}
