//! Matches the built-in descriptors against names recorded from real binaries (`fixtures/symbols`), so that a
//! renamed function is noticed. Matches their rules against stacks made of such names.

use std::collections::BTreeSet;
use std::path::PathBuf;

use holdup_findings::derive::stacks::folding::matches;
use holdup_findings::descriptors::{Descriptors, Runtime, plain_name};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/symbols")).join(format!("{name}.txt"))
}

/// Patterns of functions and of variables.
fn patterns(runtime: &Runtime) -> BTreeSet<&str> {
    let of_rules = runtime
        .rules
        .iter()
        .flat_map(|rule| rule.leaf.iter().chain(&rule.any).chain(&rule.within).chain(&rule.futex));
    let of_spans = runtime.spans.iter().flat_map(|span| span.entry.iter().chain(&span.end));
    let functions = of_spans.filter(|name| !name.starts_with("usdt:"));
    let marks = runtime.function_marks.iter().chain(&runtime.collects_for_memory).chain(&runtime.works);
    let requests = runtime.requests.iter().flat_map(|request| &request.any);
    let sleeps = runtime.sleeps.by.iter().chain(&runtime.sleeps.unless);
    let known = [&runtime.work, &runtime.blocking, &runtime.starting, &runtime.writing, &runtime.sleeping]
        .into_iter()
        .flatten();
    let work = known.flat_map(|work| &work.any);
    let tasks = runtime.task_waits.iter().flat_map(|probe| {
        let waits = probe.waits.iter().map(|waits| &waits.entry);
        waits.chain(probe.goes_on.iter().map(|wakes| &wakes.entry)).chain(&probe.locks)
    });
    of_rules
        .chain(marks)
        .chain(tasks)
        .chain(requests)
        .chain(work)
        .chain(sleeps)
        .chain(functions)
        .map(String::as_str)
        .collect()
}

/// Names that a pattern keeps in the fixture.
const KEPT: usize = 2;

/// Makes the fixture of all of a binary's names: those that are asked for, and the patterns that ask in vain.
fn record(runtime: &Runtime, names: &[String]) -> String {
    let mut kept = BTreeSet::new();
    let mut missing = BTreeSet::new();
    for pattern in patterns(runtime) {
        let of_pattern = names.iter().filter(|name| matches(pattern, &plain_name(name)));
        let before = kept.len();
        let found: Vec<&String> = of_pattern.take(KEPT).collect();
        kept.extend(found.iter().copied());
        if kept.len() == before && found.is_empty() {
            missing.insert(format!("# not here: {pattern}"));
        }
    }
    missing.into_iter().chain(kept.into_iter().cloned()).map(|line| line + "\n").collect()
}

#[test]
fn every_pattern_is_in_the_recorded_names_or_marked_as_absent() {
    for runtime in Descriptors::built_in().runtimes() {
        // HOLDUP_NAMES=FOLDER/ with NAME.txt, all names of a binary from `nm -C`: records them again.
        if let Ok(folder) = std::env::var("HOLDUP_NAMES") {
            let Ok(text) = std::fs::read_to_string(format!("{folder}/{}.txt", runtime.name)) else {
                continue;
            };
            let names: Vec<String> = text.lines().map(str::to_owned).collect();
            std::fs::write(fixture(&runtime.name), record(runtime, &names)).unwrap();
        }
        let text = std::fs::read_to_string(fixture(&runtime.name)).unwrap();
        let names: Vec<_> =
            text.lines().filter(|line| !line.starts_with('#')).map(|name| plain_name(name)).collect();
        for pattern in patterns(runtime) {
            let found = names.iter().any(|name| matches(pattern, name));
            let said = text.lines().any(|line| line.strip_prefix("# not here: ") == Some(pattern));
            assert!(
                found != said,
                "{}: {pattern} is {}in the names",
                runtime.name,
                if found { "" } else { "not " }
            );
        }
    }
}

/// A descriptor of which the recorded names have nothing would be dead.
#[test]
fn every_descriptor_recognises_its_runtime_by_the_recorded_names() {
    for runtime in Descriptors::built_in().runtimes() {
        let text = std::fs::read_to_string(fixture(&runtime.name)).unwrap();
        let names = || text.lines().filter(|line| !line.starts_with('#')).map(|name| plain_name(name));
        let marked = runtime.function_marks.iter().any(|mark| names().any(|name| matches(mark, &name)));
        assert!(marked || !runtime.module_marks.is_empty(), "{}", runtime.name);
        let rules = runtime.rules.iter().filter(|rule| {
            let mut asked = rule.leaf.iter().chain(&rule.any).chain(&rule.within).chain(&rule.futex);
            asked.any(|pattern| names().any(|name| matches(pattern, &name)))
        });
        let by_other_means = |runtime: &Runtime| {
            let rules = runtime.rules.iter();
            rules
                .filter(|rule| {
                    !rule.leaf_module.is_empty() || !rule.module.is_empty() || !rule.thread.is_empty()
                })
                .count()
        };
        let live = rules.count() + by_other_means(runtime);
        assert!(live * 2 >= runtime.rules.len(), "{}: {live} of {} rules", runtime.name, runtime.rules.len());
    }
}

/// Many names stayed the same between versions. The marks of a runtime must exist in that version only.
#[test]
fn ocaml_4_is_not_taken_for_5() {
    let known =
        |name: &str| Descriptors::built_in().runtimes().iter().find(|one| one.name == name).cloned().unwrap();
    let marked = |runtime: &Runtime, file: &str| {
        let text = std::fs::read_to_string(fixture(file)).unwrap();
        let names: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let of = |mark: &&String| names.iter().any(|name| matches(mark, name));
        runtime.function_marks.iter().filter(of).cloned().collect::<Vec<_>>()
    };
    let (old, new) = (known("ocaml4"), known("ocaml5"));
    // All functions of the runtime in a program of 4.14.
    assert_eq!(marked(&new, "ocaml414-all"), Vec::<String>::new());
    assert!(marked(&old, "ocaml414-all").len() > 4);
    assert_eq!(marked(&old, "ocaml5"), Vec::<String>::new());
}
