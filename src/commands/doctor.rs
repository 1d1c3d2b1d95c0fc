//! `holdup doctor`

use std::process::ExitCode;

use anyhow::Result;
use holdup_capture::doctor::{State, best_rung, examine};
use holdup_events::recording::Rung;
use holdup_report::doctor::{DoctorRow, DoctorStatus, doctor_json, render_doctor};

use crate::cli::DoctorArgs;

/// Tries everything and says how it went.
pub fn execute(args: &DoctorArgs) -> Result<ExitCode> {
    let checks = examine();
    let (rung, reason) = best_rung(&checks);
    let rung = match rung {
        Rung::Bpf => "bpf",
        Rung::Perf => "perf",
        Rung::Proc => "proc",
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
        return super::print_json(&doctor_json(&rows, rung, &reason));
    }
    super::print(&render_doctor(&rows, rung, &reason, &super::style(&std::io::stdout())))
}
