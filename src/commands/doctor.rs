//! `holdup doctor`

use std::process::ExitCode;

use anyhow::Result;
use holdup_capture::bpf::{Examination, ProgramCheck, ProgramState};
use holdup_capture::doctor::{State, best_backend, examine_programs};
use holdup_events::recording::Backend;
use holdup_report::doctor::{
    DoctorRow, DoctorStatus, ProgramRow, doctor_json, render_doctor, render_programs,
};

use crate::cli::DoctorArgs;

/// Runs all checks and prints their results.
pub fn execute(args: &DoctorArgs) -> Result<ExitCode> {
    let (checks, examination) = examine_programs();
    let programs = program_rows(&examination);
    let (backend, reason) = best_backend(&checks);
    let backend = match backend {
        Backend::Bpf => "bpf",
        Backend::Perf => "perf",
        Backend::Proc => "proc",
    };
    let rows: Vec<DoctorRow> = checks
        .into_iter()
        .map(|check| DoctorRow {
            name: check.name.to_owned(),
            status: match check.ok {
                State::Ok => DoctorStatus::Ok,
                State::Degraded => DoctorStatus::Degraded,
                State::Missing => DoctorStatus::Missing,
            },
            what: check.what,
            remedy: check.remedy,
        })
        .collect();
    if args.json {
        return super::print_json(&doctor_json(&rows, &programs, backend, &reason));
    }
    if args.programs {
        return super::print(&render_programs(&programs, &super::style(&std::io::stdout())));
    }
    super::print(&render_doctor(&rows, backend, &reason, &super::style(&std::io::stdout())))
}

/// Returns one row per program that this kernel could load, without alternative forms of the same program.
fn program_rows(examination: &Examination) -> Vec<ProgramRow> {
    examination.programs.iter().filter_map(program_row).collect()
}

fn program_row(program: &ProgramCheck) -> Option<ProgramRow> {
    let name = program.name.clone();
    match &program.state {
        ProgramState::Loaded(verified) => Some(ProgramRow {
            name,
            missing: None,
            verified_instructions: verified.instructions,
            jited_bytes: verified.jited_bytes,
            verification_us: verified.verification_us,
        }),
        ProgramState::Missing(reason) => {
            Some(ProgramRow { name, missing: Some(reason.clone()), ..ProgramRow::default() })
        }
        ProgramState::NotNeeded => None,
    }
}
