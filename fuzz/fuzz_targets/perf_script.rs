//! `cargo +nightly fuzz run perf_script`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::perf_script(bytes));
