//! Where in the program a stack is: its first frame that is not of a library through which programs block.

use std::collections::{BTreeMap, HashMap, HashSet};

use holdup_events::tables::{ALLOCATION_LIBRARY, Frame, FrameKind, GENERATED_MODULE, PYTHON_MODULE, Slice};
use holdup_events::{FrameId, StackId, ThreadId, Trace};

use super::{parallel, standard_libraries};

/// For each frame, the frame that represents its function. `None` if the function is not part of the program.
pub struct OwnFrames {
    stands_for: Vec<Option<FrameId>>,
    /// Frames of a virtual machine or of the language's standard library. They count as the program's only on
    /// stacks without other frames, such as those of the machine's own threads.
    machines: Vec<bool>,
    /// Frames of packages that were built into the program, found by their source folder. Work is done in
    /// them, but rarely requested there.
    packages: Vec<bool>,
}

impl OwnFrames {
    /// Evaluates each frame of the trace once.
    pub fn new(trace: &Trace) -> OwnFrames {
        let mut first: HashMap<(&str, &str, u64), FrameId> = HashMap::new();
        let runtimes: HashSet<&str> = trace.frames.iter().filter_map(ocaml_runtime).collect();
        let stands_for = trace.frames.iter().enumerate().map(|(row, frame)| {
            if is_plumbing(frame) || folder(&frame.file).is_some_and(|folder| runtimes.contains(folder)) {
                return None;
            }
            // Without a name, the start address identifies the function. A named function may have several
            // starts (inlining).
            let start = frame.offset.wrapping_sub(frame.function_offset);
            let start = if frame.function.is_empty() { start } else { 0 };
            let key = (frame.module.as_str(), frame.function.as_str(), start);
            Some(*first.entry(key).or_insert(FrameId(row as u32)))
        });
        let stands_for = stands_for.collect();
        let packages = trace.frames.iter().map(|frame| is_of_a_package(&frame.file)).collect();
        OwnFrames { stands_for, machines: standard_libraries::frames(trace), packages }
    }

    /// The same as [`OwnFrames::nearest`], but a package's function only if there is no other.
    fn nearest_asked<Ids: Iterator<Item = FrameId>>(&self, stack: impl Fn() -> Ids) -> Option<FrameId> {
        let is_package = |id: &FrameId| self.packages.get(id.index()).copied().unwrap_or(false);
        let own = stack()
            .filter(|id| !self.is_of_a_machine(*id) && !is_package(id))
            .find_map(|id| self.own_frame(id));
        own.or_else(|| self.nearest(stack))
    }

    /// The program's function nearest to the leaf, as the frame that represents it.
    fn nearest<Ids: Iterator<Item = FrameId>>(&self, stack: impl Fn() -> Ids) -> Option<FrameId> {
        let own = stack().filter(|id| !self.is_of_a_machine(*id)).find_map(|id| self.own_frame(id));
        own.or_else(|| stack().find_map(|id| self.own_frame(id)))
    }

    /// The library function through which the program's own function waits or works on this stack. `None` if
    /// it does so itself.
    pub fn asked_through(&self, trace: &Trace, stack: StackId) -> Option<FrameId> {
        let own = self.nearest_asked(|| trace.stack_frames(stack))?;
        let of_library = trace.stack_frames(stack).take_while(|id| self.own_frame(*id) != Some(own));
        of_library.last()
    }

    /// Whether the frame belongs to a virtual machine or the language's standard library, below the program's
    /// own functions.
    pub fn is_of_a_machine(&self, frame: FrameId) -> bool {
        self.machines.get(frame.index()).copied().unwrap_or(false)
    }

    /// Frame that represents the function of `frame`. `None` if the function is not part of the program.
    pub fn own_frame(&self, frame: FrameId) -> Option<FrameId> {
        self.stands_for.get(frame.index()).copied().flatten()
    }
}

/// The place of each stack, remembered.
pub struct Places<'a> {
    trace: &'a Trace,
    own: &'a OwnFrames,
    of_stack: HashMap<StackId, Option<FrameId>>,
}

impl<'a> Places<'a> {
    /// An empty cache.
    pub fn new(trace: &'a Trace, own: &'a OwnFrames) -> Places<'a> {
        Places { trace, own, of_stack: HashMap::new() }
    }

    /// The program's function nearest to the leaf, as the frame that represents it.
    pub fn nearest_own(&mut self, stack: StackId) -> Option<FrameId> {
        if stack == StackId::NONE {
            return None;
        }
        let (trace, own) = (self.trace, self.own);
        *self.of_stack.entry(stack).or_insert_with(|| own.nearest(|| trace.stack_frames(stack)))
    }
}

/// Packages of Go's runtime.
const GO_RUNTIME: [&str; 2] = ["runtime.", "internal/runtime/"];

/// Functions of the program in which target threads wait, with their share of the wait time with a stack.
/// Largest first. A sampled stack counts with the inverse of its probability.
pub fn waits(trace: &Trace, matches: impl Fn(&Slice) -> bool + Sync) -> Vec<(String, f64)> {
    let own = OwnFrames::new(trace);
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let mut places: HashMap<StackId, Option<FrameId>> = HashMap::new();
        let mut place = |stack: StackId| {
            let nearest = |stack| own.nearest_asked(|| trace.stack_frames(stack));
            // Go's runtime waits on behalf of tasks whose stacks are not recorded.
            let is_runtimes = |id: &FrameId| {
                let function = trace.frames[id.index()].function.as_str();
                own.is_of_a_machine(*id) && GO_RUNTIME.iter().any(|start| function.starts_with(start))
            };
            let of = |stack| nearest(stack).filter(|frame| !is_runtimes(frame));
            if stack == StackId::NONE { None } else { *places.entry(stack).or_insert_with(|| of(stack)) }
        };
        let mut sums: BTreeMap<FrameId, u64> = BTreeMap::new();
        let targets = groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target);
        for slice in targets.flat_map(|thread| trace.slices.of_thread(thread)).filter(&matches) {
            if let Some(frame) = place(slice.stack) {
                *sums.entry(frame).or_default() += slice.duration().0 * u64::from(slice.stack_every.max(1));
            }
        }
        sums
    });
    let mut sums: BTreeMap<FrameId, u64> = BTreeMap::new();
    for (frame, ns) in parts.into_iter().flatten() {
        *sums.entry(frame).or_default() += ns;
    }
    let total = sums.values().sum::<u64>().max(1) as f64;
    let mut ranked: Vec<(FrameId, u64)> = sums.into_iter().collect();
    ranked.sort_by_key(|(frame, ns)| (std::cmp::Reverse(*ns), *frame));
    ranked.into_iter().map(|(frame, ns)| (trace.frame_name(frame), ns as f64 / total)).collect()
}

/// Time by the program's function: (function, ns), largest first. A stack without such a function counts for
/// its leaf. Time without a stack is left out.
pub fn functions(trace: &Trace, own: &OwnFrames, stacks: &[(ThreadId, StackId, u64)]) -> Vec<(String, u64)> {
    let mut places = Places::new(trace, own);
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (_, stack, ns) in stacks {
        let frame = places.nearest_own(*stack).or_else(|| trace.stack_frames(*stack).next());
        if let Some(frame) = frame {
            *sums.entry(trace.frame_name(frame)).or_default() += ns;
        }
    }
    let mut ranked: Vec<(String, u64)> = sums.into_iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    ranked
}

/// Folders in which build tools keep the sources of packages: Cargo's, Go's, Cabal's.
const PACKAGE_FOLDERS: [&str; 4] = ["/registry/src/", "/git/checkouts/", "/pkg/mod/", "/.cabal/"];

fn is_of_a_package(file: &str) -> bool {
    PACKAGE_FOLDERS.iter().any(|folder| file.contains(folder))
}

/// Libraries through which a program blocks. Their frames do not show the place in the program.
const PLUMBING_FILES: [&str; 9] = [
    "libc.",
    "libc-",
    "libpthread",
    "ld-linux",
    "ld-musl",
    "libstdc++",
    "libc++",
    "libgcc_s",
    ALLOCATION_LIBRARY,
];
/// Sources of standard libraries: their inlined functions are in the program's own file.
const PLUMBING_SOURCES: [&str; 3] = ["/rustc/", "/rust/deps/", "/usr/include/"];
/// The same functions linked into the program. Also OCaml's runtime in C, with the functions through which it
/// waits.
const PLUMBING_FUNCTIONS: [&str; 15] = [
    "std::",
    "core::",
    "alloc::",
    "hashbrown::",
    "caml_",
    "Stdlib.Condition.",
    "Stdlib.Domain.",
    "Stdlib.Mutex.",
    "parking_lot",
    "lock_api::",
    "pthread_",
    "__pthread_",
    "__lll_lock",
    "futex_",
    "__futex_",
];

/// Java's own library.
const JAVA_LIBRARY: [&str; 4] = ["java.", "javax.", "jdk.", "sun."];

/// Code that the Java virtual machine generates for itself. From JDK 24 on many names begin with `C1
/// Runtime`, `C2 Runtime` or `Shared Runtime` (src/hotspot/share/runtime/stubInfo.cpp and its predecessors).
const MACHINE_STUBS: [&str; 20] = [
    "C1 Runtime ",
    "C2 Runtime ",
    "Shared Runtime ",
    "Interpreter",
    "StubRoutines",
    "RuntimeStub",
    "I2C/C2I",
    "AdapterBlob",
    "DeoptimizationBlob",
    "ExceptionBlob",
    "SafepointBlob",
    "UncommonTrapBlob",
    "MethodHandlesAdapterBlob",
    "VtableBlob",
    "vtable chunks",
    "itable stub",
    "flush_icache_stub",
    "resolve_",
    "wrong_method",
    "ic_miss_",
];
/// Endings of names of such code.
const MACHINE_STUB_ENDS: [&str; 2] = [" Runtime1 stub", "_Java"];

fn is_machine_stub(function: &str) -> bool {
    MACHINE_STUBS.iter().any(|name| function.starts_with(name))
        || MACHINE_STUB_ENDS.iter().any(|name| function.ends_with(name))
}

/// Whether the frame is a method that a virtual machine runs, of the program or of the language's library.
pub(super) fn is_method(frame: &Frame) -> bool {
    frame.module == GENERATED_MODULE && !frame.function.is_empty() && !is_machine_stub(&frame.function)
}

/// Code of the program's that a runtime made of it, or interprets.
fn is_run_by_a_runtime(frame: &Frame) -> bool {
    let is_of_library = || JAVA_LIBRARY.iter().any(|name| frame.function.starts_with(name));
    match frame.module.as_str() {
        PYTHON_MODULE => !frame.function.is_empty(),
        _ => is_method(frame) && !is_of_library(),
    }
}

/// Source folder of OCaml's runtime, if the frame is a runtime function with known sources. Other runtime
/// functions have arbitrary names.
fn ocaml_runtime(frame: &Frame) -> Option<&str> {
    let folder = folder(&frame.file).filter(|folder| folder.rsplit('/').next() == Some("runtime"));
    folder.filter(|_| frame.function.starts_with("caml_"))
}

fn folder(file: &str) -> Option<&str> {
    file.rsplit_once('/').map(|(folder, _)| folder)
}

fn is_plumbing(frame: &Frame) -> bool {
    let file = frame.module.rsplit('/').next().unwrap_or("");
    let function = frame.function.trim_start_matches('<');
    frame.kind == FrameKind::Kernel
        || (frame.module.starts_with('[') && !is_run_by_a_runtime(frame))
        || (frame.module.is_empty() && frame.function.is_empty())
        || PLUMBING_FILES.iter().any(|name| file.starts_with(name))
        || PLUMBING_SOURCES.iter().any(|place| frame.file.starts_with(place))
        || PLUMBING_FUNCTIONS.iter().any(|name| function.starts_with(name))
        || is_deferred(function)
}

/// Whether Go's compiler generated the function for a deferred call (`defer`). The deferring function calls
/// it.
fn is_deferred(function: &str) -> bool {
    let number = function.rsplit_once(".deferwrap").map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_not_the_program() {
        let frame = |function: &str, module: &str| Frame {
            kind: FrameKind::User,
            function: function.into(),
            module: module.into(),
            ..Frame::default()
        };
        assert!(is_plumbing(&frame("__lll_lock_wait", "/usr/lib/libc.so.6")));
        assert!(is_plumbing(&frame("std::sys::sync::mutex::futex::Mutex::lock_contended", "/bin/app")));
        assert!(is_plumbing(&frame("<alloc::sync::Arc<T,A> as core::ops::drop::Drop>::drop", "/bin/app")));
        assert!(is_plumbing(&frame("hashbrown::raw::Bucket<T>::write", "/bin/app")), "std's maps");
        assert!(is_plumbing(&frame("caml_atomic_fetch_add", "/bin/app")));
        assert!(!is_plumbing(&frame("main", "/bin/app")));
        assert!(is_plumbing(&frame("main.(*table).add.deferwrap1", "/bin/app")));
        assert!(!is_plumbing(&frame("main.deferwrapper", "/bin/app")));
        let inlined = Frame { file: "/usr/include/c++/12/mutex".into(), ..frame("lock", "/bin/app") };
        assert!(is_plumbing(&inlined));
        assert!(!is_plumbing(&frame("", "/bin/app")));
    }

    #[test]
    fn what_a_machine_made_of_the_program_goes_before_the_machine() {
        let frame = |function: &str, module: &str| Frame {
            kind: FrameKind::User,
            function: function.into(),
            module: module.into(),
            ..Frame::default()
        };
        let frames = vec![
            frame("ObjectMonitor::enter", "/usr/lib/jvm/lib/server/libjvm.so"),
            frame("java.lang.Object.wait", "[jit]"),
            frame("Interpreter", "[jit]"),
            frame("shop.Orders.place", "[jit]"),
            frame("", "[vdso]"),
            frame("monitorenter_nofpu Runtime1 stub", "[jit]"),
            frame("_complete_monitor_locking_Java", "[jit]"),
        ];
        let own = OwnFrames::new(&Trace { frames, ..Trace::default() });
        let nearest = |rows: &[u32]| own.nearest(|| rows.iter().copied().map(FrameId)).map(|frame| frame.0);
        assert_eq!(nearest(&[0, 1, 2, 3, 0]), Some(3));
        assert_eq!(nearest(&[0, 5, 6, 3]), Some(3));
        assert_eq!(nearest(&[4, 0, 2, 1]), Some(0), "one of the machine's own threads");
        assert_eq!(nearest(&[4, 1, 2]), None);
    }

    #[test]
    fn the_runtime_of_ocaml_is_known_by_where_its_sources_are() {
        let frame = |function: &str, file: &str| Frame {
            kind: FrameKind::User,
            function: function.into(),
            module: "/bin/app".into(),
            file: file.into(),
            ..Frame::default()
        };
        let frames = vec![
            frame("caml_ml_mutex_unlock", "/build/runtime/sync.c"),
            frame("sync_mutex_unlock", "/build/runtime/sync_posix.h"),
            frame("caml_pool_stub", "/app/stubs.c"),
            frame("Pool.push", "/app/pool.ml"),
            frame("park", "/app/runtime/park.c"),
        ];
        let own = OwnFrames::new(&Trace { frames, ..Trace::default() });
        let is_own: Vec<bool> = (0..5).map(|row| own.own_frame(FrameId(row)).is_some()).collect();
        assert_eq!(is_own, [false, false, false, true, true]);
    }

    #[test]
    fn two_places_of_one_function_are_one() {
        let at = |offset, function_offset, function: &str| Frame {
            kind: FrameKind::User,
            module: "/bin/app".into(),
            function: function.into(),
            offset,
            function_offset,
            ..Frame::default()
        };
        let frames = vec![at(10, 2, "f"), at(14, 6, "f"), at(30, 3, ""), at(33, 6, ""), at(40, 0, "")];
        let own = OwnFrames::new(&Trace { frames, ..Trace::default() });
        let stands_for: Vec<_> = (0..5).map(|row| own.own_frame(FrameId(row)).unwrap().0).collect();
        assert_eq!(stands_for, [0, 0, 2, 2, 4]);
    }
}
