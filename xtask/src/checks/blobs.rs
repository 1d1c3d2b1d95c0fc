//! No large file: every clone would carry it for ever.

use super::Complaint;
use crate::tree::Tree;

const BYTES_MAX: usize = 512 * 1024;

/// Every tracked file.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let too_large = tree.files.iter().filter(|file| file.bytes > BYTES_MAX);
    too_large
        .map(|file| {
            let what =
                format!("{} KiB, at most {}: generate it instead", file.bytes / 1024, BYTES_MAX / 1024);
            Complaint::new(&file.path, 1, what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_is_found() {
        let text = "x".repeat(BYTES_MAX + 1);
        let found = check(&Tree::of_texts(&[("a.bin", &text), ("b.bin", &text[1..])]));
        assert_eq!(found.into_iter().map(|one| one.path).collect::<Vec<_>>(), ["a.bin"]);
    }
}
