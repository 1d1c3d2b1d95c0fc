//! What fuzzers kept (`fuzz/search --pack`): some of the inputs that reach each corner of what reads bytes of others. None
//! may panic: what hours of search have found is tried in each build.

#[path = "../fuzz/src/lib.rs"]
#[allow(unused_imports, reason = "the mutations' test needs more of it")]
mod targets;

use std::path::Path;

use holdup_decode::readers;

/// No input of one target is longer together (bytes).
const ALL_MAX: u64 = 1 << 20;

/// Each input has its length before it, 4 bytes.
fn inputs(mut packed: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while let Some((length, rest)) = packed.split_first_chunk::<4>() {
        let (input, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        all.push(input);
        packed = rest;
    }
    all
}

#[test]
fn what_fuzzers_kept_ends_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpora");
    for (name, target) in targets::TARGETS {
        let path = folder.join(format!("{name}.gz"));
        let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let packed = readers::unpack(&packed, ALL_MAX).expect("gzip");
        let inputs = inputs(&packed);
        assert!(!inputs.is_empty(), "{name}");
        for (number, input) in inputs.iter().enumerate() {
            let outcome = std::panic::catch_unwind(|| target(input));
            assert!(outcome.is_ok(), "{name}: input {number} panics");
        }
    }
}
