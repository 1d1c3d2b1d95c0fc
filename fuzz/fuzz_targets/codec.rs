//! `cargo +nightly fuzz run codec`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::codec(bytes));
