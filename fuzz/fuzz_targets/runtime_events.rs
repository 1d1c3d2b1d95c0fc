//! `cargo +nightly fuzz run runtime_events`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::runtime_events(bytes));
