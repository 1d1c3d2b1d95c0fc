//! Probes at functions: links for many probes and single probes report the same passes. What a machine lacks is skipped.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use holdup_capture::bpf::{
    Options, ProbeForm, Session, SpanPlace, Stacks, Target, TaskPlaces, WaitPlace, WakePlace,
};
use holdup_capture::mappings::read_maps;
use holdup_capture::{doctor, privileges};

const THREADS: u64 = 4;
const PASSES: u64 = 250;
/// `WIRE_PLACE` and `WIRE_TASK_WAIT` in `bpf/wire.h`, and where a record has its kind, its process and its place or its object.
const PLACE: u8 = 19;
const TASK_WAIT: u8 = 21;
const KIND_AT: usize = 14;
const TGID_AT: usize = 20;
const PLACE_AT: usize = 24;
const OBJECT_AT: usize = 32;
/// As instructions number them.
const RSI: u8 = 6;
const RDI: u8 = 7;

#[inline(never)]
extern "C" fn passes(number: u64) -> u64 {
    black_box(number) + 1
}

#[inline(never)]
extern "C" fn waits(object: u64, task: u64) -> u64 {
    black_box(object) ^ black_box(task)
}

#[inline(never)]
extern "C" fn goes_on(record: &[u64; 2]) -> u64 {
    black_box(record[1]) + 2
}

/// The probed program, which starts when it reads a line. Run only by the other test.
#[test]
#[ignore = "a program for the other tests"]
fn child() {
    if !std::env::args().any(|word| word == "--exact") {
        return;
    }
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let thread = |thread: u64| {
        move || {
            for pass in 0..PASSES {
                let task = thread << 32 | pass;
                black_box(passes(pass));
                black_box(waits(0x1000 + thread, task));
                black_box(goes_on(&[0, task]));
            }
        }
    };
    let threads: Vec<_> = (0..THREADS).map(|number| std::thread::spawn(thread(number))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Starts [`child`], which waits for a line.
fn start() -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("ready")));
    child
}

fn let_run(mut child: Child) {
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    child.stdout.take().unwrap().read_to_string(&mut String::new()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Offset in this program's file.
fn offset(function: *const ()) -> u64 {
    let address = function as u64;
    let mapping = read_maps(std::process::id());
    let mapping = mapping.into_iter().find(|one| (one.start..one.end).contains(&address)).unwrap();
    address - mapping.start + mapping.file_offset
}

fn number(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().unwrap())
}

/// Passes by process and place.
type Passes = BTreeMap<(u32, u32), u64>;
/// Waits by lock.
type Waits = BTreeMap<u32, u64>;

/// How often each place was passed, and how many waits there were for each lock, in this form. Rights are given up as a recorder
/// does, so run it in a thread of its own.
fn counted(probes: ProbeForm) -> (Passes, Waits, [u32; 2]) {
    let (probed, other) = (start(), start());
    let tgids = [probed.id(), other.id()];
    let options = Options {
        target: Target::Process(tgids[0]),
        sample_hz: 0,
        stacks: Stacks::None,
        ring_bytes: 8 << 20,
        syscalls: false,
        allocations: None,
        counters: Vec::new(),
        probes,
    };
    let mut session = Session::load(&options).expect("BPF");
    session.add_target(tgids[1]).expect("BPF");
    privileges::drop_unneeded().expect("fewer rights");
    session.begin().expect("BPF");
    let exe = format!("/proc/{}/exe", tgids[0]);
    let file = Path::new(&exe);
    let [tgid, per_second_max] = [tgids[0], 1_000_000];
    for (place, function) in [(5, passes as *const ()), (9, goes_on as *const ())] {
        let at = SpanPlace {
            tgid,
            place,
            file,
            offset: offset(function),
            semaphore: 0,
            per_second_max,
            condition: None,
        };
        session.arm_place(&at).unwrap_or_else(|error| panic!("{probes:?}: {error}"));
        // Attached again while the first probe is being removed: each pass is still recorded once.
        session.disarm_place(tgid, place);
        session.arm_place(&at).unwrap_or_else(|error| panic!("{probes:?}: {error}"));
    }
    let wait = WaitPlace { offset: offset(waits as *const ()), task: RSI, object: Some(RDI) };
    let wake = WakePlace { offset: offset(goes_on as *const ()), woken: RDI, channel: None };
    let at = TaskPlaces {
        tgid,
        file,
        waits: &[wait],
        goes_on: &[wake],
        woken_task_at: 8,
        channel_fields: [0, 0],
        per_second_max,
    };
    session.arm_tasks(&at).unwrap_or_else(|error| panic!("{probes:?}: {error}"));
    let_run(other);
    let_run(probed);
    let (mut places, mut locks) = (BTreeMap::new(), BTreeMap::new());
    session.drain_definitions(&mut |record| match record[KIND_AT] {
        PLACE => *places.entry((number(record, TGID_AT), number(record, PLACE_AT))).or_default() += 1,
        TASK_WAIT => *locks.entry(number(record, OBJECT_AT)).or_default() += 1,
        _ => {}
    });
    assert_eq!(session.disarm_tasks(tgid), [], "{probes:?}: every task went on");
    session.disarm_place(tgid, 5);
    (places, locks, tgids)
}

#[test]
fn both_forms_of_probes_report_the_same_passes() {
    if let Err(error) = doctor::bpf_ready() {
        return println!("skipped: BPF is not allowed here: {error}");
    }
    if !privileges::may_open_any_event() {
        return println!("skipped: no CAP_SYS_ADMIN");
    }
    for form in [ProbeForm::Best, ProbeForm::Single] {
        let counted = std::thread::spawn(move || counted(form)).join().unwrap();
        let (places, locks, [probed, _]) = counted;
        let all = THREADS * PASSES;
        assert_eq!(places, BTreeMap::from([((probed, 5), all), ((probed, 9), all)]), "{form:?}");
        let each = (0..THREADS as u32).map(|thread| (0x1000 + thread, PASSES));
        assert_eq!(locks, each.collect(), "{form:?}");
    }
}
