//! Names that bite.

use holdup_events::ThreadId;
use holdup_events::recording::Backend;
use holdup_findings::analyse;
use holdup_findings::derive::lines::{LineThread, SharedData};
use holdup_report::{Style, render, to_json};
use proptest::prelude::*;

use super::{busy, some_counts};

/// Columns of the printed characters, without terminal escape sequences.
fn plain(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\x1b' {
            chars.by_ref().find(|c| *c == 'm');
        } else {
            out.push(c);
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_name_is_harmless(name in "\\PC{0,40}|(?s).{0,40}", colour: bool, width in 0usize..200) {
        let (mut trace, _) = busy();
        trace.threads.iter_mut().for_each(|thread| thread.name.clone_from(&name));
        trace.processes.iter_mut().for_each(|process| process.name.clone_from(&name));
        trace.frames.iter_mut().for_each(|frame| frame.function.clone_from(&name));
        trace.manifest.command = vec![name.clone()];
        trace.manifest.backend_reason.clone_from(&name);
        trace.manifest.backend = Backend::Perf;
        trace.manifest.sources.iter_mut().for_each(|source| source.missing.clone_from(&name));
        let mut analysis = analyse(&trace);
        trace.manifest.backend = Backend::Bpf;
        analysis.findings = analyse(&trace).findings;
        let part = LineThread { part: name.clone(), ..LineThread::default() };
        analysis.derived.lines.push(SharedData {
            name: name.clone(),
            functions: vec![(name.clone(), 1)],
            lines: vec![64],
            threads: vec![part],
            ..SharedData::default()
        });
        analysis.derived.hardware = some_counts(ThreadId(0));
        analysis.derived.hardware.names[0].clone_from(&name);
        let style = Style { colour, width, ..Style::default() };
        let names: Vec<String> = holdup_report::section_names().iter().map(|name| (*name).to_owned()).collect();
        let said = render(&trace, &analysis, &names, &style).unwrap();
        prop_assert!(colour || !said.contains('\x1b'));
        for line in said.lines().map(plain) {
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
            prop_assert!(line.chars().count() <= width.clamp(60, 120) + 40, "{line}");
            if name.is_ascii() {
                prop_assert!(line.chars().count() <= width.clamp(60, 120), "{line}");
            }
        }
        serde_json::to_string(&to_json(&trace, &analysis)).unwrap();
        for exporter in holdup_report::exporters::all() {
            let options = holdup_report::exporters::Options::default();
            exporter.write(&trace, &analysis, &options, &mut std::io::sink()).unwrap();
        }
    }
}
