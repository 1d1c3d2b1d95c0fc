//! Which programs of the object a recording has on this kernel.

use super::kernel_types::{KernelTypes, RingCompletion};
use super::session::Options;
use super::uprobes::{self, Form, ProbeForm};
use crate::sources;

/// Whether one program is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The program is loaded.
    Load,
    /// The program is not needed: no option requests it, or its other form is loaded.
    NotNeeded,
    /// The kernel lacks the attach point, or a function that the program calls. Contains the reason, a
    /// clause.
    Missing(String),
}

/// Programs of a recording that counts syscalls.
const FOR_SYSCALLS: [&str; 6] = [
    "on_call_begin",
    "on_ring_submit",
    "on_ring_submit_before_6_4",
    "on_ring_complete",
    "on_ring_answer",
    "on_ring_answer_by_fields",
];

/// Inputs of [`Choice`]s.
pub struct Choices {
    types: KernelTypes,
    syscalls: bool,
    allocations: bool,
    probes: ProbeForm,
}

impl Choices {
    /// For the running kernel.
    pub fn new(options: &Options) -> Choices {
        Choices {
            types: KernelTypes::load(),
            syscalls: options.syscalls,
            allocations: options.allocations.is_some(),
            probes: options.probes,
        }
    }

    /// Returns how functions of programs are probed. `None` if this kernel has no suitable form.
    pub fn probe_form(&self) -> Option<Form> {
        self.probes.on(&self.types)
    }

    /// The running kernel's types.
    pub fn types(&self) -> &KernelTypes {
        &self.types
    }

    /// Returns the choice for a program in a section.
    pub fn for_program(&self, program: &str, section: &str) -> Choice {
        match program {
            "on_switch" => needed(self.types.switch_hands_over_state()),
            "on_switch_before_5_18" => needed(!self.types.switch_hands_over_state()),
            "on_blocked_stacks" => self.with_function("bpf_copy_from_user_task", "Linux 5.18"),
            "on_place" | "on_task" if self.probe_form().is_some() => Choice::Load,
            "on_place" | "on_task" => self.with_function(uprobes::COOKIE, "Linux 5.15"),
            "on_allocated" | "on_freed" => needed(self.allocations),
            name if FOR_SYSCALLS.contains(&name) && !self.syscalls => Choice::NotNeeded,
            "on_ring_submit" if self.has_earlier_submit() => Choice::NotNeeded,
            "on_ring_submit_before_6_4" => needed(self.has_earlier_submit()),
            "on_ring_complete" => self.of_completion(|_| true),
            "on_ring_answer" => self.of_completion(|form| form == RingCompletion::Whole),
            "on_ring_answer_by_fields" => self.of_completion(|form| form == RingCompletion::Fields),
            "on_call_begin" | "on_ring_submit" => self.at(section),
            _ if sources::of_program(program).is_none_or(|source| source.required()) => Choice::Load,
            _ => self.at(section),
        }
    }

    /// `io_uring_submit_sqe` with the request as its first argument: Linux 6.0 to 6.3.
    fn has_earlier_submit(&self) -> bool {
        self.types.arguments("io_uring_submit_sqe") == Some(2)
    }

    fn of_completion(&self, is_for: impl Fn(RingCompletion) -> bool) -> Choice {
        match self.types.ring_completion() {
            Some(form) => needed(is_for(form)),
            None => Choice::Missing("tracepoint io_uring_complete of this kernel has no request".to_owned()),
        }
    }

    fn with_function(&self, function: &str, since: &str) -> Choice {
        if self.types.has_function(function) {
            return Choice::Load;
        }
        Choice::Missing(format!("this kernel has no {function} ({since} has)"))
    }

    fn at(&self, section: &str) -> Choice {
        if self.types.has_tracepoint(section) {
            return Choice::Load;
        }
        let name = section.rsplit('/').next().unwrap_or(section);
        Choice::Missing(format!("this kernel has no tracepoint {name}"))
    }
}

fn needed(is_needed: bool) -> Choice {
    if is_needed { Choice::Load } else { Choice::NotNeeded }
}
