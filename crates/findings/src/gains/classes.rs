//! The classes of thread time that a cause takes part in.

use crate::derive::class::Class;
use crate::derive::ledger::Ledger;
use crate::derive::replay::Forecast;
use crate::wording::time;

/// Minimum share of the removed thread time for a class to be listed.
const CLASS_MIN: f64 = 0.1;

/// Maximum number of listed classes.
const CLASSES_MAX: usize = 3;

/// The classes of thread time that the replay without the cause has less of, if several are involved. Running
/// time is not divided, because a replay has no samples. Waits for other threads follow from the cause, and
/// are not listed. A replay may wait for a lock where the program was still queued, so no class loses more
/// than `ledger` has of it.
pub fn classes_removed(forecast: &Forecast, ledger: &Ledger) -> Option<String> {
    let removed = |class: Class| {
        let recorded = if class == Class::Useful { ledger.running_ns() } else { ledger.class_ns(class) };
        let [before, after] = [forecast.classes_before, forecast.classes].map(|ns| ns[class as usize]);
        before.saturating_sub(after).min(recorded)
    };
    let is_part = |class: &Class| !matches!(class, Class::JoinWait | Class::WorkWait | Class::Unknown);
    let mut parts: Vec<(Class, u64)> =
        Class::ALL.into_iter().filter(is_part).map(|class| (class, removed(class))).collect();
    let total: u64 = parts.iter().map(|(_, ns)| ns).sum();
    parts.retain(|(_, ns)| *ns > 0 && *ns as f64 >= CLASS_MIN * total as f64);
    parts.sort_by_key(|(class, ns)| (std::cmp::Reverse(*ns), *class));
    parts.truncate(CLASSES_MAX);
    let name = |class: Class| if class == Class::Useful { "CPU time" } else { class.name() };
    let said: Vec<String> =
        parts.iter().map(|(class, ns)| format!("{} up to {}", name(*class), time(*ns))).collect();
    (said.len() > 1).then(|| format!("Ledger classes: {}.", said.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(parts: &[(Class, u64, u64, u64)]) -> Option<String> {
        let (mut forecast, mut ledger) = (Forecast::default(), Ledger::default());
        for (class, recorded, before, after) in parts {
            ledger.classes[*class as usize] = *recorded;
            forecast.classes_before[*class as usize] = *before;
            forecast.classes[*class as usize] = *after;
        }
        classes_removed(&forecast, &ledger)
    }

    #[test]
    fn classes_of_a_cost_are_listed_if_there_are_several() {
        let ms = 1_000_000;
        let lock = (Class::LockWait, 300 * ms, 900 * ms, 100 * ms);
        assert_eq!(text(&[lock]), None, "one class says nothing new");
        assert_eq!(text(&[lock, (Class::RunQueue, 100 * ms, 50 * ms, 40 * ms)]), None, "less than a tenth");
        assert_eq!(text(&[lock, (Class::JoinWait, 500 * ms, 500 * ms, 0)]), None, "a consequence");
        let queue = (Class::RunQueue, 900 * ms, 900 * ms, 500 * ms);
        let listed = "Ledger classes: run-queue up to 400 ms, lock-wait up to 300 ms.";
        assert_eq!(text(&[lock, queue]).as_deref(), Some(listed), "no more than was recorded");
    }
}
