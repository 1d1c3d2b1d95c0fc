//! libbpf's messages: kept for an error instead of printed.

use std::sync::Mutex;

use libbpf_rs::{PrintLevel, set_print};

static KEPT: Mutex<Vec<String>> = Mutex::new(Vec::new());
const KEPT_MAX: usize = 400;

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

/// What has been said since, and forgets it.
pub fn take() -> Vec<String> {
    KEPT.lock().map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default()
}

/// The lines that say why, of many: the last few of the verifier's log and libbpf's own.
pub fn reason(error: &libbpf_rs::Error) -> String {
    let lines: Vec<String> = take()
        .iter()
        .flat_map(|text| text.lines())
        .map(|line| line.trim().trim_start_matches("libbpf: ").to_owned())
        .filter(|line| !line.is_empty() && !line.starts_with("--") && !line.starts_with("processed "))
        .collect();
    let from = lines.len().saturating_sub(4);
    let tail = lines.get(from..).unwrap_or_default().join("; ");
    if tail.is_empty() { error.to_string() } else { format!("{error} ({tail})") }
}
