//! NUMA nodes: the threads on each node, the use of the nodes' CPUs, and the distance of migrations between
//! CPUs.

use std::collections::BTreeMap;

use holdup_events::recording::Host;
use holdup_events::tables::ThreadState;
use holdup_events::{CpuId, ThreadId, Trace};

use super::cpus::CpuUse;
use super::parallel;

/// Distance of two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// Hardware threads of one core: they share all caches.
    SameCore,
    /// Cores of one memory node.
    SameNode,
    /// CPUs of two memory nodes.
    OtherNode,
    /// Where they are was not recorded.
    Unknown,
}

/// Distance of `to` from `from`.
pub fn distance(host: &Host, from: CpuId, to: CpuId) -> Distance {
    let (Some(from), Some(to)) = (host.place(from), host.place(to)) else { return Distance::Unknown };
    if from.node != to.node {
        Distance::OtherNode
    } else if from.core_key() == to.core_key() {
        Distance::SameCore
    } else {
        Distance::SameNode
    }
}

/// Number of migrations of the program's threads, by distance of the CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// To another hardware thread of the core.
    pub same_core: u64,
    /// To another core of the node.
    pub same_node: u64,
    /// To another node.
    pub other_node: u64,
    /// To or from a CPU without a recorded node.
    pub unknown: u64,
}

impl Moves {
    fn note(&mut self, distance: Distance) {
        let number = match distance {
            Distance::SameCore => &mut self.same_core,
            Distance::SameNode => &mut self.same_node,
            Distance::OtherNode => &mut self.other_node,
            Distance::Unknown => &mut self.unknown,
        };
        *number += 1;
    }

    fn add(&mut self, other: Moves) {
        self.same_core += other.same_core;
        self.same_node += other.same_node;
        self.other_node += other.other_node;
        self.unknown += other.unknown;
    }

    /// Total number.
    pub fn total(self) -> u64 {
        self.same_core + self.same_node + self.other_node + self.unknown
    }
}

/// One memory node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeUse {
    /// Number of the node.
    pub node: u32,
    /// CPUs of the node that appear in the trace, ascending.
    pub cpus: Vec<CpuId>,
    /// Time in which they ran threads of the program (ns), steal time excluded.
    pub target_ns: u64,
    /// Time in which they ran other threads (ns).
    pub others_ns: u64,
    /// Steal time while a thread of the program was on one of them (ns).
    pub stolen_ns: u64,
    /// Time in which they were idle, or in an unknown state (ns).
    pub idle_ns: u64,
    /// Threads of the program that ran longest on this node: their home node.
    pub threads: u64,
}

/// Use of NUMA nodes, and moves between CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// By node, ascending. Empty if nodes were not recorded.
    pub nodes: Vec<NodeUse>,
    /// Moves between CPUs.
    pub moves: Moves,
    /// By thread of the program, the node on which it ran longest. Without threads that ran on no recorded node.
    pub homes: BTreeMap<ThreadId, u32>,
    /// Time that the program's threads ran on slow cores (ns), where the machine has cores of different speed.
    pub slow_ns: u64,
    /// Slow cores that were seen, ascending.
    pub slow_cpus: Vec<CpuId>,
}

/// One thread.
#[derive(Default)]
struct Ran {
    moves: Moves,
    /// Running time by node (ns).
    by_node: BTreeMap<u32, u64>,
}

/// Derives it, given what each CPU did.
pub fn derive(trace: &Trace, cpus: &[CpuUse]) -> Nodes {
    let host = &trace.manifest.host;
    let slow = |cpu: &&CpuUse| host.is_slow(cpu.cpu);
    let mut all = Nodes {
        slow_ns: cpus.iter().filter(slow).map(|cpu| cpu.target_ns).sum(),
        slow_cpus: cpus.iter().filter(slow).map(|cpu| cpu.cpu).collect(),
        ..Nodes::default()
    };
    let mut nodes: BTreeMap<u32, NodeUse> = BTreeMap::new();
    for cpu in cpus {
        let Some(place) = host.place(cpu.cpu) else { continue };
        let node =
            nodes.entry(place.node).or_insert_with(|| NodeUse { node: place.node, ..NodeUse::default() });
        node.cpus.push(cpu.cpu);
        node.target_ns += cpu.target_ns;
        node.others_ns += cpu.others_ns;
        node.stolen_ns += cpu.stolen_ns;
        node.idle_ns += cpu.idle_ns;
    }
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let targets = groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target);
        targets.map(|thread| (thread, ran(trace, thread))).collect::<Vec<(ThreadId, Ran)>>()
    });
    for (id, thread) in parts.into_iter().flatten() {
        all.moves.add(thread.moves);
        let Some(home) = home(&thread.by_node) else { continue };
        all.homes.insert(id, home);
        if let Some(node) = nodes.get_mut(&home) {
            node.threads += 1;
        }
    }
    all.nodes = nodes.into_values().collect();
    all
}

fn ran(trace: &Trace, thread: ThreadId) -> Ran {
    let (host, mut ran, mut last) = (&trace.manifest.host, Ran::default(), CpuId::NONE);
    for slice in trace.slices.of_thread(thread) {
        if slice.state != ThreadState::Running || slice.cpu == CpuId::NONE {
            continue;
        }
        if let Some(place) = host.place(slice.cpu) {
            *ran.by_node.entry(place.node).or_default() += slice.duration().0;
        }
        if last != CpuId::NONE && last != slice.cpu {
            ran.moves.note(distance(host, last, slice.cpu));
        }
        last = slice.cpu;
    }
    ran
}

/// The node on which a thread ran longest, the lowest of equal ones.
fn home(by_node: &BTreeMap<u32, u64>) -> Option<u32> {
    by_node.iter().max_by_key(|(node, ns)| (**ns, std::cmp::Reverse(**node))).map(|(node, _)| *node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_events::recording::CpuPlace;

    fn host() -> Host {
        // CPUs 0 and 1 share a core, 2 is another core of the node, 64 is on another node.
        let places = [(0, 0, 0), (1, 0, 0), (2, 0, 1), (64, 1, 0)];
        let place = |(cpu, node, core)| CpuPlace { cpu, node, package: node, core, ..CpuPlace::default() };
        Host { places: places.map(place).to_vec(), ..Host::default() }
    }

    #[test]
    fn distances_follow_cores_and_nodes() {
        let of = |from, to| distance(&host(), CpuId(from), CpuId(to));
        assert_eq!(of(0, 1), Distance::SameCore);
        assert_eq!(of(0, 2), Distance::SameNode);
        assert_eq!(of(2, 64), Distance::OtherNode);
        assert_eq!(of(0, 9), Distance::Unknown);
        assert_eq!(distance(&Host::default(), CpuId(0), CpuId(1)), Distance::Unknown);
    }

    #[test]
    fn a_thread_is_at_home_where_it_ran_longest() {
        assert_eq!(home(&BTreeMap::from([(0, 5), (1, 9)])), Some(1));
        assert_eq!(home(&BTreeMap::from([(0, 5), (1, 5)])), Some(0));
        assert_eq!(home(&BTreeMap::new()), None);
    }
}
