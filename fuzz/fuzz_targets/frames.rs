//! `cargo +nightly fuzz run frames`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::frames(bytes));
