//! Whether waits of several threads for an outside service run in parallel, or one after another.
//!
//! If the server handles one request at a time, a wait is longer by the remaining wait of the previous
//! request. If the server handles any number, waits do not depend on each other. A linear regression over all
//! waits distinguishes the two cases. A serial server also needs its service time between two responses, so
//! responses never come at nearly the same time.

use holdup_events::Timestamp;

/// Minimum number of waits. Fewer prove nothing.
const WAITS_MIN: usize = 30;
/// Standard errors on the safe side.
const SURE: f64 = 2.0;
/// Minimum length of a wait, relative to the median. Shorter waits were only polls, or for something else.
const LOOK_MAX: f64 = 0.1;
/// Quantile of the times between two responses. Single responses may come together by chance.
const SHORT_GAPS: f64 = 0.05;

/// Upper bound of the share (0 to 1) of a wait that excludes other waits. 1 if unknown. `waits` are the
/// starts and ends of waits for the same service.
pub fn exclusive_part(mut waits: Vec<(Timestamp, Timestamp)>) -> f64 {
    drop_looks(&mut waits);
    if waits.len() < WAITS_MIN {
        return 1.0;
    }
    waits.sort_unstable();
    let mean_ns = waits.iter().map(|(from, to)| to.since(*from).0 as f64).sum::<f64>() / waits.len() as f64;
    by_slope(&waits).max(by_gaps(&waits) / mean_ns.max(1.0)).min(1.0)
}

/// Leaves out waits that are much shorter than most: on a line through all, they would make the others long.
fn drop_looks(waits: &mut Vec<(Timestamp, Timestamp)>) {
    let ns = |(from, to): &(Timestamp, Timestamp)| to.since(*from).0;
    let mut lengths: Vec<u64> = waits.iter().map(ns).collect();
    lengths.sort_unstable();
    if let Some(median) = lengths.get(lengths.len() / 2) {
        waits.retain(|wait| ns(wait) as f64 >= LOOK_MAX * *median as f64);
    }
}

/// Share from a linear regression over all waits: additional length of a wait per ns of the previous
/// request's remaining wait. Assume that two threads send requests at random times, and that the first share
/// `q` of each wait is exclusive. The slope is then 3 q² - 2 q³. With more threads it is steeper. The
/// steepest slope that the points allow gives the share.
fn by_slope(waits: &[(Timestamp, Timestamp)]) -> f64 {
    let points: Vec<(f64, f64)> = left_of_last(waits);
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (left, length) = (mean(|point| point.0), mean(|point| point.1));
    let squares: f64 = points.iter().map(|point| (point.0 - left).powi(2)).sum();
    if squares <= 0.0 {
        return 1.0;
    }
    let slope = points.iter().map(|point| (point.0 - left) * (point.1 - length)).sum::<f64>() / squares;
    let residue = |point: &(f64, f64)| (point.1 - length - slope * (point.0 - left)).powi(2);
    let error = (points.iter().map(residue).sum::<f64>() / (count - 2.0) / squares).sqrt();
    let slope = (slope + SURE * error).clamp(0.0, 1.0);
    0.5 - ((1.0 - 2.0 * slope).asin() / 3.0).sin()
}

/// For each wait: the previous request's remaining wait at its start, and its own length (ns).
fn left_of_last(waits: &[(Timestamp, Timestamp)]) -> Vec<(f64, f64)> {
    let mut asked: Vec<Timestamp> = Vec::new();
    let mut points = Vec::with_capacity(waits.len());
    for (from, to) in waits {
        // A finished wait never returns, so each is removed once.
        asked.retain(|end| end > from);
        let left = asked.last().map_or(0, |end| end.since(*from).0);
        points.push((left as f64, to.since(*from).0 as f64));
        asked.push(*to);
    }
    points
}

/// A low quantile of the times between two responses (ns).
fn by_gaps(waits: &[(Timestamp, Timestamp)]) -> f64 {
    let mut ends: Vec<Timestamp> = waits.iter().map(|(_, to)| *to).collect();
    ends.sort_unstable();
    let mut gaps: Vec<u64> = ends.windows(2).map(|pair| pair[1].since(pair[0]).0).collect();
    gaps.sort_unstable();
    gaps.get((gaps.len() as f64 * SHORT_GAPS) as usize).map_or(f64::INFINITY, |gap| *gap as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three threads that send a request again as soon as they get a response. `answer(at, free)` returns the
    /// response time for a request at `at`, if the server has finished all earlier ones at `free`.
    fn asked(answer: impl Fn(u64, u64, u64) -> u64) -> Vec<(Timestamp, Timestamp)> {
        let mut at = [0, 400, 900];
        let (mut waits, mut free) = (Vec::new(), 0);
        for number in 0..300u64 {
            let who = (0..at.len()).min_by_key(|who| at[*who]).unwrap();
            let to = answer(at[who], free, 1000 + number * 7919 % 500);
            waits.push((Timestamp(at[who]), Timestamp(to)));
            free = free.max(to);
            at[who] = to + 10;
        }
        waits
    }

    #[test]
    fn a_server_that_takes_any_number_has_little_that_is_exclusive() {
        let part = exclusive_part(asked(|at, _, ns| at + ns));
        assert!(part < 0.4, "{part}");
    }

    #[test]
    fn a_serial_server_is_detected_by_the_waits_of_its_clients() {
        let part = exclusive_part(asked(|at, free, ns| at.max(free) + ns));
        assert!(part > 0.9, "{part}");
        // With a constant service time, all waits have the same length. The times between responses then
        // decide.
        let part = exclusive_part(asked(|at, free, _| at.max(free) + 1000));
        assert!(part > 0.3, "{part}");
    }

    #[test]
    fn spurious_wakeups_do_not_make_a_server_serial() {
        let mut waits = asked(|at, _, ns| at + ns);
        let alone = exclusive_part(waits.clone());
        // Some threads are woken in vain just after a request, while another thread has a long wait.
        let looks: Vec<_> = waits.iter().step_by(4).map(|(from, _)| (*from, Timestamp(from.0 + 4))).collect();
        waits.extend(looks);
        let part = exclusive_part(waits);
        assert!((part - alone).abs() < 0.05, "{part} {alone}");
        // A serial server is still recognized.
        let mut waits = asked(|at, free, ns| at.max(free) + ns);
        waits.push((Timestamp(5), Timestamp(9)));
        assert!(exclusive_part(waits) > 0.9);
    }

    #[test]
    fn few_waits_give_no_estimate() {
        let few = asked(|at, _, ns| at + ns).into_iter().take(WAITS_MIN - 1).collect();
        assert_eq!(exclusive_part(few), 1.0);
    }
}
