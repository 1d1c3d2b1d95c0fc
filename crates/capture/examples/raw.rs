//! Records a command with BPF and counts the raw records by kind.
use std::collections::BTreeMap;

use holdup_capture::bpf::{Options, ProbeForm, Session, Stacks, Target};
use holdup_capture::launch;

fn main() {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let held = launch::hold(&words).expect("fork");
    let options = Options {
        target: Target::Process(held.pid()),
        sample_hz: 499,
        stacks: Stacks::All,
        ring_bytes: 64 << 20,
        syscalls: false,
        allocations: None,
        counters: Vec::new(),
        probes: ProbeForm::Best,
    };
    let mut session = Session::load(&options).expect("BPF");
    session.begin().expect("BPF");
    let mut kinds: BTreeMap<u8, u64> = BTreeMap::new();
    session.snapshot(&mut |record| *kinds.entry(record[14]).or_default() += 1).expect("snapshot");
    let mut child = held.release().expect("exec");
    loop {
        let ended = child.try_wait().is_some();
        session.drain_definitions(&mut |record| *kinds.entry(record[14]).or_default() += 1);
        session.drain_records(&mut |record| *kinds.entry(record[14]).or_default() += 1);
        if ended {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    session.detach();
    session.drain_records(&mut |record| *kinds.entry(record[14]).or_default() += 1);
    eprintln!("{kinds:?} {:?} {:?} missing {:?}", session.counters(), session.cost(), session.missing());
}
