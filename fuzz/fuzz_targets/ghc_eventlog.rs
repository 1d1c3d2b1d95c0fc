//! `cargo +nightly fuzz run ghc_eventlog`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::ghc_eventlog(bytes));
