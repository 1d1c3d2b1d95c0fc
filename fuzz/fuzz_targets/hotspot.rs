//! `cargo +nightly fuzz run hotspot`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::hotspot(bytes));
