//! Role of each on-CPU sample and each wait in a language runtime or library, from its descriptors.
//!
//! Rules about stacks are evaluated once per stack. Rules about thread names and futex words need no stack.
//!
//! A blocked slice may have no complete stack. It then gets the role of the other waits on the same futex
//! word or epoll instance, if 75 % of them (by time) agree. Waits that ended by their own timeout are counted
//! separately. A thread may also sleep on the instance on which it waits for locks, and that sleep is not a
//! lock wait.
//!
//! Some thread start functions identify all waits of their thread. The runtimes of a process are found by
//! their code or files. The program's name has no effect.

mod devices;
mod frames;
mod handed_on;
mod parties;
mod requests;
mod votes;

use std::collections::HashSet;

use holdup_events::tables::{FrameKind, SampleRow, Slice, StackEnd, ThreadState};
use holdup_events::{ObjectKind, ProcessId, StackId, ThreadId, Timestamp, Trace, Wait, WaitId, WaitReason};

use self::frames::FrameRules;
pub(crate) use self::frames::file_name;
use self::parties::Parties;
use super::class::Class;
use super::on_cpu::SampleClasses;
use super::parallel;
use super::runtime_phases::RuntimePhases;
use super::stacks::folding::matches;
use crate::descriptors::{Descriptors, On, Role, Rule, RuleId, Runtime, plain_name};

/// No rule matches.
const NONE: u16 = u16::MAX;
/// The stack is cut short, and its frames match no rule.
const CUT: u16 = u16::MAX - 1;

/// Source of a verdict about a blocked slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The wait's own stack, its thread's name, or its futex word's symbol.
    Own,
    /// Stacks of other waits on the same futex word, or of other waits of the same single-purpose thread.
    Others,
}

/// The roles of samples and waits.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// Descriptors that the roles are derived from.
    pub descriptors: Descriptors,
    on_cpu: SampleClasses,
    /// Facts reported by the runtimes themselves. They take precedence over stacks.
    pub phases: RuntimePhases,
    parties: Parties,
    /// By party, then stack: of running threads, and of blocked ones. Empty where the party has no stack.
    running: Vec<Vec<u16>>,
    blocked: Vec<Vec<u16>>,
    /// By wait: the rule for waits without a stack of their own.
    word_says: Vec<u16>,
    /// The same for waits that ended by their own timeout, and the waits for which it differs.
    time_out_says: Vec<u16>,
    timed_out: HashSet<(ThreadId, Timestamp)>,
    /// By wait: the rule with role `lock` that has the most time, if some waits on the word are for a lock.
    lock_words: Vec<u16>,
    /// By wait: the rule about the futex word's symbol.
    word_is: Vec<u16>,
    /// By wait: the rule by which its word is a lock that threads pass on. Empty if there is none.
    handed_on: Vec<u16>,
    /// By thread: the rule of its start function, used for its waits without a stack.
    began_with: Vec<u16>,
    /// By wait: it is a sleep.
    sleeps: Vec<bool>,
    /// By thread: the rule of its sleeps, from sleeps with a stack.
    sleeps_say: Vec<u16>,
    /// By wait: whether it is for a ring's completion from a disk. Empty if there is no ring.
    disk_answers: Vec<bool>,
    /// By wait: whether it is a FUTEX_WAIT on a word with the value "locked, with waiters".
    locked: Vec<bool>,
    /// By wait: whether it is for a response on a connection that the process opened. Empty if no thread
    /// polls a single socket.
    peer_answers: Vec<bool>,
}

/// Rules for [`Roles::of_loop`].
pub struct LoopCode {
    rules: FrameRules,
    /// Rules with `on = "spin"`, a bit each.
    asked: Vec<u64>,
}

impl Roles {
    /// With the built-in descriptors.
    pub fn built_in(trace: &Trace) -> Roles {
        Roles::derive(trace, &Descriptors::built_in())
    }

    /// Evaluates all rules.
    pub fn derive(trace: &Trace, descriptors: &Descriptors) -> Roles {
        let parties = Parties::new(trace, descriptors);
        let mut roles = Roles {
            descriptors: descriptors.clone(),
            on_cpu: SampleClasses::new(trace, descriptors),
            phases: RuntimePhases::derive(trace),
            parties,
            ..Roles::default()
        };
        roles.word_is = words(trace, descriptors);
        roles.locked = trace.waits.iter().map(is_locked_word).collect();
        roles.disk_answers = devices::answer(trace);
        roles.peer_answers = requests::await_answers(trace);
        if roles.parties.is_empty() {
            return roles;
        }
        let frame_rules = FrameRules::new(trace, descriptors);
        let (running, blocked) = roles.used(trace);
        let decide = |used: &[u64], party: usize, on: On| -> Vec<u16> {
            if used.is_empty() {
                return Vec::new();
            }
            let allowed = roles.parties.allowed(party, on);
            let verdict = |stack: usize| match used[stack / 64] & (1 << (stack % 64)) {
                0 => NONE,
                _ => verdict(trace, &frame_rules, allowed, StackId(stack as u32)),
            };
            (0..trace.stacks.rows().len()).map(verdict).collect()
        };
        let parts = parallel::map(roles.parties.len(), |party| {
            (decide(&running[party], party, On::Cpu), decide(&blocked[party], party, On::Off))
        });
        (roles.running, roles.blocked) = parts.into_iter().unzip();
        roles.vote(trace);
        roles.handed_on = handed_on::rules(trace, &roles.parties, (&frame_rules, &blocked));
        roles.leave_locked_words(trace);
        roles.began_with = roles.beginnings(trace);
        roles
    }

    /// Drops rules about words that are passed on if the word's value shows a locked lock and the rule allows
    /// it.
    fn leave_locked_words(&mut self, trace: &Trace) {
        let descriptors = &self.descriptors;
        let leaves = |rule: u16| descriptors.rule(RuleId(rule)).is_some_and(|(_, rule)| rule.unless_locked);
        for (rule, wait) in self.handed_on.iter_mut().zip(&trace.waits) {
            if wait.reason == WaitReason::Lock && leaves(*rule) {
                *rule = NONE;
            }
        }
    }

    /// Classes of samples without descriptors: work, kernel, spin loops.
    pub fn sample_classes(&self) -> &SampleClasses {
        &self.on_cpu
    }

    /// The rule that a sample matches.
    pub fn of_sample(&self, sample: &SampleRow) -> Option<RuleId> {
        let party = self.parties.party_of(sample.thread)?;
        let by_stack = at(&self.running, party, sample.stack);
        found(stack_rule(by_stack).min(self.parties.named(party, On::Cpu)))
    }

    /// Role of the sample's code by that rule.
    pub fn role_of_sample(&self, sample: &SampleRow) -> Option<Role> {
        self.of_sample(sample).and_then(|rule| self.descriptors.rule(rule)).map(|(_, rule)| rule.role)
    }

    /// The rule that a blocked slice matches, and what that rests on.
    pub fn of_wait(&self, slice: &Slice) -> Option<(RuleId, Basis)> {
        let party = self.parties.party_of(slice.thread)?;
        let wait = slice.wait.index();
        let by_stack = self.blocked_stack(party, slice);
        let own = stack_rule(by_stack)
            .min(self.parties.named(party, On::Off))
            .min(self.word_is.get(wait).copied().unwrap_or(NONE))
            .min(self.handed_on.get(wait).copied().unwrap_or(NONE));
        let has_stack = by_stack != CUT && slice.stack != StackId::NONE;
        let said = |rules: &[u16], row: usize| rules.get(row).copied().unwrap_or(NONE);
        let others = match has_stack {
            true => NONE,
            false => {
                let sleeps = if self.sleeps.get(wait) == Some(&true) { &self.sleeps_say[..] } else { &[] };
                said(self.word_rules(slice), wait)
                    .min(said(&self.began_with, slice.thread.index()))
                    .min(said(sleeps, slice.thread.index()))
            }
        };
        if others < own {
            Some((RuleId(others), Basis::Others))
        } else {
            found(own).map(|rule| (rule, Basis::Own))
        }
    }

    /// Rule of a blocked slice's stack, unless its futex word contradicts the rule.
    fn blocked_stack(&self, party: usize, slice: &Slice) -> u16 {
        let entry = at(&self.blocked, party, slice.stack);
        let is_locked = self.locked.get(slice.wait.index()) == Some(&true);
        let holds_nevertheless =
            |id: RuleId| self.descriptors.rule(id).is_none_or(|(_, rule)| !(rule.unless_locked && is_locked));
        if entry == CUT || holds_nevertheless(RuleId(entry)) { entry } else { NONE }
    }

    /// Per wait: the rule of the other waits on its word that ended in the same way.
    fn word_rules(&self, slice: &Slice) -> &[u16] {
        match self.timed_out.contains(&(slice.thread, slice.start)) {
            true => &self.time_out_says,
            false => &self.word_says,
        }
    }

    /// Rule that identifies the wait's purpose, with its runtime.
    pub fn rule_of_wait(&self, slice: &Slice) -> Option<(&Runtime, &Rule)> {
        self.descriptors.rule(self.of_wait(slice)?.0)
    }

    /// Whether the wait is a runtime's idle sleep before it polls for work again. If the runtime runs tasks
    /// on its threads, a timeout of such a wait may be a task's timer. This is excluded if the rule names the
    /// runtime's own service threads or their start function.
    pub fn is_idle_sleep(&self, trace: &Trace, slice: &Slice) -> bool {
        let naps = trace.wait(slice.wait).reason == WaitReason::Sleep;
        let is_idle = |(runtime, rule): (&Runtime, &Rule)| {
            rule.idle && (naps || !runtime.carries_tasks && (rule.start || !rule.thread.is_empty()))
        };
        slice.state == ThreadState::Blocked && self.rule_of_wait(slice).is_some_and(is_idle)
    }

    /// The class of a sample.
    pub fn class_of_sample(&self, sample: &SampleRow) -> Class {
        match self.phases.class_of_sample(sample) {
            // A GC phase only shows that the phase lasts. The thread may spin for another thread in it.
            Some(Class::GcWork) if self.waits_awake(sample) => return Class::Spin,
            Some(class) => return class,
            None => {}
        }
        let class = self.on_cpu.class_of(sample);
        if class != Class::Useful {
            return class;
        }
        self.class_running(sample).unwrap_or(Class::Useful)
    }

    /// Whether the kernel ran because of code that only waits: it interrupted it, or was called by it.
    pub fn is_kernel_for_waiting(&self, sample: &SampleRow) -> bool {
        self.class_of_sample(sample) == Class::Kernel && self.class_running(sample) == Some(Class::Spin)
    }

    /// Class of the sample's code, if a descriptor defines one.
    fn class_running(&self, sample: &SampleRow) -> Option<Class> {
        self.descriptors.rule(self.of_sample(sample)?)?.1.role.class_running()
    }

    /// Whether its code only waits, by its instructions or by its runtime's descriptor.
    fn waits_awake(&self, sample: &SampleRow) -> bool {
        match self.on_cpu.class_of(sample) {
            Class::Spin => true,
            Class::Useful => self.class_running(sample) == Some(Class::Spin),
            _ => false,
        }
    }

    /// Class of a blocked slice. A wait that a timer ended may still be a [`Class::Sleep`].
    pub fn class_of_wait(&self, trace: &Trace, slice: &Slice) -> Class {
        if let Some(class) = self.phases.class_of_wait(slice) {
            return class;
        }
        let reason = trace.wait(slice.wait).reason;
        let role = self.rule_of_wait(slice).map(|(_, rule)| rule.role);
        role.and_then(|role| role.class_blocked(reason)).unwrap_or_else(|| {
            let is_set = |waits: &[bool]| waits.get(slice.wait.index()) == Some(&true);
            if is_set(&self.disk_answers) {
                Class::IoWait
            } else if is_set(&self.peer_answers) {
                Class::NetWait
            } else {
                Class::of_wait(reason)
            }
        })
    }

    /// Whether at least some waits of this row are for a lock. The inner value is the runtime's rule, if a
    /// rule decides it.
    pub fn lock(&self, trace: &Trace, wait: WaitId) -> Option<Option<RuleId>> {
        let row = |rules: &[u16]| rules.get(wait.index()).copied().unwrap_or(NONE);
        let word = found(row(&self.word_says).min(row(&self.word_is)).min(row(&self.handed_on)));
        let reason = trace.wait(wait).reason;
        let class_by = |id: RuleId| self.descriptors.rule(id)?.1.role.class_blocked(reason);
        match word.and_then(|id| Some((id, class_by(id)?))) {
            Some((id, Class::LockWait)) => Some(Some(id)),
            Some(_) => found(row(&self.lock_words)).map(Some),
            None if Class::of_wait(reason) == Class::LockWait => Some(found(row(&self.lock_words))),
            None => found(row(&self.lock_words)).map(Some),
        }
    }

    /// Rule for waits on the word without a stack of their own.
    pub fn word_rule(&self, wait: WaitId) -> Option<RuleId> {
        found(self.word_says.get(wait.index()).copied().unwrap_or(NONE))
    }

    /// Per frame: whether its function takes or releases a lock, by the rules with role `lock` for running
    /// threads. The inner value is true if the function is only called under contention.
    pub fn lock_code(&self, trace: &Trace) -> Vec<Option<bool>> {
        let is_one = |rule: &Rule| rule.role == Role::Lock && rule.on == On::Cpu;
        let contended: Vec<Option<bool>> =
            self.descriptors.rules().map(|(_, rule)| is_one(rule).then_some(rule.contended)).collect();
        let rules = FrameRules::new(trace, &self.descriptors);
        let of_rule = |rule: &u16| contended.get(usize::from(*rule)).copied().flatten();
        (0..trace.frames.len())
            .map(|frame| rules.rules_of(frame).any.iter().filter_map(of_rule).max())
            .collect()
    }

    /// Per frame: whether its function releases task locks, by the rules with role `lock` for wakers.
    pub fn unlocking_code(&self, trace: &Trace) -> Vec<bool> {
        let is_one = |rule: &Rule| rule.role == Role::Lock && rule.on == On::Waker;
        let wanted: Vec<bool> = self.descriptors.rules().map(|(_, rule)| is_one(rule)).collect();
        let rules = FrameRules::new(trace, &self.descriptors);
        let of_rule = |rule: &u16| wanted.get(usize::from(*rule)).copied().unwrap_or(false);
        (0..trace.frames.len()).map(|frame| rules.rules_of(frame).any.iter().any(of_rule)).collect()
    }

    /// Per frame: whether tasks wait for locks in its function, and probes record these waits.
    pub fn task_lock_code(&self, trace: &Trace) -> Vec<bool> {
        let probes = self.descriptors.runtimes().iter().filter_map(|runtime| runtime.task_waits.as_ref());
        let names: HashSet<&str> = probes.flat_map(|probe| &probe.locks).map(String::as_str).collect();
        trace.frames.iter().map(|frame| names.contains(&*plain_name(&frame.function))).collect()
    }

    /// Compiles the rules about spin loops.
    pub fn loop_code(&self, trace: &Trace) -> LoopCode {
        let mut asked = vec![0; self.descriptors.rules().count().div_ceil(64)];
        for (id, _) in self.descriptors.rules().enumerate().filter(|(_, (_, rule))| rule.on == On::Spin) {
            asked[id / 64] |= 1 << (id % 64);
        }
        LoopCode { rules: FrameRules::new(trace, &self.descriptors), asked }
    }

    /// Purpose of a spin loop: the rule of its runtime.
    pub fn of_loop(&self, trace: &Trace, code: &LoopCode, sample: &SampleRow) -> Option<RuleId> {
        let by_code = stack_rule(verdict(trace, &code.rules, &code.asked, sample.stack));
        let waits = |rule: &RuleId| {
            let role = self.descriptors.rule(*rule).map(|(_, rule)| rule.role);
            matches!(role, Some(Role::Spin | Role::GcWait))
        };
        found(by_code).or_else(|| self.of_sample(sample).filter(waits))
    }

    /// Whether a thread runs tasks of a runtime, which may continue on another thread. It does if at least
    /// half of its waits are for more tasks.
    pub fn carries_tasks(&self, trace: &Trace, thread: ThreadId) -> bool {
        let (mut waits, mut carrying) = (0u64, 0u64);
        for slice in trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Blocked) {
            waits += 1;
            let rule = self.rule_of_wait(&slice);
            let carries =
                rule.is_some_and(|(runtime, rule)| runtime.carries_tasks && rule.role == Role::WorkWait);
            carrying += u64::from(carries);
        }
        waits > 0 && 2 * carrying >= waits
    }

    /// Runtimes of a process: rows of [`Descriptors::runtimes`], ascending.
    pub fn runtimes_of(&self, process: ProcessId) -> &[usize] {
        self.parties.runtimes_of(process)
    }

    /// The same as descriptors.
    pub fn runtimes_in(&self, process: ProcessId) -> impl Iterator<Item = &Runtime> {
        self.runtimes_of(process).iter().filter_map(|row| self.descriptors.runtimes().get(*row))
    }
}

impl Roles {
    /// Which stacks samples, and which blocked slices, of each party have: a bit each.
    fn used(&self, trace: &Trace) -> (Vec<Vec<u64>>, Vec<Vec<u64>>) {
        let words = trace.stacks.rows().len().div_ceil(64);
        let mark = |sets: &mut Vec<Vec<u64>>, party: usize, stack: StackId| {
            let set = &mut sets[party];
            if set.is_empty() {
                set.resize(words, 0);
            }
            if let Some(word) = set.get_mut(stack.index() / 64) {
                *word |= 1 << (stack.index() % 64);
            }
        };
        let mut running = vec![Vec::new(); self.parties.len()];
        for sample in trace.samples.iter().filter(|sample| sample.stack != StackId::NONE) {
            if let Some(party) = self.parties.party_of(sample.thread) {
                mark(&mut running, party, sample.stack);
            }
        }
        let groups = parallel::thread_groups(trace);
        let parts = parallel::map(groups.len(), |group| {
            let mut blocked = vec![Vec::new(); self.parties.len()];
            for thread in groups[group].clone().map(ThreadId) {
                let Some(party) = self.parties.party_of(thread) else { continue };
                let with_stack = trace.slices.of_thread(thread).filter(|slice| slice.stack != StackId::NONE);
                with_stack.for_each(|slice| mark(&mut blocked, party, slice.stack));
            }
            blocked
        });
        let mut blocked: Vec<Vec<u64>> = vec![Vec::new(); self.parties.len()];
        for (sum, set) in parts.iter().flat_map(|part| part.iter().enumerate()) {
            if blocked[sum].is_empty() {
                blocked[sum].clone_from(set);
            } else {
                blocked[sum].iter_mut().zip(set).for_each(|(sum, word)| *sum |= word);
            }
        }
        (running, blocked)
    }

    /// Per thread: the rule of its start function, found in any of its stacks.
    fn beginnings(&self, trace: &Trace) -> Vec<u16> {
        let wanted: Vec<bool> = self.descriptors.rules().map(|(_, rule)| rule.start).collect();
        let is_one = |rule: &u16| wanted.get(usize::from(*rule)).copied().unwrap_or(false);
        let of = |thread: ThreadId| {
            let party = self.parties.party_of(thread)?;
            let stacks = trace.slices.of_thread(thread).map(|slice| slice.stack);
            stacks.map(|stack| stack_rule(at(&self.blocked, party, stack))).find(is_one)
        };
        let groups = parallel::thread_groups(trace);
        let part = |group: usize| -> Vec<u16> {
            groups[group].clone().map(|thread| of(ThreadId(thread)).unwrap_or(NONE)).collect()
        };
        match wanted.contains(&true) {
            true => parallel::map(groups.len(), part).concat(),
            false => Vec::new(),
        }
    }
}

/// The wait is by FUTEX_WAIT, as for the low-level locks of glibc, and the word's value was a lock's.
fn is_locked_word(wait: &Wait) -> bool {
    const COMMAND: u32 = 0x7f;
    wait.reason == WaitReason::Lock && wait.object_kind == ObjectKind::Futex && wait.op & COMMAND == 0
}

/// Rule of a stack's entry. [`NONE`] for a stack that is cut short.
fn stack_rule(entry: u16) -> u16 {
    if entry == CUT { NONE } else { entry }
}

fn found(rule: u16) -> Option<RuleId> {
    (rule != NONE).then_some(RuleId(rule))
}

fn at(verdicts: &[Vec<u16>], party: usize, stack: StackId) -> u16 {
    if stack == StackId::NONE {
        return NONE;
    }
    verdicts.get(party).and_then(|stacks| stacks.get(stack.index())).copied().unwrap_or(NONE)
}

/// The first of the allowed rules that the stack matches.
fn verdict(trace: &Trace, rules: &FrameRules, allowed: &[u64], stack: StackId) -> u16 {
    let is_allowed = |rule: &&u16| {
        let rule = usize::from(**rule);
        allowed.get(rule / 64).is_some_and(|word| word & (1 << (rule % 64)) != 0)
    };
    let (mut best, mut innermost) = (NONE, true);
    // Rules that require another function: rules that match so far, and rules whose other function is in the
    // stack.
    let (mut pending, mut beside) = (Vec::new(), Vec::new());
    for id in trace.stack_frames(stack) {
        let Some(frame) = trace.frames.get(id.index()) else { continue };
        if frame.kind == FrameKind::Kernel {
            continue;
        }
        let matched = rules.rules_of(id.index());
        let leaf: &[u16] = if innermost { &matched.leaf } else { &[] };
        for list in [leaf, &matched.any] {
            let mut allowed = list.iter().filter(is_allowed);
            let sure = allowed.find(|rule| {
                let more = rules.asks_more(**rule);
                pending.extend(more.then_some(**rule));
                !more
            });
            best = sure.copied().unwrap_or(NONE).min(best);
        }
        beside.extend(&matched.within);
        innermost &= frame.inlined;
    }
    best = pending.into_iter().filter(|rule| beside.contains(rule)).fold(best, u16::min);
    let cut = || !matches!(trace.stacks.end(stack), StackEnd::Root | StackEnd::Unknown);
    if best == NONE && cut() { CUT } else { best }
}

/// The first rule about each futex word's symbol.
fn words(trace: &Trace, descriptors: &Descriptors) -> Vec<u16> {
    let by_symbol = |symbol: &str| {
        let is = |rule: &Rule| rule.futex.iter().any(|pattern| matches(pattern, symbol));
        let row = descriptors.rules().position(|(_, rule)| is(rule));
        row.map_or(NONE, |row| row as u16)
    };
    let word = |wait: &Wait| match wait.symbol.as_str() {
        "" => NONE,
        // `symbol+0x10` or `symbol`.
        symbol => by_symbol(symbol.split('+').next().unwrap_or(symbol)),
    };
    trace.waits.iter().map(word).collect()
}
