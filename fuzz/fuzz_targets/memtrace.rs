//! `cargo +nightly fuzz run memtrace`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::memtrace(bytes));
