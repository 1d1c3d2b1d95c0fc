//! Descriptions of the ends of chains of waits.

use holdup_findings::derive::blame::{End, EndClass};
use holdup_findings::wording::end_class as said;

use super::View;
use crate::numbers::{percent, share};

/// Shares of the classes, the greatest first: `running 80 %, had no CPU 20 %`.
pub(super) fn classes(ends: &[(End, u64)], total_ns: u64) -> String {
    let mut sums: Vec<(EndClass, u64)> = EndClass::ALL.iter().map(|class| (*class, 0)).collect();
    for (end, ns) in ends {
        sums[end.class as usize].1 += ns;
    }
    sums.retain(|(_, ns)| *ns > 0);
    sums.sort_by_key(|(class, ns)| (std::cmp::Reverse(*ns), *class));
    let words = sums.iter().map(|(class, ns)| format!("{} {}", said(*class), percent(share(*ns, total_ns))));
    words.collect::<Vec<_>>().join(", ")
}

/// One end as a phrase: `worker-1 (100) had no CPU, behind hog (7)`.
pub(super) fn phrase(view: &View, end: &End) -> String {
    let who = end.thread.map_or_else(|| "?".to_owned(), |thread| view.thread(thread));
    match end.occupant {
        Some(occupant) => format!("{who} {}, behind {}", said(end.class), view.thread(occupant)),
        None => format!("{who} {}", said(end.class)),
    }
}
