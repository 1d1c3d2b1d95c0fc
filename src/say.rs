//! What holdup says beside its report. Whether anybody can read it (a closed pipe, a full disk) must not change what becomes of
//! the program and its status: `eprintln!` would panic.

use std::fmt::Arguments;
use std::io::Write;

/// A line for standard error, in the words of `format!`.
macro_rules! say {
    ($($words:tt)*) => { $crate::say::line(format_args!($($words)*)) };
}

/// See `say!`. The line is written at once: others may write there meanwhile.
pub fn line(words: Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("{words}\n").as_bytes());
}
