//! No paths of a developer's machine.

use super::Complaint;
use crate::tree::Tree;

/// Written in pieces, so that this file obeys too.
const FOLDERS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/fa", "rm/"), concat!("/tmp/", "target")];

/// Every text file.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in &tree.files {
        for (line, text) in file.lines() {
            for folder in FOLDERS.iter().filter(|folder| names_folder(text, folder)) {
                let what = format!("{folder} is a path of one machine: make it relative or a setting");
                complaints.push(Complaint::new(&file.path, line, what));
            }
        }
    }
    complaints
}

/// At the start of a path, not inside a longer one.
fn names_folder(text: &str, folder: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || "_.-}~$".contains(c);
    text.match_indices(folder).any(|(at, _)| !text[..at].ends_with(continues))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_but_not_its_likeness() {
        let text = format!("cd {}x\nnet{0}y\n", FOLDERS[0]);
        let found = check(&Tree::of_texts(&[("a.sh", &text)]));
        assert_eq!(found.iter().map(|one| one.line).collect::<Vec<_>>(), [1]);
    }
}
