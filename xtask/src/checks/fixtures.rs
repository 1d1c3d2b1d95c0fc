//! Every fixture has a recipe, so that it can be made again.

use std::collections::BTreeSet;

use super::Complaint;
use crate::tree::Tree;

/// A file below a `fixtures` folder needs a `RECIPE.md` in its folder or above it, up to that folder.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let lacking: BTreeSet<&str> =
        tree.files.iter().map(|file| file.path.as_str()).filter(|path| !has_recipe(tree, path)).collect();
    lacking
        .iter()
        .map(|path| Complaint::new(path, 1, "a fixture without a RECIPE.md, which describes how it was made"))
        .collect()
}

fn has_recipe(tree: &Tree, path: &str) -> bool {
    let Some(start) = fixtures_folder(path) else { return true };
    let mut folder = path;
    while let Some((above, _)) = folder.rsplit_once('/') {
        if above.len() < start {
            break;
        }
        if tree.get(&format!("{above}/RECIPE.md")).is_some() {
            return true;
        }
        folder = above;
    }
    false
}

/// Length of the path up to and with its first `fixtures` folder.
fn fixtures_folder(path: &str) -> Option<usize> {
    let mut length = 0;
    for part in path.split('/') {
        length += part.len();
        if part == "fixtures" && length < path.len() {
            return Some(length);
        }
        length += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixture_of_unknown_origin_is_found() {
        let tree = Tree::of_texts(&[
            ("RECIPE.md", ""),
            ("xtask/src/checks/fixtures.rs", ""),
            ("fixtures/recorded/a/trace", ""),
            ("fixtures/recorded/b/trace", ""),
            ("fixtures/recorded/b/RECIPE.md", ""),
        ]);
        assert_eq!(
            check(&tree).into_iter().map(|one| one.path).collect::<Vec<_>>(),
            ["fixtures/recorded/a/trace"]
        );
    }
}
