//! `cargo +nightly fuzz run go_trace`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::go_trace(bytes));
