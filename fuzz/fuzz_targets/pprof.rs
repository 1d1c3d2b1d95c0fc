//! `cargo +nightly fuzz run pprof`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::pprof(bytes));
