//! Rendered screens, and effects of keys.

use holdup_events::{CpuId, Timestamp, WaitReason};
use holdup_findings::derive::class::{CLASSES, Class};
use holdup_findings::glance::{
    Collections, CpuGlance, Glance, LockGlance, Now, Stranger, ThreadGlance, WaitGlance, WaitKey,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::Spent;
use super::*;

const MS: u64 = 1_000_000;

fn classes(parts: &[(Class, u64)]) -> [u64; CLASSES] {
    let mut classes = [0; CLASSES];
    parts.iter().for_each(|(class, ms)| classes[*class as usize] = ms * MS);
    classes
}

fn queue() -> WaitKey {
    WaitKey { class: Class::LockWait, reason: WaitReason::Lock, object: "queue_lock".to_owned() }
}

fn threads() -> Vec<ThreadGlance> {
    let thread = |tid, name: &str, parts: &[(Class, u64)], now| ThreadGlance {
        tid,
        name: name.to_owned(),
        pid: 4711,
        process: "server".to_owned(),
        life_ns: 1000 * MS,
        classes: classes(parts),
        now,
        ..ThreadGlance::default()
    };
    let sleep = WaitKey { class: Class::Sleep, reason: WaitReason::Sleep, object: String::new() };
    let busy = [(Class::Useful, 600), (Class::Kernel, 100), (Class::RunQueue, 300)];
    let waits = [(Class::Useful, 200), (Class::LockWait, 700), (Class::RunQueue, 100)];
    vec![
        thread(4711, "server", &[(Class::Sleep, 1000)], Now::Waiting(sleep)),
        thread(4712, "worker-1", &busy, Now::Running(CpuId(0))),
        thread(4713, "worker-2\x1b[2J", &waits, Now::Waiting(queue())),
    ]
}

fn moment() -> Moment {
    let all = [
        (Class::Useful, 800),
        (Class::Kernel, 100),
        (Class::LockWait, 700),
        (Class::RunQueue, 400),
        (Class::Sleep, 1000),
    ];
    let stranger = Stranger { name: "cc1plus".to_owned(), pid: 99, kernel: false, ran_ns: 400 * MS };
    let cpu = |cpu, parts: &[(Class, u64)], others: u64, idle: u64| CpuGlance {
        cpu: CpuId(cpu),
        classes: classes(parts),
        others_ns: others * MS,
        idle_ns: idle * MS,
        switches: 1234,
        most: if others > 0 { stranger.clone() } else { Stranger::default() },
    };
    let lock = LockGlance {
        symbolic: "queue_lock".to_owned(),
        process: "app".to_owned(),
        name: "queue_lock".to_owned(),
        pid: 4711,
        waits: 120,
        wait_ns: 700 * MS,
        max_ns: 12 * MS,
        waiters: 1,
        releaser: "worker-1 (4712)".to_owned(),
        at: "push_job".to_owned(),
    };
    let waited = WaitGlance { key: queue(), count: 120, wait_ns: 700 * MS, max_ns: 12 * MS, threads: 1 };
    let glance = Glance {
        start: Timestamp(5_000 * MS),
        end: Timestamp(6_000 * MS),
        total_ns: 3_000 * MS,
        classes: classes(&all),
        split_known: true,
        threads: threads(),
        cpus: vec![
            cpu(0, &[(Class::Useful, 600), (Class::Kernel, 100)], 300, 0),
            cpu(1, &[(Class::Useful, 200)], 100, 700),
        ],
        strangers: vec![stranger],
        locks: vec![lock],
        waits: vec![waited],
        collections: Some(Collections {
            runtimes: vec!["OCaml 5.3".to_owned()],
            minor: 12,
            major: 1,
            pauses: 24,
            paused_ns: 30 * MS,
            longest_ns: 4 * MS,
        }),
        ..Glance::default()
    };
    let spent = Spent { recorder_cpu_ns: 9 * MS, kernel_cpu_ns: 3 * MS, memory_bytes: 90 << 20 };
    Moment { glance, unix_ns: 0, spent, skipped: 0 }
}

fn screen() -> Screen {
    let mut screen = Screen::new("./server (4711)".to_owned(), false, true);
    screen.show(moment());
    screen
}

fn drawn(screen: &Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
}

/// Compares a screen with its golden file. `HOLDUP_BLESS=1` writes the file.
fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/goldens/top-{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("HOLDUP_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap_or_default(), "{path}");
}

#[test]
fn a_small_terminal() {
    golden("80x24", &drawn(&screen(), 80, 24));
}

#[test]
fn a_large_terminal() {
    golden("200x50", &drawn(&screen(), 200, 50));
}

#[test]
fn one_thread_of_it() {
    let mut screen = screen();
    for key in [Key::Down, Key::Down, Key::Enter] {
        screen.key(key);
    }
    golden("thread", &drawn(&screen, 80, 24));
}

#[test]
fn any_size_is_drawn_and_names_are_harmless() {
    let mut screen = screen();
    screen.key(Key::Down);
    for (width, height) in
        [(1, 1), (2, 60), (20, 4), (21, 5), (40, 9), (79, 12), (139, 30), (140, 8), (500, 200)]
    {
        for key in [Key::Enter, Key::Char('?'), Key::Char('?')] {
            screen.key(key);
            assert!(!drawn(&screen, width, height).contains('\x1b'), "{width}x{height}");
        }
    }
    let mut many = moment();
    many.glance.cpus = (0..300).map(|cpu| CpuGlance { cpu: CpuId(cpu), ..CpuGlance::default() }).collect();
    screen.show(many);
    assert!(drawn(&screen, 80, 24).contains("more CPUs"));
}

#[test]
fn nothing_has_come_yet() {
    let mut screen = Screen::new("x".to_owned(), true, false);
    for key in [Key::Down, Key::Enter, Key::PageUp] {
        screen.key(key);
    }
    assert!(drawn(&screen, 80, 24).contains("not over yet"));
    screen.show(Moment::default());
    assert!(drawn(&screen, 80, 24).contains("no thread"));
}

#[test]
fn what_is_frozen_stays() {
    let mut screen = screen();
    screen.key(Key::Char('f'));
    screen.show(Moment::default());
    assert!(drawn(&screen, 80, 24).contains("FROZEN") && drawn(&screen, 80, 24).contains("worker-1"));
    screen.key(Key::Char('f'));
    screen.show(Moment::default());
    assert!(!drawn(&screen, 80, 24).contains("worker-1"));
}

#[test]
fn keys_of_a_filter_are_no_commands() {
    let mut screen = screen();
    for key in ['/', 'q', 'w'].map(Key::Char) {
        assert_eq!(screen.key(key), None);
    }
    assert_eq!(screen.key(Key::Backspace), None);
    assert!(drawn(&screen, 80, 24).contains("/q_") && !drawn(&screen, 80, 24).contains("worker"));
    assert_eq!(screen.key(Key::Escape), None);
    assert!(drawn(&screen, 80, 24).contains("worker-1"));
    assert_eq!((screen.key(Key::Char('w')), screen.key(Key::Char('q'))), (Some(Ask::Save), Some(Ask::Quit)));
}

#[test]
fn the_selected_thread_is_seen_wherever_it_is() {
    let mut moment = moment();
    let one = moment.glance.threads[1].clone();
    moment.glance.threads = (0..500).map(|tid| ThreadGlance { tid, ..one.clone() }).collect();
    let mut screen = screen();
    screen.show(moment);
    assert_eq!(screen.key(Key::Up), None, "from the end");
    assert!(drawn(&screen, 80, 24).contains("    499 worker-1"));
    screen.key(Key::PageUp);
    assert!(drawn(&screen, 80, 24).contains("    489 worker-1"));
}
