//! The locks that threads waited for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{FrameId, ObjectKind, ProcessId, StackId, ThreadId, Trace, Wait, WaitId, WaitReason};

use super::blame::{Blame, End, EndClass, Subject};
use super::children::ancestors;
use super::class::Class;
use super::lock_classes::{CLASSES_MAX, LockClass, LockClasses};
use super::own_places::{self, OwnFrames, Places};
use super::parallel;
use super::roles::Roles;
use super::syscall_names::FUTEX;
use crate::descriptors::{Rule, RuleId};

/// A lock: a futex word of one process, or of several that share its memory, or a file lock.
#[derive(Clone, Debug, Default)]
pub struct LockUse {
    /// Name for people: a symbol, else mapping + offset, else the address.
    pub name: String,
    /// Name without process, addresses and inodes. It is the same in each run. Several locks may have it.
    pub symbolic: String,
    /// Rule of a runtime's descriptor that identifies the lock, if there is one.
    pub rule: Option<RuleId>,
    /// Process of the lock. The first one if there are several.
    pub process: ProcessId,
    /// Address, or inode and device. For a lock with many words: its number among such locks of its runtime,
    /// from 0.
    pub object: u64,
    /// Reason of the waits: only [`WaitReason::Lock`], [`WaitReason::FileLock`], [`WaitReason::MmapLock`].
    pub reason: WaitReason,
    /// Number of waits.
    pub waits: u64,
    /// Total time waited (ns).
    pub wait_ns: u64,
    /// Median wait (ns).
    pub p50_ns: u64,
    /// 99th percentile (ns).
    pub p99_ns: u64,
    /// Longest wait (ns).
    pub max_ns: u64,
    /// Waits that timed out.
    pub timed_out: u64,
    /// Number of waiting threads.
    pub waiters: u32,
    /// Threads that released the lock to waiters, most often first, at most 8: (thread, times).
    pub releasers: Vec<(ThreadId, u64)>,
    /// Waiting functions (outermost function that is not libc's), with their wait time (ns, scaled by
    /// `stack_every`). Largest first, at most 5.
    pub waiting_at: Vec<(String, u64)>,
    /// Wait time of other threads by holder (ns), longest first. `None` if unknown. Sums to `wait_ns`.
    pub held_by: Vec<(Option<ThreadId>, u64)>,
    /// Wait time by the end of the chain of holders (ns), largest first: the holder running, runnable, or
    /// blocked itself. Sums to `wait_ns`.
    pub ends: Vec<(End, u64)>,
    /// Functions in which the end of the chain ran (ns of wait time, divided by samples), largest first.
    pub held_in: Vec<(String, u64)>,
}

impl LockUse {
    /// Share of the waiting during which the end of the chain was in that class.
    pub fn share_of(&self, class: EndClass) -> f64 {
        let ns: u64 = self.ends.iter().filter(|(end, _)| end.class == class).map(|(_, ns)| ns).sum();
        ns as f64 / self.wait_ns.max(1) as f64
    }
}

/// Adds each lock's holders and their activity during the waits.
pub fn add_holders(locks: &mut [LockUse], trace: &Trace, index: &LockIndex, blame: &Blame) {
    let mut rows: BTreeMap<(ProcessId, u64, WaitReason), &mut LockUse> = BTreeMap::new();
    for lock in locks {
        rows.insert((lock.process, lock.object, lock.reason), lock);
    }
    let own = OwnFrames::new(trace);
    for subject in &blame.subjects {
        let Subject::Lock(number) = subject.subject else { continue };
        let key = index.locks.get(number as usize);
        let Some(lock) = key.and_then(|key| rows.get_mut(key)) else { continue };
        lock.held_by.clone_from(&subject.holders);
        lock.ends.clone_from(&subject.ends);
        lock.held_in = own_places::functions(trace, &own, &subject.stacks);
    }
}

/// Addresses below this are none: they number locks on many words.
const FIRST_PAGE: u64 = 4096;
const RELEASERS_MAX: usize = 8;
const WAITING_AT_MAX: usize = 5;

/// Which lock a wait is for, if it is for one.
#[derive(Clone, Debug, Default)]
pub struct LockIndex {
    of_wait: Vec<Option<u32>>,
    /// By stack, for stacks that identify a lock when the word does not.
    of_stack: HashMap<StackId, Option<u32>>,
    /// By lock: the class whose functions acquire it, if the class distinguishes it. Empty otherwise.
    classes: Vec<String>,
    /// Process, object and reason of each lock. No object for a runtime's lock with many words.
    pub locks: Vec<(ProcessId, u64, WaitReason)>,
    /// By lock: the rule of a runtime's descriptor that identifies it.
    pub rules: Vec<Option<RuleId>>,
}

/// Key of a lock: process, reason, object. Instead of the object, the rule if it identifies one lock.
type Key = (ProcessId, WaitReason, u64, Option<RuleId>);

impl LockIndex {
    /// Numbers the locks by process, reason and object.
    pub fn new(trace: &Trace, roles: &Roles) -> LockIndex {
        let mut found: Vec<Option<(Key, Option<RuleId>)>> =
            (0..trace.waits.len() as u32).map(|row| key(trace, roles, WaitId(row))).collect();
        join_words(roles, &mut found);
        join_processes(trace, &mut found);
        let classes = LockClasses::derive(trace, roles);
        let class_key = |lock: &LockClass| -> (Key, Option<RuleId>) {
            let object = number_of_one(roles, lock.rule) * (CLASSES_MAX + 1) + lock.number;
            ((lock.process, WaitReason::Lock, object, Some(lock.rule)), Some(lock.rule))
        };
        for (wait, lock) in &classes.of_wait {
            found[wait.index()] = lock.as_ref().map(class_key);
        }
        let of_stacks = classes.of_stack.values().flatten().map(class_key);
        let all: Vec<(Key, Option<RuleId>)> = found.iter().flatten().copied().chain(of_stacks).collect();
        let mut numbers: BTreeMap<Key, u32> = all.iter().map(|(key, _)| (*key, 0)).collect();
        for (number, slot) in numbers.values_mut().enumerate() {
            *slot = number as u32;
        }
        let mut rules = vec![None; numbers.len()];
        for (key, rule) in &all {
            let number = numbers[key] as usize;
            rules[number] = rules[number].or(*rule);
        }
        let number = |(key, _): &(Key, Option<RuleId>)| numbers.get(key).copied();
        let of_wait = found.iter().map(|found| found.as_ref().and_then(number)).collect();
        let of_class = |lock: &LockClass| number(&class_key(lock));
        let of_stack =
            classes.of_stack.iter().map(|(stack, lock)| (*stack, lock.as_ref().and_then(of_class)));
        let of_stack = of_stack.collect();
        let mut names = vec![String::new(); numbers.len()];
        for (lock, name) in &classes.names {
            if let Some(number) = of_class(lock) {
                names[number as usize].clone_from(name);
            }
        }
        let locks = numbers.keys().map(|(process, reason, object, _)| (*process, *object, *reason)).collect();
        LockIndex { of_wait, of_stack, classes: names, locks, rules }
    }

    /// The lock that a blocked slice waits for, by its word, or by its stack where that is needed.
    pub fn of_slice(&self, slice: &Slice) -> Option<u32> {
        let by_stack = self.of_stack.get(&slice.stack).copied();
        by_stack.unwrap_or_else(|| self.of_word(slice.wait))
    }

    /// The lock for waits on a word without a stack.
    pub fn of_word(&self, wait: WaitId) -> Option<u32> {
        self.of_wait.get(wait.index()).copied().flatten()
    }

    /// The lock that a thread waits for in a blocked slice. `None` if the wait on the lock's word has another
    /// purpose. Threads of some runtimes sleep on one word of their own for all waits.
    pub fn waited(&self, (trace, roles): (&Trace, &Roles), slice: &Slice) -> Option<u32> {
        let lock = self.of_slice(slice).filter(|_| slice.state == ThreadState::Blocked)?;
        is_waited(trace, roles, slice).then_some(lock)
    }
}

/// Size of a futex word (bytes).
const WORD: u64 = 4;

/// Joins the words of one lock on which readers and writers wait separately. A descriptor may define their
/// distance. Otherwise two words in one aligned group of eight bytes, without a neighbouring word, are one
/// lock. More words in a row are an array of locks.
fn join_words(roles: &Roles, found: &mut [Option<(Key, Option<RuleId>)>]) {
    let words: BTreeSet<Key> = found.iter().flatten().map(|(key, _)| *key).collect();
    let is_word = |key: Key, object: u64| words.contains(&(key.0, key.1, object, key.3));
    let bytes = |rule: &Option<RuleId>| {
        let rule = rule.and_then(|rule| roles.descriptors.rule(rule));
        rule.map_or(0, |(_, rule)| rule.lock_bytes).min(FIRST_PAGE)
    };
    // A group of adjacent words is identified by the lowest one.
    let mut wide: BTreeMap<(ProcessId, u64), u64> = BTreeMap::new();
    for (key, rule) in found.iter().flatten().filter(|(_, rule)| bytes(rule) > 0) {
        wide.insert((key.0, key.2), bytes(rule));
    }
    let mut first: Option<(ProcessId, u64)> = None;
    let mut first_of: BTreeMap<(ProcessId, u64), u64> = BTreeMap::new();
    for ((process, object), bytes) in wide {
        let near = first.filter(|(its, from)| *its == process && object - from < bytes);
        let from = near.unwrap_or((process, object));
        first = Some(from);
        first_of.insert((process, object), from.1);
    }
    for (key, _) in found.iter_mut().flatten().filter(|(key, _)| key.1 == WaitReason::Lock) {
        let pair = key.2 - key.2 % (2 * WORD);
        if let Some(from) = first_of.get(&(key.0, key.2)) {
            key.2 = *from;
        } else if pair >= FIRST_PAGE
            && is_word(*key, pair)
            && is_word(*key, pair + WORD)
            && !is_word(*key, pair - WORD)
            && !is_word(*key, pair + 2 * WORD)
        {
            key.2 = pair;
        }
    }
}

/// Joins the waits of several processes for one lock. This is a file lock, or a word in memory shared with
/// forked processes, where it has the same address. The first of the processes identifies the lock.
fn join_processes(trace: &Trace, found: &mut [Option<(Key, Option<RuleId>)>]) {
    let shared = |row: usize, found: &Option<(Key, Option<RuleId>)>| {
        let ((_, reason, object, one), _) = found.as_ref()?;
        let wait = trace.wait(WaitId(row as u32));
        let among = match reason {
            WaitReason::FileLock if wait.object_kind == ObjectKind::File => None,
            WaitReason::Lock if one.is_none() && is_shared(wait) => Some(forefather(trace, wait.process)),
            _ => return None,
        };
        Some((*reason, among, *object))
    };
    let shared: Vec<_> = found.iter().enumerate().map(|(row, found)| shared(row, found)).collect();
    let mut first: BTreeMap<(WaitReason, Option<ProcessId>, u64), ProcessId> = BTreeMap::new();
    let keys =
        || found.iter().zip(&shared).filter_map(|(found, shared)| Some((found.as_ref()?.0, (*shared)?)));
    for (key, shared) in keys() {
        let process = first.entry(shared).or_insert(key.0);
        *process = key.0.min(*process);
    }
    for (found, shared) in found.iter_mut().zip(shared) {
        if let (Some((key, _)), Some(shared)) = (found, shared) {
            key.0 = first[&shared];
        }
    }
}

/// Flag of a futex that only threads of one process use. Process-private mutexes, such as glibc's, always set
/// it.
const FUTEX_PRIVATE_FLAG: u32 = 128;

/// Whether threads of several processes may wait at the same word.
pub(super) fn is_shared(wait: &Wait) -> bool {
    wait.object_kind == ObjectKind::Futex && wait.syscall == FUTEX && wait.op & FUTEX_PRIVATE_FLAG == 0
}

/// The first process of the program from which this one descends.
fn forefather(trace: &Trace, process: ProcessId) -> ProcessId {
    let is_target = |id: &ProcessId| trace.processes.get(id.index()).is_some_and(|process| process.target);
    ancestors(trace, process).into_iter().take_while(is_target).last().unwrap_or(process)
}

/// Key of a wait for a lock, and the runtime's rule that identifies it.
fn key(trace: &Trace, roles: &Roles, id: WaitId) -> Option<(Key, Option<RuleId>)> {
    let wait = trace.wait(id);
    // An address space has one, which no runtime knows of.
    if wait.reason == WaitReason::MmapLock {
        return Some(((wait.process, wait.reason, 0, None), None));
    }
    let rule = roles.lock(trace, id)?;
    let described = rule.and_then(|rule| Some(roles.descriptors.rule(rule)?.1));
    let one = rule.filter(|_| described.is_some_and(|rule| rule.one_lock));
    let process = match described {
        Some(known) if known.one_lock && known.shared => family((trace, roles), wait.process, rule),
        _ => wait.process,
    };
    // The kernel's classification of the word does not matter if a runtime's code identifies the lock.
    let reason = if wait.reason == WaitReason::FileLock { wait.reason } else { WaitReason::Lock };
    let object = one.map_or(wait.object, |rule| number_of_one(roles, rule));
    Some(((process, reason, object, one), rule))
}

/// Number of a lock with many words among such locks of its runtime. It replaces the address, because no word
/// is in the first page.
fn number_of_one(roles: &Roles, id: RuleId) -> u64 {
    let Some((runtime, rule)) = roles.descriptors.rule(id) else { return 0 };
    runtime.rules.iter().take_while(|one| *one != rule).filter(|one| one.one_lock).count() as u64
}

/// The first process of the program from which this one descends that has the rule's runtime, too.
fn family((trace, roles): (&Trace, &Roles), process: ProcessId, rule: Option<RuleId>) -> ProcessId {
    const GENERATIONS_MAX: usize = 64;
    let runtime =
        rule.and_then(|rule| roles.descriptors.rules().nth(usize::from(rule.0))).map(|(row, _)| row);
    let parent = |id: &ProcessId| {
        let parent = trace.processes.get(id.index())?.parent?;
        let has_it = runtime.is_some_and(|runtime| roles.runtimes_of(parent).contains(&runtime));
        (has_it && trace.processes.get(parent.index())?.target).then_some(parent)
    };
    std::iter::successors(Some(process), parent).take(GENERATIONS_MAX).last().unwrap_or(process)
}

/// Derives every lock, the costliest first.
pub fn derive(trace: &Trace) -> Vec<LockUse> {
    derive_with(trace, &Roles::built_in(trace))
}

/// The same with given roles.
pub fn derive_with(trace: &Trace, roles: &Roles) -> Vec<LockUse> {
    let index = LockIndex::new(trace, roles);
    if index.locks.is_empty() {
        return Vec::new();
    }
    let own = OwnFrames::new(trace);
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let mut sums = BTreeMap::new();
        let mut places = Places::new(trace, &own);
        for thread in groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target) {
            add_thread((trace, roles), thread, &index, &mut sums, &mut places);
        }
        sums
    });
    let mut merged: BTreeMap<u32, Sums> = BTreeMap::new();
    for (lock, sums) in parts.into_iter().flatten() {
        merged.entry(lock).or_default().merge(sums);
    }
    let symbols = symbols(trace);
    let finish = |(lock, sums): (u32, Sums)| {
        let lock = lock as usize;
        let mut used = sums.finish((trace, &symbols), index.locks[lock]);
        used.rule = index.rules[lock];
        used.name = runtime_name((trace, roles, &symbols), &used, &index.classes[lock]).unwrap_or(used.name);
        let symbol = symbols.get(&(used.process, used.object)).copied();
        used.symbolic = match runtime_rule(roles, &used) {
            Some(rule) => symbolic_runtime_name(rule, symbol, &index.classes[lock]),
            None => symbolic_name(trace, &used, symbol),
        };
        used
    };
    let mut locks: Vec<LockUse> = merged.into_iter().map(finish).collect();
    locks.sort_by_key(|lock| (Reverse(lock.wait_ns), lock.process, lock.object, lock.reason));
    locks
}

/// Sums for one lock.
#[derive(Default)]
struct Sums {
    lengths: Vec<u64>,
    timed_out: u64,
    waiters: u32,
    last_waiter: Option<ThreadId>,
    releasers: BTreeMap<ThreadId, u64>,
    waiting_at: BTreeMap<FrameId, u64>,
}

impl Sums {
    fn merge(&mut self, other: Sums) {
        self.lengths.extend(other.lengths);
        self.timed_out += other.timed_out;
        self.waiters += other.waiters;
        for (thread, times) in other.releasers {
            *self.releasers.entry(thread).or_default() += times;
        }
        for (frame, ns) in other.waiting_at {
            *self.waiting_at.entry(frame).or_default() += ns;
        }
    }

    fn finish(
        mut self,
        (trace, symbols): (&Trace, &Symbols),
        (process, object, reason): (ProcessId, u64, WaitReason),
    ) -> LockUse {
        self.lengths.sort_unstable();
        let mut at: BTreeMap<String, u64> = BTreeMap::new();
        for (frame, ns) in self.waiting_at {
            *at.entry(trace.frame_name(frame)).or_default() += ns;
        }
        let waiting_at = most(at, WAITING_AT_MAX);
        let place = waiting_at.first().map(|(place, _)| place.as_str());
        LockUse {
            name: name((trace, symbols), (process, object, reason), place),
            rule: None,
            process,
            object,
            reason,
            waits: self.lengths.len() as u64,
            wait_ns: self.lengths.iter().sum(),
            p50_ns: percentile(&self.lengths, 50),
            p99_ns: percentile(&self.lengths, 99),
            max_ns: self.lengths.last().copied().unwrap_or(0),
            timed_out: self.timed_out,
            waiters: self.waiters,
            releasers: most(self.releasers, RELEASERS_MAX),
            waiting_at,
            ..LockUse::default()
        }
    }
}

fn most<K: Ord + Clone>(counts: BTreeMap<K, u64>, count_max: usize) -> Vec<(K, u64)> {
    let mut ranked: Vec<(K, u64)> = counts.into_iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    ranked.truncate(count_max);
    ranked
}

/// The smallest value that at least `percent` % of `sorted` do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// Known variable of each word, by process and address.
type Symbols<'a> = HashMap<(ProcessId, u64), &'a str>;

fn symbols(trace: &Trace) -> Symbols<'_> {
    let mut symbols = Symbols::new();
    for wait in trace.waits.iter().filter(|wait| !wait.symbol.is_empty()) {
        symbols.entry((wait.process, wait.object)).or_insert(&wait.symbol);
    }
    symbols
}

/// An address alone is not helpful. Without a symbol, the name contains the function that waited most.
fn name(
    (trace, symbols): (&Trace, &Symbols),
    (process, object, reason): (ProcessId, u64, WaitReason),
    place: Option<&str>,
) -> String {
    let whose = trace.process_name(process);
    match reason {
        WaitReason::FileLock => match trace.calls.name_of(ObjectKind::File, object) {
            "" => format!("lock of an unnamed file ({object:x}) in {whose}"),
            path => format!("file lock of {path} in {whose}"),
        },
        WaitReason::MmapLock => format!("mmap_lock of {whose}"),
        _ => match (symbols.get(&(process, object)), place) {
            (Some(symbol), _) => format!("{symbol} in {whose}"),
            // No word is below the first page. An importer uses such values only to distinguish places.
            (None, Some(place)) if object < 4096 => format!("lock in {place} of {whose}"),
            (None, None) if object < 4096 => format!("a lock of {whose}"),
            (None, Some(place)) => format!("lock in {place}, futex 0x{object:x} in {whose}"),
            (None, None) => format!("futex 0x{object:x} in {whose}"),
        },
    }
}

/// [`LockUse::symbolic`] of a lock without a runtime. `symbol` is its variable, if known.
fn symbolic_name(trace: &Trace, lock: &LockUse, symbol: Option<&str>) -> String {
    match lock.reason {
        WaitReason::FileLock => match trace.calls.name_of(ObjectKind::File, lock.object) {
            "" => "lock of an unnamed file".to_owned(),
            path => format!("file lock of {path}"),
        },
        WaitReason::MmapLock => "mmap_lock".to_owned(),
        _ => match (symbol, lock.waiting_at.first().map(|(function, _)| function.as_str())) {
            (Some(symbol), _) => symbol.to_owned(),
            // A function without a name: `0x7f12`, or `libfoo.so+0x12` ([`Trace::frame_name`]).
            (None, Some(function)) => {
                match function.split("0x").next().map(|file| file.trim_end_matches('+')) {
                    Some("") | None => "unnamed lock".to_owned(),
                    Some(place) => format!("lock in {place}"),
                }
            }
            (None, None) => "unnamed lock".to_owned(),
        },
    }
}

/// [`LockUse::symbolic`] of a runtime's lock.
fn symbolic_runtime_name(rule: &Rule, symbol: Option<&str>, class: &str) -> String {
    match (rule.one_lock, symbol) {
        (true, _) if !class.is_empty() => format!("{} of {class}", rule.lock),
        (false, Some(symbol)) => format!("{} ({symbol})", rule.lock),
        _ => rule.lock.clone(),
    }
}

/// Rule that names a runtime's lock.
fn runtime_rule<'a>(roles: &'a Roles, lock: &LockUse) -> Option<&'a Rule> {
    let (_, rule) = roles.descriptors.rule(lock.rule?)?;
    (!rule.lock.is_empty()).then_some(rule)
}

/// The runtime's name for the lock, with its variable, which the program's author knows.
fn runtime_name(
    (trace, roles, symbols): (&Trace, &Roles, &Symbols),
    lock: &LockUse,
    class: &str,
) -> Option<String> {
    let rule = runtime_rule(roles, lock)?;
    let whose = trace.process_name(lock.process);
    match (rule.lock.as_str(), rule.one_lock) {
        (name, true) if !class.is_empty() => Some(format!("{name} of {class} in {whose}")),
        (name, true) => Some(format!("{name} of {whose}")),
        (name, false) => Some(match symbols.get(&(lock.process, lock.object)) {
            Some(symbol) => format!("{name} ({symbol}) in {whose}"),
            None => format!("{name} 0x{:x} in {whose}", lock.object),
        }),
    }
}

fn add_thread(
    (trace, roles): (&Trace, &Roles),
    thread: ThreadId,
    index: &LockIndex,
    sums: &mut BTreeMap<u32, Sums>,
    places: &mut Places,
) {
    let mut near = 0;
    for slice in trace.slices.of_thread(thread) {
        let Some(lock) = index.waited((trace, roles), &slice) else { continue };
        let length = slice.duration().0;
        let sums = sums.entry(lock).or_default();
        sums.lengths.push(length);
        sums.timed_out += u64::from(trace.timed_out(&slice));
        if sums.last_waiter != Some(thread) {
            sums.last_waiter = Some(thread);
            sums.waiters += 1;
        }
        if let Some(releaser) = releaser(trace, (&slice, &mut near), index.locks[lock as usize].1) {
            *sums.releasers.entry(releaser).or_default() += 1;
        }
        if let Some(frame) = places.nearest_own(slice.stack) {
            *sums.waiting_at.entry(frame).or_default() += length * u64::from(slice.stack_every.max(1));
        }
    }
}

/// Whether a blocked slice on a lock's word is a wait for the lock. A runtime may classify it differently.
fn is_waited(trace: &Trace, roles: &Roles, slice: &Slice) -> bool {
    matches!(roles.class_of_wait(trace, slice), Class::LockWait | Class::FaultWait)
}

/// Thread that released the lock: it woke the waiter, for a futex through the same futex.
fn releaser(trace: &Trace, (slice, near): (&Slice, &mut usize), lock: u64) -> Option<ThreadId> {
    let wakeup = trace.ended_by_near(slice, near)?;
    let wait = trace.wait(slice.wait);
    // The words of one lock are several, or any.
    let same = wait.reason != WaitReason::Lock || lock < FIRST_PAGE || wakeup.waker_object == wait.object;
    (wakeup.context == WakeContext::Thread && same).then_some(wakeup.waker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let sorted: Vec<u64> = (1..=100).collect();
        assert_eq!((percentile(&sorted, 50), percentile(&sorted, 99)), (50, 99));
        assert_eq!((percentile(&[7], 50), percentile(&[7], 99), percentile(&[], 50)), (7, 7, 0));
    }
}
