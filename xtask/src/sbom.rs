//! What the binary consists of: a CycloneDX bill of materials, of `cargo metadata` alone. The same sources give the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// Writes the bill of the `holdup` package.
pub fn write(file: &Path) -> Result<ExitCode> {
    let words =
        ["metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"];
    let output = Command::new("cargo").args(words).output().context("running cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    let metadata: Value = serde_json::from_slice(&output.stdout).context("reading cargo metadata")?;
    let sums = checksums(&std::fs::read_to_string("Cargo.lock").context("reading Cargo.lock")?);
    let bill = bill(&metadata, "holdup", &sums).context("cargo metadata has no package holdup")?;
    let count = bill["components"].as_array().map_or(0, Vec::len);
    std::fs::write(file, format!("{bill:#}\n")).with_context(|| format!("writing {}", file.display()))?;
    println!("sbom: {count} components in {}", file.display());
    Ok(ExitCode::SUCCESS)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// SHA-256 of each package's archive by name and version, as the lock file has it.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let package =
        |block: &str| Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?));
    lock.split("[[package]]").filter_map(package).collect()
}

fn bill(metadata: &Value, root: &str, sums: &BTreeMap<(String, String), String>) -> Option<Value> {
    let packages: BTreeMap<&str, &Value> =
        list(&metadata["packages"]).iter().map(|package| (text(&package["id"]), package)).collect();
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"]).iter().map(|node| (text(&node["id"]), node)).collect();
    let root = *packages.iter().find(|(_, package)| text(&package["name"]) == root)?.0;
    let used = reached(&nodes, root);
    let components: BTreeSet<String> = used
        .iter()
        .filter(|id| **id != root)
        .filter_map(|id| packages.get(id))
        .map(|package| component(package, sums).to_string())
        .collect();
    let components: Vec<Value> =
        components.iter().filter_map(|component| serde_json::from_str(component).ok()).collect();
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(packages.get(root)?, sums)},
        "components": components,
    }))
}

/// The run-time dependencies of `root`, itself included, without test and build dependencies.
fn reached<'a>(nodes: &BTreeMap<&'a str, &'a Value>, root: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![root];
    while let Some(id) = next.pop() {
        if !reached.insert(id) {
            continue;
        }
        let needed = nodes.get(id).map_or(&[][..], |node| list(&node["deps"]));
        let linked =
            needed.iter().filter(|one| list(&one["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()));
        next.extend(linked.map(|one| text(&one["pkg"])));
    }
    reached
}

fn component(package: &Value, sums: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) = (text(&package["name"]), text(&package["version"]));
    let own = package["source"].is_null();
    let mut component = json!({
        "type": if own && name == "holdup" { "application" } else { "library" },
        "name": name,
        "version": version,
        "purl": format!("pkg:cargo/{name}@{version}"),
        "licenses": [{"expression": text(&package["license"]).replace('/', " OR ")}],
    });
    if let Some(sum) = sums.get(&(name.to_owned(), version.to_owned())) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_and_what_only_builds_is_not() {
        let package = |name: &str, source: Value| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source});
        let needs = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("holdup", Value::Null), package("linked", "registry".into()),
                         package("below", "registry".into()), package("builder", "registry".into())],
            "resolve": {"nodes": [
                {"id": "holdup", "deps": [needs("linked", Value::Null), needs("builder", "build".into())]},
                {"id": "linked", "deps": [needs("below", Value::Null)]},
                {"id": "below", "deps": []},
            ]},
        });
        let lock = "[[package]]\nname = \"below\"\nversion = \"1.0.0\"\nchecksum = \"ab12\"\n";
        let bill = bill(&metadata, "holdup", &checksums(lock)).unwrap();
        let names: Vec<&str> = list(&bill["components"]).iter().map(|one| text(&one["name"])).collect();
        assert_eq!(names, ["below", "linked"]);
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "ab12");
        assert_eq!(bill["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["metadata"]["component"]["type"], "application");
    }
}
