//! What the files are called that threads wait for.

mod support;

use holdup_events::tables::ThreadState;
use holdup_events::{ObjectKind, recording};
use support::{Scratch, bpf_or_skip, have, is_on_disk, record_json};

const SYNC: &str = r#"
import os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR, 0o600)
for _ in range(50):
    os.write(file, os.urandom(8192))
    os.fdatasync(file)
"#;

const FDATASYNC: i32 = 75;

#[test]
fn a_file_that_is_synced_over_and_over_is_named() {
    let scratch = Scratch::new("waited-files");
    if !bpf_or_skip(&scratch) || !have("python3") || !is_on_disk(&scratch) {
        return;
    }
    let program = scratch.join("sync.py");
    std::fs::write(&program, SYNC).expect("a file");
    let file = scratch.join("ledger.db");
    let words = ["python3", program.to_str().expect("a name"), file.to_str().expect("a name")];
    record_json(&scratch, &[], &words);
    let trace = recording::open(&scratch.join("t.holdup")).expect("it opens");
    let slices = trace.target_threads().flat_map(|thread| trace.slices.of(thread));
    let blocked = slices.filter(|slice| slice.state == ThreadState::Blocked);
    let syncs = blocked.map(|slice| trace.wait(slice.wait)).filter(|wait| wait.syscall == FDATASYNC);
    let objects: Vec<(ObjectKind, u64)> = syncs.map(|wait| (wait.object_kind, wait.object)).collect();
    if objects.is_empty() {
        println!("skipped: this disk answers at once, nobody waited for it");
        return;
    }
    for (kind, object) in objects {
        let name = trace.calls.name_of(kind, object);
        assert!(kind == ObjectKind::File && name.ends_with("/ledger.db"), "{kind:?} {object}: {name:?}");
    }
}
