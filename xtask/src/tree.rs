//! The tracked files, read once and handed to every check.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// One tracked file.
#[derive(Debug)]
pub struct File {
    /// Relative to the top of the repository, with `/`.
    pub path: String,
    /// Size in bytes.
    pub bytes: usize,
    /// Content as text, `None` for a binary file.
    pub text: Option<String>,
}

impl File {
    /// The part after the last dot of the name, empty if there is none.
    pub fn extension(&self) -> &str {
        self.path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map_or("", |(_, end)| end)
    }

    /// Lines with their numbers, from 1. Empty for a binary file.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.as_deref().unwrap_or("").lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// All tracked files, in the order of their paths.
#[derive(Debug, Default)]
pub struct Tree {
    /// Root folder of the repository, empty in tests.
    pub top: PathBuf,
    /// The files.
    pub files: Vec<File>,
}

impl Tree {
    /// Existing files that `git ls-files` lists.
    pub fn of_git() -> Result<Tree> {
        let top = PathBuf::from(git(Path::new("."), &["rev-parse", "--show-toplevel"])?.trim_end());
        let names = git(&top, &["ls-files", "-z", "--cached"])?;
        let mut files: Vec<File> =
            names.split('\0').filter(|name| !name.is_empty()).filter_map(|name| read(&top, name)).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(Tree { top, files })
    }

    /// A tree of texts, for the tests of checks.
    #[cfg(test)]
    pub fn of_texts(texts: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            bytes: text.len(),
            text: Some((*text).to_owned()),
        };
        Tree { top: PathBuf::new(), files: texts.iter().map(file).collect() }
    }

    /// Files whose names end in one of these extensions.
    pub fn with_extension<'a>(&'a self, extensions: &'a [&str]) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| extensions.contains(&file.extension()))
    }

    /// The file at this path.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// None for links and for files that were removed but not yet committed so.
fn read(top: &Path, name: &str) -> Option<File> {
    let path = top.join(name);
    if !std::fs::symlink_metadata(&path).ok()?.is_file() {
        return None;
    }
    let content = std::fs::read(&path).ok()?;
    let bytes = content.len();
    let text = if content.contains(&0) { None } else { String::from_utf8(content).ok() };
    Some(File { path: name.to_owned(), bytes, text })
}

fn git(directory: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new("git").current_dir(directory).args(words).output().context("running git")?;
    ensure!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    String::from_utf8(output.stdout).context("a path that is not UTF-8")
}
