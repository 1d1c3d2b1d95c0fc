//! `cargo +nightly fuzz run v8_gc`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::v8_gc(bytes));
