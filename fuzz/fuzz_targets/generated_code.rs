//! `cargo +nightly fuzz run generated_code`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::generated_code(bytes));
