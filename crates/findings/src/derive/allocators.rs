//! Allocator code, identified by function names in descriptors.

use std::collections::HashMap;

use holdup_events::{FrameId, StackId, Trace};

use super::stacks::folding::matches;
use crate::descriptors::{Descriptors, Role, Rule, RuleId, plain_name};

/// Frames of allocators.
pub struct Allocators {
    rules: Vec<Option<RuleId>>,
}

impl Allocators {
    /// Evaluates the rules once per name.
    pub fn new(trace: &Trace, descriptors: &Descriptors) -> Allocators {
        let numbered = (0u16..).zip(descriptors.rules().map(|(_, rule)| rule));
        let allocating: Vec<(u16, &Rule)> =
            numbered.filter(|(_, rule)| rule.role == Role::Allocator).collect();
        let mut known: HashMap<&str, Option<RuleId>> = HashMap::new();
        let of = |function: &str| {
            let name = plain_name(function);
            let holds =
                |rule: &Rule| rule.leaf.iter().chain(&rule.any).any(|pattern| matches(pattern, &name));
            let found = allocating.iter().find(|(_, rule)| !name.is_empty() && holds(rule));
            found.map(|(id, _)| RuleId(*id))
        };
        let rules = trace
            .frames
            .iter()
            .map(|frame| *known.entry(&frame.function).or_insert_with_key(|function| of(function)));
        Allocators { rules: rules.collect() }
    }

    /// Rule that identifies the frame as an allocator's.
    pub fn rule(&self, frame: FrameId) -> Option<RuleId> {
        self.rules.get(frame.index()).copied().flatten()
    }

    /// Rule of the allocator frame nearest to the stack's leaf.
    pub fn of_stack(&self, trace: &Trace, stack: StackId) -> Option<RuleId> {
        trace.stack_frames(stack).find_map(|frame| self.rule(frame))
    }
}
