//! Loading the object where a kernel refuses some of its programs: those are left out, each with the reason.

use libbpf_rs::{Object, OpenObject};

use super::choice::{Choice, Choices};
use super::messages::{self, Refusal};
use super::programs::{Setup, configure, open};
use super::session::Options;
use super::slots::Layout;
use crate::error::CaptureError;
use crate::sources::{self, Source};

/// Maximum number of programs that are left out, one load each, before the kernel counts as refusing all.
const REFUSALS_MAX: usize = 16;

/// The object in the kernel.
pub struct Loaded {
    /// Programs and maps.
    pub object: Object,
    /// Programs that a recording would have, and why they are not loaded.
    pub missing: Vec<MissingProgram>,
    /// Why user stacks are not unwound. Empty if they are.
    pub stacks_missing: String,
}

/// A program that is not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingProgram {
    /// The name in the object of `bpf/`.
    pub name: String,
    /// Why, a clause without its full stop.
    pub reason: String,
}

/// A source that this recording lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingSource {
    /// Which.
    pub source: &'static Source,
    /// Why, a clause without its full stop.
    pub reason: String,
}

/// The programs left out of one attempt to load.
#[derive(Clone, Debug, Default)]
struct LeftOut {
    programs: Vec<MissingProgram>,
    /// Why user stacks are not unwound. Empty if they are.
    stacks: String,
}

/// A failed attempt to load.
struct Failure {
    refusal: Option<Refusal>,
    reason: String,
}

/// Loads the programs that `options` ask for. A program that the kernel refuses is left out where a recording is possible
/// without it. Where a required program is refused, user stacks are left out first: walking them is most of what the verifier
/// has to follow.
///
/// # Errors
/// The kernel refuses a required program in its smallest form, a map, or every program because a right is missing.
pub fn load(options: &Options, layout: Layout) -> Result<Loaded, CaptureError> {
    load_with(options, layout, &mut |_| {})
}

/// Like [`load`], but calls `prepare` with the configured object before each attempt.
pub(super) fn load_with(
    options: &Options,
    layout: Layout,
    prepare: &mut dyn FnMut(&mut OpenObject),
) -> Result<Loaded, CaptureError> {
    messages::capture();
    let choices = Choices::new(options);
    let (object, left_out) = with_what_loads(|left_out| {
        let setup = Setup { options, layout, choices: &choices, walks_stacks: left_out.stacks.is_empty() };
        attempt(&setup, left_out, prepare)
            .map_err(|error| Failure { refusal: messages::refusal(), reason: messages::reason(&error) })
    })?;
    Ok(loaded(object, &choices, left_out))
}

/// Calls `attempt` until it succeeds, each time with one more program left out.
fn with_what_loads<T>(
    mut attempt: impl FnMut(&LeftOut) -> Result<T, Failure>,
) -> Result<(T, LeftOut), CaptureError> {
    let mut left_out = LeftOut::default();
    loop {
        let failure = match attempt(&left_out) {
            Ok(loaded) => return Ok((loaded, left_out)),
            Err(failure) => failure,
        };
        left_out = left_out.and(failure)?;
    }
}

impl LeftOut {
    /// Returns the programs to leave out of the next attempt.
    fn and(mut self, failure: Failure) -> Result<LeftOut, CaptureError> {
        let Failure { refusal, reason } = failure;
        let refused = || CaptureError::Refused { reason: reason.clone() };
        let refusal = refusal.filter(|refusal| !refusal.is_want_of_right).ok_or_else(refused)?;
        let name = refusal.program;
        let is_again = self.programs.iter().any(|missing| missing.name == name);
        if is_again || self.programs.len() >= REFUSALS_MAX {
            return Err(refused());
        }
        let reason_of_program = format!("the kernel refused program {name}: {reason}");
        match (is_required(&name), self.stacks.is_empty()) {
            (true, false) => return Err(refused()),
            (true, true) => self.stacks = reason_of_program,
            (false, _) => self.programs.push(MissingProgram { name, reason: reason_of_program }),
        }
        Ok(self)
    }
}

/// One attempt, with some programs left out.
fn attempt(
    setup: &Setup<'_>,
    left_out: &LeftOut,
    prepare: &mut dyn FnMut(&mut OpenObject),
) -> libbpf_rs::Result<Object> {
    let mut object = open()?;
    configure(&mut object, setup)?;
    leave_out(&mut object, left_out);
    prepare(&mut object);
    object.load()
}

fn leave_out(object: &mut OpenObject, left_out: &LeftOut) {
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if left_out.programs.iter().any(|missing| missing.name == name) {
            program.set_autoload(false);
        }
    }
}

fn loaded(object: Object, choices: &Choices, left_out: LeftOut) -> Loaded {
    let mut missing = left_out.programs;
    for program in object.progs() {
        let name = program.name().to_string_lossy().into_owned();
        let section = program.section().to_string_lossy().into_owned();
        if let Choice::Missing(reason) = choices.for_program(&name, &section) {
            missing.push(MissingProgram { name, reason });
        }
    }
    Loaded { object, missing, stacks_missing: left_out.stacks }
}

fn is_required(program: &str) -> bool {
    sources::of_program(program).is_none_or(|source| source.required())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(program: &str, is_want_of_right: bool) -> Failure {
        let refusal = Some(Refusal { program: program.to_owned(), is_want_of_right });
        Failure { refusal, reason: "too large".to_owned() }
    }

    #[test]
    fn a_refused_optional_program_is_left_out_with_the_reason() {
        let loaded = with_what_loads(|left_out| match left_out.programs.len() {
            0 => Err(refused("on_huge_page", false)),
            1 => Err(refused("on_sample", false)),
            _ => Ok(7),
        });
        let (seven, left_out) = loaded.unwrap();
        let names: Vec<&str> = left_out.programs.iter().map(|missing| missing.name.as_str()).collect();
        assert_eq!((seven, names), (7, vec!["on_huge_page", "on_sample"]));
        assert_eq!(left_out.programs[0].reason, "the kernel refused program on_huge_page: too large");
        assert!(left_out.stacks.is_empty());
    }

    #[test]
    fn a_required_program_is_tried_again_without_user_stacks() {
        let needs_less = |left_out: &LeftOut| match left_out.stacks.is_empty() {
            true => Err(refused("on_switch", false)),
            false => Ok(()),
        };
        let ((), left_out) = with_what_loads(needs_less).unwrap();
        assert!(left_out.stacks.contains("on_switch") && left_out.programs.is_empty());
        let mut attempts = 0;
        let refused = with_what_loads(|_| -> Result<(), Failure> {
            attempts += 1;
            Err(refused("on_switch", false))
        });
        assert!(refused.is_err() && attempts == 2, "{attempts}");
    }

    #[test]
    fn what_no_smaller_object_helps_against_is_an_error_at_once() {
        for failure in [refused("on_huge_page", true), Failure { refusal: None, reason: "no map".to_owned() }]
        {
            let mut failure = Some(failure);
            let loaded =
                with_what_loads(|_| -> Result<(), Failure> { Err(failure.take().expect("one attempt")) });
            assert!(loaded.is_err());
        }
        // The same program twice: leaving it out did not help.
        let twice = with_what_loads(|_| -> Result<(), Failure> { Err(refused("on_huge_page", false)) });
        assert!(twice.is_err());
    }

    #[test]
    fn required_programs_load_without_user_stacks() {
        if let Err(error) = crate::doctor::bpf_ready() {
            return println!("skipped: BPF is not allowed here: {error}");
        }
        let options = Options::everything();
        let choices = Choices::new(&options);
        let left_out = LeftOut { stacks: "refused".to_owned(), ..LeftOut::default() };
        let layout = Layout::of_machine(4096);
        let setup = Setup { options: &options, layout, choices: &choices, walks_stacks: false };
        let object = attempt(&setup, &left_out, &mut |_| {}).unwrap();
        let loaded = loaded(object, &choices, left_out);
        assert_eq!(loaded.stacks_missing, "refused");
    }
}
