//! Which threads are shown, and in which order.

use std::cmp::Reverse;

use holdup_findings::derive::class::Class;
use holdup_findings::glance::{Glance, ThreadGlance};

/// By what threads are sorted, the most first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// Time on a CPU or waiting for one.
    #[default]
    Cpu,
    /// Time waiting for a CPU.
    Queue,
    /// Time waiting for locks.
    Lock,
    /// Switches.
    Switches,
    /// By number.
    Tid,
}

impl Order {
    const ALL: [Order; 5] = [Order::Cpu, Order::Queue, Order::Lock, Order::Switches, Order::Tid];

    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Cpu => "CPU",
            Order::Queue => "run queue",
            Order::Lock => "lock wait",
            Order::Switches => "switches",
            Order::Tid => "tid",
        }
    }

    pub(super) fn next(self) -> Order {
        let place = Order::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Order::ALL[(place + 1) % Order::ALL.len()]
    }

    fn weight(self, thread: &ThreadGlance) -> u64 {
        let of = |class: Class| thread.classes[class as usize];
        match self {
            Order::Cpu => thread.running_ns() + of(Class::Stolen) + of(Class::RunQueue),
            Order::Queue => of(Class::RunQueue),
            Order::Lock => of(Class::LockWait),
            Order::Switches => thread.blocked + thread.preempted,
            Order::Tid => 0,
        }
    }
}

/// Threads whose or whose process's name has `filter` in it, or whose number is it, in order.
pub(super) fn threads<'a>(glance: &'a Glance, order: Order, filter: &str) -> Vec<&'a ThreadGlance> {
    let wanted = filter.to_lowercase();
    let has = |name: &str| name.to_lowercase().contains(&wanted);
    let matches = |thread: &&ThreadGlance| {
        has(&thread.name)
            || has(&thread.process)
            || [thread.tid, thread.pid].map(|id| id.to_string()).contains(&wanted)
    };
    let mut rows: Vec<&ThreadGlance> = glance.threads.iter().filter(matches).collect();
    rows.sort_by_key(|thread| (Reverse(order.weight(thread)), thread.pid, thread.tid));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glance() -> Glance {
        let thread = |tid, name: &str, class: Class, ns| {
            let mut classes = [0; holdup_findings::derive::class::CLASSES];
            classes[class as usize] = ns;
            ThreadGlance {
                tid,
                pid: 7,
                name: name.to_owned(),
                process: "app".to_owned(),
                classes,
                ..Default::default()
            }
        };
        let threads = vec![
            thread(7, "main", Class::Sleep, 90),
            thread(8, "Worker", Class::Useful, 50),
            thread(9, "worker", Class::LockWait, 70),
        ];
        Glance { threads, ..Glance::default() }
    }

    #[test]
    fn the_most_comes_first_and_ties_by_number() {
        let glance = glance();
        let tids = |order| threads(&glance, order, "").iter().map(|thread| thread.tid).collect::<Vec<_>>();
        assert_eq!(
            [tids(Order::Cpu), tids(Order::Lock), tids(Order::Tid)],
            [[8, 7, 9], [9, 7, 8], [7, 8, 9]]
        );
        assert_eq!(
            std::iter::successors(Some(Order::Cpu), |order| Some(order.next())).nth(5),
            Some(Order::Cpu)
        );
    }

    #[test]
    fn a_filter_is_part_of_a_name_or_a_whole_number() {
        let glance = glance();
        let tids = |filter| threads(&glance, Order::Tid, filter).iter().map(|t| t.tid).collect::<Vec<_>>();
        assert_eq!(
            (tids("WORK"), tids("app"), tids("9"), tids("90")),
            (vec![8, 9], vec![7, 8, 9], vec![9], vec![])
        );
    }
}
