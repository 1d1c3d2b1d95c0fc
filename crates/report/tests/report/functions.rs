//! Inside of functions: stacks, instructions, lines.

use holdup_events::tables::PYTHON_MODULE;
use holdup_findings::derive::stacks::{Spot, function_costs};
use holdup_report::annotate::{Annotation, MachineCode};
use holdup_report::stacks::{Shape, parse_classes};
use holdup_report::{StackAsk, Style, render_with};
use holdup_testkit::check::trace_of_lanes;

use super::{busy, golden, sections};

#[test]
fn stacks_flat_tree_and_around_a_function() {
    let (trace, analysis) = busy();
    let said = |ask: &StackAsk| {
        render_with(&trace, &analysis, (&sections(&["stacks"]), ask), &Style::default()).unwrap()
    };
    golden("stacks", &said(&StackAsk::default()));
    let tree = StackAsk { shape: Shape::Tree, ..StackAsk::default() };
    let named = StackAsk { classes_named: true, selection: parse_classes("on-cpu").unwrap(), ..tree };
    golden("stacks-tree", &said(&named));
    let around = StackAsk { function: Some("work".into()), shape: Shape::Callers, ..named };
    golden("stacks-function", &said(&around));
    let none = StackAsk { function: Some("nosuch".into()), ..StackAsk::default() };
    assert!(said(&none).contains("No stack goes through that function."));
}

/// A loop that calls, and a jump over it: `test; je end; again: call f; dec; jne again; end: ret`.
const CODE: [u8; 15] = [0x85, 0xff, 0x74, 0x0a, 0xe8, 0xf7, 0x0e, 0, 0, 0xff, 0xcf, 0x75, 0xf7, 0xc3, 0xc3];

pub fn annotated(render: impl Fn(&Annotation) -> String) -> String {
    // The function `work` lies at 0x100 in the picture's file, and was seen at 0x110.
    let (_, trace) = trace_of_lanes("@samples A 0..6 user main;work\nA  00000000\n");
    let mut costs = function_costs(&trace, &holdup_findings::derive::stacks::Selection::all(), "work");
    let offset = costs[0].spots.keys().next().unwrap() - 9;
    let code = MachineCode { offset, address: 0x1100, bytes: CODE.to_vec() };
    let spot = costs[0].spots.values_mut().next().unwrap();
    (spot.file, spot.line) = ("/src/work.c".into(), 7);
    let source = |file: &str, line: u32| (file == "/src/work.c" && line == 7).then(|| "\tn--;".to_owned());
    let name_at = |address: u64| (address == 0x2000).then(|| "f".to_owned());
    render(&Annotation {
        title: "work",
        cost: &costs[0],
        code: &code,
        name_at: &name_at,
        source: &source,
        whole: false,
    })
}

#[test]
fn of_a_pattern_the_function_with_the_most_own_time_comes_first() {
    let (_, trace) = trace_of_lanes(
        "@samples A 0..6 user main;work_hot\n@samples A 6..8 user main;work_cold\nA  00000000\n",
    );
    let names = |pattern: &str| -> Vec<String> {
        let costs = function_costs(&trace, &holdup_findings::derive::stacks::Selection::all(), pattern);
        costs.into_iter().map(|cost| cost.function).collect()
    };
    assert_eq!(names("*"), ["work_hot", "work_cold", "main"], "main has no own time");
    assert_eq!(names("work_*"), ["work_hot", "work_cold"]);
    assert_eq!(names("work_cold"), ["work_cold"]);
}

#[test]
fn lines_of_an_interpreted_function_with_their_cost() {
    let (_, trace) = trace_of_lanes("@samples A 0..6 user main;work\nA  00000000\n");
    let mut costs = function_costs(&trace, &holdup_findings::derive::stacks::Selection::all(), "work");
    let cost = &mut costs[0];
    (cost.module, cost.function) = (PYTHON_MODULE.to_owned(), "app.work".to_owned());
    let (at, mut spot) = cost.spots.pop_first().unwrap();
    spot.file = "/src/app.py".to_owned();
    // Two places of line 21, and one of line 3.
    for (place, line) in [(at, 21), (at + 2, 21), (at + 4, 3)] {
        cost.spots.insert(place, Spot { line, ..spot.clone() });
        cost.all.merge(&spot.own);
    }
    let source = |_: &str, line: u32| Some(format!("    step {line}"));
    let (code, name_at) = (MachineCode::default(), |_: u64| None);
    let of_lines = Annotation {
        title: "app.work",
        cost: &costs[0],
        code: &code,
        name_at: &name_at,
        source: &source,
        whole: false,
    };
    golden("annotate-lines", &holdup_report::annotate::render(&of_lines, &Style::default()));
    let rows = holdup_report::annotate::to_json(&of_lines)["instructions"].as_array().unwrap().clone();
    assert_eq!((rows.len(), &rows[18]["line"], &rows[18]["address"]), (19, &21.into(), &21.into()));
}

#[test]
fn instructions_with_their_cost() {
    golden("annotate", &annotated(|it| holdup_report::annotate::render(it, &Style::default())));
    let ascii = Style { unicode: false, ..Style::default() };
    assert!(annotated(|it| holdup_report::annotate::render(it, &ascii)).is_ascii());
}
