//! Lines as perf prints them.

use super::line::{Head, Task, Usefulness, frame};
use super::*;
use crate::states::Catalogue;

#[test]
fn the_line_of_a_sample() {
    let head = Head::parse("Web Content 12/34 [003] 16938.396783:    1003009 cpu-clock:ppp: ").unwrap();
    assert_eq!((head.name.as_str(), head.tgid, head.tid, head.cpu), ("Web Content", 12, 34, CpuId(3)));
    assert_eq!((head.at, head.period_ns()), (16_938_396_783_000, 1_003_009));
    assert!(head.usefulness() == Usefulness::Time && head.shows_places());
    assert_eq!(Head::parse("sp 28618 16938.396783123:  7 cycles:u: ").unwrap().period_ns(), 0);
    assert_eq!(Head::parse("	            118c inner+0x13 (/tmp/sp)"), None);
    assert_eq!(Head::parse(""), None);
}

#[test]
fn the_lines_of_the_scheduler() {
    let line = "a b 7 [000] 1.000001: sched:sched_switch: prev_comm=a b prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=c next_pid=8 next_prio=0";
    let switch = Head::parse(line).unwrap().switch().unwrap();
    assert_eq!((switch.prev_tid, switch.next_tid, switch.prev_name.as_str()), (7, 8, "a b"));
    assert_eq!(switch.outcome, Outcome::Preempted);
    let wakee = |line: &str| Head::parse(line).unwrap().wakee();
    let line = "m 18 [000] 1.5: sched:sched_waking: comm=p q pid=20 prio=120 target_cpu=000";
    assert_eq!(wakee(line), Some(("p q".to_owned(), 20)));
    let line = "m 18 [000] 1.5: sched:sched_wakeup: p:q:20 [120]<CANT FAIL> CPU:000";
    assert_eq!(wakee(line), Some(("p:q".to_owned(), 20)));
}

#[test]
fn the_lines_of_tasks() {
    let task = |line: &str| Head::parse(line).unwrap().task();
    assert_eq!(
        task("sp 20949 16867.635276: PERF_RECORD_COMM exec: s p:1:20949/20950"),
        Some(Task::Name { tgid: 20949, tid: 20950, name: "s p:1".to_owned(), exec: true })
    );
    assert_eq!(
        task("sp 1 1.0: PERF_RECORD_FORK(3:4):(1:2)"),
        Some(Task::Fork { tgid: 3, tid: 4, parent_tgid: 1, parent_tid: 2 })
    );
    assert_eq!(
        task("sp 1 1.0: PERF_RECORD_SWITCH OUT preempt"),
        Some(Task::Switch { out: true, preempted: true })
    );
    assert_eq!(
        task("sp 1 1.0: PERF_RECORD_SWITCH_CPU_WIDE IN  prev pid/tid: 0/0"),
        Some(Task::Switch { out: false, preempted: false })
    );
}

#[test]
fn frames_of_all_kinds() {
    let parts = |line: &'static str| frame(line).map(|frame| (frame.function, frame.module, frame.in_kernel));
    assert_eq!(parts("  118c inner+0x13 (/tmp/sp)"), Some(("inner", "/tmp/sp", false)));
    assert_eq!(parts(" ffffffff8158e7ae do_it+0x1 ([kernel.kallsyms])"), Some(("do_it", "[kernel]", true)));
    assert_eq!(
        parts("12 std::f(int, char) const+0x1 (/a b (deleted))"),
        Some(("std::f(int, char) const", "/a b", false))
    );
    assert_eq!(parts("0 [unknown] ([unknown])"), None);
    assert_eq!(parts("nonsense"), None);
}

#[test]
fn a_frame_that_is_inlined_has_no_module_in_its_line() {
    let parts = |line: &'static str| frame(line).map(|frame| (frame.function, frame.module, frame.inlined));
    assert_eq!(parts(" 118c inner (inlined)"), Some(("inner", "", true)));
    assert_eq!(parts(" 118c f(int) (inlined)"), Some(("f(int)", "", true)));
    assert_eq!(parts(" 118c f(int, char) const (inlined)"), Some(("f(int, char) const", "", true)));
    let name = "f(std::function<void (int)> const&)";
    assert_eq!(parts(" 118c f(std::function<void (int)> const&) (inlined)"), Some((name, "", true)));
    assert_eq!(parts(" 118c inner (/tmp/sp) (inlined)"), Some(("inner", "/tmp/sp", true)), "older perfs");
    assert_eq!(parts(" 118c inner+0x13 (/tmp/sp)"), Some(("inner", "/tmp/sp", false)));
    assert_eq!(parts(" 118c inner"), None);
}

fn read(text: &str) -> (Vec<Event>, Facts) {
    let mut events = Vec::new();
    let facts = Format.read(text.as_bytes(), &Wanted::default(), &mut |event| events.push(event)).unwrap();
    (events, facts)
}

#[test]
fn what_is_inlined_stands_before_what_it_is_in() {
    let text = "sp 7 [000] 1.0: 1000000 cpu-clock: \n\t 118c innermost (inlined)\n\t 118c inner(int) (inlined)\n\t \
                118c outer+0x3 (/tmp/sp)\n\t 2000 main+0x1 (/tmp/main)\n\t 3000 lost (inlined)\n";
    let (events, facts) = read(text);
    let stack = events.iter().find_map(|event| match event {
        Event::Stack(stack) => Some(stack),
        _ => None,
    });
    let (_, frames) = facts.names.unwrap().resolve(&Catalogue::default());
    let named = |place: &u64| {
        let frame = &frames[*place as usize];
        (frame.function.as_str(), frame.module.as_str(), frame.inlined)
    };
    let named: Vec<_> = stack.unwrap().addresses.iter().map(named).collect();
    let expected = [
        ("innermost", "/tmp/sp", true),
        ("inner(int)", "/tmp/sp", true),
        ("outer", "/tmp/sp", false),
        ("main", "/tmp/main", false),
        ("lost", "", false),
    ];
    assert_eq!(named, expected);
}

#[test]
fn one_event_on_two_kinds_of_core_is_one_clock() {
    // Perfs write it in two ways.
    for (core, atom) in
        [("cpu_core/cycles/P", "cpu_atom/cycles/P"), ("cpu_core/cycles:Pu/", "cpu_atom/cycles:Pu/")]
    {
        let text = format!(
            "a 7 [000] 1.0: 9 {core}: 118c f+0x1 (/tmp/a)\na 7 [004] 1.1: 8 {atom}: 118c f+0x1 (/tmp/a)\n\
             a 7 [004] 1.2: 8 cpu_atom/instructions/: 118c f+0x1 (/tmp/a)\n"
        );
        let (events, facts) = read(&text);
        let samples = events.iter().filter(|event| matches!(event, Event::Sample(_))).count();
        assert_eq!((samples, facts.sources[0].events), (2, 2), "{core}");
        let missing = &facts.sources[0].missing;
        assert!(missing.contains("1 samples of other events are left out"), "{missing}");
    }
}

#[test]
fn an_event_is_not_added_to_itself() {
    let is_of = |event: &str, main: &str| {
        Head::parse(&format!("a 7 1.0: 9 {event}: "))
            .unwrap()
            .is_of(Head::parse(&format!("a 7 1.0: 9 {main}: ")).unwrap().event.as_str())
    };
    assert!(is_of("cycles:u", "cycles:u") && is_of("cpu_atom/cycles/", "cpu_core/cycles/"));
    // What the one draws in user mode the other draws, too.
    assert!(!is_of("cycles:u", "cycles") && !is_of("cpu/cycles/", "cycles"));
    assert!(!is_of("cpu/event=0x3c/", "cpu/event=0xc0/") && is_of("cpu/event=0x3c/", "cpu/event=0x3c/"));
    assert!(!is_of("cpu_atom/cycles/u", "cpu_core/cycles/"));
    let head = Head::parse("a 7 1.0: 9 cpu_core/cycles:P/: 118c f (/a)").unwrap();
    assert!(head.usefulness() == Usefulness::Clock && head.shows_places());
    assert!(!Head::parse("a 7 1.0: sched:sched_waking: x").unwrap().shows_places());
}
