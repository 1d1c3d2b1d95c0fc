//! `/tmp/perf-PID.map`: code that a runtime generated, one line a function: `START SIZE NAME`, hexadecimal.

use std::collections::BTreeMap;

use super::place::Place;

/// No name is longer.
const NAME_BYTES_MAX: usize = 1 << 12;

/// The functions that hold `addresses` (ascending), by address, and how many lines make no sense. Where code
/// was replaced the later line counts.
pub fn look_up(map: &[u8], addresses: &[u64]) -> (BTreeMap<u64, Place>, u64) {
    let mut found: BTreeMap<u64, (&[u8], u64)> = BTreeMap::new();
    let mut broken = 0;
    let mut work = map.len() as u64 * 2 + (1 << 20);
    for line in map.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Some((start, size, name)) = parse(line) else {
            broken += 1;
            continue;
        };
        let first = addresses.partition_point(|address| *address < start);
        let end = start.saturating_add(size);
        for address in addresses.get(first..).unwrap_or_default().iter().take_while(|address| **address < end)
        {
            // Lines that all claim everything are nobody's map.
            let Some(left) = work.checked_sub(1) else { break };
            work = left;
            found.insert(*address, (name, address - start));
        }
    }
    let place = |(name, distance): (&[u8], u64)| {
        Place::of_function(String::from_utf8_lossy(name).into_owned(), distance)
    };
    (found.into_iter().map(|(address, hit)| (address, place(hit))).collect(), broken)
}

fn parse(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut number = || {
        let text = std::str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = words.next()?.trim_ascii();
    let name = name.get(..NAME_BYTES_MAX).unwrap_or(name);
    (!name.is_empty()).then_some((start, size, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &[u8] =
        b"1000 20 Lcom/foo;::bar\n1020 10 JS:*f a.js:1:2\nzz\n1000 8 later\n2000 ffffffffffffffff all\n";

    #[test]
    fn the_later_line_counts() {
        let (places, broken) = look_up(MAP, &[0xfff, 0x1004, 0x1010, 0x1025, 0x1030, 0x9000]);
        let names: Vec<(u64, &str, u64)> = places
            .iter()
            .map(|(address, place)| (*address, place.calls[0].function.as_str(), place.distance))
            .collect();
        let expected = [
            (0x1004, "later", 4),
            (0x1010, "Lcom/foo;::bar", 0x10),
            (0x1025, "JS:*f a.js:1:2", 5),
            (0x9000, "all", 0x7000),
        ];
        assert_eq!(names, expected);
        assert_eq!(broken, 1);
    }
}
