//! Parses a descriptor, a TOML file, and checks its keys. docs/descriptors.md documents the keys for authors.

use serde::Deserialize;

use super::pattern::plain_name;
use holdup_events::condition::Condition;
use holdup_events::tables::SpanKind;

use super::task_wait::{self, TaskProbe};
use super::{KnownWork, On, Request, Role, Rule, Runtime, Sleeps, SpanProbe};

/// A text that is no descriptor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// The text is no valid TOML, or has unexpected keys.
    #[error("{0}")]
    Toml(String),
    /// The runtime's name is not such that reports could print it.
    #[error("runtime name `{0}`: use lower-case letters, digits and `-` only")]
    Name(String),
    /// No key detects the runtime.
    #[error("[runtime] needs `function` or `module`, which detect the runtime")]
    NoMark,
    /// A rule without anything to match.
    #[error("rule {0} matches nothing: give leaf, any, leaf_module, leaf_nameless, module, futex or thread")]
    Empty(usize),
    /// A function's name as it never is when rules are applied.
    #[error("{of}: `{pattern}` never matches: write `{plain}`")]
    NotPlain {
        /// Which rule or span.
        of: String,
        /// As written.
        pattern: String,
        /// As it should be.
        plain: String,
    },
    /// More than can be applied.
    #[error("more than {RULES_MAX} rules, or more than {SPANS_MAX} spans, requests or kinds of work")]
    TooMany,
    /// A span without a place where it begins.
    #[error("span `{0}` never begins: give entry")]
    NoEntry(String),
    /// A span whose `when` cannot be asked.
    #[error("span `{name}`: when: {reason}")]
    When {
        /// The span.
        name: String,
        /// Why.
        reason: String,
    },
    /// A register that there is not.
    #[error("[task_wait]: `{0}` is not a register: write rax or r14, for example")]
    Register(String),
    /// A span of a kind that there is not.
    #[error("span `{name}`: unknown kind `{kind}` (the kinds are {})", kinds())]
    SpanKind {
        /// The span.
        name: String,
        /// As written.
        kind: String,
    },
}

/// Rules of one file.
pub const RULES_MAX: usize = 1000;
/// Spans of one file.
pub const SPANS_MAX: usize = 32;

fn kinds() -> String {
    SpanKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    runtime: Head,
    #[serde(default)]
    rule: Vec<RuleEntry>,
    #[serde(default)]
    span: Vec<SpanEntry>,
    #[serde(default)]
    request: Vec<RequestEntry>,
    #[serde(default)]
    work: Vec<WorkEntry>,
    #[serde(default)]
    blocking: Vec<WorkEntry>,
    #[serde(default)]
    starting: Vec<WorkEntry>,
    #[serde(default)]
    writing: Vec<WorkEntry>,
    #[serde(default)]
    sleeping: Vec<WorkEntry>,
    sleep: Option<SleepEntry>,
    task_wait: Option<task_wait::Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    name: String,
    title: String,
    #[serde(default)]
    fewer_collections: String,
    #[serde(default)]
    fewer_threads: String,
    #[serde(default)]
    keeps_threads: String,
    #[serde(default)]
    carries_tasks: bool,
    #[serde(default)]
    collects_for_memory: Vec<String>,
    #[serde(default)]
    works: Vec<String>,
    #[serde(default)]
    function: Vec<String>,
    #[serde(default)]
    module: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    role: Role,
    #[serde(default)]
    on: On,
    #[serde(default)]
    leaf: Vec<String>,
    #[serde(default)]
    any: Vec<String>,
    #[serde(default)]
    within: Vec<String>,
    #[serde(default)]
    leaf_module: Vec<String>,
    #[serde(default)]
    leaf_nameless: Vec<String>,
    #[serde(default)]
    module: Vec<String>,
    #[serde(default)]
    futex: Vec<String>,
    #[serde(default)]
    thread: Vec<String>,
    #[serde(default)]
    start: bool,
    #[serde(default)]
    idle: bool,
    #[serde(default)]
    bound: bool,
    #[serde(default)]
    hands_over: bool,
    #[serde(default)]
    lock: String,
    #[serde(default)]
    one_lock: bool,
    #[serde(default)]
    by_class: bool,
    #[serde(default)]
    lock_bytes: u64,
    #[serde(default)]
    shared: bool,
    #[serde(default)]
    contended: bool,
    #[serde(default)]
    handed_on: bool,
    #[serde(default)]
    unless_locked: bool,
    #[serde(default)]
    what: String,
    #[serde(default)]
    advice: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestEntry {
    any: Vec<String>,
    advice: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkEntry {
    any: Vec<String>,
    what: String,
    advice: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SleepEntry {
    by: Vec<String>,
    #[serde(default)]
    unless: Vec<String>,
    #[serde(default)]
    tick_ns: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpanEntry {
    name: String,
    kind: String,
    #[serde(default)]
    entry: Vec<String>,
    #[serde(default)]
    end: Vec<String>,
    #[serde(default)]
    mark: bool,
    #[serde(default)]
    when: Option<String>,
    #[serde(default)]
    per_second_max: u32,
}

/// Reads one.
pub(super) fn parse(text: &str) -> Result<Runtime, DescriptorError> {
    let file: File = toml::from_str(text).map_err(|error| DescriptorError::Toml(error.to_string()))?;
    let head = file.runtime;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if head.name.is_empty() || !head.name.bytes().all(fits) {
        return Err(DescriptorError::Name(head.name));
    }
    if head.function.is_empty() && head.module.is_empty() {
        return Err(DescriptorError::NoMark);
    }
    let known = [&file.work, &file.blocking, &file.starting, &file.writing, &file.sleeping]
        .map(Vec::len)
        .into_iter()
        .max()
        .unwrap_or(0);
    let most = file.span.len().max(file.request.len()).max(known);
    if file.rule.len() > RULES_MAX || most > SPANS_MAX {
        return Err(DescriptorError::TooMany);
    }
    let rules = file.rule.into_iter().enumerate().map(|(at, entry)| rule(at + 1, entry));
    Ok(Runtime {
        name: head.name,
        title: head.title,
        fewer_collections: head.fewer_collections,
        fewer_threads: head.fewer_threads,
        keeps_threads: head.keeps_threads,
        carries_tasks: head.carries_tasks,
        collects_for_memory: head.collects_for_memory,
        requests: file.request.into_iter().map(request).collect::<Result<_, _>>()?,
        work: file.work.into_iter().map(work).collect::<Result<_, _>>()?,
        blocking: file.blocking.into_iter().map(work).collect::<Result<_, _>>()?,
        starting: file.starting.into_iter().map(work).collect::<Result<_, _>>()?,
        writing: file.writing.into_iter().map(work).collect::<Result<_, _>>()?,
        sleeping: file.sleeping.into_iter().map(work).collect::<Result<_, _>>()?,
        sleeps: file.sleep.map_or_else(|| Ok(Sleeps::default()), sleeps)?,
        works: head.works,
        function_marks: head.function,
        module_marks: head.module,
        rules: rules.collect::<Result<_, _>>()?,
        spans: file.span.into_iter().map(span).collect::<Result<_, _>>()?,
        task_waits: file.task_wait.map(TaskProbe::read).transpose()?,
    })
}

fn request(RequestEntry { any, advice }: RequestEntry) -> Result<Request, DescriptorError> {
    all_plain("request", any.iter())?;
    Ok(Request { any, advice })
}

fn work(WorkEntry { any, what, advice }: WorkEntry) -> Result<KnownWork, DescriptorError> {
    all_plain("work", any.iter().filter(|pattern| !pattern.contains('*')))?;
    Ok(KnownWork { any, what, advice })
}

fn sleeps(SleepEntry { by, unless, tick_ns }: SleepEntry) -> Result<Sleeps, DescriptorError> {
    all_plain("sleep", by.iter().chain(&unless))?;
    Ok(Sleeps { by, unless, tick_ns })
}

fn span(entry: SpanEntry) -> Result<SpanProbe, DescriptorError> {
    let SpanEntry { name, kind, entry, end, mark: is_mark, when, per_second_max } = entry;
    if name.is_empty() || entry.is_empty() {
        return Err(DescriptorError::NoEntry(name));
    }
    let functions = entry.iter().chain(&end).filter(|name| !name.starts_with("usdt:"));
    all_plain(&format!("span `{name}`"), functions)?;
    let when = when.map(|text| condition(&text, is_mark, &entry)).transpose();
    let when = when.map_err(|reason| DescriptorError::When { name: name.clone(), reason })?;
    match SpanKind::ALL.iter().find(|known| known.name() == kind) {
        Some(&kind) => Ok(SpanProbe { name, kind, entry, end, is_mark, when, per_second_max }),
        None => Err(DescriptorError::SpanKind { name, kind }),
    }
}

/// Parses the condition on the arguments at the entry of a mark's function.
fn condition(text: &str, is_mark: bool, entry: &[String]) -> Result<Condition, String> {
    if !is_mark {
        // The end of a call would be recorded without its begin.
        return Err("only a span with `mark = true` can have a condition".to_owned());
    }
    if entry.iter().any(|name| name.starts_with("usdt:")) {
        return Err(
            "a condition needs a function: the arguments of a probe (usdt:) have no fixed place".to_owned()
        );
    }
    Condition::parse(text)
}

fn rule(number: usize, entry: RuleEntry) -> Result<Rule, DescriptorError> {
    let rule = Rule {
        role: entry.role,
        on: entry.on,
        leaf: entry.leaf,
        any: entry.any,
        within: entry.within,
        leaf_module: entry.leaf_module,
        leaf_nameless: entry.leaf_nameless,
        module: entry.module,
        futex: entry.futex,
        thread: entry.thread,
        start: entry.start,
        idle: entry.idle,
        bound: entry.bound,
        hands_over: entry.hands_over,
        lock: entry.lock,
        one_lock: entry.one_lock || entry.by_class,
        by_class: entry.by_class,
        lock_bytes: entry.lock_bytes,
        shared: entry.shared,
        contended: entry.contended,
        handed_on: entry.handed_on,
        unless_locked: entry.unless_locked,
        what: entry.what,
        advice: entry.advice,
    };
    if !rule.reads_stack() && rule.futex.is_empty() && rule.thread.is_empty() {
        return Err(DescriptorError::Empty(number));
    }
    // A pattern with a star matches parts of names, so it need not be a plain name.
    let functions = rule.leaf.iter().chain(&rule.any).chain(&rule.within);
    let names = functions.filter(|pattern| !pattern.contains('*'));
    all_plain(&format!("rule {number}"), names)?;
    Ok(rule)
}

pub(super) fn all_plain<'a>(
    of: &str,
    mut names: impl Iterator<Item = &'a String>,
) -> Result<(), DescriptorError> {
    let not_plain = |pattern: &'a String| {
        let plain = plain_name(pattern);
        (plain != pattern.as_str()).then(|| (pattern.clone(), plain.into_owned()))
    };
    match names.find_map(not_plain) {
        Some((pattern, plain)) => Err(DescriptorError::NotPlain { of: of.to_owned(), pattern, plain }),
        None => Ok(()),
    }
}
