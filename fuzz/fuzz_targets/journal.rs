//! `cargo +nightly fuzz run journal`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::journal(bytes));
