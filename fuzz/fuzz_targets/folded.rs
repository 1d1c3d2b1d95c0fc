//! `cargo +nightly fuzz run folded`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::folded(bytes));
