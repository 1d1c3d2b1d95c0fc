//! Checks the documentation's tables of kernels: the requirements of sources in docs/install.md, the measurements in
//! docs/kernels.md.

use std::collections::BTreeMap;

use holdup_capture::sources::{self, Linux, Source};

/// Before this version, probes at functions need root ([`holdup_capture::bpf::ProbeForm`]).
const PROBES_WITHOUT_ROOT: Linux = Linux(6, 6);

/// Sources of parts of the kernel that realtime kernels leave out: transparent huge pages depend on !PREEMPT_RT (mm/Kconfig).
const NOT_ON_REALTIME: [&str; 1] = ["huge-pages"];

fn text(path: &str) -> String {
    std::fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).expect(path)
}

/// The cells of each row of the table below `heading`, without the table's head.
fn rows(document: &str, heading: &str) -> Vec<Vec<String>> {
    let below = document.split_once(heading).unwrap_or_else(|| panic!("no {heading}")).1;
    let table =
        below.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    table.skip(2).map(cells).collect()
}

fn version(text: &str) -> Linux {
    let mut numbers = text.split('.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or_else(|_| panic!("{text} is no version"))
    });
    Linux(numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The rows that docs/install.md must have: each kernel from which on more is recorded, and what.
fn expected() -> Vec<Vec<String>> {
    let mut by_version: BTreeMap<Linux, Vec<String>> = BTreeMap::new();
    let oldest = sources::ALL.iter().map(|source| source.since).min().expect("a source");
    for source in sources::ALL.iter().filter(|source| source.since > oldest) {
        by_version.entry(source.since).or_default().push(source.summary.to_owned());
    }
    by_version
        .entry(PROBES_WITHOUT_ROOT)
        .or_default()
        .push("probes at functions of runtimes without root".to_owned());
    let first = [format!("before {oldest}"), "BPF is not available: perf events are used".to_owned()];
    let core = [
        oldest.to_string(),
        "everything except the following, and probes at functions of runtimes as root".to_owned(),
    ];
    let later = by_version.into_iter().map(|(version, what)| [version.to_string(), what.join(", ")]);
    [first, core].into_iter().chain(later).map(Vec::from).collect()
}

#[test]
fn the_manual_lists_the_features_of_each_kernel() {
    let found = rows(&text("docs/install.md"), "<!-- by kernel -->");
    let lines = |rows: &[Vec<String>]| {
        rows.iter().map(|row| format!("| {} |\n", row.join(" | "))).collect::<String>()
    };
    assert_eq!(lines(&found), lines(&expected()), "the table of docs/install.md");
}

/// Sources of which at least one program is needed and missing on a kernel, by the measured table.
fn source_of(cell: &str) -> &'static Source {
    let program = cell.trim_matches('`');
    sources::of_program(program).unwrap_or_else(|| panic!("no source has {program}"))
}

#[test]
fn kernels_that_were_tried_agree() {
    let measured = text("docs/kernels.md");
    let kernels: BTreeMap<String, Vec<String>> = rows(&measured, "# Kernels")
        .into_iter()
        .filter(|row| row.get(1).is_some_and(|release| release.starts_with(char::is_numeric)))
        .map(|row| (row[0].clone(), row))
        .collect();
    assert!(kernels.len() >= 5, "{kernels:?}");
    let oldest = sources::ALL.iter().map(|source| source.since).min().expect("a source");
    for (name, row) in &kernels {
        let has_bpf = !row[4].starts_with("none");
        if !row[4].is_empty() {
            assert_eq!(has_bpf, version(&row[1]) >= oldest, "{name}: {}", row[4]);
        }
    }
    let refused = if measured.contains("## Programs that a kernel refuses") {
        rows(&measured, "## Programs that a kernel refuses")
    } else {
        Vec::new()
    };
    for row in refused {
        let source = source_of(&row[0]);
        for name in row[2].split(", ") {
            let release = version(&kernels[name][1]);
            let is_left_out = kernels[name][2].starts_with("rt") && NOT_ON_REALTIME.contains(&source.name);
            assert!(
                release < source.since || is_left_out,
                "{} is missing on {name}: {}",
                source.name,
                row[1]
            );
        }
    }
}
