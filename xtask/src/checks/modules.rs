//! Every Rust source file is compiled. A file that no module declares is ignored by the compiler, and its
//! tests do not run.

use super::Complaint;
use crate::rust_text::code_only;
use crate::tree::{File, Tree};

/// A file below a `src` folder is the root of a target, or its parent module declares it. The same holds for
/// files next to the `main.rs` of a test program.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    tree.with_extension(&["rs"])
        .filter(|file| file.path.contains("src/") || is_of_one_program(tree, &file.path))
        .filter(|file| !is_root(&file.path) && !is_declared(tree, &file.path))
        .map(|file| {
            Complaint::new(&file.path, 1, "no module declares this file, so it is not compiled: add `mod`")
        })
        .collect()
}

fn is_of_one_program(tree: &Tree, path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.contains("tests/") && tree.get(&format!("{folder}/main.rs")).is_some()
}

fn is_root(path: &str) -> bool {
    path.ends_with("src/lib.rs") || path.ends_with("/main.rs") || path.contains("src/bin/")
}

fn is_declared(tree: &Tree, path: &str) -> bool {
    let Some((mut folder, name)) = path.rsplit_once('/') else { return true };
    let mut module = name.trim_end_matches(".rs");
    if let ("mod", Some((above, own))) = (module, folder.rsplit_once('/')) {
        (folder, module) = (above, own);
    }
    let owners = ["/mod.rs", "/lib.rs", "/main.rs", ".rs"].map(|end| format!("{folder}{end}"));
    owners.iter().filter_map(|owner| tree.get(owner)).any(|owner| names(owner, module))
        || by_path(tree, folder, name)
}

/// `mod module;`, or the module as a word in the list of a macro that declares many.
fn names(owner: &File, module: &str) -> bool {
    let code = code_only(owner.text.as_deref().unwrap_or(""));
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let declared = code.contains(&format!("mod {module};"));
    declared
        || (code.contains("mod $") || code.contains("! {"))
            && code.split(|c| !is_word(c)).any(|word| word == module)
}

/// Another file in the folder has `#[path = "name"]`.
fn by_path(tree: &Tree, folder: &str, name: &str) -> bool {
    let wanted = format!("#[path = \"{name}\"]");
    tree.with_extension(&["rs"])
        .filter(|file| file.path.starts_with(folder))
        .any(|file| file.text.as_deref().is_some_and(|text| text.contains(&wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undeclared_file_is_found() {
        let tree = Tree::of_texts(&[
            ("src/lib.rs", "mod a;\nmod rules;\n// mod lost;"),
            ("src/a/mod.rs", "mod b;\n#[path = \"b_tests.rs\"]\nmod tests;"),
            ("src/a/b.rs", ""),
            ("src/a/b_tests.rs", ""),
            ("src/a/tests.rs", ""),
            ("src/lost.rs", ""),
            ("src/rules/mod.rs", "rules! {\n    one,\n}"),
            ("src/rules/one.rs", ""),
            ("src/bin/tool.rs", ""),
            ("tests/live.rs", ""),
            ("tests/all/main.rs", "mod one;"),
            ("tests/all/one.rs", ""),
            ("tests/all/two.rs", ""),
            ("tests/support/other.rs", ""),
        ]);
        let lost: Vec<String> = check(&tree).into_iter().map(|one| one.path).collect();
        assert_eq!(lost, ["src/lost.rs", "tests/all/two.rs"]);
    }
}
