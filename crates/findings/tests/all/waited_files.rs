//! The files for which threads wait, in findings whose cause is the disk.

use holdup_events::tables::CallObject;
use holdup_events::{ObjectKind, Trace};
use holdup_findings::analyse;
use holdup_findings::derive::waited_files;
use holdup_testkit::check::trace_of_lanes;

/// A syncs a file repeatedly, and another file each third time.
fn syncing() -> Trace {
    let (_, mut trace) = trace_of_lanes("@cpus 2\n@d disk 75\n@e disk 75\n@repeat 30\nA  0ddd0ddd0eee\n");
    let mut objects = Vec::new();
    for (number, wait) in trace.waits.iter_mut().filter(|wait| wait.syscall == 75).enumerate() {
        wait.object_kind = ObjectKind::File;
        wait.object = 10 + number as u64;
        let name = ["/data/ledger.db", "/data/index.db"][number].to_owned();
        objects.push(CallObject { kind: ObjectKind::File, object: wait.object, name });
    }
    assert_eq!(objects.len(), 2, "two files");
    trace.calls.objects = objects;
    trace
}

#[test]
fn the_file_of_most_of_the_waiting_is_named() {
    let analysis = analyse(&syncing());
    let finding = analysis.findings.iter().find(|one| one.rule == "sync-per-item").expect("it is told");
    let said = finding.summary.iter().find(|line| line.contains("ledger")).expect("the file");
    assert_eq!(said, "67 % of it is for /data/ledger.db, one of 2 files.");
}

/// A file whose name was not recorded is not reported, and its time stays in the total.
#[test]
fn a_file_without_a_name_is_none_and_counts() {
    let mut trace = syncing();
    trace.calls.objects.remove(0);
    let (named, files) = waited_files::waited(&trace, |slice| trace.wait(slice.wait).syscall == 75);
    let told: Vec<(&str, u32)> =
        named.iter().map(|file| (file.path.as_str(), (file.share * 100.0).round() as u32)).collect();
    assert_eq!((told, files), (vec![("/data/index.db", 33)], 2));
}
