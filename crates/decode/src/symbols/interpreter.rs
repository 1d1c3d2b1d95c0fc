//! Interpreted functions are appended to a stack's own frames. This module moves them to the place of their
//! evaluation.

use holdup_events::event::RawStack;
use holdup_events::tables::{Frame, FrameVia};

use super::spots::via;
use crate::interpreted::{Interpreted, Standing};

/// CPython's function for evaluation. Compilers split off parts of it (`.cold`).
const EVALUATION: &str = "_PyEval_EvalFrameDefault";

/// How the code is called through which CPython runs a function under `-X perf`, for tools that see no others.
const TRAMPOLINE: &str = "py::";

/// Indices of a stack's addresses in call order, leaf first. Each evaluation is replaced by the functions
/// that it runs, if these have names. If the stack was truncated, functions of missing evaluations follow at
/// its end.
pub fn order<'a>(raw: &RawStack, function: impl Fn(usize) -> Option<&'a Frame>) -> Vec<usize> {
    let place =
        |index: usize| Interpreted::from_address(raw.addresses.get(index).copied().unwrap_or_default());
    let is_behind = |index: &usize| {
        let standing = place(*index).map(|place| place.standing);
        via(raw, *index) == FrameVia::Interpreted && standing != Some(Standing::InPlace)
    };
    let count = raw.addresses.len();
    let first = (0..count).find(is_behind).unwrap_or(count);
    let mut left = first..count;
    let mut order = Vec::with_capacity(count);
    let mut is_told = false;
    for index in 0..first {
        let begins_with = |start| function(index).is_some_and(|frame| frame.function.starts_with(start));
        if std::mem::take(&mut is_told) && begins_with(TRAMPOLINE) {
            continue;
        }
        if left.is_empty() || !begins_with(EVALUATION) {
            order.push(index);
            continue;
        }
        let before = order.len();
        for index in left.by_ref() {
            if function(index).is_some_and(|frame| !frame.function.is_empty()) {
                order.push(index);
            }
            if place(index).is_some_and(|place| place.standing == Standing::Behind { begins: true }) {
                break;
            }
        }
        is_told = order.len() > before;
        if !is_told {
            order.push(index);
        }
    }
    order.extend(left);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Native functions by name. `p` and `P` are interpreted functions, `P` starts an evaluation, `.` has no
    /// name.
    fn ordered(stack: &[&str]) -> String {
        let native = stack.iter().filter(|name| name.len() > 1).count();
        let frame = |name: &&str| Frame {
            function: if *name == "." { String::new() } else { (*name).to_owned() },
            ..Frame::default()
        };
        let frames: Vec<Frame> = stack.iter().map(frame).collect();
        let standing = |standing| Interpreted { code: 16, identity: 0, units: None, standing }.address();
        let interpreted = |begins| standing(Standing::Behind { begins });
        let address = |name: &&str| match *name {
            "p" => interpreted(false),
            "P" | "." => interpreted(true),
            "Java" => standing(Standing::InPlace),
            _ => 1,
        };
        let raw = RawStack {
            addresses: stack.iter().map(address).collect(),
            vias: (0..stack.len())
                .map(|index| match stack[index] {
                    name if index < native && name != "Java" => FrameVia::Table,
                    _ => FrameVia::Interpreted,
                })
                .collect(),
            ..RawStack::default()
        };
        let names = order(&raw, |index| frames.get(index)).into_iter().map(|index| stack[index]);
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn functions_stand_where_their_evaluation_is() {
        assert_eq!(
            ordered(&["sort", EVALUATION, "call", EVALUATION, "main", "p", "P", "P"]),
            "sort p P call P main"
        );
        assert_eq!(ordered(&["_PyEval_EvalFrameDefault.cold", "main", "p", "p", "P"]), "p p P main");
    }

    #[test]
    fn an_evaluation_frame_without_a_python_frame_stays() {
        assert_eq!(
            ordered(&["sort", EVALUATION, EVALUATION, "main", "P"]),
            format!("sort P {EVALUATION} main")
        );
        assert_eq!(ordered(&["sort", EVALUATION, "main", "."]), format!("sort {EVALUATION} main"));
        assert_eq!(ordered(&["sort", "main"]), "sort main");
        assert_eq!(ordered(&["sort", "Java", "call", "Java", "main"]), "sort Java call Java main");
    }

    #[test]
    fn frames_that_lead_to_a_named_function_are_dropped() {
        assert_eq!(
            ordered(&[EVALUATION, "py::f:a.py", EVALUATION, "py::g:a.py", "main", "P", "P"]),
            "P P main"
        );
        assert_eq!(
            ordered(&[EVALUATION, "py::f:a.py", "main", "."]),
            format!("{EVALUATION} py::f:a.py main")
        );
    }

    #[test]
    fn frames_beyond_a_truncated_stack_are_added() {
        assert_eq!(ordered(&["sort", "p", "P", "p"]), "sort p P p");
    }
}
