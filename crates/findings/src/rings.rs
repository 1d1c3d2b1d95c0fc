//! Sentences about io_uring for findings about `io_uring_enter`: the number of requests per call, and their
//! kinds.

use crate::derive::calls::{CallUse, Calls};
use crate::derive::syscall_names::IO_URING_ENTER;
use crate::wording::{count, time};

/// Kinds of operations that are named.
const NAMED_MAX: usize = 2;

/// A sentence on the requests of `io_uring_enter`. `None` for any other syscall, and if no request was
/// counted.
pub fn requests_sentence(calls: &Calls, syscall: i32) -> Option<String> {
    let each = calls.requests_each().filter(|_| syscall == IO_URING_ENTER)?;
    let operations: Vec<String> = calls.ring_operations.iter().take(NAMED_MAX).map(operation).collect();
    let listed = match operations.is_empty() {
        true => String::new(),
        false => format!(": {}", operations.join(", ")),
    };
    Some(format!("Each io_uring_enter submits {each:.1} requests{listed}."))
}

fn operation(used: &CallUse) -> String {
    let mean = used
        .mean_ns()
        .map_or(String::new(), |ns| format!(", {} each from submission to completion", time(ns)));
    let failed = if used.errors == 0 { String::new() } else { format!(" ({} failed)", used.errors) };
    format!("{} {}{mean}{failed}", used.name, count(used.count, "time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(operations: Vec<CallUse>) -> Calls {
        let enter = CallUse { syscall: IO_URING_ENTER, count: 100, returned: 150, ..CallUse::default() };
        Calls { by_syscall: vec![enter], ring_operations: operations, ..Calls::default() }
    }

    #[test]
    fn io_uring_requests_are_listed_by_operation() {
        let read = CallUse {
            name: "read",
            count: 1_500,
            timed: 1_500,
            time_ns: 60_000_000,
            errors: 3,
            ..CallUse::default()
        };
        let told = requests_sentence(&calls(vec![read]), IO_URING_ENTER).unwrap();
        assert_eq!(
            told,
            "Each io_uring_enter submits 1.5 requests: read 1,500 times, 40.0 µs each from submission to completion (3 failed)."
        );
        let bare = requests_sentence(&calls(Vec::new()), IO_URING_ENTER).unwrap();
        assert_eq!(bare, "Each io_uring_enter submits 1.5 requests.", "operations were not counted");
    }

    #[test]
    fn other_calls_and_rings_without_a_request_are_silent() {
        assert_eq!(requests_sentence(&calls(Vec::new()), 0), None);
        assert_eq!(requests_sentence(&Calls::default(), IO_URING_ENTER), None);
    }
}
