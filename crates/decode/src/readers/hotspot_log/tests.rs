//! A log from its lines to spans.

use holdup_events::event::{RuntimeEvent, RuntimeEventKind};

use super::*;

fn read(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    assert!(Format.recognises(text.as_bytes()));
    let told = Format.read(text.as_bytes(), &Wanted::default(), &mut |event| {
        if let Event::Runtime(RuntimeEvent { at, tid, what, name, .. }) = event {
            let what = match what {
                RuntimeEventKind::Begin(_) => "+".to_owned(),
                RuntimeEventKind::End => "-".to_owned(),
                RuntimeEventKind::Mark { value, .. } => format!("!{value} "),
                _ => return,
            };
            lines.push(format!("{} {tid} {what}{name}", at.0));
        }
    });
    told.unwrap();
    lines
}

#[test]
fn times_are_read_from_any_decoration() {
    let at = |text| Line::parse(text).map(|line| (line.at, line.tid, line.text));
    assert_eq!(at("[36070776995524ns][5911] Using G1"), Some((36_070_776_995_524, 5911, "Using G1")));
    assert_eq!(at("[0.014s][info][gc,init   ] Using G1"), Some((14_000_000, 0, "Using G1")));
    assert_eq!(at("[0.014s][14ms][15000000ns] x"), Some((15_000_000, 0, "x")));
    let day = at("[2026-11-21T12:00:01.500+0000][info] x").map(|line| line.0);
    assert_eq!(day, Some(((21 * 24 + 12) * 3600 * 1000 + 1500) * 1_000_000));
    assert_eq!(at("no brackets"), None);
}

#[test]
fn the_thread_that_was_named_last_is_late() {
    let lines = read(
        "[1000ns][7] Safepoint synchronization initiated using futex wait barrier. (16 threads)\n\
         [1100ns][7] Thread: 0x1  [0x9] State: _running _at_poll_safepoint 0\n\
         [1110ns][7] Thread: 0x1  [0xa] State: _running _at_poll_safepoint 0\n\
         [1200ns][7] Thread: 0x1  [0xa] State: _running _at_poll_safepoint 0\n\
         [1900ns][7] GC(0) Pause Full (System.gc()) 38M->3M(17M) 0.0003ms\n\
         [2010ns][7] Safepoint \"G1CollectFull\", Time since last: 5 ns, Reaching safepoint: 400 ns, Cleanup: 1 ns, \
         At safepoint: 599 ns, Total: 1000 ns\n",
    );
    let expected = [
        "1000 7 +safepoint G1CollectFull",
        "1000 7 +reaching safepoint",
        "1100 9 +stopped at safepoint",
        "1400 7 !10 last at the safepoint",
        "1400 7 -reaching safepoint",
        "1400 10 +stopped at safepoint",
        "1600 7 +Pause Full",
        "1900 7 -Pause Full",
        "2000 7 -safepoint G1CollectFull",
        "2000 9 -stopped at safepoint",
        "2000 10 -stopped at safepoint",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_log_of_collections_alone_has_pauses() {
    let lines =
        read("[0.010s][info][gc] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 24M->2M(256M) 1.5ms\n");
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("8500000 ") && lines[1].starts_with("10000000 "), "{lines:?}");
}
