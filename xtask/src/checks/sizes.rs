//! No file is longer than 800 lines, so that it can be read as a whole.

use super::Complaint;
use crate::tree::Tree;

/// In lines, tests included.
const LINES_MAX: usize = 800;

const CODE: &[&str] = &["rs", "c", "h", "ts", "py", "sh", "html", "css", "md", "toml", "sql"];

/// Code and prose. Generated lock files are not code.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.with_extension(CODE) {
        let lines = file.lines().count();
        if lines > LINES_MAX && !file.path.ends_with("CHANGELOG.md") {
            let what = format!("{lines} lines, at most {LINES_MAX}: split it by what a reader looks for");
            complaints.push(Complaint::new(&file.path, LINES_MAX + 1, what));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_named_at_its_first_line_too_many() {
        let tree = Tree::of_texts(&[("a.rs", &"\n".repeat(801)), ("b.rs", &"\n".repeat(800))]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("a.rs", 801));
    }
}
