//! Code whose kind descriptors identify by the functions on a stack.

use std::collections::HashMap;

use holdup_events::{ProcessId, StackId, Trace};

use super::roles::Roles;
use super::stacks::folding::matches;
use crate::descriptors::{KnownWork, Runtime, plain_name};

/// Kinds of code, and a cache by stack.
pub struct KnownStacks<'a> {
    trace: &'a Trace,
    roles: &'a Roles,
    kinds: Vec<&'a KnownWork>,
    /// By kind: the runtime's row.
    rows: Vec<usize>,
    of_frame: Vec<Option<usize>>,
    known: HashMap<StackId, Option<usize>>,
}

impl<'a> KnownStacks<'a> {
    /// Kinds that `of_runtime` returns, over all runtimes. `None` if no such function was recorded.
    pub fn new(
        trace: &'a Trace,
        roles: &'a Roles,
        of_runtime: impl Fn(&'a Runtime) -> &'a [KnownWork],
    ) -> Option<KnownStacks<'a>> {
        let runtimes = roles.descriptors.runtimes().iter().enumerate();
        let (rows, kinds): (Vec<usize>, Vec<&KnownWork>) = runtimes
            .flat_map(|(row, runtime)| of_runtime(runtime).iter().map(move |kind| (row, kind)))
            .unzip();
        let of_frame = of_frames(trace, &kinds);
        let is_seen = of_frame.iter().any(Option::is_some);
        is_seen.then(|| KnownStacks { trace, roles, kinds, rows, of_frame, known: HashMap::new() })
    }

    /// All kinds.
    pub fn kinds(&self) -> &[&'a KnownWork] {
        &self.kinds
    }

    /// Whether a process has a runtime that has such a kind.
    pub fn are_in(&self, process: ProcessId) -> bool {
        let here = self.roles.runtimes_of(process);
        self.rows.iter().any(|row| here.contains(row))
    }

    /// Number of the innermost kind on a process's stack. Another program's function may have the same name.
    pub fn innermost_kind(&mut self, stack: StackId, process: ProcessId) -> Option<usize> {
        let KnownStacks { trace, of_frame, known, .. } = self;
        let kind = (*known
            .entry(stack)
            .or_insert_with(|| trace.stack_frames(stack).find_map(|frame| *of_frame.get(frame.index())?)))?;
        let is_here = self.kinds[kind].has_qualified_names()
            || self.roles.runtimes_of(process).contains(&self.rows[kind]);
        is_here.then_some(kind)
    }
}

/// The kind that each frame's function is of.
fn of_frames(trace: &Trace, kinds: &[&KnownWork]) -> Vec<Option<usize>> {
    let of = |function: &str| {
        let name = plain_name(function);
        kinds.iter().position(|kind| kind.any.iter().any(|pattern| matches(pattern, &name)))
    };
    let frames = trace.frames.iter();
    frames.map(|frame| (!frame.function.is_empty()).then(|| of(&frame.function)).flatten()).collect()
}
