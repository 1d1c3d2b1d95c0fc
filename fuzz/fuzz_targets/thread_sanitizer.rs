//! `cargo +nightly fuzz run thread_sanitizer`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::thread_sanitizer(bytes));
