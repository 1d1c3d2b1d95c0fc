//! Lines as perf prints them.

use super::line::{Head, Task, frame};
use holdup_events::CpuId;
use holdup_events::event::Outcome;

#[test]
fn the_line_of_a_sample() {
    let head = Head::parse("Web Content 12/34 [003] 16938.396783:    1003009 cpu-clock:ppp: ").unwrap();
    assert_eq!((head.name.as_str(), head.tgid, head.tid, head.cpu), ("Web Content", 12, 34, CpuId(3)));
    assert_eq!((head.at, head.period_ns()), (16_938_396_783_000, 1_003_009));
    assert!(head.is_clock() && head.shows_places());
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
