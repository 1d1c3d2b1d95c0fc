//! `cargo +nightly fuzz run maps`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::maps(bytes));
