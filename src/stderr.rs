//! Messages on standard error in addition to the report. A failure to print them (a closed pipe, a full disk)
//! must not affect the program or its exit status: `eprintln!` would panic.

use std::fmt::Arguments;
use std::io::Write;

/// A line for standard error, in the words of `format!`.
macro_rules! say {
    ($($words:tt)*) => { $crate::stderr::line(format_args!($($words)*)) };
}

/// Implements `say!`. The line is written in one call, because other threads may write concurrently.
pub fn line(words: Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("{words}\n").as_bytes());
}
