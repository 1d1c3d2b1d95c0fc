//! Data races reported by other tools, imported: each is one finding, with both stacks.

mod support;

use serde_json::Value;
use support::{Scratch, holdup, stderr, stdout};

fn findings(name: &str) -> Vec<Value> {
    let scratch = Scratch::new(&format!("races-{name}"));
    let report = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/races/").to_owned() + name;
    let recording = scratch.join("races.holdup");
    let out =
        holdup(&scratch).args(["import", "--json", "-o"]).arg(&recording).arg(&report).output().unwrap();
    assert!(out.status.success(), "{name}: {}", stderr(&out));
    let report: Value = serde_json::from_str(&stdout(&out)).unwrap();
    let is_race = |finding: &&Value| finding["rule"] == "data-race";
    report["findings"].as_array().unwrap().iter().filter(is_race).cloned().collect()
}

fn summary(finding: &Value) -> String {
    finding["summary"].to_string()
}

#[test]
fn each_race_is_reported_once_with_both_stacks() {
    let go = findings("go.txt");
    assert_eq!(go.len(), 1, "{go:#?}");
    assert_eq!(go[0]["subject"], "main.(*account).deposit (race.go:10)");
    assert!(summary(&go[0]).contains("main.main.func1 (race.go:20)"), "{go:#?}");
    // Reads and writes of `total` at one place are one race. The race on `ready` is another.
    for name in ["tsan.txt", "helgrind.txt"] {
        let found = findings(name);
        assert_eq!(found.len(), 2, "{found:#?}");
        let all: String = found.iter().map(summary).collect();
        assert!(all.contains("total") && all.contains("ready"), "{all}");
    }
    let drd = findings("drd.txt");
    assert!(drd.iter().any(|one| one["subject"].as_str().unwrap().contains("add (race.c:5)")), "{drd:#?}");
}
