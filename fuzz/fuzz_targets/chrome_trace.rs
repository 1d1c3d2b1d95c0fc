//! `cargo +nightly fuzz run chrome_trace`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::chrome_trace(bytes));
