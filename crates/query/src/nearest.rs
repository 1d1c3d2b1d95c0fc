//! Suggests a name for a misspelled one.

/// The one of `names` that is nearest to `word`, if it is near at all: at most a third of the letters differ.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let far = (word.chars().count() / 3).max(1) + 1;
    let near = names.into_iter().map(|name| (distance(&word, &name.to_lowercase()), name));
    near.filter(|(apart, name)| *apart < far || is_part(&word, name)).min().map(|(_, name)| name)
}

/// `duration` was meant to be `duration_ns`.
fn is_part(word: &str, name: &str) -> bool {
    word.len() >= 3 && name.split('_').next() == Some(word)
}

/// Letters to change, insert or delete, or to swap with the next (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (row, letter) in a.iter().enumerate() {
        let mut now = vec![row + 1];
        for (column, other) in b.iter().enumerate() {
            let changed = last[column] + usize::from(letter != other);
            let mut best = changed.min(last[column + 1] + 1).min(now[column] + 1);
            if row > 0 && column > 0 && *letter == b[column - 1] && a[row - 1] == *other {
                best = best.min(before[column - 1] + 1);
            }
            now.push(best);
        }
        before = std::mem::replace(&mut last, now);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_fingers_is_understood() {
        let names = ["slices", "samples", "stacks", "duration_ns"];
        assert_eq!(nearest("slcies", names), Some("slices"));
        assert_eq!(nearest("SAMPLE", names), Some("samples"));
        assert_eq!(nearest("duration", names), Some("duration_ns"));
    }

    #[test]
    fn another_word_is_not() {
        assert_eq!(nearest("elephants", ["slices", "samples"]), None);
        assert_eq!(nearest("", ["slices"]), None);
    }
}
