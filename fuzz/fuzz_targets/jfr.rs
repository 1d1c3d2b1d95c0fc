//! `cargo +nightly fuzz run jfr`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::jfr(bytes));
