//! `cargo +nightly fuzz run packed`
#![no_main]

#[path = "../src/caught.rs"]
mod caught;

libfuzzer_sys::fuzz_target!(init: caught::pass(), |bytes: &[u8]| holdup_fuzz::packed(bytes));
