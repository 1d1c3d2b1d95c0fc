//! Counts of the forms that STYLE.md bans may only fall: see `xtask words`.

use super::Complaint;
use crate::tree::Tree;
use crate::words::{self, ratchet};

/// One complaint per count that grew, with the places of a folder that has few.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let allowed = ratchet::parse(tree.get(ratchet::PATH).and_then(|file| file.text.as_deref()).unwrap_or(""));
    let hits = words::hits(tree);
    let counts = words::counts(&hits);
    let mut complaints = Vec::new();
    for growth in ratchet::grown(&allowed, &counts) {
        let what = format!("{}: {} places, at most {} allowed", growth.key, growth.found, growth.allowed);
        complaints.push(Complaint::new(ratchet::PATH, 1, what));
        if growth.allowed == 0 {
            let is_same = |hit: &&words::Hit| {
                format!("{} {} {}", words::folder(&hit.path), hit.kind.name(), hit.form) == growth.key
            };
            let place =
                |hit: &words::Hit| Complaint::new(&hit.path, hit.line, format!("{}: {}", hit.form, hit.text));
            complaints.extend(hits.iter().filter(is_same).map(place));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_banned_word_is_found_and_an_old_one_is_not() {
        let text = "# A\n\nThe kernel is told.\n";
        let of = |allowed: &str| check(&Tree::of_texts(&[("book/a.md", text), (ratchet::PATH, allowed)]));
        assert_eq!(of("book docs told 1\n"), []);
        let found = of("");
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].path.as_str(), found[1].line), ("book/a.md", 3));
    }
}
