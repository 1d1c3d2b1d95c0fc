//! The verdicts on random programs, compared with a reviewed file. `HOLDUP_BLESS=1` writes the file. Changes of
//! structure do not change it. Changes of judgement show their effects in it.

use std::fmt::Write;

use holdup_findings::analyse;
use holdup_testkit::assemble;
use holdup_testkit::sim::{self, Simulation};

const SEEDS: u64 = 120;

/// One line per finding: rule, subject, bounds of the gain, likely gain, confidence, cost, and the rules whose
/// findings it accounts for.
fn verdict(name: &str, run: Simulation) -> String {
    let analysis = analyse(&assemble(run.events, run.manifest));
    let mut text = format!("{name}\n");
    for (index, finding) in analysis.findings.iter().enumerate() {
        let of_it = analysis.symptoms.iter().filter(|symptom| symptom.root == index);
        let symptoms: String = of_it.map(|symptom| format!(" | {}", symptom.finding.rule)).collect();
        let likely = finding.likely.map_or("-".to_owned(), |likely| format!("{likely:.4}"));
        writeln!(
            text,
            "  {} | {} | {:.4} to {:.4} | {likely} | {:?} | {} ns{}",
            finding.rule,
            finding.subject,
            finding.gain.low,
            finding.gain.high,
            finding.confidence,
            finding.cost_ns,
            symptoms,
        )
        .unwrap();
    }
    text
}

#[test]
fn verdicts_on_random_programs_are_the_reviewed_ones() {
    let mut said = String::new();
    for seed in 0..SEEDS {
        said += &verdict(&format!("whole {seed}"), sim::run(&sim::whole(seed)));
        said += &verdict(&format!("endless {seed}"), sim::simulate(seed));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pinned.txt");
    if std::env::var_os("HOLDUP_BLESS").is_some() {
        std::fs::write(path, &said).unwrap();
    }
    let wanted = std::fs::read_to_string(path).unwrap_or_default();
    let differs = said.lines().zip(wanted.lines()).find(|(said, wanted)| said != wanted);
    assert_eq!(differs, None, "the first line that differs (HOLDUP_BLESS=1 accepts)");
    assert_eq!(said.lines().count(), wanted.lines().count(), "lines of {path} (HOLDUP_BLESS=1 accepts)");
}
