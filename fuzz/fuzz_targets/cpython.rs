//! `cargo +nightly fuzz run cpython`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::cpython(bytes));
