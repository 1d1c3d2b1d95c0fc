//! # syscall-storm: CPU time is spent in many small syscalls
//!
//! ## Symptoms
//! On-CPU samples inside syscalls, by syscall. Samples of many short calls alternate with others. Samples of
//! a few long calls come in runs. If calls were counted (exactly, in short windows): their rate, and the time
//! of one call.
//!
//! ## Why it hurts
//! Each call pays for entry to and exit from the kernel, for its checks and its locks, whatever amount of
//! data it moves. A call for one byte costs about as much as a call for a page.
//!
//! ## How it decides
//! It needs 200 samples. At least a fifth of the running time must be inside syscalls even at the lower end
//! of the share's 95 % interval. Then it excludes calls that are few and long. If the costliest syscall was
//! counted, the mean time of a call is its CPU time (sampled) over its calls. A call of less than 5 µs on
//! average is short, at 95 % confidence. With a longer one there is no finding. Without a count, there is no
//! finding if samples inside a syscall follow each other much more often than by chance. There is none either
//! if most samples are in the kernel's routines that copy and clear memory. The upper bound of the gain
//! removes all this time. The lower bound is the share of the samples in the kernel's entry and exit code, if
//! its names are known, otherwise 0.
//!
//! Messages do not benefit from a buffer. If most of the costliest calls are on sockets or on a service's
//! descriptors, with as many messages received as sent, there is no finding.
//!
//! For io_uring's `io_uring_enter` it reports the number of requests per call, and with `--syscalls` their
//! kinds and times.
//!
//! If tiny-io, retry-storm or status-poll identifies the reason for the calls, that rule reports it.
//!
//! ## What to do
//! Move more data with each call: buffer reads and writes, `readv`/`writev`, `sendmmsg`, io_uring. Cache
//! constant values (time, pid, file status) instead of querying them again.
//!
//! ## Blind spots
//! Calls may be uncounted (`--budget 0`, the backends `perf` and `proc`, runs of less than a second). Then
//! some long calls look like a storm if the kernel's function names are missing. They are shorter than the
//! sampling interval but long enough to be worth their entry, for example a read of a megabyte. A program
//! that only makes one syscall is judged by the kernel's function names alone.
//!
//! ## References
//! Soares, Stumm: FlexSC (OSDI 2010). Wald, Wolfowitz: On a test whether two samples are from the same
//! population (1940).

use holdup_events::tables::{FrameKind, SampleRow};

use super::{retry_storm, status_poll, temporary_file_per_item, tiny_io};
use crate::derive::exchanges;
use crate::derive::split::share_error;
use crate::derive::syscall_names::IO_URING_ENTER;
use crate::derive::syscalls::SyscallUse;
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::removal::{Removal, calls};
use crate::rings;
use crate::rule::{Cause, ChargedVerdict, Estimate, Info, Rule, Verdict, uncharged};
use crate::scene::{EVIDENCE_MAX, Scene};
use crate::wording::{count, error_name, percent, rounded, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    ..Info::new("syscall-storm", "Much of the CPU time is spent in many small syscalls")
};

/// Fewer samples cannot place a share of a fifth to better than six points.
const SAMPLES_MIN: u64 = 200;

/// Shares below are ordinary for programs that do I/O.
const SHARE_MIN: f64 = 0.2;

/// Less than this part of the expected alternations means runs: long calls.
const ALTERNATION_MIN: f64 = 0.5;

/// Minimum number of expected alternations for a judgement.
const ALTERNATIONS_ENOUGH: f64 = 5.0;

/// Minimum number of samples with names for a judgement by names.
const NAMED_ENOUGH: u64 = 30;

/// Bulk work in this share of the named samples means that the size of the calls costs, not their number.
const BULK_MAX: f64 = 0.5;

/// Entry and exit code in this share of the named samples shows many calls.
const ENTRY_MIN: f64 = 0.02;

/// Entering and leaving the kernel takes 0.1 to 1 µs, by the machine's mitigations: of longer calls it is the lesser
/// part (ns).
const SHORT_NS: f64 = 5_000.0;

/// x86-64's number of futex(2).
const FUTEX: i32 = 202;
/// … and of sched_yield(2).
const SCHED_YIELD: i32 = 24;

/// Maximum share of the calls that are messages with requests and responses. A buffer does not reduce their
/// number.
const MESSAGES_MAX: f64 = 0.5;

/// x86-64's numbers of clone, fork, vfork, execve, exit, exit_group, execveat and clone3: calls that begin or
/// end a thread, a process or a program. A buffer does not reduce their number. subprocess-per-item and
/// thread-per-item judge them.
const BEGIN_OR_END: [i32; 8] = [56, 57, 58, 59, 60, 231, 322, 435];

/// Whether fewer of these calls are no remedy: lock-contention and spin-wait judge what waiting costs.
fn is_not_repeated(number: i32) -> bool {
    matches!(number, FUTEX | SCHED_YIELD) || BEGIN_OR_END.contains(&number)
}

pub(super) struct SyscallStorm;

impl Rule for SyscallStorm {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        calls::fewer_of_finding(cause)
    }
}

fn judge(scene: &Scene) -> Verdict {
    let pattern = Pattern::new(scene);
    if pattern.all == 0 {
        return Err("there are no on-CPU samples".to_owned());
    }
    if pattern.all < SAMPLES_MIN {
        return Ok(Vec::new());
    }
    let share = pattern.inside as f64 / pattern.all as f64;
    let error = share_error(pattern.inside, pattern.all);
    if share - error <= SHARE_MIN {
        return Ok(Vec::new());
    }
    let calls = || {
        scene
            .derived
            .syscalls
            .iter()
            .filter(|call| call.number >= 0 && !is_not_repeated(call.number) && call.samples > 0)
    };
    let mut ranked: Vec<&SyscallUse> = calls().collect();
    ranked.sort_by_key(|call| (std::cmp::Reverse(call.samples), call.number));
    let Some(worst) = ranked.first() else { return Ok(Vec::new()) };
    let told =
        [tiny_io::explains, retry_storm::explains, status_poll::explains, temporary_file_per_item::explains];
    if told.iter().any(|explains| explains(scene, worst.number)) {
        return Ok(Vec::new());
    }
    if exchanges::share(&scene.derived.calls, worst.number) >= MESSAGES_MAX {
        return Ok(Vec::new());
    }
    let short = short_by_count(worst);
    if !short.unwrap_or_else(|| pattern.many_calls()) {
        return Ok(Vec::new());
    }
    let failing = Failing::derive(scene, worst);
    let running = scene.derived.ledger.running_ns() as f64;
    let any_ran: u64 = scene.derived.parallelism.running_ns.iter().skip(1).sum();
    let any_ran = scene.of_wall(any_ran as f64);
    let high = ((share + error) * any_ran).clamp(0.0, 1.0);
    let sure = pattern.entry_share().is_some() || short == Some(true);
    Ok(vec![Finding {
        rule: INFO.name,
        about: About::Calls(worst.name),
        subject: worst.name.to_owned(),
        summary: [
            Some(format!(
                "{} ± {} of the running time is inside syscalls, mostly short ones ({}).",
                percent(share),
                percent(error),
                count(pattern.inside, "sample"),
            )),
            Some(format!("By CPU time: {}.", by_time(&ranked))),
            by_count(scene, worst),
            failing.map(|failing| failing.sentence(worst)),
            rings::requests_sentence(&scene.derived.calls, worst.number),
        ]
        .into_iter()
        .flatten()
        .collect(),
        cost_ns: (running * share) as u64,
        gain: Gain { low: (pattern.entry_share().unwrap_or(0.0) * any_ran).min(high), high },
        likely: None,
        confidence: scene.confidence(if sure { Confidence::High } else { Confidence::Medium }),
        evidence: evidence(scene, worst),
        advice: advice(worst, failing),
    }])
}

/// Minimum share of failing calls for failures to be reported as the calls' purpose.
const FAILING_MIN: f64 = 0.5;
/// An interrupted call, a descriptor that is not ready yet, a connection that is under way: these are no failures.
const NOT_FAILURES: [u64; 3] = [4, 11, 115];
/// x86-64's number of close(2).
const CLOSE: i32 = 3;

/// Calls of one syscall that fail, where most of them do.
#[derive(Clone, Copy)]
struct Failing {
    /// The part of the calls that were counted.
    share: f64,
    /// The error that most of them end with.
    error: u64,
}

impl Failing {
    /// None where calls were not counted, or where most of them succeed.
    fn derive(scene: &Scene, call: &SyscallUse) -> Option<Failing> {
        let counted = scene.derived.calls.by_syscall.iter().find(|used| used.syscall == call.number)?;
        let errors = counted.by_error.iter().filter(|(error, _)| !NOT_FAILURES.contains(error));
        let failed: u64 = errors.clone().map(|(_, times)| times).sum();
        let share = failed as f64 / counted.count.max(1) as f64;
        let (error, _) = errors.max_by_key(|(_, times)| *times)?;
        (share >= FAILING_MIN).then_some(Failing { share, error: *error })
    }

    fn sentence(self, call: &SyscallUse) -> String {
        format!(
            "{} of the counted {} calls fail, mostly with {}.",
            percent(self.share),
            call.name,
            error_name(self.error)
        )
    }
}

fn advice(worst: &SyscallUse, failing: Option<Failing>) -> Vec<String> {
    match (worst.number, failing) {
        (CLOSE, Some(_)) => vec![
            "Close only descriptors that are open: close_range(2), or open them with O_CLOEXEC".into(),
            "Or lower the limit of open files (ulimit -n) for the program that tries all of them".into(),
        ],
        (_, Some(failing)) => vec![format!(
            "Avoid the calls that fail with {}: check once, and remember the result",
            error_name(failing.error)
        )],
        (IO_URING_ENTER, None) => vec![
            "Submit more requests with each io_uring_enter, and reap their completions together".into(),
            ONCE.into(),
        ],
        (_, None) => {
            vec![format!("Do more per {}: buffer, or use a call for several items", worst.name), ONCE.into()]
        }
    }
}

/// Advice for any call that only queries.
const ONCE: &str = "Call once and cache the result while it does not change";

fn by_time(ranked: &[&SyscallUse]) -> String {
    let said =
        |call: &&SyscallUse| format!("{} {} ± {}", call.name, time(call.cpu_ns), time(call.cpu_error_ns));
    ranked.iter().take(3).map(said).collect::<Vec<_>>().join(", ")
}

/// Whether a call is short, by the counted calls. `None` if the counts do not decide.
fn short_by_count(call: &SyscallUse) -> Option<bool> {
    let each = call.call?;
    let (mean, margin) = (each.cpu_ns as f64, each.error_ns? as f64);
    if mean + margin < SHORT_NS {
        return Some(true);
    }
    // The number of calls is the denominator. With more calls by that margin, each would be shorter by the
    // same factor.
    (mean / (1.0 + margin / mean.max(1.0)) > SHORT_NS).then_some(false)
}

/// How often it is called, and what a call takes.
fn by_count(scene: &Scene, call: &SyscallUse) -> Option<String> {
    let (rate, each) = (call.rate?, call.call?);
    let error = |said: Option<String>| said.map_or_else(String::new, |error| format!(" ± {error}"));
    Some(format!(
        "{} is called {}{} times a second (counted in {}), {}{} of CPU time each.",
        call.name,
        rounded(rate.per_second),
        error(rate.error_per_second.map(rounded)),
        count(scene.derived.syscall_rates.windows, "short window"),
        time(each.cpu_ns),
        error(each.error_ns.map(time)),
    ))
}

fn evidence(scene: &Scene, worst: &SyscallUse) -> Vec<Evidence> {
    let samples = scene.trace.samples.iter();
    samples
        .filter(|sample| inside(sample) && sample.syscall == worst.number)
        .take(EVIDENCE_MAX)
        .map(|sample| Evidence {
            table: "samples",
            thread: sample.thread,
            start: sample.at,
            duration: holdup_events::Duration::ZERO,
            note: format!("in {}", worst.name),
        })
        .collect()
}

/// In a syscall that asks for work.
fn inside(sample: &SampleRow) -> bool {
    sample.in_kernel && sample.syscall >= 0 && !is_not_repeated(sample.syscall)
}

/// The order of the samples.
#[derive(Default)]
struct Pattern {
    all: u64,
    inside: u64,
    /// Neighbouring samples of a thread of which one is inside a syscall, one is not: seen, and by chance.
    alternations: u64,
    alternations_by_chance: f64,
    /// Samples inside syscalls with a known kernel function. Also those in bulk routines, and those in entry
    /// or exit code.
    named: u64,
    bulk: u64,
    entry: u64,
}

impl Pattern {
    fn new(scene: &Scene) -> Pattern {
        let mut pattern = Pattern::default();
        for samples in scene.trace.samples.chunk_by(|a, b| a.thread == b.thread) {
            let thread = scene.trace.threads.get(samples[0].thread.index());
            if thread.is_some_and(|thread| thread.target) {
                pattern.add_thread(scene, samples);
            }
        }
        pattern
    }

    fn add_thread(&mut self, scene: &Scene, samples: &[SampleRow]) {
        let hits = samples.iter().filter(|sample| inside(sample)).count();
        let share = hits as f64 / samples.len() as f64;
        self.all += samples.len() as u64;
        self.inside += hits as u64;
        self.alternations +=
            samples.windows(2).filter(|pair| inside(&pair[0]) != inside(&pair[1])).count() as u64;
        self.alternations_by_chance += 2.0 * share * (1.0 - share) * (samples.len() - 1) as f64;
        for sample in samples.iter().filter(|sample| inside(sample)) {
            let leaf = scene.trace.stack_frames(sample.stack).next();
            let Some(frame) = leaf.and_then(|id| scene.trace.frames.get(id.index())) else { continue };
            if frame.kind == FrameKind::Kernel && !frame.function.is_empty() {
                self.named += 1;
                self.bulk += u64::from(BULK.iter().any(|name| frame.function.contains(name)));
                self.entry += u64::from(ENTRY.iter().any(|name| frame.function.starts_with(name)));
            }
        }
    }

    /// Entry and exit code as a share of all samples, if there are enough names.
    fn entry_share(&self) -> Option<f64> {
        let enough = self.named >= NAMED_ENOUGH;
        enough.then(|| self.entry as f64 / self.named as f64 * self.inside as f64 / self.all as f64)
    }

    fn many_calls(&self) -> bool {
        if self.named >= NAMED_ENOUGH && self.bulk as f64 > BULK_MAX * self.named as f64 {
            return false;
        }
        if self.alternations_by_chance >= ALTERNATIONS_ENOUGH {
            return self.alternations as f64 >= ALTERNATION_MIN * self.alternations_by_chance;
        }
        self.named >= NAMED_ENOUGH && self.entry as f64 >= ENTRY_MIN * self.named as f64
    }
}

/// Kernel routines that move or clear memory: their time grows with the bytes, not with the calls.
const BULK: [&str; 7] =
    ["copy_user", "rep_movs", "_copy_to_iter", "_copy_from_iter", "copy_page", "clear_page", "rep_stos"];

/// Kernel code that each syscall passes on its way in and out.
const ENTRY: [&str; 6] = [
    "entry_SYSCALL",
    "do_syscall_64",
    "x64_sys_call",
    "syscall_enter_from_user_mode",
    "syscall_exit_to_user_mode",
    "syscall_return_via_sysret",
];
