//! Groups of threads that hand work to each other in turn. Each member is woken by other members about as
//! often as it wakes members. The smallest group is a request-response pair. Rings, and small queues between
//! producers and consumers, are larger groups.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::ThreadId;

use super::handovers::Handover;

/// Fewer wakeups of a thread may be a start and an end.
pub const ROUNDS_MIN: u64 = 100;

/// Minimum share of each member's waits for work that other members end.
const PARTNERS_SHARE_MIN: f64 = 0.5;

/// Minimum ratio of a member's wakeups in both directions. Below it, the thread feeds the others without
/// waiting for each response: ...
const EVEN_MIN: f64 = 0.5;
/// ... unless its ratio is at least this, and it waits as long for the others as they wait for it.
const SELDOM_MIN: f64 = 0.2;

/// Minimum share of a thread's waits that another thread must end to be in its group.
const EDGE_SHARE_MIN: f64 = 0.1;

/// A group of threads, with the handovers between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// By id.
    pub members: Vec<ThreadId>,
    /// By waker, then wakee.
    pub handovers: Vec<Handover>,
}

impl Group {
    /// One figure of all handovers.
    pub fn sum(&self, of: impl Fn(&Handover) -> u64) -> u64 {
        self.handovers.iter().map(of).sum()
    }

    /// Whether a wait of `wakee` which `waker` ended is one of these.
    pub fn has(&self, waker: ThreadId, wakee: ThreadId) -> bool {
        self.handovers.binary_search_by_key(&(waker, wakee), |one| (one.waker, one.wakee)).is_ok()
    }
}

/// Finds the groups among `handovers` (by waker, then wakee). A thread is in at most one group. Two threads
/// form a group only if neither is in a larger one.
///
/// `bound` are threads that a runtime's task is bound to. They are woken for that task, and a runtime may
/// wake another thread for the waker's remaining work. For them it is enough that each member is woken and
/// wakes at times.
pub fn derive(handovers: &[Handover], bound: &BTreeSet<ThreadId>) -> Vec<Group> {
    let mut waits: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for one in handovers {
        *waits.entry(one.wakee).or_default() += one.count;
    }
    let of_waits = |one: &Handover, share: f64| one.count as f64 >= share * waits[&one.wakee] as f64;
    let counts = |one: &&Handover| of_waits(one, EDGE_SHARE_MIN);
    let mut edges: Vec<Handover> = handovers.iter().filter(counts).copied().collect();
    // A thread that does not fit takes its handovers with it. Other threads may then no longer fit.
    loop {
        let fitting = fitting(&edges, &waits, bound);
        let before = edges.len();
        edges.retain(|one| fitting.contains(&one.waker) && fitting.contains(&one.wakee));
        if edges.len() == before {
            break;
        }
    }
    connected(&edges)
}

/// Wakeups of one thread in both directions.
#[derive(Clone, Copy, Default)]
struct Sides {
    woken: u64,
    wakes: u64,
    /// Wait time of the thread, and of the threads that it wakes (ns).
    waits_ns: u64,
    lets_wait_ns: u64,
}

impl Sides {
    /// `seldom`: also where one is woken more than twice as often as it wakes, or the other way round.
    fn are_even(self, seldom: bool) -> bool {
        let ratio = |a: u64, b: u64| a.min(b) as f64 / a.max(b).max(1) as f64;
        let (by_count, by_time) = (ratio(self.woken, self.wakes), ratio(self.waits_ns, self.lets_wait_ns));
        self.woken.min(self.wakes) >= ROUNDS_MIN
            && (by_count >= EVEN_MIN || by_count >= SELDOM_MIN && (seldom || by_time >= EVEN_MIN))
    }
}

/// Threads that are woken about as often as they wake, and mostly by these handovers. `waits` has each
/// thread's waits ended by any thread.
fn fitting(
    edges: &[Handover],
    waits: &BTreeMap<ThreadId, u64>,
    bound: &BTreeSet<ThreadId>,
) -> BTreeSet<ThreadId> {
    let with_bound =
        members(edges.iter().filter(|one| bound.contains(&one.waker) || bound.contains(&one.wakee)));
    let mut of_thread: BTreeMap<ThreadId, Sides> = BTreeMap::new();
    for one in edges {
        let wakee = of_thread.entry(one.wakee).or_default();
        (wakee.woken, wakee.waits_ns) = (wakee.woken + one.count, wakee.waits_ns + one.wait_ns);
        let waker = of_thread.entry(one.waker).or_default();
        (waker.wakes, waker.lets_wait_ns) = (waker.wakes + one.count, waker.lets_wait_ns + one.wait_ns);
    }
    let mostly = |member: &ThreadId, woken: u64| {
        woken as f64 >= PARTNERS_SHARE_MIN * waits.get(member).copied().unwrap_or(0) as f64
    };
    let fits = |(member, sides): &(ThreadId, Sides)| {
        mostly(member, sides.woken) && sides.are_even(with_bound.contains(member))
    };
    of_thread.into_iter().filter(fits).map(|(member, _)| member).collect()
}

fn members<'a>(edges: impl IntoIterator<Item = &'a Handover>) -> BTreeSet<ThreadId> {
    edges.into_iter().flat_map(|one| [one.waker, one.wakee]).collect()
}

/// Connected groups. Each member is woken nearly as often as it wakes, so every connection exists in both
/// directions.
fn connected(edges: &[Handover]) -> Vec<Group> {
    let mut leader: BTreeMap<ThreadId, ThreadId> = members(edges).into_iter().map(|id| (id, id)).collect();
    for edge in edges {
        let (waker, wakee) = (leader_of(&mut leader, edge.waker), leader_of(&mut leader, edge.wakee));
        leader.insert(waker.max(wakee), waker.min(wakee));
    }
    let mut groups: BTreeMap<ThreadId, Group> = BTreeMap::new();
    for member in members(edges) {
        groups.entry(leader_of(&mut leader, member)).or_default().members.push(member);
    }
    for edge in edges {
        groups.entry(leader_of(&mut leader, edge.waker)).or_default().handovers.push(*edge);
    }
    groups.into_values().collect()
}

/// Leader of a member's group. Shortens the path of each thread on the way.
fn leader_of(leader: &mut BTreeMap<ThreadId, ThreadId>, member: ThreadId) -> ThreadId {
    let mut at = member;
    while leader[&at] != at {
        let next = leader[&leader[&at]];
        leader.insert(at, next);
        at = next;
    }
    at
}
