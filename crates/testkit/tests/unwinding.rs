//! Tests the BPF walker on real threads, stopped at places that are hard to unwind (`unwinding/places.cpp`).
//! Compares it with another unwinder (libgcc's), and single-stepped with the calls seen on the way.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use holdup_decode::unwind::{Code, Kind, Registers, Row, Walked, walk};
use holdup_events::tables::{FrameVia, StackEnd};
use holdup_testkit::bpf_host::{FRAMES_MAX, HostMapping, HostProcess, HostWalk};
use holdup_testkit::stopped::{NotStopped, Stopped};

/// The program, compiled as distributions do: optimised, without frame pointers. `None` without a compiler.
static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(|| compiled("g++", "places.cpp"));

/// The same of `unwinding/lent.c`.
static LENDER: LazyLock<Option<PathBuf>> = LazyLock::new(|| compiled("gcc", "lent.c"));

fn compiled(compiler: &str, source: &str) -> Option<PathBuf> {
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(source.replace('.', "-"));
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/unwinding").join(source);
    let options = ["-O2", "-fomit-frame-pointer", "-rdynamic", "-Wl,-z,lazy", "-pthread", "-o"];
    let status = Command::new(compiler).args(options).arg(&program).arg(&source).status().ok()?;
    assert!(status.success(), "{compiler} does not compile {source:?}");
    Some(program)
}

/// A place of the program.
struct Place {
    stopped: Stopped,
    mappings: Vec<HostMapping>,
    host: HostProcess,
    /// Where the code on a lent frame is in another binary.
    lent: Option<Row>,
    /// Return addresses, the innermost first. Without the leaf, which a walk finds in the registers.
    callers: Vec<u64>,
    /// Names of all frames.
    names: Vec<String>,
}

impl Place {
    /// Stops the program there. `None` if that fails, with the reason printed.
    fn stop(name: &str) -> Option<Place> {
        Place::stop_with(name, |_| {})
    }

    fn stop_with(name: &str, set: impl FnOnce(&mut Command)) -> Option<Place> {
        Place::stop_in(PROGRAM.as_deref(), name, set)
    }

    fn stop_in(program: Option<&Path>, name: &str, set: impl FnOnce(&mut Command)) -> Option<Place> {
        let Some(program) = program else {
            println!("skipped: there is no compiler");
            return None;
        };
        let mut command = Command::new(program);
        set(command.arg(name));
        let stopped = match Stopped::start(&mut command) {
            Ok(stopped) => stopped,
            Err(NotStopped::Ended) => {
                println!("skipped: ptrace is not allowed here");
                return None;
            }
            Err(error) => panic!("{error:?}"),
        };
        let said = stopped.output();
        let frames: Vec<(u64, String)> = said
            .iter()
            .map(|line| {
                let mut words = line.split(' ').skip(1);
                let address = u64::from_str_radix(words.next().unwrap(), 16).unwrap();
                (address, words.next().unwrap().to_owned())
            })
            .collect();
        let mappings = stopped.mappings();
        let host = HostProcess::new(&mappings);
        let callers = frames.iter().skip(1).map(|frame| frame.0).collect();
        let names = frames.into_iter().map(|frame| frame.1).collect();
        Some(Place { stopped, mappings, host, lent: None, callers, names })
    }

    fn walk(&self) -> HostWalk {
        self.host.walk(self.stopped.registers(), &mut |address, to| self.stopped.read(address, to))
    }

    /// By the walker for stacks that were copied.
    fn walk_later(&self) -> Walked {
        walk(self.stopped.registers(), &|address| self.stopped.word(address), &mut |address| {
            let holds = |one: &&HostMapping| (one.start..one.end).contains(&address);
            let Some(mapping) = self.mappings.iter().find(holds) else { return Code::Unmapped };
            let pc = address - mapping.base;
            let behind = mapping.rows.partition_point(|row| u64::from(row.pc) <= pc);
            let code = behind.checked_sub(1).map_or(Code::Bare, |last| Code::Row(mapping.rows[last]));
            code.on_frame(self.lent)
        })
    }

    /// Checks that both walkers find libgcc's callers, up to the root. `names` must be among them, in this
    /// order.
    fn is_complete(&self, names: &[&str]) -> HostWalk {
        let walked = self.walk();
        assert_eq!(walked.addresses[1..], self.callers, "{walked:x?}\nin {:?}", self.names);
        assert_eq!(walked.end, StackEnd::Root);
        let later = self.walk_later();
        assert_eq!((&later.addresses, &later.vias), (&walked.addresses, &walked.vias));
        assert_eq!(later.end, walked.end);
        let mut seen = self.names.iter();
        for name in names {
            assert!(seen.any(|one| one == name), "no {name} (in this order) in {:?}", self.names);
        }
        walked
    }
}

fn is_complete_in(place: &str, names: &[&str]) {
    if let Some(place) = Place::stop(place) {
        place.is_complete(names);
    }
}

#[test]
fn recursion_without_frame_pointers() {
    let names = [&["stop_here"][..], &["recursing"; 31][..], &["main", "_start"][..]].concat();
    is_complete_in("recursion", &names);
}

#[test]
fn frames_of_variable_size() {
    is_complete_in("alloca", &["stop_here", "with_alloca", "main", "_start"]);
}

#[test]
fn realigned_frames() {
    is_complete_in("realigned", &["stop_here", "recursing", "recursing", "recursing", "realigned", "main"]);
}

#[test]
fn a_signal_handler_that_interrupted_the_first_instruction_of_a_leaf() {
    for name in ["signal", "signal-stack"] {
        let Some(place) = Place::stop(name) else { return };
        let walked = place.is_complete(&["stop_here", "main", "_start"]);
        let signals = walked.vias.iter().filter(|via| **via == FrameVia::SignalFrame).count();
        assert_eq!(signals, 1, "{name}: {walked:x?}");
    }
}

#[test]
fn a_callback_through_the_c_library() {
    is_complete_in("qsort", &["stop_here", "comparing", "sorting", "main", "_start"]);
}

#[test]
fn destructors_while_an_exception_is_in_flight() {
    is_complete_in("exception", &["stop_here", "cleaning", "catching", "main"]);
}

#[test]
fn inside_the_unwinder() {
    is_complete_in("unwinder", &["stop_here", "_Unwind_Backtrace", "inside_unwinder", "main"]);
}

#[test]
fn threads_end_at_their_own_root() {
    is_complete_in("thread", &["stop_here", "recursing", "thread_start"]);
    is_complete_in("cxx-thread", &["stop_here", "recursing", "recursing"]);
}

#[test]
fn a_coroutine_ends_where_its_stack_does() {
    let Some(place) = Place::stop("coroutine") else { return };
    let walked = place.walk();
    assert_eq!(walked.addresses[1..], place.callers);
    assert!(place.names.iter().any(|name| name == "coroutine"));
    // glibc describes where a thread begins, but not where `makecontext` does.
    let ends = [StackEnd::Root, StackEnd::NoFramePointer, StackEnd::Unreadable];
    assert!(ends.contains(&walked.end), "{walked:x?}");
}

#[test]
fn ten_thousand_calls_are_too_deep_and_what_is_taken_is_right() {
    let Some(place) = Place::stop("deep") else { return };
    let walked = place.walk();
    assert!(place.callers.len() > 10_000);
    assert_eq!((walked.addresses.len(), walked.end), (FRAMES_MAX, StackEnd::TooDeep));
    assert_eq!(walked.addresses[1..], place.callers[..FRAMES_MAX - 1]);
    assert_eq!(place.walk_later().end, StackEnd::TooDeep);
}

#[test]
fn a_frame_that_is_held_in_a_register() {
    is_complete_in("held", &["stop_here", "without_bx", "held", "main", "_start"]);
    is_complete_in("held-saved", &["stop_here", "without_bx", "with_bx", "held", "main", "_start"]);
}

#[test]
fn descriptions_that_lead_nowhere_end_by_name() {
    let places = [
        ("loop", StackEnd::Loop, 2),
        ("no-rule", StackEnd::NoRule, 2),
        ("held-saved-far", StackEnd::NoRule, 3),
    ];
    for (name, end, frames) in places {
        let Some(place) = Place::stop(name) else { return };
        let (walked, later) = (place.walk(), place.walk_later());
        assert_eq!((walked.end, walked.addresses.len()), (end, frames), "{name}: {walked:x?}");
        assert_eq!((later.addresses, later.end), (walked.addresses, end), "{name}");
    }
}

#[test]
fn code_without_a_description_is_walked_by_frame_pointer_or_by_guess() {
    for (name, via) in [("frame-pointer", FrameVia::FramePointer), ("scan", FrameVia::Scan)] {
        let Some(place) = Place::stop(name) else { return };
        let walked = place.walk();
        assert_eq!((walked.vias[1], walked.vias[2]), (FrameVia::Table, via), "{name}: {walked:x?}");
        assert_eq!(walked.end, StackEnd::Root, "{name}: {walked:x?}");
    }
}

/// Single-steps the code that runs on a lent frame: both walkers must find the callers of the frame's owner.
fn step_through_lent(mut place: Place) {
    let (mut called, mut exact) = (0, 0);
    // Through the call's return, and the code itself up to its end.
    while place.stopped.registers().ip != place.callers[0] {
        let (walked, later) = (place.walk(), place.walk_later());
        match walked.vias.iter().position(|via| *via == FrameVia::LentFrame) {
            Some(at) => {
                assert_eq!(walked.addresses[at], place.callers[0], "{walked:x?}");
                assert_eq!(walked.end, StackEnd::Root, "{walked:x?}");
                assert_eq!(
                    (later.addresses, later.vias, later.end),
                    (walked.addresses, walked.vias, walked.end)
                );
                *(if at == 1 { &mut exact } else { &mut called }) += 1;
            }
            // It gives its frame back in its last instructions.
            None => assert!(exact > 0, "{walked:x?}"),
        }
        place.stopped.step().expect("it goes on");
    }
    assert!(called > 0 && exact > 0, "{called} in what it calls, {exact} in itself");
}

#[test]
fn code_on_a_lent_frame_has_the_lenders_callers() {
    if let Some(place) = Place::stop_in(LENDER.as_deref(), "", |_| {}) {
        step_through_lent(place);
    }
}

/// As GHC's shared libraries do on the frame of the runtime's.
#[test]
fn the_code_may_be_in_another_binary_than_the_lender() {
    let Some(mut place) = Place::stop_in(LENDER.as_deref(), "", |_| {}) else { return };
    let mut rows = place.mappings.iter_mut().flat_map(|mapping| &mut mapping.rows);
    let mut lent = None;
    rows.by_ref().filter(|row| row.kind == Kind::Lent).for_each(|row| {
        lent = Some(*row);
        *row = Row::plain(row.pc, Kind::Gap);
    });
    assert!(lent.is_some());
    place.host = HostProcess::new(&place.mappings).lending(lent);
    place.lent = lent;
    step_through_lent(place);
}

/// No place is walked more often.
const WALKS_A_PLACE: u32 = 3;

/// Calls that were seen and have not returned: return addresses and where they lie, the innermost last.
#[derive(Default)]
struct Calls(Vec<(u64, u64)>);

impl Calls {
    /// From one instruction to the next.
    fn follow(&mut self, place: &Place, before: Registers, now: Registers) {
        while self.0.last().is_some_and(|(_, at)| *at < now.sp) {
            self.0.pop();
        }
        let pushed = before.sp.wrapping_sub(8) == now.sp;
        let next = before.ip + 1..before.ip + 16;
        if pushed && let Some(address) = place.stopped.word(now.sp).filter(|word| next.contains(word)) {
            self.0.push((address, now.sp));
        }
    }
}

/// Single-steps a program. Returns the number of stacks by the reason of their end. Complete stacks must
/// match the calls, and incomplete ones must be correct prefixes.
fn step_through(mut place: Place) -> BTreeMap<StackEnd, u64> {
    // Frames outside of the function being stepped, which stay as libgcc saw them.
    let outer = place.callers[1..].to_vec();
    let mut calls = Calls::default();
    let mut before = place.stopped.registers();
    let mut walks: HashMap<u64, u32> = HashMap::new();
    let (mut ends, mut steps) = (BTreeMap::new(), 0u64);
    // The breakpoint stopped inside of a call.
    let mut above = (before.sp..).step_by(8);
    let returns_at = above.find(|at| place.stopped.word(*at) == Some(place.callers[0])).unwrap();
    calls.0.push((place.callers[0], returns_at));
    while !at_breakpoint(&place, before, steps) {
        place.stopped.step().expect("it goes on");
        let now = place.stopped.registers();
        steps += 1;
        calls.follow(&place, before, now);
        before = now;
        let times = walks.entry(now.ip).or_default();
        *times += 1;
        if *times > WALKS_A_PLACE {
            continue;
        }
        let walked = place.walk();
        let inner = calls.0.iter().rev().map(|(address, _)| *address);
        let truth: Vec<u64> = [now.ip].into_iter().chain(inner).chain(outer.iter().copied()).collect();
        let taken = if walked.end == StackEnd::Root { truth.len() } else { walked.addresses.len() };
        assert_eq!(walked.addresses, truth[..taken], "step {steps}: {walked:x?}");
        *ends.entry(walked.end).or_insert(0u64) += 1;
    }
    println!("{steps} instructions, {} places, stacks by end: {ends:?}", walks.len());
    ends
}

#[test]
fn every_instruction_of_a_program() {
    let bound = |command: &mut Command| _ = command.env("LD_BIND_NOW", "1");
    let Some(place) = Place::stop_with("steps", bound) else { return };
    is_mostly_complete(&step_through(place));
}

fn is_mostly_complete(ends: &BTreeMap<StackEnd, u64>) {
    let (complete, all) = (ends[&StackEnd::Root], ends.values().sum::<u64>());
    assert!(complete * 1000 >= all * 995, "{complete} of {all} stacks are complete: {ends:?}");
}

/// The loader's resolver holds its frame in a register.
#[test]
fn every_instruction_of_a_program_that_is_lazily_bound() {
    let Some(place) = Place::stop("steps") else { return };
    is_mostly_complete(&step_through(place));
}

/// Whether the next instruction is the breakpoint after the stepped code.
fn at_breakpoint(place: &Place, registers: Registers, steps: u64) -> bool {
    let mut code = [0];
    steps > 0 && place.stopped.read(registers.ip, &mut code) && code == [0xcc]
}
