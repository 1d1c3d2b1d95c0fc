//! Every tracked Rust file is as rustfmt writes it.
//!
//! `cargo fmt` does not see modules that a registry's macro declares, hence file by file.

use std::collections::BTreeSet;
use std::process::Command;

use super::Complaint;
use crate::tree::Tree;

/// Runs `rustfmt --check` over all of them at once.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let paths: Vec<&str> = tree.with_extension(&["rs"]).map(|file| file.path.as_str()).collect();
    if paths.is_empty() || tree.top.as_os_str().is_empty() {
        return Vec::new();
    }
    let run = Command::new("rustfmt")
        .current_dir(&tree.top)
        .args(["--check", "--edition", "2024", "--color", "never"])
        .args(&paths)
        .output();
    match run {
        Ok(output) => {
            let top = format!("{}/", tree.top.display());
            let mut complaints = complaints_of(&String::from_utf8_lossy(&output.stdout), &top);
            if !output.status.success() && complaints.is_empty() {
                let said = String::from_utf8_lossy(&output.stderr);
                complaints.push(Complaint::new(paths[0], 1, format!("rustfmt: {}", said.trim())));
            }
            complaints
        }
        Err(error) => vec![Complaint::new("rustfmt.toml", 1, format!("rustfmt does not run: {error}"))],
    }
}

/// Parses `Diff in PATH:LINE:`. A file reached twice, directly and from its parent, counts once.
fn complaints_of(stdout: &str, top: &str) -> Vec<Complaint> {
    let places: BTreeSet<(String, usize)> = stdout
        .lines()
        .filter_map(|line| line.strip_prefix("Diff in ")?.trim_end_matches(':').rsplit_once(':'))
        .filter_map(|(path, line)| {
            Some((path.strip_prefix(top).unwrap_or(path).to_owned(), line.parse().ok()?))
        })
        .collect();
    places
        .iter()
        .map(|(path, line)| Complaint::new(path, *line, "not formatted: run rustfmt on it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rustfmt_output_becomes_places() {
        let said = "Diff in /x/src/a.rs:7:\n-a\n+b\nDiff in /x/src/a.rs:7:\nDiff in /x/b.rs:12:\n";
        let found: Vec<_> = complaints_of(said, "/x/").into_iter().map(|one| (one.path, one.line)).collect();
        assert_eq!(found, [("b.rs".to_owned(), 12), ("src/a.rs".to_owned(), 7)]);
    }
}
