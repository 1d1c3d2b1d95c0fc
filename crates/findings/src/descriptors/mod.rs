//! The roles of code, threads and lock words of language runtimes and libraries: one TOML file per runtime,
//! in the order of their precedence. A rule has patterns (the innermost function, any function on the stack,
//! the binary, the futex word's symbol, the thread's name) and a role. The first matching rule decides. A new
//! runtime is one new file and one word in the list below. Users add their own files.
//!
//! This module does not read recordings. `derive/roles.rs` applies the rules to them.

mod file;
mod pattern;
mod task_wait;

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use crate::derive::class::Class;
use holdup_events::WaitReason;
use holdup_events::condition::Condition;
use holdup_events::tables::SpanKind;

pub use file::DescriptorError;
pub use pattern::plain_name;
pub use task_wait::{TaskProbe, TaskWaits, TaskWakes, WakesByChannel};

/// The purpose of a runtime's code, or of a wait inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Collects garbage.
    GcWork,
    /// Waits until a collection begins, goes on or ends.
    GcWait,
    /// Looks again and again, on a CPU.
    Spin,
    /// Waits for something to do.
    WorkWait,
    /// Waits at a barrier, or for another thread's end.
    JoinWait,
    /// Waits for a lock.
    Lock,
    /// Selects the next task, or searches for one.
    Scheduler,
    /// Compiles the program while it runs.
    JitCompile,
    /// Hands out memory, or takes it back.
    Allocator,
    /// Serves timers.
    Timer,
    /// Waits for descriptors on behalf of others.
    IoPoll,
    /// Copies, fills or measures memory.
    Copy,
    /// Turns values into text, or text into values.
    Format,
    /// Packs values to hand them on (to another thread, a process, a file), or unpacks them.
    Encode,
    /// Sets up a connection: authenticates the peer, and negotiates keys.
    Handshake,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 15] = [
        Role::GcWork,
        Role::GcWait,
        Role::Spin,
        Role::WorkWait,
        Role::JoinWait,
        Role::Lock,
        Role::Scheduler,
        Role::JitCompile,
        Role::Allocator,
        Role::Timer,
        Role::IoPoll,
        Role::Copy,
        Role::Format,
        Role::Encode,
        Role::Handshake,
    ];

    /// The stable name, as in descriptors and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Role::GcWork => "gc-work",
            Role::GcWait => "gc-wait",
            Role::Spin => "spin",
            Role::WorkWait => "work-wait",
            Role::JoinWait => "join-wait",
            Role::Lock => "lock",
            Role::Scheduler => "scheduler",
            Role::JitCompile => "jit-compile",
            Role::Allocator => "allocator",
            Role::Timer => "timer",
            Role::IoPoll => "io-poll",
            Role::Copy => "copy",
            Role::Format => "format",
            Role::Encode => "encode",
            Role::Handshake => "handshake",
        }
    }

    /// The class of user code that runs in this role, if it is not [`Class::Useful`].
    pub fn class_running(self) -> Option<Class> {
        match self {
            Role::GcWork => Some(Class::GcWork),
            // To wait on a CPU is to spin, whatever for.
            Role::GcWait | Role::Spin => Some(Class::Spin),
            _ => None,
        }
    }

    /// The class of a wait in this role, if it differs from the class of the kernel's `reason`.
    pub fn class_blocked(self, reason: WaitReason) -> Option<Class> {
        use WaitReason::*;
        let for_thread = matches!(reason, Lock | Park | Join | Barrier);
        // What the kernel knows for sure (a fault, the disk, a peer, a child) no runtime's code can change.
        if !for_thread
            && !matches!(reason, Multiplex | EventFd | Signal | Sleep | Pipe | IoUring | Ipc | Unknown)
        {
            return None;
        }
        match self {
            Role::GcWait => Some(Class::GcWait),
            Role::GcWork if for_thread => Some(Class::GcWait),
            Role::WorkWait | Role::IoPoll => Some(Class::WorkWait),
            Role::JoinWait => Some(Class::JoinWait),
            // No lock is a read of a pipe or of a ring: a function that takes one, such as fgets, waits for data there.
            Role::Lock if matches!(reason, Pipe | IoUring) => None,
            Role::Lock => Some(Class::LockWait),
            Role::Timer => Some(Class::Sleep),
            _ => None,
        }
    }
}

/// When a rule holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum On {
    /// A running thread.
    Cpu,
    /// A blocked thread.
    Off,
    /// A thread that wakes another one. It shows the reason of the wait of the woken thread, or of a task
    /// that this thread now runs.
    Waker,
    /// A thread in a loop that only waits, by the loop's instructions. The role is the reason of the wait.
    Spin,
    /// Of both.
    #[default]
    Any,
}

/// One rule. It matches if one of its patterns matches the stack, or the futex word. If it names threads, one
/// of these names must match too. In all patterns `*` matches any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The role of matching code or waits.
    pub role: Role,
    /// When it holds.
    pub on: On,
    /// Function of the innermost user frame (functions inlined there included), as [`plain_name`] gives it.
    pub leaf: Vec<String>,
    /// Function of any user frame.
    pub any: Vec<String>,
    /// If there are any: functions of which one must be on the stack, too.
    pub within: Vec<String>,
    /// File name of the innermost user frame's binary.
    pub leaf_module: Vec<String>,
    /// File name of the innermost user frame's binary, if no symbol names its function.
    pub leaf_nameless: Vec<String>,
    /// File name of any user frame's binary.
    pub module: Vec<String>,
    /// Symbol that holds the futex word.
    pub futex: Vec<String>,
    /// The thread's name.
    pub thread: Vec<String>,
    /// For blocked threads: the functions are start functions of such threads, which do nothing else.
    pub start: bool,
    /// For a wait for work: the thread is an idle thread of a pool.
    pub idle: bool,
    /// For a wait for work: a task is bound to the thread, which waits until the task may continue.
    pub bound: bool,
    /// For a thread of the runtime: it hands the resources of threads in a call (a processor for tasks) to
    /// other threads.
    pub hands_over: bool,
    /// For a lock: its name. May be empty.
    pub lock: String,
    /// All such waits of a process are for one lock, whatever word they wait on.
    pub one_lock: bool,
    /// With [`Rule::one_lock`]: one lock for each class of the program's own functions that take it.
    pub by_class: bool,
    /// For a lock whose waiters wait on several words: maximum distance of these words in bytes. Otherwise 0.
    pub lock_bytes: u64,
    /// Processes that one started share it: it lies in memory that they share.
    pub shared: bool,
    /// For a lock, on a CPU: the function is called only if a thread waits for the lock.
    pub contended: bool,
    /// For functions that wait for locks and other objects. The rule applies if the threads that end the
    /// waits on a word have waited for it too.
    pub handed_on: bool,
    /// The rule does not apply to a FUTEX_WAIT on a word with the value "locked, with waiters", because the
    /// function takes a lock too.
    pub unless_locked: bool,
    /// A short description for people. May be empty.
    pub what: String,
    /// Advice that reduces this time. May be empty.
    pub advice: String,
}

impl Rule {
    /// Whether the rule has patterns for the stack.
    pub fn reads_stack(&self) -> bool {
        [&self.leaf, &self.any, &self.leaf_module, &self.leaf_nameless, &self.module]
            .iter()
            .any(|list| !list.is_empty())
    }

    /// The rule's first pattern, for people, to distinguish it from the rules around it.
    pub fn mark(&self) -> String {
        let lists = [
            ("leaf", &self.leaf),
            ("any", &self.any),
            ("leaf_module", &self.leaf_module),
            ("leaf_nameless", &self.leaf_nameless),
            ("module", &self.module),
            ("futex", &self.futex),
            ("thread", &self.thread),
        ];
        let first = lists.iter().find(|(_, list)| !list.is_empty());
        let Some((key, list)) = first else { return String::new() };
        let more = lists.iter().map(|(_, list)| list.len()).sum::<usize>() - 1;
        let pattern = list.first().map_or("", String::as_str);
        if more == 0 { format!("{key} {pattern}") } else { format!("{key} {pattern} and {more} more") }
    }
}

/// A span that probes record, for a runtime that does not report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanProbe {
    /// Name of the span.
    pub name: String,
    /// The kind of its time.
    pub kind: SpanKind,
    /// The span begins at the entry of the first of these that the binary has: a function as [`plain_name`]
    /// returns it, or `usdt:PROVIDER:NAME`.
    pub entry: Vec<String>,
    /// The span ends for all threads of the process at the entry of the first of these. If empty, it ends for
    /// its thread when the entry function returns.
    pub end: Vec<String>,
    /// The span has no length. Only its entry is recorded.
    pub is_mark: bool,
    /// For a mark: only calls with matching arguments are recorded.
    pub when: Option<Condition>,
    /// Maximum number of hits per second, because more cost too much. 0: as many as the probes' overhead
    /// allows.
    pub per_second_max: u32,
}

/// A way in which a program asks for a collection of garbage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Functions, of which one is on the stack.
    pub any: Vec<String>,
    /// The action to try.
    pub advice: String,
}

/// Work whose name is not meaningful to users, and which is often unnecessary. Also code that should not
/// wait, or that a thread pool would not run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownWork {
    /// Functions, of which one is on the stack.
    pub any: Vec<String>,
    /// A description that fits "In 40 % of the work …", or "of the waiting".
    pub what: String,
    /// Advice that reduces this work.
    pub advice: String,
}

impl KnownWork {
    /// Whether all function names contain a package or a namespace, and so are unique. A plain C name
    /// (`compile_file`, `regexec`) may belong to any program.
    pub fn has_qualified_names(&self) -> bool {
        self.any.iter().all(|pattern| pattern.contains("::") || pattern.contains('.'))
    }
}

/// How tasks sleep that a runtime carries on its threads: their thread does not, and its waits show no task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sleeps {
    /// Functions through which a task sleeps.
    pub by: Vec<String>,
    /// Functions that must not be on the stack. They set a timer for an event that is expected to come
    /// earlier.
    pub unless: Vec<String>,
    /// Resolution of the runtime's clock (ns). 0: the kernel's resolution.
    pub tick_ns: u64,
}

/// One runtime or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Kebab-case id, for ever.
    pub name: String,
    /// For people.
    pub title: String,
    /// Advice on fewer collections. May be empty.
    pub fewer_collections: String,
    /// Advice on as many threads as CPUs. May be empty.
    pub fewer_threads: String,
    /// Advice on how to keep threads instead of ending and starting them repeatedly. May be empty.
    pub keeps_threads: String,
    /// Whether its threads carry tasks, which may continue on another thread after each wait.
    pub carries_tasks: bool,
    /// Functions through which a thread that allocates memory starts a collection. Other functions of the
    /// runtime may lie between them and the program's functions.
    pub collects_for_memory: Vec<String>,
    /// Functions by which a program asks for a collection, in the order in which they are looked for.
    pub requests: Vec<Request>,
    /// Work with a known purpose.
    pub work: Vec<KnownWork>,
    /// Code that holds up more than its thread where it waits in a call.
    pub blocking: Vec<KnownWork>,
    /// Code that runs at the start and the exit of each thread that a program starts.
    pub starting: Vec<KnownWork>,
    /// How a writer waits for a lock that lets readers in before it.
    pub writing: Vec<KnownWork>,
    /// Code that sleeps by the clock, and the event for which it waits.
    pub sleeping: Vec<KnownWork>,
    /// How its tasks sleep.
    pub sleeps: Sleeps,
    /// Functions whose instructions resemble a loop that only waits, but that rarely iterates. A thread
    /// sampled there works.
    pub works: Vec<String>,
    /// A function of this name in a binary: the runtime is in it.
    pub function_marks: Vec<String>,
    /// A mapped file of this name: the runtime is there.
    pub module_marks: Vec<String>,
    /// In the order in which they are asked.
    pub rules: Vec<Rule>,
    /// Spans that probes record.
    pub spans: Vec<SpanProbe>,
    /// Where its tasks wait for locks.
    pub task_waits: Option<TaskProbe>,
}

/// Runtimes in the order in which they are asked: the particular before the general.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptors {
    runtimes: Arc<Vec<Runtime>>,
}

/// A rule's place among all rules of all runtimes: the lowest that matches decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u16);

macro_rules! descriptors {
    ($($name:literal,)*) => {
        static BUILT_IN: &[(&str, &str)] = &[$(($name, include_str!(concat!("builtin/", $name, ".toml"))),)*];
    };
}

// A runtime that is built upon another one comes before it.
descriptors! {
    "rayon",
    "tokio",
    "ocaml5",
    "ocaml4",
    "go",
    "hotspot",
    "ghc",
    "beam",
    "cpython",
    "postgresql",
    "php",
    "mysql",
    "ruby",
    "sqlite",
    "v8",
    "libgomp",
    "libomp",
    "tbb",
    "openblas",
    "rust-std",
    "zig",
    "cxx",
    "abseil",
    "openssl",
    "gnutls",
    "pcre2",
    "libgcc",
    "jemalloc",
    "tcmalloc",
    "musl",
    "glibc",
}

impl Default for Descriptors {
    fn default() -> Descriptors {
        Descriptors::built_in()
    }
}

impl Descriptors {
    /// No runtime at all.
    pub fn none() -> Descriptors {
        Descriptors { runtimes: Arc::default() }
    }

    /// The descriptors of this library.
    pub fn built_in() -> Descriptors {
        static PARSED: LazyLock<Arc<Vec<Runtime>>> = LazyLock::new(|| {
            // Tests parse each file. A broken file is left out, so that the report still works.
            Arc::new(BUILT_IN.iter().filter_map(|(_, text)| file::parse(text).ok()).collect())
        });
        Descriptors { runtimes: PARSED.clone() }
    }

    /// Adds the descriptors `texts`, with precedence over the existing ones. A descriptor replaces an
    /// existing one of the same name.
    ///
    /// # Errors
    /// A text is no valid descriptor.
    pub fn with(self, texts: &[String]) -> Result<Descriptors, DescriptorError> {
        let mut runtimes = texts.iter().map(|text| file::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<String> = runtimes.iter().map(|runtime| runtime.name.clone()).collect();
        runtimes.extend(self.runtimes.iter().filter(|runtime| !names.contains(&runtime.name)).cloned());
        if runtimes.iter().map(|runtime| runtime.rules.len()).sum::<usize>() >= usize::from(u16::MAX) - 1 {
            return Err(DescriptorError::TooMany);
        }
        Ok(Descriptors { runtimes: Arc::new(runtimes) })
    }

    /// Every runtime, in the order in which they are asked.
    pub fn runtimes(&self) -> &[Runtime] {
        &self.runtimes
    }

    /// Every rule with its runtime (a row of [`Descriptors::runtimes`]) in the order of [`RuleId`].
    pub fn rules(&self) -> impl Iterator<Item = (usize, &Rule)> {
        self.runtimes
            .iter()
            .enumerate()
            .flat_map(|(row, runtime)| runtime.rules.iter().map(move |rule| (row, rule)))
    }

    /// A rule with its runtime.
    pub fn rule(&self, id: RuleId) -> Option<(&Runtime, &Rule)> {
        let mut row = usize::from(id.0);
        for runtime in self.runtimes.iter() {
            match runtime.rules.get(row) {
                Some(rule) => return Some((runtime, rule)),
                None => row -= runtime.rules.len(),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
