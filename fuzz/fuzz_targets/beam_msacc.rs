//! `cargo +nightly fuzz run beam_msacc`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::beam_msacc(bytes));
