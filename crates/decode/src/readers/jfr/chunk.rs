//! A chunk: a header, and events. Among the events are the metadata, which describe the structure of all
//! other events, and the checkpoints with the constants. Numbers in the header are big-endian. All others are
//! little-endian or have seven bits per byte.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::values::{self, Class, Classes, Field, Value};
use crate::imported::Bytes;
use crate::readers::ReadError;

/// Begins each chunk.
pub(super) const MAGIC: &[u8] = b"FLR\0";
/// Bytes of the header.
const HEADER: u64 = 68;
/// Numbers are of seven bits a byte.
const COMPRESSED: u32 = 1;
/// Kinds of events that every chunk has.
const METADATA: u64 = 0;
const CHECKPOINT: u64 = 1;
/// Elements of the metadata lie within each other no deeper.
const DEPTH_MAX: u32 = 16;
/// Classes whose constants are kept.
const KEPT: &[&str] = &[
    "jdk.types.StackTrace",
    "jdk.types.Method",
    "jdk.types.Symbol",
    "java.lang.Class",
    "java.lang.Thread",
    "java.lang.String",
    "jdk.types.ThreadState",
];

/// Constants by class and number.
pub(super) type Constants = HashMap<(u64, u64), Vec<Value>>;

/// A chunk of a file.
pub(super) struct Chunk<'a> {
    bytes: &'a [u8],
    /// When it began (ns since 1970; ticks).
    began: (u64, u64),
    ticks_per_second: u64,
    /// How long it is (ns).
    length_ns: u64,
    pub classes: Classes,
    pub constants: Constants,
}

impl<'a> Chunk<'a> {
    /// Reads the first chunk of `bytes`, which begin at `offset` of the file. Returns the chunk and the
    /// remaining bytes.
    ///
    /// # Errors
    /// The chunk is truncated, or its header or metadata are damaged.
    pub fn read(bytes: &'a [u8], offset: u64) -> Result<(Chunk<'a>, &'a [u8]), ReadError> {
        let broken = |what| ReadError::Broken { what, offset };
        let cut = |end| ReadError::Cut { what: "a chunk", end, length: offset + bytes.len() as u64 };
        let header = Bytes::part(bytes, 0, HEADER).ok_or(cut(offset + HEADER))?;
        let wide = |at: usize| {
            let part = header.get(at..at + 8).and_then(|part| part.try_into().ok());
            part.map_or(0, u64::from_be_bytes)
        };
        let features = header.get(64..68).and_then(|part| part.try_into().ok()).map_or(0, u32::from_be_bytes);
        if !header.starts_with(MAGIC) {
            return Err(broken("no chunk begins there"));
        }
        if header.get(4..6) != Some(&[0, 2]) || features & COMPRESSED == 0 {
            return Err(ReadError::Unsupported {
                what: "a flight recording of another version than 2".to_owned(),
                remedy: "record it with JDK 11 or later",
            });
        }
        let size = wide(8);
        // A recorder that was killed leaves its last chunk without a size.
        if size == 0 {
            return Err(ReadError::Unsupported {
                what: "a chunk that its recorder did not finish".to_owned(),
                remedy: "`jfr repair` may repair it",
            });
        }
        let whole = Bytes::part(bytes, 0, size).ok_or(cut(offset.saturating_add(size)))?;
        let mut chunk = Chunk {
            bytes: whole,
            began: (wide(32), wide(48)),
            ticks_per_second: wide(56).max(1),
            length_ns: wide(40),
            classes: Classes::new(),
            constants: Constants::new(),
        };
        chunk.metadata(wide(24)).ok_or(broken("its metadata"))?;
        chunk.checkpoints(wide(16)).ok_or(broken("its constants"))?;
        Ok((chunk, bytes.get(whole.len()..).unwrap_or_default()))
    }

    /// First and last moment (ns since 1970).
    pub fn span(&self) -> (u64, u64) {
        (self.began.0, self.began.0.saturating_add(self.length_ns))
    }

    /// A moment (ns since 1970).
    pub fn moment(&self, ticks: u64) -> u64 {
        let since = u128::from(ticks.saturating_sub(self.began.1)) * 1_000_000_000;
        self.began
            .0
            .saturating_add(u64::try_from(since / u128::from(self.ticks_per_second)).unwrap_or(u64::MAX))
    }

    /// A text that is written in place or in the pool of texts.
    pub fn text<'b>(&'b self, value: &'b Value) -> Option<&'b str> {
        match value {
            Value::Text(text) => Some(text),
            Value::Constant(class, number) => match self.constants.get(&(*class, *number))?.first()? {
                Value::Text(text) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    /// Calls `take` with the type and the payload of each event that is neither metadata nor checkpoint.
    /// Returns the number of damaged events. The chunk ends at the first of them.
    pub fn events(&self, mut take: impl FnMut(u64, Bytes<'a>)) -> u64 {
        let mut at = HEADER;
        while at < self.bytes.len() as u64 {
            let Some((length, kind, rest)) = self.event(at) else { return 1 };
            if kind != METADATA && kind != CHECKPOINT {
                take(kind, rest);
            }
            at += length;
        }
        0
    }

    /// The event at an offset: its length, its kind, the rest of it.
    fn event(&self, at: u64) -> Option<(u64, u64, Bytes<'a>)> {
        let mut length = Bytes(self.bytes.get(usize::try_from(at).ok()?..)?);
        let length = values::number(&mut length).filter(|length| *length > 0)?;
        let mut event = Bytes(Bytes::part(self.bytes, at, length)?);
        values::number(&mut event)?;
        let kind = values::number(&mut event)?;
        Some((length, kind, event))
    }

    fn metadata(&mut self, at: u64) -> Option<()> {
        let (_, _, mut bytes) = self.event(at).filter(|(_, kind, _)| *kind == METADATA)?;
        // Start, length, number.
        for _ in 0..3 {
            values::number(&mut bytes)?;
        }
        let count = values::number(&mut bytes)?;
        if count > bytes.0.len() as u64 {
            return None;
        }
        let text = |bytes: &mut Bytes<'a>| match values::text(bytes)? {
            Value::Text(text) => Some(text.into()),
            _ => Some(Arc::default()),
        };
        let texts = (0..count).map(|_| text(&mut bytes)).collect::<Option<Vec<Arc<str>>>>()?;
        let mut elements = Elements { texts, classes: Classes::new(), open: None };
        elements.read(&mut bytes, 0)?;
        self.classes = elements.classes;
        Some(())
    }

    /// From the last one back.
    fn checkpoints(&mut self, last: u64) -> Option<()> {
        let kept = self.classes.iter().filter(|(_, class)| KEPT.contains(&&*class.name));
        let kept: HashSet<u64> = kept.map(|(number, _)| *number).collect();
        let (mut at, mut seen) = (last, HashSet::new());
        while seen.insert(at) {
            let (_, _, mut bytes) = self.event(at).filter(|(_, kind, _)| *kind == CHECKPOINT)?;
            for _ in 0..2 {
                values::number(&mut bytes)?;
            }
            let back = values::number(&mut bytes)?;
            bytes.u8()?;
            self.pools(&mut bytes, &kept)?;
            // A distance, mostly negative. 0 at the first checkpoint.
            at = at.wrapping_add(back);
        }
        Some(())
    }

    fn pools(&mut self, bytes: &mut Bytes<'a>, kept: &HashSet<u64>) -> Option<()> {
        for _ in 0..values::number(bytes)? {
            let (number, count) = (values::number(bytes)?, values::number(bytes)?);
            let class = self.classes.get(&number)?;
            for _ in 0..count {
                let constant = values::number(bytes)?;
                let fields = values::constant(&self.classes, (number, class), bytes)?;
                if kept.contains(&number) {
                    self.constants.entry((number, constant)).or_insert(fields);
                }
            }
        }
        Some(())
    }
}

/// The metadata's tree of elements, of which classes and their fields are kept. It names texts by their numbers: they are shared.
struct Elements {
    texts: Vec<Arc<str>>,
    classes: Classes,
    open: Option<u64>,
}

impl Elements {
    fn read(&mut self, bytes: &mut Bytes<'_>, depth: u32) -> Option<()> {
        let name = self.text(bytes)?;
        let count = values::number(bytes)?;
        if depth > DEPTH_MAX || count > bytes.0.len() as u64 {
            return None;
        }
        let mut attributes: HashMap<Arc<str>, Arc<str>> = HashMap::new();
        for _ in 0..count {
            let key = self.text(bytes)?;
            attributes.insert(key, self.text(bytes)?);
        }
        let get = |key: &str| attributes.get(key).cloned().unwrap_or_default();
        match &*name {
            "class" => {
                let number = get("id").parse().ok()?;
                self.classes.insert(number, Class { name: get("name"), fields: Vec::new() });
                self.open = Some(number);
            }
            "field" => {
                let field = Field {
                    name: get("name"),
                    class: get("class").parse().ok()?,
                    is_constant: &*get("constantPool") == "true",
                    is_list: &*get("dimension") == "1",
                };
                let class = self.open.and_then(|number| self.classes.get_mut(&number))?;
                class.fields.push(field);
            }
            _ => {}
        }
        for _ in 0..values::number(bytes)? {
            self.read(bytes, depth + 1)?;
        }
        Some(())
    }

    fn text(&self, bytes: &mut Bytes<'_>) -> Option<Arc<str>> {
        self.texts.get(usize::try_from(values::number(bytes)?).ok()?).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_one_name_share_it() {
        let texts = ["root", "class", "id", "7", "name", "a long one", "field"];
        let texts = texts.map(Arc::from).to_vec();
        let mut elements = Elements { texts, classes: Classes::new(), open: None };
        // Its name, how many attributes and which, how many elements within.
        let field: &[u8] = &[6, 2, 4, 5, 1, 3, 0];
        let tree = [&[0, 0, 1][..], &[1, 2, 2, 3, 4, 5, 2], field, field].concat();
        elements.read(&mut Bytes(&tree), 0).unwrap();
        let class = &elements.classes[&7];
        assert_eq!((&*class.name, class.fields.len()), ("a long one", 2));
        assert!(class.fields.iter().all(|field| Arc::ptr_eq(&field.name, &class.name) && field.class == 7));
    }
}
