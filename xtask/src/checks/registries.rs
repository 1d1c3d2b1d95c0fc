//! Folder and registry are consistent. An unregistered file would silently have no effect.

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

/// Rules that no near miss in `cases/` could set off, with the reason. It only gets shorter.
const WITHOUT_NEAR_MISS: &[(&str, &str)] =
    &[("data-race", "it judges what another tool reported, and a run alone reports nothing")];

/// Also the cases, which are registered by having a `case.toml`, and that each rule has a near miss there.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints: Vec<Complaint> =
        REGISTRIES.iter().flat_map(|folder| check_registry(tree, folder)).collect();
    complaints.extend(check_cases(tree));
    complaints.extend(check_near_misses(tree));
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

/// The entry name of a file: `x.rs` or `x/…`. `None` for the registry and for tests.
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

/// Each rule needs a near-miss program for which it must not report a finding.
fn check_near_misses(tree: &Tree) -> Vec<Complaint> {
    const RULES: &str = "crates/findings/src/rules/mod.rs";
    let Some(registry) = tree.get(RULES) else { return Vec::new() };
    let missed: BTreeSet<&str> = tree.files.iter().flat_map(innocent_of).collect();
    let excused = |rule: &str| WITHOUT_NEAR_MISS.iter().any(|(excused, _)| *excused == rule);
    let complain = |(line, module): (usize, String)| {
        let rule = module.replace('_', "-");
        let what = match (missed.contains(rule.as_str()), excused(&rule)) {
            (false, false) => format!("no near miss in cases/near-* names `{rule}` as `silent` or `mute`"),
            (true, true) => format!("`{rule}` has a near miss now: take it off the list of those without"),
            _ => return None,
        };
        Some(Complaint::new(&registry.path, line, what))
    };
    let code = rust_text::code_only(registry.text.as_deref().unwrap_or(""));
    macro_entries(&code).into_iter().filter_map(complain).collect()
}

/// The rules that a near miss holds to silence.
fn innocent_of(file: &File) -> Vec<&str> {
    let near = file.path.strip_prefix("cases/near-").is_some_and(|rest| rest.ends_with("/case.toml"));
    let lines = file.text.as_deref().filter(|_| near).unwrap_or("").lines();
    let keys = lines.filter_map(|line| line.split_once(" = "));
    let words = keys.filter(|(key, _)| ["silent", "mute"].contains(key));
    words.flat_map(|(_, rules)| rules.trim_matches('"').split_whitespace()).collect()
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
        let found: Vec<_> = check_registry(&tree, "crates/findings/src/rules")
            .into_iter()
            .map(|one| (one.line, one.what))
            .collect();
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
    #[test]
    fn each_rule_needs_a_near_miss() {
        let registry = "//! Rules.\nrules! {\n    late_thread,\n    long_wait,\n    data_race,\n}\n";
        let near = "# One.\nshows = \"a\"\nsilent = \"other long-wait\"\nmute = \"more\"\n";
        let with = |case: &str| {
            let files = [("crates/findings/src/rules/mod.rs", registry), ("cases/near-a/case.toml", case)];
            check_near_misses(&Tree::of_texts(&files)).into_iter().map(|one| one.what).collect::<Vec<_>>()
        };
        assert_eq!(with(near), ["no near miss in cases/near-* names `late-thread` as `silent` or `mute`"]);
        let all = near.replace("more", "late-thread data-race");
        assert_eq!(with(&all), ["`data-race` has a near miss now: take it off the list of those without"]);
    }
}
