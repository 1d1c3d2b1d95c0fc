//! The ratchet: counts that may only fall. `xtask/words.txt` has one line per folder, kind and form.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Key;

/// Path of the ratchet file, relative to the top.
pub const PATH: &str = "xtask/words.txt";

const HEADER: &str = "# Counts of banned forms (STYLE.md) that remain: folder, kind, form, count. They may only fall.\n\
                      # `cargo run -p xtask -- words --ratchet` lowers them, `words FOLDER [FORM]` lists the places.\n";

/// A count that grew: the key, the allowed count and the count found.
#[derive(Debug, PartialEq, Eq)]
pub struct Growth {
    /// `folder kind form`.
    pub key: String,
    /// Count in the ratchet file; 0 without a line.
    pub allowed: usize,
    /// Count found.
    pub found: usize,
}

/// Counts by `folder kind form`; lines that do not parse count as absent.
pub fn parse(text: &str) -> BTreeMap<String, usize> {
    let entry = |line: &str| {
        let (key, count) = line.rsplit_once(' ')?;
        Some((key.to_owned(), count.parse().ok()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(entry).collect()
}

/// The counts, none above the allowed one; without a ratchet file, all of them.
pub fn lowered(allowed: &BTreeMap<String, usize>, counts: BTreeMap<Key, usize>) -> BTreeMap<Key, usize> {
    if allowed.is_empty() {
        return counts;
    }
    let lower = |((folder, kind, form), found): (Key, usize)| {
        let most = allowed.get(&format!("{folder} {kind} {form}")).copied().unwrap_or(0);
        (most > 0).then(|| ((folder, kind, form), found.min(most)))
    };
    counts.into_iter().filter_map(lower).collect()
}

/// The ratchet file's text for these counts.
pub fn render(counts: &BTreeMap<Key, usize>) -> String {
    let mut text = HEADER.to_owned();
    for ((folder, kind, form), count) in counts {
        let _ = writeln!(text, "{folder} {kind} {form} {count}");
    }
    text
}

/// Counts that are above the ratchet file's.
pub fn grown(allowed: &BTreeMap<String, usize>, counts: &BTreeMap<Key, usize>) -> Vec<Growth> {
    let growth = |((folder, kind, form), found): (&Key, &usize)| {
        let key = format!("{folder} {kind} {form}");
        let allowed = allowed.get(&key).copied().unwrap_or(0);
        (*found > allowed).then_some(Growth { key, allowed, found: *found })
    };
    counts.iter().filter_map(growth).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_grew_is_found() {
        let counts = BTreeMap::from([
            (("docs".to_owned(), "docs", "told"), 3),
            (("src".to_owned(), "names", "name"), 1),
        ]);
        assert_eq!(grown(&parse(&render(&counts)), &counts), []);
        let allowed = parse("# header\ndocs docs told 2\nsrc names name 4\n");
        let expected = Growth { key: "docs docs told".to_owned(), allowed: 2, found: 3 };
        assert_eq!(grown(&allowed, &counts), [expected]);
        let lower = lowered(&allowed, counts.clone());
        assert_eq!(lower.values().copied().collect::<Vec<_>>(), [2, 1], "it never rises");
        assert_eq!(lowered(&BTreeMap::new(), counts.clone()), counts, "the first ratchet");
    }
}
