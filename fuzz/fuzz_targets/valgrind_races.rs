//! `cargo +nightly fuzz run valgrind_races`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::valgrind_races(bytes));
