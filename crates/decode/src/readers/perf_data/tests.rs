//! Small files, written by hand: machines and kernels of which there is none here.

use holdup_events::recording::Manifest;
use holdup_events::tables::ThreadState;

use super::attributes::has;
use super::*;

/// Fields of each event and sample here: id, instruction pointer, thread, time, CPU.
const SAMPLE_TYPE: u64 = has::IDENTIFIER | has::IP | has::TID | has::TIME | has::CPU;
/// Length of an event's description here, without the place of its numbers.
const DESCRIPTION: usize = 96;
/// The event has a frequency, and each record holds its thread and time.
const FLAGS: u64 = 1 << 10 | 1 << 18;

fn longs(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// An event with type and config. `more`: fields of a sample in addition to [`SAMPLE_TYPE`]. `registers`: its
/// registers.
fn event(kind: u32, config: u64, more: u64, registers: u64) -> Vec<u8> {
    let head = [kind.to_le_bytes(), (DESCRIPTION as u32).to_le_bytes()].concat();
    let fields = longs(&[config, 1000, SAMPLE_TYPE | more, 0, FLAGS, 0, 0, 0, 0, registers, 0]);
    [head, fields].concat()
}

/// A file with these events, whose numbers are 1 and so on.
fn file(events: &[Vec<u8>], machine: Option<&str>, records: &[Vec<u8>]) -> Vec<u8> {
    let (header, records) = (104, records.concat());
    let descriptions = header + events.len() * (DESCRIPTION + 16);
    let data = descriptions + events.len() * 8;
    let mut bytes = b"PERFILE2".to_vec();
    let of_events = descriptions - header;
    bytes.extend(longs(&[104, DESCRIPTION as u64 + 16, header as u64, of_events as u64]));
    bytes.extend(longs(&[data as u64, records.len() as u64, 0, 0]));
    bytes.extend(longs(&[machine.map_or(0, |_| 1 << 6), 0, 0, 0]));
    for (nth, event) in events.iter().enumerate() {
        assert_eq!(event.len(), DESCRIPTION);
        bytes.extend(event);
        bytes.extend(longs(&[(descriptions + nth * 8) as u64, 8]));
    }
    bytes.extend((1..=events.len() as u64).flat_map(u64::to_le_bytes));
    bytes.extend(records);
    if let Some(machine) = machine {
        let text = [&(machine.len() as u32 + 1).to_le_bytes()[..], machine.as_bytes(), &[0]].concat();
        bytes.extend(longs(&[bytes.len() as u64 + 16, text.len() as u64]));
        bytes.extend(text);
    }
    bytes
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u16 + 8).to_le_bytes();
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &length, body].concat()
}

/// A sample of thread 7 in user mode. `behind` is appended to it.
fn sample(number: u64, at: u64, behind: &[u8]) -> Vec<u8> {
    const USER: u16 = 2;
    let fields = longs(&[number, 0x40_1000, 7 << 32 | 7, at, 0]);
    record(9, USER, &[fields, behind.to_vec()].concat())
}

/// Another record of thread 7.
fn other(kind: u32, misc: u16, body: &[u64], at: u64) -> Vec<u8> {
    record(kind, misc, &[longs(body), longs(&[7 << 32 | 7, at, 0, 1])].concat())
}

fn read(bytes: &[u8]) -> (Vec<Event>, Facts) {
    let mut events = Vec::new();
    let facts = Format.read(bytes, &Wanted::default(), &mut |event| events.push(event)).unwrap();
    (events, facts)
}

fn samples(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Sample(_))).count()
}

#[test]
fn samples_that_are_held_back_leave_switches_exact() {
    const OUT: u16 = 1 << 13;
    let file = |held_back: Vec<u8>| {
        let records = [
            other(14, 0, &[], 1_000_000),
            sample(1, 2_000_000, &[]),
            held_back,
            other(14, OUT, &[], 9_000_000),
            other(14, 0, &[], 12_000_000),
            other(14, OUT, &[], 13_000_000),
        ];
        read(&file(&[event(1, 0, 0, 0)], None, &records))
    };
    let told = |(events, facts): (Vec<Event>, Facts)| {
        let source = events.iter().find_map(|event| match event {
            Event::Loss(loss) => Some((loss.source.clone(), loss.reason.clone())),
            _ => None,
        });
        let (start_ns, end_ns) = (facts.span.0.0, facts.span.1.0);
        let manifest = Manifest { start_ns, end_ns, backend: facts.backend, ..Manifest::default() };
        let trace = crate::assemble(events, manifest);
        let unknown = trace.target_threads().flat_map(|id| trace.slices.of_thread(id).collect::<Vec<_>>());
        let unknown = unknown.filter(|slice| slice.state == ThreadState::Unknown);
        (source.unwrap(), unknown.map(|slice| slice.end.since(slice.start).0).sum::<u64>())
    };
    // PERF_RECORD_THROTTLE: moment, number, stream.
    let throttled = told(file(other(5, 0, &[5_000_000, 1, 1], 5_000_000)));
    assert_eq!(throttled, (("perf-samples".to_owned(), "throttled".to_owned()), 0));
    // PERF_RECORD_LOST: number, how many. Switches may be among them.
    let (source, unknown) = told(file(other(2, 0, &[1, 3], 5_000_000)));
    assert_eq!(source, ("perf-sched".to_owned(), "ring-full".to_owned()));
    assert!(unknown > 0);
}

#[test]
fn one_event_on_two_kinds_of_core_is_one_clock() {
    let (core, atom) = (4 << 32, 10 << 32);
    let records: Vec<Vec<u8>> = (1..5).map(|number| sample(number, number * 1_000_000, &[])).collect();
    let told = |configs: [u64; 4]| {
        let (events, facts) = read(&file(&configs.map(|config| event(0, config, 0, 0)), None, &records));
        (samples(&events), facts.sources[0].missing.clone())
    };
    let left_out = |count: u32| format!("{count} samples of other events are left out");
    let (count, missing) = told([core, atom, core | 1, atom | 1]);
    assert_eq!(count, 2);
    assert!(missing.contains(&left_out(2)), "{missing}");
    // The same event of the same cores twice (`cycles` and `cycles:u`) would count time twice.
    assert_eq!((told([core, core, atom, atom]).0, told([0, 0, core, 1]).0), (2, 1));
}

#[test]
fn registers_of_other_machines_are_not_unwound() {
    const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;
    let told = |machine, abi: u64| {
        // Registers, then the stack: length, bytes, how many of them there are.
        let behind = longs(&[abi, 0x7f00, 0x7e00, 0x40_2000, 16, 1, 2, 16]);
        let events = [event(1, 0, has::REGS_USER | has::STACK_USER, REGISTERS)];
        let (events, facts) = read(&file(&events, machine, &[sample(1, 1_000_000, &behind)]));
        assert_eq!(samples(&events), 1);
        let stack = events.iter().find_map(|event| match event {
            Event::Stack(stack) => Some((stack.raw.as_ref().map(|raw| raw.ip), stack.addresses.clone())),
            _ => None,
        });
        let lost =
            events.iter().any(|event| matches!(event, Event::Loss(loss) if loss.reason == "not-unwound"));
        assert_eq!(lost, facts.sources[0].missing.contains("1 user stacks lack registers of x86-64"));
        (stack.unwrap(), lost)
    };
    let (unwound, leaf_alone) = (((Some(0x40_2000), vec![]), false), ((None, vec![0x40_1000]), true));
    assert_eq!((told(Some("x86_64"), 2), told(None, 2)), (unwound.clone(), unwound));
    assert_eq!(told(Some("aarch64"), 2), leaf_alone);
    assert_eq!(told(Some("x86_64"), 1), leaf_alone, "a program of 32 bits");
}

#[test]
fn the_event_that_stands_for_time_and_has_samples_is_read() {
    const SOFTWARE: u32 = 1;
    const HARDWARE: u32 = 0;
    let (cycles, clock, faults) =
        (event(HARDWARE, 0, 0, 0), event(SOFTWARE, 0, has::PERIOD, 0), event(SOFTWARE, 2, 0, 0));
    let events = [faults, cycles, clock];
    let period = longs(&[5_000_000]);
    let (of_faults, of_cycles, of_clock) =
        (sample(1, 1_000_000, &[]), sample(2, 2_000_000, &[]), sample(3, 3_000_000, &period));
    let told = |records: &[Vec<u8>]| {
        let (events, facts) = read(&file(&events, None, records));
        (samples(&events), facts.sample_period_ns)
    };
    assert_eq!(told(&[of_faults.clone(), of_cycles.clone(), of_clock]), (1, 5_000_000), "the clock");
    assert_eq!(
        told(&[of_faults.clone(), of_cycles]),
        (1, 1_000_000),
        "cycles at 1,000 Hz: the clock has no sample"
    );
    assert_eq!(told(&[of_faults]), (1, 0), "no time");
    // A clock of a frequency whose samples have no period.
    let (_, facts) = read(&file(&[event(SOFTWARE, 0, 0, 0)], None, &[sample(1, 1_000_000, &[])]));
    assert_eq!(facts.sample_period_ns, 1_000_000);
}
