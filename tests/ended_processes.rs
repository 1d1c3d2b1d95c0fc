//! Processes that have exited are dropped, so that there is always room for new ones: a build starts hundreds
//! of thousands of processes.

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use holdup_capture::bpf::{Options, ProbeForm, Session, Stacks, Target};
use holdup_capture::launch;
use support::{Scratch, bpf_or_skip};

/// `WIRE_FORK`, `WIRE_EXIT`
const FORK: u8 = 7;
const EXIT: u8 = 10;
const PROCESSES: usize = 300;

/// Collects the started and exited targets from the pending records.
fn drain(session: &mut Session, began: &mut BTreeSet<u32>, ended: &mut BTreeSet<u32>) {
    let word = |record: &[u8], at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
    session.drain_definitions(&mut |record| {
        let list = match record[14] {
            FORK => &mut *began,
            EXIT => &mut *ended,
            _ => return,
        };
        if word(record, 28) != 0 {
            list.insert(word(record, 16));
        }
    });
    session.drain_records(&mut |_| ());
}

#[test]
fn exited_processes_free_their_map_entries() {
    let scratch = Scratch::new("ended-processes");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let script = format!("i=0; while [ $i -lt {PROCESSES} ]; do /bin/true; i=$((i + 1)); done");
    let held = launch::hold(&["sh".into(), "-c".into(), script.into()]).expect("fork");
    let options = Options {
        target: Target::Process(held.pid()),
        sample_hz: 0,
        stacks: Stacks::None,
        ring_bytes: 8 << 20,
        syscalls: false,
        allocations: None,
        counters: Vec::new(),
        probes: ProbeForm::Best,
    };
    let mut session = Session::load(&options).expect("BPF");
    session.begin().expect("BPF");
    let mut child = held.release().expect("exec");
    let (mut began, mut ended) = (BTreeSet::new(), BTreeSet::new());
    while child.try_wait().is_none() {
        drain(&mut session, &mut began, &mut ended);
        std::thread::sleep(Duration::from_millis(10));
    }
    drain(&mut session, &mut began, &mut ended);
    assert!(began.len() >= PROCESSES, "{} of {PROCESSES} are followed", began.len());
    assert_eq!(began.difference(&ended).collect::<Vec<_>>(), Vec::<&u32>::new(), "the ends of all are seen");
    // The kernel takes its time to forget them.
    let since = Instant::now();
    let left = loop {
        let mut left = 0;
        session.calls("targets", &mut |_, _| left += 1).expect("the map");
        if left == 0 || since.elapsed() > Duration::from_secs(20) {
            break left;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(left, 0, "of {} processes that ended", ended.len());
}
