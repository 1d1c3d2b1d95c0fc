//! Every dependency may be shipped: its licence expression is satisfied by the allow list.
//!
//! Security advisories are `cargo deny`'s or `cargo audit`'s (deny.toml): they need a database.

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Licences that a permissive binary may carry. `deny.toml` has the same list.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The viewer page's dependencies and test tools. npm stores each package's licence in this file.
const NPM_LOCK: &str = "viewer/package-lock.json";

/// Asks `cargo metadata` and npm's lock file, and prints each dependency that may not be shipped.
pub fn check() -> Result<ExitCode> {
    let words = ["metadata", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"];
    let output = Command::new("cargo").args(words).output().context("running cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    let metadata: Value = serde_json::from_slice(&output.stdout).context("reading cargo metadata")?;
    let mut packages = used_packages(&metadata);
    let lock = std::fs::read_to_string(NPM_LOCK).with_context(|| format!("reading {NPM_LOCK}"))?;
    packages
        .extend(npm_packages(&serde_json::from_str(&lock).with_context(|| format!("reading {NPM_LOCK}"))?));
    let mut refused = 0;
    for (name, licence) in &packages {
        if !satisfied(licence) {
            println!("{name}: licence `{licence}` is not in the allow list of xtask/src/licences.rs");
            refused += 1;
        }
    }
    println!("licences: {} dependencies, {refused} refused", packages.len());
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Name, version and licence of every package that this platform builds, our own included.
fn used_packages(metadata: &Value) -> BTreeSet<(String, String)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let used: BTreeSet<String> =
        list(&metadata["resolve"]["nodes"]).iter().map(|node| text(&node["id"])).collect();
    list(&metadata["packages"])
        .iter()
        .filter(|package| used.contains(&text(&package["id"])))
        .map(|package| {
            let name = format!("{} {}", text(&package["name"]), text(&package["version"]));
            (name, text(&package["license"]))
        })
        .collect()
}

/// Name, version and licence of every package in npm's lock file except ours. A missing licence is returned
/// as empty, and refused.
fn npm_packages(lock: &Value) -> BTreeSet<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let packages = lock["packages"].as_object().into_iter().flatten();
    packages
        .filter(|(path, _)| !path.is_empty())
        .map(|(path, package)| {
            let name = path.rsplit("node_modules/").next().unwrap_or(path);
            (format!("npm {name} {}", text(&package["version"])), text(&package["license"]))
        })
        .collect()
}

/// Whether the SPDX expression is satisfied by the allow list. `A/B` is the old notation for `A OR B`.
fn satisfied(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any_of(&words, &mut at) == Some(true) && at == words.len()
}

/// As `all_of` and `one`: none if the expression is malformed.
fn any_of(words: &[&str], at: &mut usize) -> Option<bool> {
    let mut holds = all_of(words, at)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        holds |= all_of(words, at)?;
    }
    Some(holds)
}

fn all_of(words: &[&str], at: &mut usize) -> Option<bool> {
    let mut holds = one(words, at)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        holds &= one(words, at)?;
    }
    Some(holds)
}

fn one(words: &[&str], at: &mut usize) -> Option<bool> {
    let word = words.get(*at)?;
    *at += 1;
    if *word == "(" {
        let holds = any_of(words, at)?;
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return closed.then_some(holds);
    }
    // An exception only ever grants more.
    if words.get(*at) == Some(&"WITH") {
        *at += 2;
    }
    Some(ALLOWED.contains(word))
}

#[cfg(test)]
mod tests {
    use super::{npm_packages, satisfied};

    #[test]
    fn expressions_follow_spdx() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(satisfied(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT",
            "MIT)",
            "MIT OR",
            "Proprietary OR (GPL-2.0 AND MIT)",
        ] {
            assert!(!satisfied(bad), "{bad}");
        }
    }

    #[test]
    fn npm_packages_are_those_of_the_lock_file_and_none_without_a_licence_passes() {
        let lock = serde_json::json!({"packages": {
            "": {"license": "ours"},
            "node_modules/a": {"version": "1.0.0", "license": "MIT"},
            "node_modules/a/node_modules/@b/c": {"version": "2.1.0"},
        }});
        let found: Vec<(String, String)> = npm_packages(&lock).into_iter().collect();
        let wanted =
            [("npm @b/c 2.1.0", ""), ("npm a 1.0.0", "MIT")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(found, wanted);
        assert!(!satisfied(&found[0].1) && satisfied(&found[1].1));
    }

    #[test]
    fn the_list_is_the_one_of_deny_toml() {
        let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../deny.toml")).unwrap();
        for licence in super::ALLOWED {
            assert!(text.contains(&format!("\"{licence}\"")), "{licence}");
        }
    }
}
