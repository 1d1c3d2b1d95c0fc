//! `cargo +nightly fuzz run go_race`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::go_race(bytes));
