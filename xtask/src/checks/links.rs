//! What a text refers to is there: Markdown links, and pages of `docs/` named anywhere.

use super::Complaint;
use crate::tree::{File, Tree};

/// Links to other sites are not followed.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.with_extension(&["md", "rs", "c", "h", "ts", "toml", "py"]) {
        for (line, text) in file.lines() {
            let pages = page_names(text).into_iter().map(str::to_owned);
            let targets = if file.extension() == "md" { link_targets(file, text) } else { Vec::new() };
            for target in pages.chain(targets).filter(|target| !exists(tree, target)) {
                complaints.push(Complaint::new(&file.path, line, format!("{target} is not there")));
            }
        }
    }
    complaints
}

fn exists(tree: &Tree, target: &str) -> bool {
    let folder = format!("{}/", target.trim_end_matches('/'));
    tree.get(target).is_some() || tree.files.iter().any(|file| file.path.starts_with(&folder))
}

/// A Markdown page of the `docs` folder, as a word of its own.
fn page_names(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_/.".contains(c);
    let words = text.split(|c: char| !is_name(c)).map(|word| word.trim_end_matches('.'));
    words.filter(|word| word.starts_with("docs/") && word.ends_with(".md")).collect()
}

/// The relative targets of `](target)`, as paths from the top.
fn link_targets(file: &File, text: &str) -> Vec<String> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .map(|target| target.split('#').next().unwrap_or(""))
        .filter(|target| !target.is_empty() && !target.contains(':') && !target.contains(' '))
        .map(|target| resolve(folder, target))
        .collect()
}

fn resolve(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_found() {
        let page = concat!("docs", "/gone.md");
        let tree = Tree::of_texts(&[
            ("a.md", "[b](pages/b.md) [c](c.md#d) [e](https://e.org) `v[i](x, y)`\n"),
            ("pages/b.md", "[a](../a.md) [folder](../pages)\n"),
            ("d.rs", &format!("//! See {page}.\n")),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|one| (one.path, one.what)).collect();
        let missing = [("a.md", "c.md"), ("d.rs", page)];
        assert_eq!(found, missing.map(|(path, what)| (path.to_owned(), format!("{what} is not there"))));
    }
}
