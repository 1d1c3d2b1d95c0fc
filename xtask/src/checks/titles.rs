//! Every file states its purpose at the top.

use super::Complaint;
use crate::tree::{File, Tree};

/// How many lines down a title may stand, behind a shebang or a licence.
const LINES_SEARCHED: usize = 4;

/// Rust: a `//!` line. C, TypeScript, Python, shell: a comment. Markdown: a heading.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let lacks = |file: &&File| !has_title(file);
    let complain = |file: &File| Complaint::new(&file.path, 1, "no title, which states the file's purpose");
    tree.files.iter().filter(lacks).map(complain).collect()
}

fn has_title(file: &File) -> bool {
    let starts: &[&str] = match file.extension() {
        "rs" => &["//!"],
        "c" | "h" => &["/*", "//", " *"],
        "ts" => &["/**", "/*", "//"],
        "py" => &["\"\"\"", "# "],
        "sh" => &["# "],
        "md" => &["# "],
        _ => return true,
    };
    let is_title = |line: &str| starts.iter().any(|start| line.starts_with(start)) && !line.contains("SPDX");
    file.lines().take(LINES_SEARCHED).any(|(_, line)| is_title(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_one_is_found() {
        let tree = Tree::of_texts(&[
            ("a.rs", "use std;\n"),
            ("b.rs", "//! B.\n"),
            ("c.h", "/* SPDX-License-Identifier: MIT */\nint c;\n"),
            ("d.h", "/* SPDX-License-Identifier: MIT */\n/*\n * D.\n"),
            ("e.md", "text\n"),
            ("f.md", "# F\n"),
            ("g.txt", "text\n"),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|one| one.path).collect();
        assert_eq!(found, ["a.rs", "c.h", "e.md"]);
    }
}
