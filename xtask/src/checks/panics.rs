//! Untrusted input never ends the process: no unwrap, expect or panic where it is read.
//!
//! Clippy checks indexing (`indexing_slicing`), because text does not show whether a value is a slice.

use super::{Complaint, is_test_file, mentions};
use crate::rust_text;
use crate::tree::Tree;

const FOLDERS: &[&str] = &["crates/capture/src/", "crates/decode/src/", "crates/events/src/"];

/// Each ends the process. `unwrap_or…` and `assert!` of an invariant are fine.
const CALLS: &[&str] = &[".unwrap()", ".expect(", "panic!(", "unreachable!(", ".unwrap_err()"];

/// Shipped code of the crates that read untrusted bytes.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let meets_input =
        |path: &str| FOLDERS.iter().any(|folder| path.starts_with(folder)) && !is_test_file(path);
    for file in tree.with_extension(&["rs"]).filter(|file| meets_input(&file.path)) {
        let code = rust_text::shipped_code(file.text.as_deref().unwrap_or(""));
        for (index, line) in code.lines().enumerate() {
            for call in CALLS.iter().filter(|call| calls(line, call)) {
                let what = format!("{call} on foreign input: return an error or a Loss");
                complaints.push(Complaint::new(&file.path, index + 1, what));
            }
        }
    }
    complaints
}

/// A method call needs a receiver before it. A macro does not.
fn calls(line: &str, call: &str) -> bool {
    if call.starts_with('.') { line.contains(call) } else { mentions(line, call) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_shipped_code_is_found() {
        let text = "fn a() {\n    b.unwrap();\n    c.unwrap_or(0);\n    d()\n        .expect(\"e\");\n    panic!(\"f\");\n}\n";
        let found = check(&Tree::of_texts(&[("crates/decode/src/a.rs", text)]));
        assert_eq!(found.iter().map(|one| one.line).collect::<Vec<_>>(), [2, 5, 6]);
    }

    #[test]
    fn tests_and_other_crates_may() {
        let text = "#[cfg(test)]\nmod tests {\n    fn a() {\n        b.unwrap();\n    }\n}\n";
        let other = "fn a() {\n    b.unwrap();\n}\n";
        let tree = Tree::of_texts(&[
            ("crates/decode/src/a.rs", text),
            ("crates/decode/src/a_tests.rs", other),
            ("crates/report/src/a.rs", other),
        ]);
        assert_eq!(check(&tree), []);
    }
}
