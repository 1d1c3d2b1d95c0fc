//! `xtask words`: counts what STYLE.md bans, by folder, and compares the counts with a ratchet file.

mod forms;
pub mod prose;
pub mod ratchet;

use std::collections::BTreeMap;

use crate::tree::{File, Tree};

/// Where prose stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Markdown files.
    Docs,
    /// Comments and rustdoc.
    Comments,
    /// String literals outside tests.
    Strings,
    /// Names of modules and functions.
    Names,
}

impl Kind {
    /// Name in the ratchet file.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Docs => "docs",
            Kind::Comments => "comments",
            Kind::Strings => "strings",
            Kind::Names => "names",
        }
    }
}

/// One match of a banned form.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The file, relative to the top.
    pub path: String,
    /// Line of the paragraph, from 1.
    pub line: usize,
    /// Where the text stands.
    pub kind: Kind,
    /// Name of the form.
    pub form: &'static str,
    /// The sentence or name.
    pub text: String,
}

/// Folder, kind and form.
pub type Key = (String, &'static str, &'static str);

/// Every match in the tree.
pub fn hits(tree: &Tree) -> Vec<Hit> {
    tree.files.iter().filter(|file| is_ours(file)).flat_map(hits_of_file).collect()
}

/// Inputs of tests, and programs under test, are not our prose.
fn is_ours(file: &File) -> bool {
    !["fixtures/", "fuzz/corpora/", "findings/", "xtask/src/words/"]
        .iter()
        .any(|folder| file.path.starts_with(folder))
}

fn hits_of_file(file: &File) -> Vec<Hit> {
    let mut found = Vec::new();
    for piece in prose::of_file(file) {
        let hit = |form, text: &str| Hit {
            path: file.path.clone(),
            line: piece.line,
            kind: piece.kind,
            form,
            text: text.to_owned(),
        };
        if piece.kind == Kind::Names {
            found.extend(of_name(&piece.text).map(|form| hit(form, &piece.text)));
            continue;
        }
        for (index, sentence) in prose::sentences(&piece.text).into_iter().enumerate() {
            let words = prose::words_of(sentence);
            found.extend(forms::in_sentence(sentence, &words).into_iter().map(|form| hit(form, sentence)));
            let is_pronoun = words.first().is_some_and(|word| forms::PRONOUNS.contains(&word.as_str()));
            if index == 0 && piece.opens_doc && is_pronoun {
                found.push(hit("pronoun-opening", sentence));
            }
        }
    }
    found
}

fn of_name(name: &str) -> Option<&'static str> {
    let (what, name) = name.split_once(' ')?;
    if what == "fn" && name == "of" {
        return Some("fn-of");
    }
    let banned_module = what == "mod" && forms::MODULE_NAMES.contains(&name);
    let banned_part = name.split('_').any(|part| forms::NAME_PARTS.contains(&part));
    (banned_module || banned_part).then_some("name")
}

/// Counts by folder, kind and form.
pub fn counts(hits: &[Hit]) -> BTreeMap<Key, usize> {
    let mut counts = BTreeMap::new();
    for hit in hits {
        *counts.entry((folder(&hit.path), hit.kind.name(), hit.form)).or_default() += 1;
    }
    counts
}

/// The top folder, or the crate below `crates`; `.` for files at the top.
pub fn folder(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        [_] => ".".to_owned(),
        ["crates" | "docs", second, _, ..] => format!("{}/{second}", parts[0]),
        [first, ..] => (*first).to_owned(),
        [] => ".".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_counted_by_folder_kind_and_form() {
        let tree = Tree::of_texts(&[
            ("crates/a/src/told.rs", "//! A file.\n\n/// It waits.\nfn of() {}\n"),
            ("book/b.md", "# B\n\nWho waits is told.\n"),
        ]);
        let found: Vec<_> =
            counts(&hits(&tree)).into_iter().map(|((f, k, n), c)| format!("{f} {k} {n} {c}")).collect();
        let expected = [
            "book docs noun-who 1",
            "book docs told 1",
            "crates/a comments pronoun-opening 1",
            "crates/a names fn-of 1",
            "crates/a names name 1",
        ];
        assert_eq!(found, expected);
    }
}
