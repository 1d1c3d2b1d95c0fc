//! Goroutines over time: which P they have, why they wait, and the collector's work.

mod goroutine;

use std::collections::{BTreeSet, HashMap};

use holdup_events::tables::SpanKind;
use holdup_events::{CpuId, WaitReason};

use super::layout::Layout;
use super::order::TraceEvent;
use super::{PID, Stacks, ids};
use crate::telling::{After, At, Found, Person, Telling, Who};
use goroutine::{Goroutine, is_collectors, lock_site, reason};

/// Statuses of goroutines.
const RUNNABLE: u64 = 1;
const RUNNING: u64 = 2;
const IN_SYSCALL: u64 = 3;
/// Status of a P that runs, and of one whose thread is in a syscall.
const PROC_RUNNING: u64 = 1;
const PROC_SYSCALL: u64 = 3;
/// A thread or goroutine that is none.
const NONE: u64 = u64::MAX;

/// A thread (M): which P and goroutine it has.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    proc: Option<u64>,
    goroutine: Option<u64>,
}

/// The state of all.
pub(super) struct Course<'a> {
    layout: &'a Layout<'a>,
    telling: Telling,
    names: HashMap<u64, &'a str>,
    goroutines: HashMap<u64, Goroutine>,
    threads: HashMap<u64, Thread>,
    procs: BTreeSet<u64>,
    collector: Option<Who>,
    collecting: bool,
    /// Functions that wait for locks.
    sites: HashMap<&'a str, u32>,
    /// The open stop-the-world span, by thread.
    stopping: HashMap<u64, (Who, String)>,
}

impl<'a> Course<'a> {
    /// Before the first event.
    pub fn new(layout: &'a Layout<'a>) -> Course<'a> {
        Course {
            layout,
            telling: Telling::with_states(),
            names: HashMap::new(),
            goroutines: HashMap::new(),
            threads: HashMap::new(),
            procs: BTreeSet::new(),
            collector: None,
            collecting: false,
            sites: HashMap::new(),
            stopping: HashMap::new(),
        }
    }

    /// Collects goroutine names (the start function), which may occur late in the trace.
    pub fn survey(&mut self, events: &[TraceEvent]) {
        let mut running: HashMap<u64, u64> = HashMap::new();
        for event in events {
            let [first, second, third, _] = event.numbers;
            let (goroutine, stack) = match event.id {
                ids::GO_START | ids::GO_SWITCH | ids::GO_SWITCH_DESTROY => {
                    running.insert(event.thread, first);
                    continue;
                }
                ids::GO_CREATE | ids::GO_CREATE_BLOCKED => (Some(first), second),
                ids::GO_STATUS_STACK => (Some(first), event.numbers[3]),
                ids::GO_BLOCK | ids::GO_STOP => (running.get(&event.thread).copied(), second),
                ids::GO_SYSCALL_BEGIN => (running.get(&event.thread).copied(), second),
                ids::GO_UNBLOCK => (running.get(&event.thread).copied(), third),
                _ => continue,
            };
            let root = self.layout.stacks.get(&(event.generation, stack)).and_then(|stack| stack.last());
            if let (Some(goroutine), Some(root)) = (goroutine, root) {
                let name = self.layout.text(event.generation, *root);
                self.names.entry(goroutine).or_insert(name);
            }
        }
    }

    /// The events, and the number of Ps.
    pub fn finish(self) -> (Telling, u32) {
        (self.telling, self.procs.len() as u32)
    }

    /// Takes the next event.
    pub fn take(&mut self, event: &TraceEvent, stacks: &mut Stacks) {
        let [first, second, ..] = event.numbers;
        match event.id {
            ids::PROC_START => self.gets_proc(event, first),
            ids::PROC_STATUS if matches!(second, PROC_RUNNING | PROC_SYSCALL) => self.gets_proc(event, first),
            // It never ran, but it could have.
            ids::PROC_STATUS => _ = self.procs.insert(first),
            ids::PROC_STOP => self.thread(event).proc = None,
            ids::PROC_STEAL => {
                if let Some(thread) = self.threads.get_mut(&event.numbers[2]) {
                    thread.proc = None;
                }
            }
            ids::GO_STATUS | ids::GO_STATUS_STACK => self.status(event),
            ids::GO_CREATE | ids::GO_CREATE_BLOCKED | ids::GO_CREATE_SYSCALL => self.create(event),
            ids::GO_START => self.start(event, first),
            ids::GO_SWITCH | ids::GO_SWITCH_DESTROY => {
                let after = match event.id {
                    ids::GO_SWITCH => After::Waits(WaitReason::Park, At::default()),
                    _ => After::Gone,
                };
                self.leave(event, after);
                self.start(event, first);
            }
            ids::GO_STOP | ids::GO_BLOCK | ids::GO_SYSCALL_BEGIN => self.stop(event, stacks),
            ids::GO_DESTROY | ids::GO_DESTROY_SYSCALL => self.leave(event, After::Gone),
            ids::GO_UNBLOCK => self.unblock(event, first),
            ids::GO_SYSCALL_END => self.back(event),
            ids::GO_SYSCALL_END_BLOCKED => {
                if let Some(goroutine) = self.thread(event).goroutine.take() {
                    self.runnable(event, goroutine, None);
                }
            }
            _ => self.work_event(event),
        }
    }

    fn thread(&mut self, event: &TraceEvent) -> &mut Thread {
        self.threads.entry(event.thread).or_default()
    }

    fn gets_proc(&mut self, event: &TraceEvent, proc: u64) {
        self.procs.insert(proc);
        self.thread(event).proc = Some(proc);
    }

    /// The P that a thread has, as a CPU.
    fn cpu(&mut self, event: &TraceEvent) -> CpuId {
        let proc = self.thread(event).proc.and_then(|proc| u16::try_from(proc).ok());
        proc.filter(|proc| *proc < 8192).map_or(CpuId::NONE, CpuId)
    }

    /// A goroutine, met for the first time or not.
    fn goroutine(&mut self, number: u64) -> Option<&mut Goroutine> {
        if !self.goroutines.contains_key(&number) {
            let name = self.names.get(&number).copied().unwrap_or("goroutine");
            let tid = u32::try_from(number).unwrap_or(0);
            let who = self.telling.person(Person {
                pid: PID,
                tid,
                lane: tid,
                name: name.to_owned(),
                runtime: format!("go 1.{}", self.layout.version),
                outside: false,
            })?;
            self.goroutines.insert(number, Goroutine::new(who, is_collectors(name)));
        }
        self.goroutines.get_mut(&number)
    }

    /// Status of a goroutine that existed before. Repeated at the start of each generation.
    fn status(&mut self, event: &TraceEvent) {
        let [number, thread, status, _] = event.numbers;
        let known = self.goroutines.contains_key(&number);
        if matches!(status, RUNNING | IN_SYSCALL) && thread != NONE {
            self.threads.entry(thread).or_default().goroutine = Some(number);
        }
        if known {
            return;
        }
        let proc = self.threads.get(&thread).and_then(|thread| thread.proc);
        let cpu = proc.and_then(|proc| u16::try_from(proc).ok()).map_or(CpuId::NONE, CpuId);
        let found = match status {
            RUNNING => Found::On(cpu),
            RUNNABLE => Found::Runnable,
            IN_SYSCALL => Found::Waits(WaitReason::Kernel),
            _ => Found::Waits(WaitReason::Park),
        };
        let Some(who) = self.goroutine(number).map(|goroutine| {
            goroutine.cpu = (status == RUNNING).then_some(cpu);
            goroutine.who
        }) else {
            return;
        };
        self.telling.found(who, event.at, found);
    }

    fn create(&mut self, event: &TraceEvent) {
        let parent = self.thread(event).goroutine;
        let parent = parent.and_then(|parent| self.goroutines.get(&parent)).map(|parent| parent.who);
        let Some(who) = self.goroutine(event.numbers[0]).map(|born| born.who) else { return };
        self.telling.born(who, event.at, parent);
        if event.id == ids::GO_CREATE_SYSCALL {
            self.thread(event).goroutine = Some(event.numbers[0]);
        }
    }

    fn start(&mut self, event: &TraceEvent, number: u64) {
        let cpu = self.cpu(event);
        self.thread(event).goroutine = Some(number);
        self.runs(event.at, number, cpu);
    }

    fn runs(&mut self, at: u64, number: u64, cpu: CpuId) {
        let Some(goroutine) = self.goroutine(number) else { return };
        let before = goroutine.cpu.replace(cpu);
        let (who, waited) = (goroutine.who, goroutine.waits_for_collector.take());
        let collects = goroutine.collects;
        if before.is_some() {
            return;
        }
        if let Some(reason) = waited {
            self.telling.end(who, at, &reason);
        }
        self.telling.on(who, at, cpu);
        if let Some(work) = collects {
            self.telling.begin(who, at, SpanKind::GcBeside, work);
        }
    }

    /// The goroutine of a thread leaves its P.
    fn leave(&mut self, event: &TraceEvent, after: After) {
        let Some(number) = self.thread(event).goroutine.take() else { return };
        self.off(event.at, number, after);
    }

    fn off(&mut self, at: u64, number: u64, after: After) {
        let Some(goroutine) = self.goroutine(number) else { return };
        let (who, collects) = (goroutine.who, goroutine.collects);
        match goroutine.cpu.take() {
            Some(cpu) => {
                if let Some(work) = collects {
                    self.telling.end(who, at, work);
                }
                self.telling.off(who, at, (cpu, after));
            }
            None if after == After::Gone => self.telling.vanishes(who, at),
            None => {}
        }
    }

    fn stop(&mut self, event: &TraceEvent, stacks: &mut Stacks) {
        let [first, second, ..] = event.numbers;
        if event.id == ids::GO_SYSCALL_BEGIN {
            // It stays on its thread, and mostly keeps its P.
            let Some(number) = self.thread(event).goroutine else { return };
            let at = At { stack: stacks.stack_id(event.generation, second), object: 0 };
            return self.off(event.at, number, After::Waits(WaitReason::Kernel, at));
        }
        let why = self.layout.text(event.generation, first);
        let number = self.thread(event).goroutine;
        if event.id == ids::GO_STOP || why == "preempted" {
            let yields = why.eq_ignore_ascii_case("runtime.GoSched");
            return self.leave(event, if yields { After::Yielded } else { After::Preempted });
        }
        let layout = self.layout;
        let frames = layout.stacks.get(&(event.generation, second)).map_or(&[][..], Vec::as_slice);
        let functions = frames.iter().map(|function| layout.text(event.generation, *function));
        let (reason, for_collector) = reason(why, functions.clone());
        let mut at = At { stack: stacks.stack_id(event.generation, second), object: 0 };
        if reason == WaitReason::Lock {
            // Locks are distinguished only by the place of the wait.
            let sites = self.sites.len() as u32;
            at.object = *self.sites.entry(lock_site(functions).unwrap_or("")).or_insert(sites + 1);
        }
        self.leave(event, After::Waits(reason, at));
        if for_collector && let Some(goroutine) = number.and_then(|number| self.goroutines.get_mut(&number)) {
            goroutine.waits_for_collector = Some(why.to_owned());
            self.telling.begin(goroutine.who, event.at, SpanKind::GcWait, why);
        }
    }

    fn unblock(&mut self, event: &TraceEvent, number: u64) {
        let waker = self.thread(event).goroutine;
        let waker = waker.and_then(|waker| self.goroutines.get(&waker)).map(|waker| waker.who);
        self.runnable(event, number, waker);
    }

    fn runnable(&mut self, event: &TraceEvent, number: u64, waker: Option<Who>) {
        let cpu = self.cpu(event);
        if let Some(who) = self.goroutine(number).map(|goroutine| goroutine.who) {
            self.telling.woken(who, event.at, (waker, cpu));
        }
    }

    /// Back from a syscall, with a P.
    fn back(&mut self, event: &TraceEvent) {
        let cpu = self.cpu(event);
        let Some(number) = self.thread(event).goroutine else { return };
        let Some(goroutine) = self.goroutines.get(&number).filter(|goroutine| goroutine.cpu.is_none()) else {
            return;
        };
        // The goroutine has no waker: its syscall returned.
        self.telling.woken(goroutine.who, event.at, (None, cpu));
        self.runs(event.at, number, cpu);
    }

    /// The event's source: the thread's goroutine, else the collector.
    fn teller(&mut self, event: &TraceEvent) -> Option<Who> {
        let number = self.thread(event).goroutine;
        match number.and_then(|number| self.goroutines.get(&number)) {
            Some(goroutine) => Some(goroutine.who),
            None => self.collector(),
        }
    }

    /// A lane for events of no particular goroutine.
    fn collector(&mut self) -> Option<Who> {
        if self.collector.is_none() {
            let (name, runtime) = ("collector".to_owned(), format!("go 1.{}", self.layout.version));
            let person = Person { pid: PID, name, runtime, outside: true, ..Person::default() };
            self.collector = self.telling.person(person);
        }
        self.collector
    }

    fn work_event(&mut self, event: &TraceEvent) {
        let (at, [first, second, third, fourth]) = (event.at, event.numbers);
        let text = |id: u64| self.layout.text(event.generation, id);
        let (region, kind) = (text(second).to_owned(), text(first).to_owned());
        let said = (text(second).to_owned(), text(third).to_owned());
        let _ = fourth;
        match event.id {
            ids::GC_BEGIN | ids::GC_ACTIVE | ids::GC_END => return self.cycle(event),
            ids::HEAP_ALLOC | ids::HEAP_GOAL => {
                let name = if event.id == ids::HEAP_ALLOC { "heap_bytes" } else { "heap_goal_bytes" };
                if let Some(who) = self.collector() {
                    self.telling.counter(who, at, name, first);
                }
                return;
            }
            _ => {}
        }
        let Some(who) = self.teller(event) else { return };
        match event.id {
            ids::STW_BEGIN => {
                let name = format!("stop the world: {kind}");
                self.telling.begin(who, at, SpanKind::Stop, &name);
                self.stopping.insert(event.thread, (who, name));
            }
            ids::STW_END => {
                if let Some((who, name)) = self.stopping.remove(&event.thread) {
                    self.telling.end(who, at, &name);
                }
            }
            ids::GC_SWEEP_BEGIN => self.telling.begin(who, at, SpanKind::GcWork, "sweep"),
            ids::GC_SWEEP_END => self.telling.end(who, at, "sweep"),
            ids::GC_MARK_ASSIST_BEGIN => self.telling.begin(who, at, SpanKind::GcWork, "mark assist"),
            ids::GC_MARK_ASSIST_END => self.telling.end(who, at, "mark assist"),
            ids::USER_REGION_BEGIN => self.telling.begin(who, at, SpanKind::User, &region),
            ids::USER_REGION_END => self.telling.end(who, at, &region),
            ids::USER_LOG => self.telling.mark(who, at, &said.0, (0, &said.1)),
            _ => {}
        }
    }

    /// A cycle of the collector, which is mostly concurrent with the program.
    fn cycle(&mut self, event: &TraceEvent) {
        let begins = event.id != ids::GC_END;
        if begins == self.collecting {
            return;
        }
        self.collecting = begins;
        let Some(who) = self.collector() else { return };
        match begins {
            true => self.telling.begin(who, event.at, SpanKind::GcBeside, "gc cycle"),
            false => self.telling.end(who, event.at, "gc cycle"),
        }
    }
}
