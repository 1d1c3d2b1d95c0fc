//! What the code, threads and lock words of language runtimes and libraries are for: one TOML file a runtime, in
//! the order in which they are asked. A rule says by what it is recognised (the innermost function, any function on
//! the stack, the binary, the futex word's symbol, the thread's name) and which role that has. The first rule that
//! matches decides. A new runtime is one new file and one word in the list below; users add their own files.
//!
//! Nothing here looks at a recording: `derive/roles.rs` does.

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
pub use task_wait::{TaskProbe, TaskWaits};

/// What a piece of a runtime's code, or a wait inside it, is for.
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
    /// Chooses what runs next, or looks for it.
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
    /// Makes a connection: finds out who the peer is, and agrees on keys.
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

    /// The class of a wait in this role, if it is another than what the kernel's `reason` tells.
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
    /// Of a thread that runs.
    Cpu,
    /// Of a thread that is blocked.
    Off,
    /// Of a thread that wakes another: it tells what the woken one, or a task that it now runs, waited for.
    Waker,
    /// Of a thread in a loop that only waits, as the loop's instructions tell: what it waits for there.
    Spin,
    /// Of both.
    #[default]
    Any,
}

/// One rule. It matches if one of its patterns of the stack does, or one of the futex word, and, if names of
/// threads are given, one of those too. In all patterns `*` stands for anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it means.
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
    /// Of blocked threads: the functions are those that such threads are started with, and do nothing else in.
    pub start: bool,
    /// Of a wait for work: the thread is one of a pool, and has nothing to do.
    pub idle: bool,
    /// Of a wait for work: a task is bound to the thread, which waits until that task may go on.
    pub bound: bool,
    /// Of a thread of the runtime's own: what threads in a call have (a processor for tasks) it hands to others.
    pub hands_over: bool,
    /// Of a lock: what it is called; empty if nothing is to be said.
    pub lock: String,
    /// All such waits of a process are for one lock, whatever word they wait on.
    pub one_lock: bool,
    /// They are so of one lock for each class of the program's own functions that take it.
    pub by_class: bool,
    /// Of a lock whose waiters wait on several words: they lie within so many bytes; else 0.
    pub lock_bytes: u64,
    /// Processes that one started share it: it lies in memory that they share.
    pub shared: bool,
    /// Of a lock, on a CPU: the function is called only where somebody waits for the lock.
    pub contended: bool,
    /// Of a lock whose functions wait for other things, too: it holds where those who end the waits on a word have waited
    /// for that word themselves.
    pub handed_on: bool,
    /// It does not hold of a wait by FUTEX_WAIT on a word that says "locked, with waiters": the function takes a lock, too.
    pub unless_locked: bool,
    /// For people: what it is, a few words; may be empty.
    pub what: String,
    /// What makes it less, as advice; may be empty.
    pub advice: String,
}

impl Rule {
    /// It asks about the stack.
    pub fn reads_stack(&self) -> bool {
        [&self.leaf, &self.any, &self.leaf_module, &self.leaf_nameless, &self.module]
            .iter()
            .any(|list| !list.is_empty())
    }

    /// What tells it from its neighbours, for people: its first pattern.
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

/// A span that probes tell, of a runtime that does not tell it itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanProbe {
    /// What it is called.
    pub name: String,
    /// What its time is.
    pub kind: SpanKind,
    /// It begins where the first of these that the binary has is entered: a function as [`plain_name`] gives it, or
    /// `usdt:PROVIDER:NAME`.
    pub entry: Vec<String>,
    /// It ends for all threads of the process where the first of these is entered; if none is named, for its thread where the
    /// function that began it returns.
    pub end: Vec<String>,
    /// It has no length: only that its entry was passed is told.
    pub is_mark: bool,
    /// Of a mark: only calls with such arguments are told.
    pub when: Option<Condition>,
    /// More hits in a second are too dear; 0: as many as the places' cost allows.
    pub per_second_max: u32,
}

/// A way in which a program asks for a collection of garbage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Functions, of which one is on the stack.
    pub any: Vec<String>,
    /// What to do about it.
    pub advice: String,
}

/// Work whose name says little to who did not write it, and which is often more than is needed; or code that should not wait, or
/// that a pool of threads would not run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownWork {
    /// Functions, of which one is on the stack.
    pub any: Vec<String>,
    /// What it is, as in "In 40 % of the work …", or of the waiting.
    pub what: String,
    /// What makes it less.
    pub advice: String,
}

impl KnownWork {
    /// Its functions' names have a package's or a namespace's in them, and nobody else's are called so. A plain name of C
    /// (`compile_file`, `regexec`) may be any program's.
    pub fn says_whose(&self) -> bool {
        self.any.iter().all(|pattern| pattern.contains("::") || pattern.contains('.'))
    }
}

/// How tasks sleep that a runtime carries on its threads: their thread does not, and its waits show no task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sleeps {
    /// Functions through which a task sleeps.
    pub by: Vec<String>,
    /// Functions of which none is on the stack: what they set a clock for is meant to come before.
    pub unless: Vec<String>,
    /// How finely its clock ticks (ns); 0: as the kernel's.
    pub tick_ns: u64,
}

/// One runtime or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Kebab-case id, for ever.
    pub name: String,
    /// For people.
    pub title: String,
    /// What makes its collector run less often, as advice; may be empty.
    pub fewer_collections: String,
    /// What gives it as many threads as there are CPUs, as advice; may be empty.
    pub fewer_threads: String,
    /// What keeps it from ending its threads and starting new ones again and again, as advice; may be empty.
    pub keeps_threads: String,
    /// Its threads carry tasks of its own, which may go on in another of them after each wait.
    pub carries_tasks: bool,
    /// Functions through which a thread that wants memory comes to collect; others of the runtime may lie between them and
    /// the program's own.
    pub collects_for_memory: Vec<String>,
    /// Functions by which a program asks for a collection, in the order in which they are looked for.
    pub requests: Vec<Request>,
    /// Work that is known for what it is.
    pub work: Vec<KnownWork>,
    /// Code that holds up more than its thread where it waits in a call.
    pub blocking: Vec<KnownWork>,
    /// What it builds up for each thread that a program starts, and takes down at its end.
    pub starting: Vec<KnownWork>,
    /// How a writer waits for a lock that lets readers in before it.
    pub writing: Vec<KnownWork>,
    /// What code that sleeps by the clock waits for.
    pub sleeping: Vec<KnownWork>,
    /// How its tasks sleep.
    pub sleeps: Sleeps,
    /// Functions whose instructions look like a loop that only waits, and that is hardly ever gone round: who is seen there works.
    pub works: Vec<String>,
    /// A function of this name in a binary: the runtime is in it.
    pub function_marks: Vec<String>,
    /// A mapped file of this name: the runtime is there.
    pub module_marks: Vec<String>,
    /// In the order in which they are asked.
    pub rules: Vec<Rule>,
    /// Spans that probes tell.
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

// Who builds upon another comes before it.
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

    /// Those that come with this library.
    pub fn built_in() -> Descriptors {
        static PARSED: LazyLock<Arc<Vec<Runtime>>> = LazyLock::new(|| {
            // Tests read each one; a broken file is left out rather than stop a report.
            Arc::new(BUILT_IN.iter().filter_map(|(_, text)| file::parse(text).ok()).collect())
        });
        Descriptors { runtimes: PARSED.clone() }
    }

    /// These, asked before the ones that are there; one of the same name replaces it.
    ///
    /// # Errors
    /// A text is no descriptor.
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
