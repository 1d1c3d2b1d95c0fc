//! No white space at the end of a line, and a line feed at the end of every file.

use super::Complaint;
use crate::tree::{File, Tree};

/// Every text file, fixtures and goldens excepted: they are what a program wrote.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let is_ours = |file: &&File| {
        !file.path.contains("fixtures/") || file.extension() == "rs" || file.extension() == "md"
    };
    tree.files.iter().filter(is_ours).filter(|file| file.extension() != "snap").flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Complaint> {
    let trails = |(_, line): &(usize, &str)| line.ends_with([' ', '\t', '\r']);
    let mut complaints: Vec<Complaint> = file
        .lines()
        .filter(trails)
        .map(|(line, _)| Complaint::new(&file.path, line, "white space at the end of the line"))
        .collect();
    if file.text.as_deref().is_some_and(|text| !text.is_empty() && !text.ends_with('\n')) {
        complaints.push(Complaint::new(
            &file.path,
            file.lines().count(),
            "no line feed at the end of the file",
        ));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_found() {
        let found = check(&Tree::of_texts(&[("a.md", "b \nc"), ("d.md", "e\n"), ("f.md", "")]));
        assert_eq!(found.iter().map(|one| one.line).collect::<Vec<_>>(), [1, 2]);
    }
}
