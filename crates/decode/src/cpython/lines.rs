//! Lines of instructions: the tables of code objects (CPython `Objects/lnotab_notes.txt`, `Objects/locations.md`).

/// How the table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Up to 3.9: pairs of a distance in bytes and one in lines.
    Steps,
    /// 3.10: pairs of a length in bytes and a distance in lines, which is applied first. -128: no line.
    Ranges,
    /// From 3.11 on: entries of their own length.
    Locations,
}

/// The line of an instruction with `units` two-byte units before it. `None` if the table has no line.
pub fn line(kind: Kind, table: &[u8], first: u32, units: u32) -> Option<u32> {
    let line = match kind {
        Kind::Steps => by_steps(table, i64::from(first), units * 2),
        Kind::Ranges => by_ranges(table, i64::from(first), units * 2)?,
        Kind::Locations => by_locations(table, i64::from(first), units)?,
    };
    u32::try_from(line).ok().filter(|line| *line > 0)
}

fn by_steps(table: &[u8], first: i64, at: u32) -> i64 {
    let (mut line, mut reached) = (first, 0u32);
    for [bytes, lines] in table.as_chunks::<2>().0 {
        reached += u32::from(*bytes);
        if reached > at {
            break;
        }
        line += i64::from(lines.cast_signed());
    }
    line
}

fn by_ranges(table: &[u8], first: i64, at: u32) -> Option<i64> {
    const NONE: i8 = -128;
    let (mut line, mut end) = (first, 0u32);
    for [bytes, lines] in table.as_chunks::<2>().0 {
        let lines = lines.cast_signed();
        end += u32::from(*bytes);
        line += if lines == NONE { 0 } else { i64::from(lines) };
        if end > at {
            return (lines != NONE).then_some(line);
        }
    }
    None
}

fn by_locations(table: &[u8], first: i64, at: u32) -> Option<i64> {
    let mut bytes = table.iter().copied().peekable();
    let (mut line, mut end) = (first, 0u32);
    while let Some(head) = bytes.next() {
        let code = head >> 3 & 15;
        let step = match code {
            // 13: without columns. 14: with columns and both lines.
            13 | 14 => signed(varint(&mut bytes)?),
            10..=12 => i64::from(code) - 10,
            _ => 0,
        };
        // Skips the rest of the entry. Each entry begins with a byte whose highest bit is set.
        while bytes.next_if(|byte| *byte < 128).is_some() {}
        end += u32::from(head & 7) + 1;
        line = line.saturating_add(step);
        if end > at {
            return (code != 15).then_some(line);
        }
    }
    None
}

/// Six bits per byte, lowest first. The seventh bit marks that another byte follows.
fn varint(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = 0;
    for shift in (0..60).step_by(6) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(value);
        }
    }
    None
}

/// The lowest bit is the sign.
fn signed(value: u64) -> i64 {
    let size = (value >> 1).cast_signed();
    if value & 1 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Python 3.9, 3.10, 3.11 and 3.13 compile, and their module `dis` reads it:
    /// `def f(a):`, `b = a + 1`, `if b:`, `b = [`, `a,`, `b]`, `return g(b)`, a line each.
    #[test]
    fn line_tables_of_three_kinds_match_pythons_dis() {
        const LINES: [u32; 6] = [2, 3, 5, 6, 4, 7];
        let at = |kind, table: &[u8], bytes: [u32; 6]| bytes.map(|byte| line(kind, table, 1, byte / 2));
        let starts = [0, 8, 12, 14, 16, 20];
        assert_eq!(at(Kind::Steps, &[0, 1, 8, 1, 4, 2, 2, 1, 2, 254, 4, 3], starts), LINES.map(Some));
        let ranges = [8, 1, 4, 1, 2, 2, 2, 1, 4, 254, 8, 3];
        assert_eq!(at(Kind::Ranges, &ranges, starts), LINES.map(Some));
        assert_eq!(line(Kind::Ranges, &ranges, 1, 14), None, "behind the end");
        let locations_11 = [
            128, 0, 216, 8, 9, 136, 65, 137, 5, 128, 65, 216, 7, 8, 240, 0, 3, 5, 13, 224, 10, 11, 216, 10,
            11, 240, 5, 2, 13, 13, 136, 1, 245, 6, 0, 12, 13, 136, 81, 137, 52, 140, 52, 128, 75,
        ];
        assert_eq!(at(Kind::Locations, &locations_11, [2, 12, 16, 18, 20, 24]), LINES.map(Some));
        let locations_13 = [
            128, 0, 216, 8, 9, 136, 65, 137, 5, 128, 65, 222, 7, 8, 224, 10, 11, 216, 10, 11, 240, 5, 2, 13,
            13, 136, 1, 244, 6, 0, 12, 13, 136, 81, 139, 52, 128, 75,
        ];
        assert_eq!(at(Kind::Locations, &locations_13, [2, 12, 26, 28, 30, 34]), LINES.map(Some));
    }

    #[test]
    fn a_range_without_a_line_has_none() {
        assert_eq!(line(Kind::Ranges, &[4, 1, 4, 128, 4, 1], 10, 3), None);
        assert_eq!(line(Kind::Ranges, &[4, 1, 4, 128, 4, 1], 10, 4), Some(12));
        // Code 15: no location.
        assert_eq!(line(Kind::Locations, &[0x80 | 15 << 3], 10, 0), None);
    }

    #[test]
    fn truncated_line_tables_give_no_line_and_large_numbers_are_safe() {
        assert_eq!(line(Kind::Locations, &[0x80 | 13 << 3], 10, 0), None);
        assert_eq!(
            line(Kind::Locations, &[0xe8, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127], 10, 0),
            None
        );
        assert_eq!(line(Kind::Steps, &[0, 128, 0, 128], 1, 0), None, "before the first line");
        assert_eq!(line(Kind::Locations, &[], 10, 0), None);
    }
}
