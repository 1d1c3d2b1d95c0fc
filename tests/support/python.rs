//! The Pythons that `./dev setup` keeps, each with modules that some tests ask.

use std::path::PathBuf;
use std::process::Command;

/// The first that has these modules: of the kept ones in `folders`, else the one on the PATH. Prints a skip if there is none.
pub fn python_with(modules: &str, folders: &[&str]) -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).unwrap_or_default();
    let kept = folders.iter().map(|folder| cache.join("holdup").join(folder).join("bin/python"));
    let script = format!("import {modules}");
    let has_them = |python: &PathBuf| {
        Command::new(python).args(["-c", &script]).output().is_ok_and(|tried| tried.status.success())
    };
    let found = kept.chain([PathBuf::from("python3")]).find(has_them);
    if found.is_none() {
        println!("skipped: there is no Python with {modules} (`./dev setup` gets one)");
    }
    found
}
