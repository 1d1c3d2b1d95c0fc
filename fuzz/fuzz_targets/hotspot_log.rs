//! `cargo +nightly fuzz run hotspot_log`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::hotspot_log(bytes));
