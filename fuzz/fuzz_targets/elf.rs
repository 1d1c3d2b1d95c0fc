//! `cargo +nightly fuzz run elf`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdup_fuzz::elf(bytes));
