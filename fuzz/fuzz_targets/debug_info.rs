//! `cargo +nightly fuzz run debug_info`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::debug_info(bytes));
