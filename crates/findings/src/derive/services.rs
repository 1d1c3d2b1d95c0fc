//! Services: work in libraries and the kernel on behalf of the program's functions, such as copying,
//! formatting, allocation and page faults.
//!
//! Sampled. A sample counts for the program's function nearest to the leaf that is not part of the service
//! itself. A service may be linked into the program.

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::{Frame, FrameKind, SampleRow};
use holdup_events::{FrameId, StackId, ThreadId, Timestamp, Trace};

use super::allocators::Allocators;
use super::ledger::Ledger;
use super::occupancy::Stall;
use super::own_places::OwnFrames;
use super::roles::Roles;
use super::split::share_error;
use super::stacks::folding::matches;
use super::timelines::Timelines;
use crate::descriptors::{Role, RuleId, plain_name};

/// Kind of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// Memory is copied, filled or measured.
    Copy,
    /// Values are turned into text, or text into values.
    Format,
    /// Serialization and deserialization of values.
    Encode,
    /// Connection setup: authentication and key exchange.
    Handshake,
    /// Memory is allocated or freed.
    Allocate,
    /// Allocation, including the allocator's syscalls.
    AllocateByKernel,
    /// The kernel provides memory at its first access, or at the first access after its return.
    Fault,
    /// The program returns memory to the kernel.
    Return,
}

/// One service, over the whole program.
#[derive(Clone, Debug, Default)]
pub struct ServiceUse {
    /// Samples in it.
    pub samples: u64,
    /// Running time (ns, sampled).
    pub ns: u64,
    /// Half the width of its 95 % interval (ns).
    pub error_ns: u64,
    /// Calling functions with their time (ns), largest first, at most [`CALLERS_MAX`].
    pub callers: Vec<(String, u64)>,
    /// Callers of the first function in `callers`, if it accounts for nearly all of the service. Function and
    /// time (ns), largest first.
    pub called_by: Vec<(String, u64)>,
    /// Functions of libraries or the kernel, by samples, most samples first, at most [`CALLERS_MAX`].
    pub inside: Vec<(String, u64)>,
    /// Cost for the run.
    pub stall: Stall,
    /// For allocation: cost of the rest of the functions that mostly allocate. They write to the memory that
    /// they allocate, or traverse the memory that they free.
    pub around: Stall,
    /// Some of the samples: thread and time.
    pub seen: Vec<(ThreadId, Timestamp)>,
    /// Time by which [`MOST`] of the samples had been taken.
    pub most_by: Timestamp,
}

/// Share of the samples for [`ServiceUse::most_by`].
pub const MOST: f64 = 0.9;

/// Minimum share of the service for a single function, to report its callers instead.
const FOR_ONE: f64 = 0.9;
/// Functions that are named.
pub const CALLERS_MAX: usize = 6;
/// Rows in [`ServiceUse::seen`].
const SEEN_MAX: usize = 10;
/// Maximum time to allocate and free a block (ns). Usual times are 20 to 100 ns. At ten times as much, the
/// block is zeroed or comes from the kernel, and is larger than the minimum.
const BLOCK_NS_MAX: f64 = 1_000.0;
/// Minimum distance of an allocator's blocks (bytes): malloc's alignment on 64-bit machines.
const BLOCK_BYTES_MIN: f64 = 16.0;
/// Kernel functions at the entry of a page fault, on x86-64 and aarch64.
const FAULT_ENTRIES: [&str; 5] =
    ["asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "do_user_addr_fault", "do_page_fault"];

/// Syscalls that return memory (x86-64): munmap, brk, mremap, madvise.
const RETURNING: [i32; 4] = [11, 12, 25, 28];

/// Derives all services that have samples.
pub fn derive(
    trace: &Trace,
    ledger: &Ledger,
    (roles, timelines): (&Roles, &Timelines),
) -> BTreeMap<Service, ServiceUse> {
    let mut callers = Callers::new(trace, roles);
    let faulting = Faulting::new(trace);
    let allocators = Allocators::new(trace, &roles.descriptors);
    let mut sums: BTreeMap<Service, Sums> = BTreeMap::new();
    for thread in &ledger.threads {
        let samples = super::samples_of(trace, thread.thread);
        let each = thread.running_ns() as f64 / samples.len().max(1) as f64;
        for sample in samples {
            let done = service(trace, sample, (roles, &faulting));
            let by_kernel = sample.in_kernel && sample.syscall >= 0;
            let allocating = match done {
                Some((Service::Allocate, rule)) => rule,
                _ if by_kernel => allocators.of_stack(trace, sample.stack),
                _ => None,
            };
            let also = allocating.map(|rule| (Service::AllocateByKernel, Some(rule)));
            for (service, rule) in done.into_iter().chain(also) {
                let caller = callers.callers_of(sample.stack, rule);
                sums.entry(service).or_default().add(trace, sample, (each, caller), timelines);
            }
        }
    }
    if let Some(allocating) = sums.get(&Service::Allocate) {
        let around = around(trace, ledger, (roles, timelines), (allocating, &callers.own));
        sums.entry(Service::Allocate).or_default().around = around;
    }
    sums.into_iter().map(|(service, sums)| (service, sums.finish(trace, ledger))).collect()
}

/// Running time in the program's own functions that allocate, of those which do little else.
fn around(
    trace: &Trace,
    ledger: &Ledger,
    (roles, timelines): (&Roles, &Timelines),
    (allocating, own): (&Sums, &OwnFrames),
) -> Stall {
    let mut itself: BTreeMap<FrameId, Vec<(&SampleRow, f64)>> = BTreeMap::new();
    for thread in &ledger.threads {
        let samples = super::samples_of(trace, thread.thread);
        let each = thread.running_ns() as f64 / samples.len().max(1) as f64;
        for sample in samples.iter().filter(|sample| !sample.in_kernel) {
            let leaf = trace.stack_frames(sample.stack).next().and_then(|leaf| own.own_frame(leaf));
            let caller = leaf.filter(|leaf| allocating.callers.contains_key(leaf));
            if let Some(caller) = caller.filter(|_| is_in_no_service(roles, sample)) {
                itself.entry(caller).or_default().push((sample, each));
            }
        }
    }
    let mut stall = Stall::default();
    for (caller, samples) in itself {
        let ns: f64 = samples.iter().map(|(_, ns)| ns).sum();
        if ns <= allocating.callers[&caller] {
            samples.into_iter().for_each(|(sample, ns)| stall.add_sample(sample, ns, timelines));
        }
    }
    stall
}

fn is_in_no_service(roles: &Roles, sample: &SampleRow) -> bool {
    let role = roles.role_of_sample(sample);
    !matches!(role, Some(Role::Copy | Role::Format | Role::Encode | Role::Handshake | Role::Allocator))
}

/// Lower bound of the share (0 to 1) of allocated blocks that reuse the place of earlier blocks, from the
/// allocator's running time (ns). `None` if the kernel did not report the peak memory, or not by process.
pub fn blocks_taken_again(trace: &Trace, allocating_ns: f64) -> Option<f64> {
    let memory = trace.manifest.memory.filter(|memory| memory.peak_bytes > 0)?;
    let bytes = allocating_ns / BLOCK_NS_MAX * BLOCK_BYTES_MIN;
    (is_one_process(trace) && bytes > 0.0).then(|| (1.0 - memory.peak_bytes as f64 / bytes).max(0.0))
}

fn is_one_process(trace: &Trace) -> bool {
    let mut processes = trace.target_threads().map(|id| trace.threads[id.index()].process);
    let first = processes.next();
    processes.all(|other| Some(other) == first)
}

/// Lower bound of the share (0 to 1) of faulted-in memory that the program had already used before. `None` if
/// it was not counted. Each fault provides at least a page. If each page is used once, the total stays below
/// the peak. With several processes the result is unknown, because each has memory of its own.
pub fn taken_again(trace: &Trace) -> Option<f64> {
    let memory = trace.manifest.memory.filter(|memory| memory.minor_faults > 0 && memory.page_bytes > 0)?;
    let taken = memory.minor_faults as f64 * memory.page_bytes as f64;
    is_one_process(trace).then(|| (1.0 - memory.peak_bytes as f64 / taken).max(0.0))
}

/// Which frames are the kernel's way into a page fault.
pub(super) struct Faulting {
    frames: Vec<bool>,
}

impl Faulting {
    /// Evaluates each frame once.
    pub fn new(trace: &Trace) -> Faulting {
        let is_entry = |frame: &Frame| {
            frame.kind == FrameKind::Kernel && FAULT_ENTRIES.contains(&frame.function.as_str())
        };
        Faulting { frames: trace.frames.iter().map(is_entry).collect() }
    }

    /// Whether a sample is in one. A fault inside a syscall is the syscall's own work.
    pub fn holds(&self, trace: &Trace, sample: &SampleRow) -> bool {
        let is_entry = |frame: FrameId| self.frames.get(frame.index()).copied().unwrap_or(false);
        sample.in_kernel && sample.syscall < 0 && trace.stack_frames(sample.stack).any(is_entry)
    }
}

/// Service of a sample, and the descriptor's rule that identifies it.
fn service(
    trace: &Trace,
    sample: &SampleRow,
    (roles, faulting): (&Roles, &Faulting),
) -> Option<(Service, Option<RuleId>)> {
    if sample.in_kernel {
        if RETURNING.contains(&sample.syscall) {
            return Some((Service::Return, None));
        }
        if faulting.holds(trace, sample) {
            return Some((Service::Fault, None));
        }
    }
    let rule = roles.of_sample(sample)?;
    match roles.descriptors.rule(rule)?.1.role {
        // The messages of a handshake go through the kernel, so kernel time counts.
        role if sample.in_kernel && role != Role::Handshake => None,
        Role::Copy => Some((Service::Copy, Some(rule))),
        Role::Format => Some((Service::Format, Some(rule))),
        Role::Encode => Some((Service::Encode, Some(rule))),
        Role::Handshake => Some((Service::Handshake, Some(rule))),
        Role::Allocator => Some((Service::Allocate, Some(rule))),
        _ => None,
    }
}

/// Callers of services, cached by stack and rule.
struct Callers<'a> {
    trace: &'a Trace,
    roles: &'a Roles,
    own: OwnFrames,
    known: HashMap<(StackId, Option<RuleId>), Called>,
}

/// The program's function that called a service, and its own caller.
type Called = (Option<FrameId>, Option<FrameId>);

impl<'a> Callers<'a> {
    fn new(trace: &'a Trace, roles: &'a Roles) -> Callers<'a> {
        Callers { trace, roles, own: OwnFrames::new(trace), known: HashMap::new() }
    }

    fn callers_of(&mut self, stack: StackId, rule: Option<RuleId>) -> Called {
        let Callers { trace, roles, own, known } = self;
        let (trace, roles) = (*trace, *roles);
        *known.entry((stack, rule)).or_insert_with(|| {
            let rule = rule.and_then(|rule| roles.descriptors.rule(rule)).map(|(_, rule)| rule);
            let serves = |id: FrameId| {
                let name = trace.frames.get(id.index()).map(|frame| plain_name(&frame.function));
                rule.zip(name).is_some_and(|(rule, name)| {
                    rule.any.iter().chain(&rule.leaf).any(|pattern| matches(pattern, &name))
                })
            };
            let is_own = |id: &FrameId| !serves(*id) && !own.is_of_a_machine(*id);
            // If all frames belong to the language's standard library: the caller of the service, not its
            // callees.
            let frames: Vec<FrameId> = trace.stack_frames(stack).collect();
            let outside = frames.iter().rposition(|id| serves(*id)).map_or(0, |row| row + 1);
            // If a thread or task only runs the service, its root function is not helpful. Its start function
            // is used instead.
            let from = if outside + 1 < frames.len() { outside } else { outside.saturating_sub(1) };
            let any = frames[from..].iter().filter_map(|id| own.own_frame(*id));
            // What a service calls itself may be linked into the program, too.
            let inside = frames.iter().position(|id| serves(*id)).map_or(0, |row| row + 1);
            let around = frames[inside..].iter().copied().filter(is_own);
            match first_two(around.filter_map(|id| own.own_frame(id))) {
                (None, _) => first_two(any),
                found => found,
            }
        })
    }
}

fn first_two(mut frames: impl Iterator<Item = FrameId>) -> Called {
    let asked = frames.next();
    (asked, frames.find(|id| Some(*id) != asked))
}

#[derive(Default)]
struct Sums {
    samples: u64,
    ns: f64,
    callers: BTreeMap<FrameId, f64>,
    above: BTreeMap<(FrameId, FrameId), f64>,
    inside: BTreeMap<String, u64>,
    stall: Stall,
    around: Stall,
    seen: Vec<(ThreadId, Timestamp)>,
    times: Vec<Timestamp>,
}

impl Sums {
    fn add(
        &mut self,
        trace: &Trace,
        sample: &SampleRow,
        (ns, (caller, above)): (f64, Called),
        timelines: &Timelines,
    ) {
        self.samples += 1;
        self.ns += ns;
        self.times.push(sample.at);
        if let Some(caller) = caller {
            *self.callers.entry(caller).or_default() += ns;
            if let Some(above) = above {
                *self.above.entry((caller, above)).or_default() += ns;
            }
        }
        if let Some(leaf) = trace.stack_frames(sample.stack).next() {
            *self.inside.entry(trace.frame_name(leaf)).or_default() += 1;
        }
        self.stall.add_sample(sample, ns, timelines);
        if self.seen.len() < SEEN_MAX {
            self.seen.push((sample.thread, sample.at));
        }
    }

    fn finish(self, trace: &Trace, ledger: &Ledger) -> ServiceUse {
        let callers = by_name(self.callers.iter().map(|(frame, ns)| (trace.frame_name(*frame), *ns)));
        let first = callers.first().filter(|(_, ns)| *ns as f64 >= FOR_ONE * self.ns);
        let called_by = first.map_or(Vec::new(), |(first, _)| {
            let of_first = self.above.iter().filter(|((caller, _), _)| trace.frame_name(*caller) == *first);
            by_name(of_first.map(|((_, above), ns)| (trace.frame_name(*above), *ns)))
        });
        ServiceUse {
            samples: self.samples,
            ns: self.ns.round() as u64,
            error_ns: (share_error(self.samples, ledger.samples) * ledger.running_ns() as f64).round() as u64,
            callers,
            called_by,
            inside: ranked(self.inside.into_iter().collect()),
            stall: self.stall,
            around: self.around,
            seen: self.seen,
            most_by: most_by(self.times),
        }
    }
}

fn most_by(mut times: Vec<Timestamp>) -> Timestamp {
    let at = ((MOST * times.len() as f64).ceil() as usize).saturating_sub(1);
    if times.is_empty() { Timestamp::default() } else { *times.select_nth_unstable(at).1 }
}

/// Sums by name, largest first.
fn by_name(parts: impl Iterator<Item = (String, f64)>) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for (name, ns) in parts {
        *sums.entry(name).or_default() += ns;
    }
    ranked(sums.into_iter().map(|(name, ns)| (name, ns.round() as u64)).collect())
}

fn ranked(mut list: Vec<(String, u64)>) -> Vec<(String, u64)> {
    list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list.truncate(CALLERS_MAX);
    list
}
