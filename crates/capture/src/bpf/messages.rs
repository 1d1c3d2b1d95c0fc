//! libbpf's messages: kept for an error instead of printed.

use std::sync::Mutex;

use libbpf_rs::{PrintLevel, set_print};

static KEPT: Mutex<Vec<String>> = Mutex::new(Vec::new());
const KEPT_MAX: usize = 400;
/// Lines of the verifier's log that are quoted.
const QUOTED_LINES: usize = 2;

fn keep(_level: PrintLevel, text: String) {
    if let Ok(mut kept) = KEPT.lock()
        && kept.len() < KEPT_MAX
    {
        kept.push(text);
    }
}

/// From now on libbpf's messages are kept.
pub fn capture() {
    set_print(Some((PrintLevel::Warn, keep)));
    take();
}

/// Returns and removes the messages kept since the last call.
pub fn take() -> Vec<String> {
    KEPT.lock().map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default()
}

/// The reason for an error: the end of the verifier's log where there is one, else libbpf's last messages. Forgets the messages.
pub fn reason(error: &libbpf_rs::Error) -> String {
    let said = why(&take().concat());
    if said.is_empty() { error.to_string() } else { format!("{error} ({said})") }
}

fn why(messages: &str) -> String {
    let log = messages.rsplit_once("-- END PROG LOAD LOG --").map(|(log, _)| log);
    let lines: Vec<&str> = log
        .unwrap_or(messages)
        .lines()
        .map(|line| line.trim().trim_start_matches("libbpf: "))
        .filter(|line| !line.is_empty() && !line.contains("-- BEGIN ") && !line.starts_with("processed "))
        .collect();
    let from = lines.len().saturating_sub(QUOTED_LINES);
    lines.get(from..).unwrap_or_default().join("; ")
}

/// A program that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The program's name.
    pub program: String,
    /// A right is missing (`EPERM`): the kernel would refuse every program.
    pub is_want_of_right: bool,
}

/// Returns the refused program named by the messages since [`capture`] or [`take`]. The messages stay.
pub fn refusal() -> Option<Refusal> {
    let kept = KEPT.lock().ok()?;
    refusal_in(&kept.concat())
}

fn refusal_in(messages: &str) -> Option<Refusal> {
    const FAILED: &str = "': failed to load: ";
    let line = messages.lines().rfind(|line| line.contains(FAILED))?;
    let (before, error) = line.split_once(FAILED)?;
    let (_, program) = before.rsplit_once("prog '")?;
    let is_want_of_right = matches!(error.trim(), "-EPERM" | "-1");
    Some(Refusal { program: program.to_owned(), is_want_of_right })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: &str = "libbpf: prog 'on_x': BPF program load failed: -EACCES\n\
        libbpf: prog 'on_x': -- BEGIN PROG LOAD LOG --\n\
        0: R1=ctx() R10=fp0\n\
        R4 unbounded memory access, use 'var &= const'\n\
        processed 512 insns (limit 1000000)\n\
        -- END PROG LOAD LOG --\n\
        libbpf: prog 'on_x': failed to load: -EACCES\n\
        libbpf: failed to load object 'holdup'\n";

    #[test]
    fn the_verifiers_last_lines_are_quoted() {
        assert_eq!(why(REFUSED), "0: R1=ctx() R10=fp0; R4 unbounded memory access, use 'var &= const'");
        assert_eq!(why("libbpf: no such map\nlibbpf: x\nlibbpf: y\n"), "x; y");
        assert_eq!(why(""), "");
    }

    #[test]
    fn refused_programs_are_named() {
        let refusal =
            |program: &str, is_want_of_right| Some(Refusal { program: program.to_owned(), is_want_of_right });
        assert_eq!(refusal_in(REFUSED), refusal("on_x", false));
        assert_eq!(refusal_in("libbpf: prog 'on_y': failed to load: -EPERM\n"), refusal("on_y", true));
        assert_eq!(refusal_in("libbpf: map 'a': failed to create: -E2BIG\n"), None);
    }
}
