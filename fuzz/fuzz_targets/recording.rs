//! `cargo +nightly fuzz run recording`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::recording(bytes));
