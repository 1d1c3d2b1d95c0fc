//! `cargo +nightly fuzz run packed`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::packed(bytes));
