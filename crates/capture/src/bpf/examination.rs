//! Loads the programs of a recording, and returns the kernel's result for each of them.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{AsRawLibbpf, OpenObject, ProgramMut};

use super::loading::{self, Loaded};
use super::messages;
use super::session::Options;
use super::slots::Layout;
use crate::error::CaptureError;

/// The kernel's result for one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCheck {
    /// The name in the object of `bpf/`.
    pub name: String,
    /// How it went.
    pub state: ProgramState,
}

/// How loading a program went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramState {
    /// The program is loaded.
    Loaded(Verified),
    /// The program is not loaded. Contains the reason, a clause.
    Missing(String),
    /// Not needed on this kernel: another form of it is loaded.
    NotNeeded,
}

/// The verifier's statistics of an accepted program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Instructions that the verifier followed, at most 1,000,000. 0 before Linux 5.16, which does not report
    /// them.
    pub instructions: u32,
    /// Bytes of machine code.
    pub jited_bytes: u32,
    /// Duration of the verification (µs). 0 if the kernel does not report it.
    pub verification_us: u64,
}

/// Every program of the object, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// By program.
    pub programs: Vec<ProgramCheck>,
    /// Why user stacks are not unwound. Empty if they are.
    pub stacks_missing: String,
}

/// Bytes for the statistics of one program: a few lines.
const LOG_BYTES: usize = 16 << 10;
/// `BPF_LOG_STATS` of include/linux/bpf_verifier.h: statistics without the log (Linux 5.2).
const LOG_STATISTICS: u32 = 4;

/// Loads every program that any recording may have, and unloads it again.
///
/// # Errors
/// The kernel refuses a program that every recording needs.
pub fn examine() -> Result<Examination, CaptureError> {
    let options = Options::everything();
    let mut logs = Logs::default();
    let loaded = loading::load_with(&options, Layout::of_machine(options.ring_bytes), &mut |object| {
        logs.attach(object);
    })?;
    let check = |program: ProgramMut<'_>| {
        let name = program.name().to_string_lossy().into_owned();
        ProgramCheck { state: state(&loaded, &program, logs.verification_us(&name)), name }
    };
    let programs = loaded.object.progs_mut().map(check).collect();
    messages::take();
    Ok(Examination { programs, stacks_missing: loaded.stacks_missing.clone() })
}

fn state(loaded: &Loaded, program: &ProgramMut<'_>, verification_us: u64) -> ProgramState {
    if let Some(missing) = loaded.missing.iter().find(|missing| program.name() == missing.name.as_str()) {
        return ProgramState::Missing(missing.reason.clone());
    }
    match program.autoload() {
        true => ProgramState::Loaded(Verified { verification_us, ..verified(program) }),
        false => ProgramState::NotNeeded,
    }
}

/// Returns the kernel's statistics of a loaded program.
fn verified(program: &ProgramMut<'_>) -> Verified {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `bytes` to `info`, whose pointers to more are null.
    let read = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_fd().as_raw_fd(), &raw mut info, &raw mut bytes)
    };
    match read {
        0 => Verified {
            instructions: info.verified_insns,
            jited_bytes: info.jited_prog_len,
            ..Verified::default()
        },
        _ => Verified::default(),
    }
}

/// The verifier's statistics of each program. They must outlive the load, which writes to them.
#[derive(Default)]
struct Logs(Vec<(String, Vec<u8>)>);

impl Logs {
    /// Makes the next load write to these.
    fn attach(&mut self, object: &mut OpenObject) {
        self.0.clear();
        for program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let mut log = vec![0; LOG_BYTES];
            let raw = program.as_libbpf_object().as_ptr();
            // SAFETY: the program is open. The buffer is kept, and moving the vector does not move its
            // content.
            unsafe {
                libbpf_sys::bpf_program__set_log_buf(raw, log.as_mut_ptr().cast(), log.len() as u64);
                libbpf_sys::bpf_program__set_log_level(raw, LOG_STATISTICS);
            }
            self.0.push((name, log));
        }
    }

    fn verification_us(&self, name: &str) -> u64 {
        let log = self.0.iter().find(|(program, _)| program == name).map(|(_, log)| log.as_slice());
        let text = String::from_utf8_lossy(log.unwrap_or_default());
        let line = text.lines().find_map(|line| line.strip_prefix("verification time "));
        line.and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instructions that the verifier of each kernel follows at most (`BPF_COMPLEXITY_LIMIT_INSNS`).
    const INSTRUCTIONS_MAX: u32 = 1_000_000;

    #[test]
    fn no_program_comes_near_the_verifiers_limit() {
        if let Err(error) = crate::doctor::bpf_ready() {
            return println!("skipped: BPF is not allowed here: {error}");
        }
        let examination = examine().unwrap();
        assert_eq!(examination.stacks_missing, "");
        let loaded = examination.programs.iter().filter_map(|program| match program.state {
            ProgramState::Loaded(verified) => Some((program.name.as_str(), verified)),
            _ => None,
        });
        let loaded: Vec<_> = loaded.collect();
        assert!(loaded.len() > 30, "{loaded:?}");
        for (name, verified) in loaded {
            assert!(verified.instructions < INSTRUCTIONS_MAX / 10 * 9, "{name}: {verified:?}");
        }
        for program in &examination.programs {
            if let ProgramState::Missing(reason) = &program.state {
                assert!(!reason.contains("refused"), "{}: {reason}", program.name);
            }
        }
    }
}
