//! Which crate may depend on which: the fences of ARCHITECTURE.md.

use super::Complaint;
use crate::tree::Tree;

/// A crate and the workspace crates that its shipped code may use.
const FENCES: &[(&str, &[&str])] = &[
    ("events", &[]),
    ("capture", &["holdup-events"]),
    ("decode", &["holdup-events"]),
    ("findings", &["holdup-events"]),
    ("report", &["holdup-events", "holdup-findings"]),
    ("query", &["holdup-events", "holdup-findings"]),
];

/// The kernel and privileges are capture's alone.
const CAPTURE_ONLY: &[&str] = &["libbpf-rs", "libbpf-sys", "libc"];

/// Reads `[dependencies]` of each crate behind a fence.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (name, allowed) in FENCES {
        let Some(file) = tree.get(&format!("crates/{name}/Cargo.toml")) else { continue };
        let mut section = "";
        for (line, text) in file.lines() {
            if text.starts_with('[') {
                section = text;
                continue;
            }
            let dependency = text.split(['.', '=', ' ']).next().unwrap_or("");
            let is_outside = dependency.starts_with("holdup-") && !allowed.contains(&dependency);
            let is_kernel = CAPTURE_ONLY.contains(&dependency) && *name != "capture";
            if section == "[dependencies]" && (is_outside || is_kernel) {
                let what = format!("{name} must not depend on {dependency} (ARCHITECTURE.md, fences)");
                complaints.push(Complaint::new(&file.path, line, what));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_through_the_fence_is_named() {
        let manifest = "[dependencies]\nholdup-decode.workspace = true\nlibc = \"0.2\"\n[dev-dependencies]\nholdup-testkit.workspace = true\n";
        let found = check(&Tree::of_texts(&[("crates/findings/Cargo.toml", manifest)]));
        assert_eq!(found.iter().map(|one| one.line).collect::<Vec<_>>(), [2, 3]);
    }
}
