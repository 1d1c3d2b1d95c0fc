//! Output of `holdup doctor`, as text and JSON. The caller runs the checks.

use serde_json::{Value, json};

use crate::text::{Style, Tint, clean, left, width, wrap};

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorRow {
    /// The name, kebab-case.
    pub name: String,
    /// How it went.
    pub status: DoctorStatus,
    /// The result, a sentence without its full stop.
    pub what: String,
    /// The command that fixes it. Empty if there is none.
    pub remedy: String,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoctorStatus {
    /// The check passed.
    Ok,
    /// The ability works in part.
    Degraded,
    /// The ability is missing.
    Missing,
}

impl DoctorStatus {
    /// The stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            DoctorStatus::Ok => "ok",
            DoctorStatus::Degraded => "degraded",
            DoctorStatus::Missing => "missing",
        }
    }

    fn tint(self) -> Tint {
        match self {
            DoctorStatus::Ok => Tint::Good,
            DoctorStatus::Degraded => Tint::Warning,
            DoctorStatus::Missing => Tint::Bad,
        }
    }
}

/// The verdict first, then every check. `backend` is the name of what a recording would use, `reason` why it is
/// not a higher one (empty on the highest).
pub fn render_doctor(rows: &[DoctorRow], backend: &str, reason: &str, style: &Style) -> String {
    let mut lines = verdict(rows, backend, reason, style);
    lines.push(String::new());
    let name_width = rows.iter().map(|row| width(&clean(&row.name))).max().unwrap_or(0).min(24);
    for row in rows {
        lines.extend(check(row, name_width, style));
    }
    style.finish(&lines)
}

fn verdict(rows: &[DoctorRow], backend: &str, reason: &str, style: &Style) -> Vec<String> {
    let sees = match backend {
        "bpf" => "every switch with its reason, every wakeup",
        "perf" => "exact running times, reasons of longer waits only, no wakeups",
        "proc" => "thread states sampled by polling, no wakeups",
        _ => "unknown to this version",
    };
    let text = format!("Recordings here use the backend `{}`: {sees}.", clean(backend));
    let tint = if reason.is_empty() { Tint::Strong } else { Tint::Warning };
    let mut lines = wrap(&text, style.columns(), 0);
    if !reason.is_empty() {
        lines.extend(wrap(
            &format!("Higher backends are not available: {}", clean(reason)),
            style.columns(),
            2,
        ));
    }
    lines = lines.iter().map(|line| style.paint(tint, line)).collect();
    let mendable = rows.iter().filter(|row| row.status != DoctorStatus::Ok && !row.remedy.is_empty()).count();
    if mendable > 0 {
        let thing = if mendable == 1 { "One problem can" } else { "Some problems can" };
        lines.extend(wrap(
            &format!("{thing} be fixed: see the lines that begin with `$`."),
            style.columns(),
            0,
        ));
    }
    lines
}

fn check(row: &DoctorRow, name_width: usize, style: &Style) -> Vec<String> {
    const STATUS_WIDTH: usize = 9;
    let behind = STATUS_WIDTH + name_width + 2;
    let mut lines = Vec::new();
    for (index, text) in wrap(&clean(&row.what), style.columns_behind(behind), 0).into_iter().enumerate() {
        lines.push(if index == 0 { text } else { format!("{:behind$}{text}", "") });
    }
    let status = style.paint(row.status.tint(), &left(row.status.name(), STATUS_WIDTH));
    let first = lines.first().cloned().unwrap_or_default();
    let head = format!("{status}{}  {first}", left(&clean(&row.name), name_width));
    match lines.first_mut() {
        Some(line) => *line = head,
        None => lines.push(head),
    }
    if !row.remedy.is_empty() {
        // Not wrapped: it is there to be copied.
        let command = style.paint(Tint::Accent, &format!("$ {}", clean(&row.remedy)));
        lines.push(format!("{:behind$}{command}", ""));
    }
    lines
}

/// The kernel's result for one BPF program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramRow {
    /// The name.
    pub name: String,
    /// Why it is not loaded. `None` if it is.
    pub missing: Option<String>,
    /// Instructions that the verifier followed (the kernel's limit is 1,000,000). 0 if the kernel does not
    /// report them.
    pub verified_instructions: u32,
    /// Bytes of machine code.
    pub jited_bytes: u32,
    /// Duration of the verification (µs). 0 if the kernel does not report it.
    pub verification_us: u64,
}

/// One line per BPF program, with the reason for missing ones.
pub fn render_programs(rows: &[ProgramRow], style: &Style) -> String {
    let name_width = rows.iter().map(|row| width(&clean(&row.name))).max().unwrap_or(0).max(7);
    let mut lines = Vec::new();
    if rows.is_empty() {
        lines.push("No BPF program was loaded: `holdup doctor` prints the reason.".to_owned());
    } else {
        let head = format!(
            "{}  {:>12}  {:>12}  {:>12}",
            left("program", name_width),
            "instructions",
            "code (bytes)",
            "time (ms)"
        );
        lines.push(style.paint(Tint::Faint, &head));
    }
    for row in rows {
        let name = left(&clean(&row.name), name_width);
        match &row.missing {
            None => {
                let counts = [row.verified_instructions, row.jited_bytes];
                let [instructions, bytes] = counts.map(|count| known(count > 0, count.to_string()));
                let ms = format!("{:.1}", row.verification_us as f64 / 1000.0);
                let ms = known(row.verification_us > 0, ms);
                lines.push(format!("{name}  {instructions:>12}  {bytes:>12}  {ms:>12}"));
            }
            Some(reason) => {
                let behind = name_width + 2;
                let text = format!("missing: {}", clean(reason));
                for (index, part) in wrap(&text, style.columns_behind(behind), 0).into_iter().enumerate() {
                    let before = if index == 0 { format!("{name}  ") } else { " ".repeat(behind) };
                    lines.push(format!("{before}{part}"));
                }
            }
        }
    }
    style.finish(&lines)
}

/// A figure, or a dash if the kernel does not report it.
fn known(is_known: bool, figure: String) -> String {
    if is_known { figure } else { "-".to_owned() }
}

/// The same as JSON.
pub fn doctor_json(rows: &[DoctorRow], programs: &[ProgramRow], backend: &str, reason: &str) -> Value {
    let check = |row: &DoctorRow| json!({"name": row.name, "status": row.status.name(), "what": row.what, "remedy": row.remedy});
    let program = |row: &ProgramRow| {
        json!({
            "name": row.name,
            "loaded": row.missing.is_none(),
            "reason": row.missing.clone().unwrap_or_default(),
            "verified_instructions": row.verified_instructions,
            "jited_bytes": row.jited_bytes,
            "verification_us": row.verification_us,
        })
    };
    json!({
        "backend": backend,
        "reason": reason,
        "checks": rows.iter().map(check).collect::<Value>(),
        "programs": programs.iter().map(program).collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_line_to_be_copied() {
        let remedy = format!("sudo setcap cap_bpf,cap_perfmon+ep {}/holdup", "/a/long/way".repeat(12));
        let row = DoctorRow {
            name: "bpf-programs".to_owned(),
            status: DoctorStatus::Missing,
            what: "not permitted".to_owned(),
            remedy: remedy.clone(),
        };
        let style = Style { colour: false, width: 80, ..Style::default() };
        let text = render_doctor(&[row], "proc", "", &style);
        assert!(text.lines().any(|line| line.trim_start() == format!("$ {remedy}")), "{text}");
    }

    #[test]
    fn programs_are_listed_with_their_cost_or_the_reason() {
        let loaded =
            ProgramRow { name: "on_switch".into(), verified_instructions: 74_323, ..ProgramRow::default() };
        let missing =
            ProgramRow { name: "on_place".into(), missing: Some("too old".into()), ..ProgramRow::default() };
        let text =
            render_programs(&[loaded, missing], &Style { colour: false, width: 80, ..Style::default() });
        assert!(text.lines().any(|line| line.starts_with("on_switch") && line.contains("74323")), "{text}");
        assert!(
            text.lines().any(|line| line.starts_with("on_switch") && line.ends_with('-')),
            "not known: {text}"
        );
        assert!(text.lines().any(|line| line == "on_place   missing: too old"), "{text}");
        assert!(render_programs(&[], &Style::default()).contains("`holdup doctor` prints the reason"));
    }
}
