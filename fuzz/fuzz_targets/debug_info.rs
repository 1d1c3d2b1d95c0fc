//! `cargo +nightly fuzz run debug_info`
#![no_main]

#[path = "../src/caught.rs"]
mod caught;

libfuzzer_sys::fuzz_target!(init: caught::pass(), |bytes: &[u8]| holdup_fuzz::debug_info(bytes));
