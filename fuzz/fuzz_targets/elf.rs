//! `cargo +nightly fuzz run elf`
#![no_main]

libfuzzer_sys::fuzz_target!(init: holdup_fuzz::let_caught_panics_pass(), |bytes: &[u8]| holdup_fuzz::elf(bytes));
