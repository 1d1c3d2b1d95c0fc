//! The BPF programs of a recording, loaded for a try.

use super::{Check, Finding, State, best_backend, examine};
use crate::bpf::{self, Examination, ProgramState};
use crate::error::CaptureError;
use holdup_events::recording::Backend;

/// The name of the check that loading the programs decides.
const CHECK: &str = "bpf-programs";

/// Like [`examine`], and also loads every BPF program that a recording may have, to get the kernel's result.
/// Takes about a second. If a cheaper check shows that BPF is not available, no program is loaded.
pub fn examine_programs() -> (Vec<Check>, Examination) {
    let mut checks = examine();
    if best_backend(&checks).0 != Backend::Bpf {
        return (checks, Examination::default());
    }
    let examined = bpf::examine();
    let (ok, what, remedy) = finding(&examined);
    for check in checks.iter_mut().filter(|check| check.name == CHECK) {
        (check.ok, check.what, check.remedy) = (ok, what.clone(), remedy.clone());
    }
    (checks, examined.unwrap_or_default())
}

fn finding(examined: &Result<Examination, CaptureError>) -> Finding {
    let examination = match examined {
        Ok(examination) => examination,
        Err(error) => return (State::Missing, error.to_string(), String::new()),
    };
    let loaded = |state: &ProgramState| matches!(state, ProgramState::Loaded(_));
    let loaded = examination.programs.iter().filter(|program| loaded(&program.state)).count();
    let missing: Vec<&str> = examination
        .programs
        .iter()
        .filter(|program| matches!(program.state, ProgramState::Missing(_)))
        .map(|program| program.name.as_str())
        .collect();
    let all = loaded + missing.len();
    if !examination.stacks_missing.is_empty() {
        let what = format!(
            "{loaded} of {all} BPF programs load, without user stacks: {}",
            examination.stacks_missing
        );
        return (State::Degraded, what, String::new());
    }
    if missing.is_empty() {
        return (State::Ok, format!("all {all} BPF programs of a recording load"), String::new());
    }
    let what = format!(
        "{loaded} of {all} BPF programs load, missing: {} (`holdup doctor --programs` prints the reasons)",
        missing.join(", ")
    );
    (State::Degraded, what, String::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::{ProgramCheck, Verified};

    fn program(name: &str, state: ProgramState) -> ProgramCheck {
        ProgramCheck { name: name.to_owned(), state }
    }

    #[test]
    fn missing_programs_are_named_and_a_refused_object_is_missing() {
        let loaded = program("on_switch", ProgramState::Loaded(Verified::default()));
        let other_form = program("on_switch_before_5_18", ProgramState::NotNeeded);
        let all =
            Examination { programs: vec![loaded.clone(), other_form.clone()], ..Examination::default() };
        assert_eq!(finding(&Ok(all.clone())).0, State::Ok);
        let place = program("on_place", ProgramState::Missing("too old".to_owned()));
        let some = Examination { programs: vec![loaded, other_form, place], ..Examination::default() };
        let (state, what, _) = finding(&Ok(some));
        assert_eq!(state, State::Degraded);
        assert!(what.starts_with("1 of 2 ") && what.contains("missing: on_place"), "{what}");
        let (state, what, _) = finding(&Ok(Examination { stacks_missing: "too large".to_owned(), ..all }));
        assert!(state == State::Degraded && what.ends_with("without user stacks: too large"), "{what}");
        let refused = CaptureError::Refused { reason: "no".to_owned() };
        assert_eq!(finding(&Err(refused)).0, State::Missing);
    }
}
