//! Small traces, written by hand.

use holdup_events::event::{Outcome, RuntimeEvent, RuntimeEventKind};

use super::*;

/// Numbers as the trace writes them.
fn number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn batch(thread: u64, at: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![ids::EVENT_BATCH];
    for value in [1, thread, at, body.len() as u64] {
        number(value, &mut bytes);
    }
    [bytes, body.to_vec()].concat()
}

/// A file of these events of one thread: id, then its numbers.
fn trace(events: &[&[u8]], strings: &[&str]) -> Vec<u8> {
    let mut bytes = b"go 1.26 trace\0\0\0".to_vec();
    // 1 GHz: a tick is a nanosecond.
    bytes.extend(batch(9, 0, &[ids::SYNC, ids::FREQUENCY, 0x80, 0x94, 0xeb, 0xdc, 3]));
    let mut body = vec![ids::STRINGS];
    for (id, text) in (1u8..).zip(strings) {
        body.extend([ids::STRING, id, text.len() as u8]);
        body.extend(text.bytes());
    }
    bytes.extend(batch(9, 0, &body));
    bytes.extend(batch(9, 100, &events.concat()));
    bytes.push(ids::END_OF_GENERATION);
    bytes
}

fn read(bytes: &[u8]) -> Vec<String> {
    assert!(Format.recognises(bytes));
    let mut lines = Vec::new();
    let told = Format.read(bytes, &Wanted::default(), &mut |event| match event {
        Event::Runtime(RuntimeEvent { at, tid, what: RuntimeEventKind::Begin(kind), name, .. }) => {
            lines.push(format!("{} {tid} +{} {name}", at.0, kind.name()));
        }
        Event::Runtime(RuntimeEvent { at, tid, what: RuntimeEventKind::End, name, .. }) => {
            lines.push(format!("{} {tid} -{name}", at.0))
        }
        Event::Switch(switch) if switch.next_tid != 0 => {
            lines.push(format!("{} {} on {}", switch.at.0, switch.next_tid, switch.cpu.0));
        }
        Event::Switch(switch) => {
            let outcome = match switch.outcome {
                Outcome::Blocked(wait) => wait.recorded_reason().unwrap().name(),
                Outcome::Dead => "dead",
                Outcome::Yielded => "yields",
                _ => "off",
            };
            lines.push(format!("{} {} {outcome}", switch.at.0, switch.prev_tid));
        }
        Event::Waking(waking) => {
            lines.push(format!("{} {} woken by {}", waking.at.0, waking.wakee_tid, waking.waker_tid));
        }
        _ => {}
    });
    told.unwrap();
    lines
}

#[test]
fn goroutines_run_wait_and_wake() {
    let bytes = trace(
        &[
            &[ids::PROC_START, 1, 0, 1],
            &[ids::GO_STATUS, 1, 1, 9, RUNNING],
            &[ids::GO_CREATE, 1, 7, 0, 0],
            &[ids::STW_BEGIN, 1, 2, 0],
            &[ids::STW_END, 4],
            &[ids::GO_BLOCK, 2, 1, 0],
            &[ids::GO_START, 3, 7, 1],
            &[ids::GO_UNBLOCK, 5, 1, 2, 0],
            &[ids::GO_DESTROY, 1],
            &[ids::GO_START, 1, 1, 3],
            &[ids::GO_SYSCALL_BEGIN, 1, 1, 0],
            &[ids::GO_SYSCALL_END, 7],
        ],
        &["sleep", "GC mark termination"],
    );
    let expected = [
        "104 1 +stop stop the world: GC mark termination",
        "108 1 -stop the world: GC mark termination",
        "110 1 sleep",
        "113 7 on 0",
        "118 1 woken by 7",
        "119 7 dead",
        "120 1 on 0",
        "121 1 kernel",
        "128 1 woken by 0",
        "128 1 on 0",
    ];
    assert_eq!(read(&bytes), expected);
}

/// As the runtime numbers it.
const RUNNING: u8 = 2;

#[test]
fn what_is_behind_an_event_that_is_not_known_is_a_loss() {
    let losses = |bytes: &[u8]| {
        let mut losses = Vec::new();
        let facts = Format.read(bytes, &Wanted::default(), &mut |event| {
            if let Event::Loss(loss) = event {
                losses.push((loss.source, loss.reason, loss.events));
            }
        });
        (losses, facts.unwrap().sources[0].lost)
    };
    let status: &[u8] = &[ids::GO_STATUS, 1, 1, 9, RUNNING];
    let mut bytes = trace(&[status, &[ids::GO_STOP, 5, 1, 0]], &["preempted"]);
    // An experiment's data are none.
    let mut experiment = batch(9, 0, &[200, 1, 2]);
    experiment[0] = ids::EXPERIMENTAL_BATCH;
    experiment.insert(1, 1);
    bytes.extend(experiment);
    assert_eq!(losses(&bytes), (vec![], 0));
    bytes.extend(batch(8, 200, &[ids::GO_START, 3, 7, 1, 130, 1, 2]));
    bytes.extend(batch(7, 200, &[ids::GO_START, 3]));
    assert_eq!(losses(&bytes), (vec![("go-trace".to_owned(), "unreadable".to_owned(), 2)], 2));
}

#[test]
fn a_cut_trace_is_a_loss() {
    let bytes = trace(&[&[ids::GO_STATUS, 1, 1, 9, RUNNING], &[ids::GO_STOP, 5, 1, 0]], &["preempted"]);
    let whole = read(&bytes);
    assert_eq!(whole, ["106 1 off"]);
    let mut losses = 0;
    let mut more = bytes.clone();
    more.extend([ids::EVENT_BATCH, 1, 9]);
    let told = Format.read(&more, &Wanted::default(), &mut |event| {
        losses += u64::from(matches!(event, Event::Loss(_)));
    });
    assert!(told.is_ok() && losses == 1);
    assert!(Format.read(&bytes[..20], &Wanted::default(), &mut |_| {}).is_err());
    assert!(!Format.recognises(b"go 2.21 trace\0\0\0"));
}

#[test]
fn idle_ps_count_and_a_cut_trace_has_a_lower_bound() {
    let cpus = |bytes: &[u8]| {
        let host = Format.read(bytes, &Wanted::default(), &mut |_| {}).unwrap().host;
        (host.cpus, host.cpus_lower_bound)
    };
    const IDLE: u8 = 2;
    let running: &[u8] = &[ids::PROC_START, 1, 0, 1];
    let idle: [&[u8]; 2] = [&[ids::PROC_STATUS, 1, 1, IDLE], &[ids::PROC_STATUS, 1, 5, IDLE]];
    let goroutine: &[u8] = &[ids::GO_STATUS, 1, 1, 9, RUNNING];
    let whole = trace(&[running, idle[0], idle[1], goroutine], &[]);
    assert_eq!(cpus(&whole), (3, false));
    let cut = [whole, vec![ids::EVENT_BATCH, 1, 9]].concat();
    assert_eq!(cpus(&cut), (3, true));
}
