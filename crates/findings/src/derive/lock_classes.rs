//! Locks whose waiters each wait on a word of their own, so that no word identifies the lock. The lock is
//! identified by the class of the method that acquires it, and the class of the program's method that called
//! it. A lock used by two classes is reported as two locks, and two locks of one class as one.

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::{Frame, ThreadState};
use holdup_events::{FrameId, ProcessId, StackId, ThreadId, Trace, WaitId};

use super::own_places::{OwnFrames, Places, is_method};
use super::parallel;
use super::roles::Roles;
use crate::descriptors::RuleId;

/// Maximum number of distinct classes per rule, longest wait time first.
pub(super) const CLASSES_MAX: u64 = 60;

/// Locks of one class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LockClass {
    /// Process of the lock.
    pub process: ProcessId,
    /// Rule that identifies the lock.
    pub rule: RuleId,
    /// Number of the class, from 1 on, longest wait time first. 0: all classes without a number.
    pub number: u64,
}

/// Lock classes from the stacks of such waits.
#[derive(Default)]
pub(super) struct LockClasses {
    /// By stack of a wait on such a word: the lock. `None` if the wait is not for a lock.
    pub of_stack: HashMap<StackId, Option<LockClass>>,
    /// By word: the lock for waits without a stack, if they are for a lock.
    pub of_wait: HashMap<WaitId, Option<LockClass>>,
    /// Display name of each class.
    pub names: BTreeMap<LockClass, String>,
}

/// Rule and class found on a stack.
type StackRule = Option<(RuleId, Option<String>)>;

/// Wait time (ns), by word and stack.
type Waits = HashMap<(WaitId, StackId), (StackRule, u64)>;

impl LockClasses {
    /// Evaluates all waits of processes with such locks.
    pub fn derive(trace: &Trace, roles: &Roles) -> LockClasses {
        let by_class: Vec<bool> = roles.descriptors.rules().map(|(_, rule)| rule.by_class).collect();
        let runtimes: Vec<usize> =
            roles.descriptors.rules().filter(|(_, rule)| rule.by_class).map(|(runtime, _)| runtime).collect();
        let has_one =
            |process: ProcessId| roles.runtimes_of(process).iter().any(|row| runtimes.contains(row));
        let processes: Vec<bool> =
            (0..trace.processes.len() as u32).map(|row| has_one(ProcessId(row))).collect();
        if !processes.contains(&true) {
            return LockClasses::default();
        }
        let own = OwnFrames::new(trace);
        let groups = parallel::thread_groups(trace);
        let parts = parallel::map(groups.len(), |group| {
            let (mut waits, mut places) = (Waits::new(), Places::new(trace, &own));
            let with_one = |id: &ThreadId| processes[trace.threads[id.index()].process.index()];
            for thread in groups[group].clone().map(ThreadId).filter(with_one) {
                add_thread((trace, roles), (thread, &by_class), &mut places, &mut waits);
            }
            waits
        });
        let mut waits = Waits::new();
        for (key, (rule_of_stack, ns)) in parts.into_iter().flatten() {
            waits.entry(key).or_insert((rule_of_stack, 0)).1 += ns;
        }
        classify(trace, roles, waits)
    }
}

fn add_thread(
    (trace, roles): (&Trace, &Roles),
    (thread, by_class): (ThreadId, &[bool]),
    places: &mut Places<'_>,
    waits: &mut Waits,
) {
    for slice in trace.slices.of_thread(thread) {
        if slice.state != ThreadState::Blocked || slice.stack == StackId::NONE {
            continue;
        }
        let sum = waits.entry((slice.wait, slice.stack)).or_insert_with(|| {
            let rule = roles.of_wait(&slice).map(|(rule, _)| rule);
            let rule = rule.filter(|rule| by_class.get(usize::from(rule.0)) == Some(&true));
            (rule.map(|rule| (rule, class_of(trace, places, slice.stack))), 0)
        });
        sum.1 += slice.duration().0.saturating_mul(u64::from(slice.stack_every.max(1)));
    }
}

/// Packages of the methods through which others take locks and park.
const LOCK_PACKAGES: [&str; 3] = ["jdk.internal.misc.", "sun.misc.", "java.util.concurrent.locks."];

/// Class of the innermost method on a stack that is not part of a lock. Also the class of the program's own
/// method if it differs: `java.util.Hashtable (in shop.Orders)`.
fn class_of(trace: &Trace, places: &mut Places<'_>, stack: StackId) -> Option<String> {
    let class = |frame: FrameId| outer_class(&trace.frames.get(frame.index())?.function);
    let own = places.nearest_own(stack).and_then(class);
    let takes_lock = |frame: &Frame| {
        is_method(frame) && !LOCK_PACKAGES.iter().any(|package| frame.function.starts_with(package))
    };
    let mut methods =
        trace.stack_frames(stack).filter(|id| trace.frames.get(id.index()).is_some_and(takes_lock));
    match (methods.next().and_then(class), own) {
        (Some(entering), Some(own)) if entering != own => Some(format!("{entering} (in {own})")),
        (entering, own) => entering.or(own).map(str::to_owned),
    }
}

/// The outermost class of a method: `shop.Orders` of `shop.Orders$Queue.take`.
pub(super) fn outer_class(function: &str) -> Option<&str> {
    let (class, _) = function.rsplit_once('.')?;
    class.split('$').next().filter(|outer| !outer.is_empty())
}

fn classify(trace: &Trace, roles: &Roles, waits: Waits) -> LockClasses {
    let numbers = numbers(trace, &waits);
    let lock = |wait: WaitId, rule_of_stack: &StackRule| -> Option<LockClass> {
        let (rule, class) = rule_of_stack.as_ref()?;
        let process = trace.wait(wait).process;
        let number = class.as_ref().and_then(|class| numbers.get(&(process, *rule, class.as_str())));
        Some(LockClass { process, rule: *rule, number: number.copied().unwrap_or(0) })
    };
    let mut of_word: BTreeMap<WaitId, BTreeMap<LockClass, u64>> = BTreeMap::new();
    for ((wait, _), (rule_of_stack, ns)) in &waits {
        if let Some(lock) = lock(*wait, rule_of_stack) {
            *of_word.entry(*wait).or_default().entry(lock).or_default() += ns;
        }
    }
    let on_such_words = waits.iter().filter(|((wait, _), _)| of_word.contains_key(wait));
    let of_stack = on_such_words
        .map(|((wait, stack), (rule_of_stack, _))| (*stack, lock(*wait, rule_of_stack)))
        .collect();
    let of_wait = of_word.into_iter().map(|(wait, locks)| {
        let most = locks.into_iter().max_by_key(|(_, ns)| *ns).map(|(lock, _)| lock);
        (wait, most.filter(|lock| roles.word_rule(wait) == Some(lock.rule)))
    });
    let of_wait = of_wait.collect();
    let name = |((process, rule, class), number): (&(ProcessId, RuleId, &str), &u64)| {
        (LockClass { process: *process, rule: *rule, number: *number }, (*class).to_owned())
    };
    LockClasses { of_stack, of_wait, names: numbers.iter().map(name).collect() }
}

/// Numbers the classes of each process and rule by wait time. Classes beyond the maximum get no number.
fn numbers<'a>(trace: &Trace, waits: &'a Waits) -> BTreeMap<(ProcessId, RuleId, &'a str), u64> {
    let mut sums: BTreeMap<(ProcessId, RuleId), BTreeMap<&str, u64>> = BTreeMap::new();
    for ((wait, _), (rule_of_stack, ns)) in waits {
        if let Some((rule, Some(class))) = rule_of_stack {
            let of_rule = sums.entry((trace.wait(*wait).process, *rule)).or_default();
            *of_rule.entry(class).or_default() += ns;
        }
    }
    let mut numbers = BTreeMap::new();
    for ((process, rule), classes) in sums {
        let mut ranked: Vec<(&str, u64)> = classes.into_iter().collect();
        ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        for (number, (class, _)) in (1..=CLASSES_MAX).zip(ranked) {
            numbers.insert((process, rule, class), number);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_of_the_class_around_it() {
        assert_eq!(outer_class("shop.Orders$Queue.take"), Some("shop.Orders"));
        assert_eq!(outer_class("T.lambda$main$0"), Some("T"));
        assert_eq!(outer_class("shop.Orders$$Lambda.run"), Some("shop.Orders"));
        assert_eq!(outer_class("main"), None);
    }
}
