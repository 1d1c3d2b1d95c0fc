//! Folder and registry say the same: a file that nobody registered would silently do nothing.

use std::collections::BTreeSet;

use super::{Complaint, is_test_file};
use crate::rust_text;
use crate::tree::{File, Tree};

/// Folders whose `mod.rs` registers one entry a file.
const REGISTRIES: &[&str] = &[
    "crates/capture/src/sources",
    "crates/decode/src/readers",
    "crates/decode/src/runtimes",
    "crates/findings/src/rules",
    "crates/report/src/exporters",
];

/// Also the cases, which are registered by having a `case.toml`.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints: Vec<Complaint> =
        REGISTRIES.iter().flat_map(|folder| check_registry(tree, folder)).collect();
    complaints.extend(check_cases(tree));
    complaints
}

fn check_registry(tree: &Tree, folder: &str) -> Vec<Complaint> {
    let Some(registry) = tree.get(&format!("{folder}/mod.rs")) else { return Vec::new() };
    let code = rust_text::code_only(registry.text.as_deref().unwrap_or(""));
    let words: BTreeSet<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let members: BTreeSet<&str> = tree.files.iter().filter_map(|file| member(file, folder)).collect();
    let mut complaints = Vec::new();
    for name in members.iter().filter(|name| !words.contains(*name)) {
        let what = format!("`{name}` is in the folder but not in the registry: add its line");
        complaints.push(Complaint::new(&registry.path, 1, what));
    }
    for (line, name) in macro_entries(&code) {
        if !members.contains(name.as_str()) {
            let what = format!("`{name}` is registered but has no file");
            complaints.push(Complaint::new(&registry.path, line, what));
        }
    }
    complaints
}

/// The name that a file gives an entry: `x.rs` or `x/…`; none for the registry and for tests.
fn member<'a>(file: &'a File, folder: &str) -> Option<&'a str> {
    let inside = file.path.strip_prefix(folder)?.strip_prefix('/')?;
    let name = inside.split('/').next()?;
    if inside == "mod.rs" || is_test_file(&file.path) || file.extension() != "rs" {
        return None;
    }
    Some(name.strip_suffix(".rs").unwrap_or(name))
}

/// The entries of a call such as `rules! { a, b }` at the start of a line.
fn macro_entries(code: &str) -> Vec<(usize, String)> {
    let mut entries = Vec::new();
    let mut inside = false;
    for (index, line) in code.lines().enumerate() {
        let mut rest = line;
        if let Some((name, behind)) = line.split_once("! {") {
            let is_call = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            if is_call && name != "macro_rules" {
                (inside, rest) = (true, behind);
            }
        }
        if inside {
            let listed = rest.split('}').next().unwrap_or("");
            let names = listed.split([',', ' ']).filter(|word| is_name(word));
            entries.extend(names.map(|name| (index + 1, name.to_owned())));
            inside = !rest.contains('}');
        }
    }
    entries
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn check_cases(tree: &Tree) -> Vec<Complaint> {
    let folders: BTreeSet<&str> = tree
        .files
        .iter()
        .filter_map(|file| file.path.strip_prefix("cases/")?.split_once('/').map(|(folder, _)| folder))
        // What several cases stand on.
        .filter(|folder| *folder != "shared")
        .collect();
    folders
        .iter()
        .filter(|folder| tree.get(&format!("cases/{folder}/case.toml")).is_none())
        .map(|folder| Complaint::new(&format!("cases/{folder}"), 1, "a case without a case.toml"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_checked() {
        let registry = "//! Rules.\nmacro_rules! rules { () => {} }\nrules! {\n    here, gone,\n}\n";
        let tree = Tree::of_texts(&[
            ("crates/findings/src/rules/mod.rs", registry),
            ("crates/findings/src/rules/here.rs", ""),
            ("crates/findings/src/rules/here_tests.rs", ""),
            ("crates/findings/src/rules/forgotten.rs", ""),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|one| (one.line, one.what)).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].1.contains("`forgotten` is in the folder"));
        assert!(found[1].0 == 4 && found[1].1.contains("`gone` is registered"));
    }

    #[test]
    fn a_case_needs_its_description() {
        let tree =
            Tree::of_texts(&[("cases/a/slow.c", ""), ("cases/b/case.toml", ""), ("cases/README.md", "")]);
        assert_eq!(check(&tree), [Complaint::new("cases/a", 1, "a case without a case.toml")]);
    }
}
