//! Tables stored on disk by build id, so that a large binary is compiled once.
//!
//! The file starts with `holdup rows 6`, then little-endian numbers: build id, base, number of invalid
//! functions, segments, rows. Each list is preceded by its length. The caller must check that the bytes are
//! undamaged.

use super::row::Row;
use super::table::{Segment, Table};
use crate::fields::Fields;

const HEAD: &[u8] = b"holdup rows 6\n";

/// Fewer rows are made faster than they are found.
const ROWS_WORTH_KEEPING: usize = 4096;

/// Key under which the table of a binary is stored, `None` without a build id.
pub fn key(build_id: &[u8]) -> Option<String> {
    (!build_id.is_empty()).then(|| format!("{}-rows", crate::symbols::hex(build_id)))
}

/// Encodes a table for storage. `None` if storing is not worthwhile.
pub fn encode(table: &Table) -> Option<Vec<u8>> {
    if table.build_id.is_empty() || table.rows.len() < ROWS_WORTH_KEEPING {
        return None;
    }
    let mut bytes = Vec::with_capacity(HEAD.len() + 256 + table.rows.len() * 8);
    let number = |bytes: &mut Vec<u8>, number: u64| bytes.extend(number.to_le_bytes());
    bytes.extend(HEAD);
    number(&mut bytes, table.build_id.len() as u64);
    bytes.extend(&table.build_id);
    number(&mut bytes, table.base);
    number(&mut bytes, table.broken as u64);
    number(&mut bytes, table.segments.len() as u64);
    for segment in &table.segments {
        let fields = [segment.file_offset, segment.length, segment.address];
        fields.into_iter().for_each(|field| number(&mut bytes, field));
    }
    number(&mut bytes, table.rows.len() as u64);
    table.rows.iter().for_each(|row| number(&mut bytes, row.pack()));
    Some(bytes)
}

/// Decodes the output of [`encode`] for the binary with this build id. `None` for anything else.
pub fn decode(bytes: &[u8], build_id: &[u8]) -> Option<Table> {
    let mut rest = Fields(bytes.strip_prefix(HEAD)?);
    let length = rest.length(1)?;
    if rest.bytes(length)? != build_id {
        return None;
    }
    let (base, broken) = (rest.u64()?, usize::try_from(rest.u64()?).ok()?);
    let mut segments = Vec::new();
    for _ in 0..rest.length(24)? {
        let (file_offset, length, address) = (rest.u64()?, rest.u64()?, rest.u64()?);
        segments.push(Segment { file_offset, length, address });
    }
    let count = rest.length(8)?;
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        rows.push(Row::unpack(rest.u64()?)?);
    }
    let in_order = rows.windows(2).all(|pair| matches!(pair, [a, b] if a.pc < b.pc));
    (rest.0.is_empty() && in_order).then(|| Table {
        rows,
        base,
        segments,
        build_id: build_id.to_vec(),
        broken,
    })
}

#[cfg(test)]
mod tests {
    use super::super::row::Kind;
    use super::*;

    fn table() -> Table {
        let row =
            |pc: usize| Row { cfa: -2, bp: (pc % 7) as i8, ..Row::plain(pc as u32 * 3, Kind::FramePointer) };
        Table {
            rows: (0..ROWS_WORTH_KEEPING).map(row).collect(),
            base: 0x40_0000,
            segments: vec![Segment { file_offset: 1, length: 2, address: 3 }],
            build_id: vec![0xab; 20],
            broken: 9,
        }
    }

    #[test]
    fn what_is_kept_comes_back() {
        let bytes = encode(&table()).unwrap();
        assert_eq!(decode(&bytes, &[0xab; 20]), Some(table()));
        assert_eq!(decode(&bytes, &[0xac; 20]), None, "another binary's");
        assert_eq!(key(&[0xab, 1]).as_deref(), Some("ab01-rows"));
        assert_eq!(key(&[]), None);
    }

    #[test]
    fn what_is_not_whole_is_not_used() {
        let bytes = encode(&table()).unwrap();
        for cut in (0..200).chain([bytes.len() - 8, bytes.len() - 1]) {
            assert_eq!(decode(&bytes[..cut], &[0xab; 20]), None, "{cut}");
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat(), &[0xab; 20]), None);
        let mut promising = bytes.clone();
        promising[HEAD.len()..HEAD.len() + 8].fill(0xff);
        assert_eq!(decode(&promising, &[0xab; 20]), None);
    }

    #[test]
    fn small_tables_and_nameless_ones_are_not_kept() {
        assert_eq!(encode(&Table { build_id: Vec::new(), ..table() }), None);
        assert_eq!(encode(&Table { rows: Vec::new(), ..table() }), None);
    }
}
