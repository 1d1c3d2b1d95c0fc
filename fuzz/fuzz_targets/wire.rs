//! `cargo +nightly fuzz run wire`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::wire(bytes));
