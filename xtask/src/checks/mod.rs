//! The house rules as checks. One file per check. Each has a test with a sample that must fail.

mod banned;
mod blobs;
mod fences;
mod fixtures;
mod format;
mod functions;
mod links;
mod machine_paths;
mod modules;
mod panics;
mod registries;
mod sizes;
mod titles;
mod white_space;
mod words;

use crate::tree::Tree;

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The file, relative to the top.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The complaint and the remedy.
    pub what: String,
}

impl Complaint {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Complaint {
        Complaint { path: path.to_owned(), line, what: what.into() }
    }
}

/// One check.
pub struct Check {
    /// Name of the check, in brackets after each complaint.
    pub name: &'static str,
    /// Looks through the tree.
    pub run: fn(&Tree) -> Vec<Complaint>,
}

/// Every check, in the order of the output.
pub const ALL: &[Check] = &[
    Check { name: "sizes", run: sizes::check },
    Check { name: "functions", run: functions::check },
    Check { name: "format", run: format::check },
    Check { name: "registries", run: registries::check },
    Check { name: "fences", run: fences::check },
    Check { name: "banned", run: banned::check },
    Check { name: "panics", run: panics::check },
    Check { name: "titles", run: titles::check },
    Check { name: "links", run: links::check },
    Check { name: "modules", run: modules::check },
    Check { name: "machine-paths", run: machine_paths::check },
    Check { name: "blobs", run: blobs::check },
    Check { name: "fixtures", run: fixtures::check },
    Check { name: "white-space", run: white_space::check },
    Check { name: "words", run: words::check },
];

/// `needle` stands in `line` as a word of its own: no letter, digit or `_` before it.
fn mentions(line: &str, needle: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(needle).any(|(at, _)| !line[..at].ends_with(is_word))
}

/// A file of tests only: a `tests` folder, or the sibling of the module that it tests.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
        || path.ends_with(".test.ts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_a_check() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/checks");
        let files =
            std::fs::read_dir(folder).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_file());
        assert_eq!(files.count() - 1, ALL.len());
    }

    #[test]
    fn words_are_matched_whole() {
        assert!(mentions("    todo!()", "todo!("));
        assert!(!mentions("    my_todo!()", "todo!("));
    }
}
