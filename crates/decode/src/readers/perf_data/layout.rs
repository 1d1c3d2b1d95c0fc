//! The header of `perf.data`: where events are described, where records are, and the feature sections.
//! See `tools/perf/Documentation/perf.data-file-format.txt` of Linux.

use std::collections::BTreeMap;

use crate::imported::Bytes;
use crate::readers::ReadError;

/// Sections behind the records, by the number of their bit in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(super) enum Feature {
    Tracepoints = 1,
    BuildIds = 2,
    HostName = 3,
    KernelRelease = 4,
    Machine = 6,
    CpuCount = 7,
    CpuModel = 8,
    Memory = 10,
    CommandLine = 11,
}

/// An offset and a length.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Section {
    pub offset: u64,
    pub length: u64,
}

/// Length of the smallest header that has everything.
const HEADER: u64 = 104;

/// Where everything is.
pub(super) struct Layout<'a> {
    pub bytes: &'a [u8],
    pub attributes: Section,
    /// Length of one entry of `attributes`.
    pub attribute_length: u64,
    pub records: Section,
    /// The writer was interrupted before it wrote the data's size.
    pub unfinished: bool,
    features: BTreeMap<u32, Section>,
}

impl Section {
    fn parse(bytes: &mut Bytes<'_>) -> Option<Section> {
        Some(Section { offset: bytes.u64()?, length: bytes.u64()? })
    }

    fn end(self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

impl<'a> Layout<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Layout<'a>, ReadError> {
        if !bytes.starts_with(b"PERFILE2") {
            return Err(ReadError::Unsupported {
                what: "this perf.data is of a big-endian machine, or of a perf before 2010".to_owned(),
                remedy: "print it with `perf script` on a machine of its kind, and import that",
            });
        }
        let length = bytes.len() as u64;
        let cut = |what, end| ReadError::Cut { what, end, length };
        let mut header = Bytes(bytes);
        let size = header.take(8).and_then(|_| header.u64()).ok_or(cut("the header", HEADER))?;
        if size == 16 {
            return Err(ReadError::Unsupported {
                what: "this perf.data was written to a pipe".to_owned(),
                remedy: "let perf record write to a file, or import the output of `perf script`",
            });
        }
        let mut layout = Layout::header(bytes, header).ok_or(cut("the header", HEADER))?;
        if layout.records.length == 0 {
            layout.unfinished = true;
            layout.records.length = length.saturating_sub(layout.records.offset);
            layout.features.clear();
        }
        for (section, what) in
            [(layout.attributes, "the description of events"), (layout.records, "the records")]
        {
            if section.end() > length {
                return Err(cut(what, section.end()));
            }
        }
        let wanted = std::mem::take(&mut layout.features);
        layout.find_features(wanted.into_keys(), &cut)?;
        Ok(layout)
    }

    /// Reads the fields after the size. The features are read only as a list of which exist.
    fn header(bytes: &'a [u8], mut header: Bytes<'_>) -> Option<Layout<'a>> {
        let attribute_length = header.u64()?;
        let attributes = Section::parse(&mut header)?;
        let records = Section::parse(&mut header)?;
        Section::parse(&mut header)?;
        let mut features = BTreeMap::new();
        for word in 0..4 {
            let bits = header.u64()?;
            let set = (0..64).filter(|bit| bits >> bit & 1 == 1);
            features.extend(set.map(|bit| (word * 64 + bit, Section::default())));
        }
        Some(Layout { bytes, attributes, attribute_length, records, unfinished: false, features })
    }

    /// Sections are listed behind the records, one for each bit that is set.
    fn find_features(
        &mut self,
        bits: impl Iterator<Item = u32>,
        cut: &dyn Fn(&'static str, u64) -> ReadError,
    ) -> Result<(), ReadError> {
        let list = self.bytes.get(usize::try_from(self.records.end()).unwrap_or(usize::MAX)..);
        let mut list = Bytes(list.unwrap_or_default());
        let mut offset = self.records.end();
        for bit in bits {
            offset += 16;
            let section = Section::parse(&mut list).ok_or_else(|| cut("the list of sections", offset))?;
            if section.end() > self.bytes.len() as u64 {
                return Err(cut("a section behind the records", section.end()));
            }
            self.features.insert(bit, section);
        }
        Ok(())
    }

    /// The bytes of a section.
    pub fn feature(&self, feature: Feature) -> Option<&'a [u8]> {
        let section = self.features.get(&(feature as u32))?;
        Bytes::part(self.bytes, section.offset, section.length)
    }

    /// A section that is one string, empty if it does not exist.
    pub fn string(&self, feature: Feature) -> String {
        self.feature(feature).and_then(|bytes| string(&mut Bytes(bytes))).unwrap_or_default()
    }

    /// A section that is a list of strings.
    pub fn strings(&self, feature: Feature) -> Vec<String> {
        let Some(section) = self.feature(feature) else { return Vec::new() };
        let mut bytes = Bytes(section);
        let count = bytes.u32().unwrap_or(0);
        (0..count).map_while(|_| string(&mut bytes)).collect()
    }

    /// Build ids by file name. An entry is a record: header, pid, 20 bytes with the length in the 21st, name.
    pub fn build_ids(&self) -> BTreeMap<String, Vec<u8>> {
        let mut ids = BTreeMap::new();
        let mut bytes = Bytes(self.feature(Feature::BuildIds).unwrap_or_default());
        while let Some((id, name)) = build_id(&mut bytes) {
            ids.insert(name, id);
        }
        ids
    }

    /// The build id of the kernel.
    pub fn kernel_build_id(&self) -> Vec<u8> {
        self.build_ids().remove("[kernel.kallsyms]").unwrap_or_default()
    }
}

fn string(bytes: &mut Bytes<'_>) -> Option<String> {
    let length = bytes.u32()?;
    Some(Bytes::text(bytes.take(u64::from(length))?))
}

fn build_id(bytes: &mut Bytes<'_>) -> Option<(Vec<u8>, String)> {
    /// The 21st byte of the id is its length (since Linux 5.12).
    const HAS_LENGTH: u16 = 1 << 15;
    let (_, misc, size) = (bytes.u32()?, bytes.u16()?, bytes.u16()?);
    let mut body = Bytes(bytes.take(u64::from(size.checked_sub(8)?))?);
    body.u32()?;
    let id = body.take(24)?;
    let length = match id.get(20) {
        Some(length) if misc & HAS_LENGTH != 0 => usize::from(*length).min(20),
        _ => 20,
    };
    Some((id.get(..length)?.to_vec(), Bytes::text(body.0)))
}
