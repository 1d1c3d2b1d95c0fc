//! Whether two groups of runs differ, and by how much. If that is not clear, the number of runs that would
//! decide it.
//!
//! Runs are compared as logarithms, so a change is a factor. They are compared in pairs if each round has a
//! run of both, so that slow drift affects both equally. The centre is a mean without a fifth of the values
//! at each end, because disturbances on a shared machine make outliers. The interval is a percentile
//! bootstrap, widened for small samples to cover like Student's t. Source: Hesterberg 2015, *What Teachers
//! Should Know About the Bootstrap*, "expanded percentile". Below [`BOOTSTRAP_MIN`] runs there are too few values
//! to resample, and the interval is Student's.

use super::distributions::{normal_tail, student_quantile, student_tails};
use super::random::Random;
use crate::derive::split::ERRORS_95;

/// Minimum number of runs for a bootstrap interval. Below it, the interval is Student's.
pub const BOOTSTRAP_MIN: usize = 8;
/// Minimum number of values for a trimmed mean.
const TRIM_MIN: usize = 5;
/// The chance with which a difference that matters is to be found.
const POWER_TAIL: f64 = 0.2;
/// Maximum number of runs that are made without an explicit request. Beyond it, the machine is too noisy for
/// the question.
pub const RUNS_MAX: u32 = 1000;

/// Parameters of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// From which resampling takes its randomness.
    pub seed: u64,
    /// The smallest relative change that matters.
    pub matters: f64,
    /// The probability of reporting a difference that does not exist.
    pub risk: f64,
    /// A greater value is better.
    pub more_is_better: bool,
    /// How many times a sample is resampled.
    pub resamples: usize,
    /// Share of a sample that is left out at each end.
    pub trimmed: f64,
}

impl Default for Question {
    fn default() -> Question {
        Question { seed: 0, matters: 0.03, risk: 0.05, more_is_better: false, resamples: 4000, trimmed: 0.2 }
    }
}

/// The verdict on B against A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// B is better.
    Faster,
    /// B is worse.
    Slower,
    /// The difference is smaller than the smallest change that matters.
    Same,
    /// Neither a difference nor its absence is shown.
    Unclear,
}

impl Verdict {
    /// The stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "no-difference",
            Verdict::Unclear => "cannot-tell",
        }
    }
}

/// B against A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Runs (or pairs of runs) compared.
    pub runs: usize,
    /// Mean of A, in its own unit.
    pub a: f64,
    /// Mean of B.
    pub b: f64,
    /// Relative change, 0 being none.
    pub relative: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The chance of a change as great if there were none.
    pub p: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// Number of runs of each, in total, that would find the smallest change that matters in four cases of
    /// five. `None` if there are too few runs to estimate it. May exceed [`RUNS_MAX`].
    pub runs_wanted: Option<u32>,
    /// The smallest relative change that as many runs as there are would find in four cases of five.
    pub finds: Option<f64>,
}

impl Change {
    /// [`Change::runs_wanted`], if they are not too many to be made unasked.
    pub fn runs_to_make(&self) -> Option<u32> {
        self.runs_wanted.filter(|wanted| *wanted <= RUNS_MAX)
    }

    /// Whether the required number of runs exceeds [`RUNS_MAX`].
    pub fn is_beyond_reach(&self) -> bool {
        self.runs_wanted.is_some_and(|wanted| wanted > RUNS_MAX)
    }
}

/// An estimate of the centre of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The centre.
    pub centre: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// One standard error.
    pub error: f64,
    /// Degrees of freedom of the error.
    pub freedom: f64,
    /// The chance of a centre as far from 0 if it were 0.
    pub p: f64,
}

impl Estimate {
    /// An estimate with a known half width of the 95 % interval.
    pub fn within(centre: f64, half: f64) -> Estimate {
        let (error, freedom) = (half / ERRORS_95, f64::from(u16::MAX));
        Estimate {
            centre,
            low: centre - half,
            high: centre + half,
            error,
            freedom,
            p: p(centre, error, freedom),
        }
    }

    /// The smallest distance of the centre from 0 that a sample like this would find in four cases of five. A
    /// sample with rare disturbances has an interval wider than its scatter. The interval is used, because it
    /// decides the verdict.
    fn reach(&self, risk: f64) -> f64 {
        let quantile = student_quantile(risk / 2.0, self.freedom);
        let error = self.error.max((self.high - self.low) / 2.0 / quantile);
        (quantile + student_quantile(POWER_TAIL, self.freedom)) * error
    }

    /// Sets the interval to the quantiles of the resampled centres. The tail is smaller by the factor by
    /// which a sample of `runs` understates its scatter. A tail beyond the resamples is unknown. Then the
    /// wider one of this interval and Student's is used: this occurs with many intervals at small risk.
    fn bounded_by(&mut self, mut draws: Vec<f64>, runs: usize, risk: f64) {
        draws.sort_unstable_by(f64::total_cmp);
        let runs = runs as f64;
        let tail = normal_tail(student_quantile(risk / 2.0, self.freedom) * (runs / (runs - 1.0)).sqrt());
        let beyond = tail * draws.len() as f64;
        let last = draws.len() - 1;
        let cut = (beyond.floor() as usize).min(last / 2);
        let (low, high) = (draws[cut], draws[last - cut]);
        (self.low, self.high) = match beyond < 1.0 {
            true => (self.low.min(low), self.high.max(high)),
            false => (low, high),
        };
    }
}

/// Runs made in rounds: one of each setting per round.
pub fn paired(pairs: &[(f64, f64)], question: &Question) -> Change {
    let logs: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
    let means = (mean(pairs.iter().map(|pair| pair.0)), mean(pairs.iter().map(|pair| pair.1)));
    change(centre(&logs, question), pairs.len(), means, question)
}

/// Runs that have nothing to do with each other.
pub fn unpaired(a: &[f64], b: &[f64], question: &Question) -> Change {
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let means = (mean(a.iter().copied()), mean(b.iter().copied()));
    let estimate = two_centres(&logs(a), &logs(b), question);
    change(estimate, a.len().min(b.len()), means, question)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

fn change(estimate: Option<Estimate>, runs: usize, (a, b): (f64, f64), question: &Question) -> Change {
    let Some(found) = estimate else {
        let relative = if a > 0.0 && b > 0.0 { b / a - 1.0 } else { 0.0 };
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        return Change {
            runs,
            a,
            b,
            relative,
            low,
            high,
            p: 1.0,
            verdict: Verdict::Unclear,
            runs_wanted: None,
            finds: None,
        };
    };
    let (low, high) = (found.low.exp_m1(), found.high.exp_m1());
    let verdict = match (found.low > 0.0, found.high < 0.0) {
        (true, _) if question.more_is_better => Verdict::Faster,
        (true, _) => Verdict::Slower,
        (_, true) if question.more_is_better => Verdict::Slower,
        (_, true) => Verdict::Faster,
        _ if low >= -question.matters && high <= question.matters => Verdict::Same,
        _ => Verdict::Unclear,
    };
    let reach = found.reach(question.risk);
    Change {
        runs,
        a,
        b,
        relative: found.centre.exp_m1(),
        low,
        high,
        p: found.p,
        verdict,
        runs_wanted: Some(runs_to_find(&found, runs, (question.matters.max(1e-6).ln_1p(), question.risk))),
        finds: Some(reach.exp_m1()).filter(|share| share.is_finite()),
    }
}

/// Number of runs that would find a change of the centre by `effect` with probability 0.8, if `runs` gave
/// this estimate. Source: Stein, with the quantiles of the scatter's degrees of freedom. So a scatter that
/// was underestimated by chance does not reduce the power.
pub fn runs_to_find(found: &Estimate, runs: usize, (effect, risk): (f64, f64)) -> u32 {
    let wanted = (found.reach(risk) / effect).powi(2) * runs as f64;
    (wanted.ceil() as u32).max(BOOTSTRAP_MIN as u32)
}

/// The centre of a sample. `None` with fewer than two values.
pub fn centre(values: &[f64], question: &Question) -> Option<Estimate> {
    let (middle, error, freedom) = trimmed(values, question.trimmed)?;
    let mut found = estimated(middle, error, freedom, question);
    if values.len() >= BOOTSTRAP_MIN {
        let mut random = Random::new(question.seed);
        let mut resample = vec![0.0; values.len()];
        let draws = (0..question.resamples).map(|_| {
            draw(values, &mut random, &mut resample);
            trimmed_mean(&mut resample, question.trimmed)
        });
        found.bounded_by(draws.collect(), values.len(), question.risk);
    }
    Some(found)
}

/// The difference of the centres of two samples. `None` if one of them has fewer than two values.
pub fn two_centres(a: &[f64], b: &[f64], question: &Question) -> Option<Estimate> {
    let ((centre_a, error_a, freedom_a), (centre_b, error_b, freedom_b)) =
        (trimmed(a, question.trimmed)?, trimmed(b, question.trimmed)?);
    let (middle, error) = (centre_b - centre_a, error_a.hypot(error_b));
    let parts = error_a.powi(4) / freedom_a + error_b.powi(4) / freedom_b;
    let freedom = if parts > 0.0 { (error.powi(4) / parts).max(1.0) } else { freedom_a.min(freedom_b) };
    let mut found = estimated(middle, error, freedom, question);
    if a.len().min(b.len()) >= BOOTSTRAP_MIN {
        let mut random = Random::new(question.seed);
        let (mut of_a, mut of_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
        let draws = (0..question.resamples).map(|_| {
            draw(a, &mut random, &mut of_a);
            draw(b, &mut random, &mut of_b);
            trimmed_mean(&mut of_b, question.trimmed) - trimmed_mean(&mut of_a, question.trimmed)
        });
        found.bounded_by(draws.collect(), a.len().min(b.len()), question.risk);
    }
    Some(found)
}

/// By Student's distribution.
fn estimated(centre: f64, error: f64, freedom: f64, question: &Question) -> Estimate {
    let reach = student_quantile(question.risk / 2.0, freedom);
    Estimate {
        centre,
        low: centre - reach * error,
        high: centre + reach * error,
        error,
        freedom,
        p: p(centre, error, freedom),
    }
}

fn p(centre: f64, error: f64, freedom: f64) -> f64 {
    if centre == 0.0 { 1.0 } else { student_tails(centre / error, freedom) }
}

fn draw(from: &[f64], random: &mut Random, to: &mut [f64]) {
    for slot in to {
        *slot = from[random.below(from.len())];
    }
}

/// How many values are left out at each end.
fn left_out(count: usize, share: f64) -> usize {
    if count < TRIM_MIN { 0 } else { (share * count as f64) as usize }
}

/// Trimmed mean, its standard error (from the winsorised variance: Tukey and McLaughlin 1963), degrees of freedom.
fn trimmed(values: &[f64], share: f64) -> Option<(f64, f64, f64)> {
    if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = trimmed_mean(&mut sorted, share);
    let (count, out) = (sorted.len(), left_out(sorted.len(), share));
    let kept = (count - 2 * out) as f64;
    let (lowest, highest) = (sorted[out], sorted[count - 1 - out]);
    let clamped = || sorted.iter().map(|value| value.clamp(lowest, highest));
    let mean = clamped().sum::<f64>() / count as f64;
    let squares: f64 = clamped().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / (kept * (kept - 1.0))).sqrt();
    Some((middle, error, kept - 1.0))
}

/// Sorts `values` and takes the mean of those in the middle.
fn trimmed_mean(values: &mut [f64], share: f64) -> f64 {
    if share > 0.0 {
        values.sort_unstable_by(f64::total_cmp);
    }
    let out = left_out(values.len(), share);
    let kept = &values[out..values.len() - out];
    kept.iter().sum::<f64>() / kept.len() as f64
}
