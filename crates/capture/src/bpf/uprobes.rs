//! Attaches a program to instructions of one process, in the form that the kernel supports.
//!
//! From Linux 6.6 on one link holds many probes, and needs only privileges that a recorder keeps. Before, and
//! where such links miss threads ([`has_reliable_links`]), each probe is a perf event of its own with a link
//! for the program (5.15). Opening such an event needs CAP_SYS_ADMIN ([`EventOpener`]). Both forms follow all
//! threads of one process without its children, and end with the recorder.

use std::ffi::CString;
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use libbpf_rs::{Link, Object, PerfEventOpts, ProgramAttachType, ProgramMut, UprobeMultiOpts};

use super::kernel_types::KernelTypes;
use super::messages;
use crate::error::CaptureError;
use crate::event_opener::EventOpener;
use crate::perf_ring::Attr;
use crate::privileges;

/// Maximum number of single probes at a time. Each takes two descriptors, and the kernel removes them one after the
/// other, in 0.1 s each (6.18, 2 CPUs).
const SINGLE_MAX: usize = 256;
/// Threads that remove probes.
const REMOVERS: usize = 8;
/// Maximum number of removals in progress at which a process gets new probes. With 44 ms each and [`REMOVERS`], these take 0.4 s.
const REMOVALS_MAX: usize = 64;
/// Programs that are attached to instructions of programs as these are met.
pub(super) const PROGRAMS: [&str; 2] = ["on_place", "on_task"];
/// The kernel function behind links that hold many probes (6.6).
const MULTI_LINK: &str = "bpf_uprobe_multi_link_attach";
/// The kernel function by which a program behind a perf event asks which event it is (5.15).
pub(super) const COOKIE: &str = "bpf_get_attach_cookie_trace";
/// The attach type of programs that are loaded for single probes: none.
pub(super) const SINGLE: ProgramAttachType = ProgramAttachType::CgroupInetIngress;

/// How programs are attached to instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeForm {
    /// One link for many probes where the kernel has that, else single probes.
    #[default]
    Best,
    /// Single probes.
    Single,
}

/// A form of probes that a kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Multi,
    Single,
}

impl ProbeForm {
    /// Returns the form for the kernel with these types. `None` if it has none.
    pub(super) fn on(self, types: &KernelTypes) -> Option<Form> {
        let has_multi = types.has_function(MULTI_LINK) && has_reliable_links();
        match self {
            ProbeForm::Best if has_multi => Some(Form::Multi),
            _ if types.has_function(COOKIE) => Some(Form::Single),
            _ => None,
        }
    }
}

/// Whether links for many probes, if this kernel has them, follow all threads of a process.
pub(crate) fn has_reliable_links() -> bool {
    !misses_threads(&crate::host::kernel_release())
}

/// Whether links for many probes follow the first thread of a process alone, by the kernel's release (`6.6.13-…`): fixed in 6.6.33
/// and 6.9.4.
fn misses_threads(release: &str) -> bool {
    let mut numbers =
        release.split(|letter: char| !letter.is_ascii_digit()).map_while(|part| part.parse().ok());
    let mut next = || numbers.next().unwrap_or(0u32);
    match (next(), next(), next()) {
        (6, 6, patch) => patch < 33,
        (6, 9, patch) => patch < 4,
        (6, minor, _) => minor == 7 || minor == 8,
        _ => false,
    }
}

/// An instruction to be probed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// In the file.
    pub offset: u64,
    /// Offset of the semaphore to raise. 0 for none.
    pub semaphore: u64,
    /// The number by which the program knows the instruction.
    pub cookie: u64,
}

/// Instructions of one process that get the same program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// One of [`PROGRAMS`].
    pub program: &'static str,
    /// The process.
    pub tgid: u32,
    /// The number of this place in the process and for this program.
    pub number: u32,
    /// The binary, by a path that this process can open.
    pub file: &'a Path,
    /// The instructions in it.
    pub points: &'a [Point],
}

impl Place<'_> {
    fn key(&self) -> Key {
        (self.program, self.tgid, self.number)
    }
}

/// Program, process and number of a [`Place`].
type Key = (&'static str, u32, u32);

/// Attaches programs to instructions.
pub(super) struct Uprobes {
    /// For single probes: the thread that may open their events, and the number of the events' type.
    opener: Option<EventOpener>,
    event_type: Option<u32>,
    single: Arc<AtomicUsize>,
    remover: Remover,
}

/// Probes that are in place. Dropping them starts their removal.
pub(super) struct Attached {
    key: Key,
    links: Vec<Link>,
    count: Option<Count>,
    remover: Remover,
}

impl Drop for Attached {
    fn drop(&mut self) {
        let (links, count) = (std::mem::take(&mut self.links), self.count.take());
        if !links.is_empty() {
            self.remover.remove(self.key, Box::new((links, count)));
        }
    }
}

/// A part of [`SINGLE_MAX`], returned when dropped.
struct Count {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl Count {
    /// `None` if no room is left.
    fn take(all: &Arc<AtomicUsize>, own: usize) -> Option<Count> {
        let add = |count: usize| count.checked_add(own).filter(|sum| *sum <= SINGLE_MAX);
        let added = all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.ok().map(|_| Count { all: all.clone(), own })
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Ordering::Relaxed);
    }
}

impl Uprobes {
    /// For the programs of this object. Call it before rights are given up.
    pub fn start(object: &Object) -> Uprobes {
        let any_single = object.progs().any(|program| {
            PROGRAMS.iter().any(|name| program.name() == *name)
                && program.autoload()
                && is_single(program.attach_type())
        });
        Uprobes {
            opener: any_single.then(EventOpener::start).flatten(),
            event_type: event_type(),
            single: Arc::default(),
            remover: Remover::default(),
        }
    }

    /// Whether an earlier removal of the same place is still in progress: attaching it waits for that.
    pub fn is_being_removed(&self, program: &'static str, tgid: u32, number: u32) -> bool {
        self.remover.has((program, tgid, number))
    }

    /// Whether more than [`REMOVALS_MAX`] removals are in progress. New probes would delay the recorder's end.
    pub fn are_many_being_removed(&self) -> bool {
        self.remover.count() > REMOVALS_MAX
    }

    /// Attaches the program to all of these instructions, first waiting for an earlier removal of the same place.
    pub fn attach(&self, object: &Object, place: &Place<'_>) -> Result<Attached, CaptureError> {
        let program = object.progs_mut().find(|program| program.name() == place.program);
        let program = program.ok_or_else(|| failed(format!("no program {}", place.program)))?;
        if !program.autoload() {
            return Err(failed("this kernel does not distinguish probes at functions (Linux 5.15 does)"));
        }
        // Else each pass would be recorded twice.
        self.remover.wait_for(place.key());
        let mut attached =
            Attached { key: place.key(), links: Vec::new(), count: None, remover: self.remover.clone() };
        if is_single(program.attach_type()) {
            self.attach_each(&program, place, &mut attached)?;
        } else {
            attached.links.push(attach_many(&program, place)?);
        }
        Ok(attached)
    }

    /// On an error, `attached` has the probes attached so far.
    fn attach_each(
        &self,
        program: &ProgramMut<'_>,
        place: &Place<'_>,
        attached: &mut Attached,
    ) -> Result<(), CaptureError> {
        let count = Count::take(&self.single, place.points.len()).ok_or_else(|| {
            failed(format!(
                "more than {SINGLE_MAX} places: on this kernel each probe takes a perf event of its own"
            ))
        })?;
        attached.count = Some(count);
        for point in place.points {
            let event = self.event(point, place)?;
            // libbpf's link closes the descriptor.
            let options = PerfEventOpts { cookie: point.cookie, ..PerfEventOpts::default() };
            let link = program.attach_perf_event_with_opts(event.into_raw_fd(), options);
            attached.links.push(link.map_err(|error| failed(messages::reason(&error)))?);
        }
        Ok(())
    }

    /// An event at one instruction of a process, which is found by one of its threads.
    fn event(&self, point: &Point, place: &Place<'_>) -> Result<OwnedFd, CaptureError> {
        let opener = self.opener.as_ref().ok_or_else(|| {
            failed("on this kernel probes at functions need CAP_SYS_ADMIN: run holdup as root")
        })?;
        let event_type = self.event_type.ok_or_else(|| failed("this kernel has no uprobes"))?;
        let path =
            CString::new(place.file.as_os_str().as_bytes()).map_err(|_| failed("a path with a zero byte"))?;
        let attr = event_attr(event_type, (point.offset, point.semaphore));
        let because =
            |error: &io::Error| failed(format!("probing a function of {}: {error}", place.file.display()));
        let mut last = io::Error::from_raw_os_error(libc::ESRCH);
        for tid in threads(place.tgid) {
            match opener.open_at_path(&attr, path.clone(), tid) {
                Ok(event) => return Ok(event),
                // The thread has ended: another one leads to the same memory.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => last = error,
                Err(error) => return Err(because(&error)),
            }
        }
        Err(because(&last))
    }
}

/// Removes probes in threads of their own. The kernel takes 44 ms for each link (6.18, 2 CPUs), in which the rings would fill.
/// Removals wait for the kernel most of that time, and removals at the same time wait together.
#[derive(Clone, Default)]
struct Remover(Arc<Removals>);

#[derive(Default)]
struct Removals {
    state: Mutex<RemovalState>,
    one_finished: Condvar,
}

#[derive(Default)]
struct RemovalState {
    in_progress: Vec<Key>,
    /// Sender to the threads, which are started with the first removal.
    sender: Option<Sender<Removal>>,
}

/// Dropping a link removes its probes.
struct Removal {
    key: Key,
    links: Box<dyn Send>,
}

impl Remover {
    fn remove(&self, key: Key, links: Box<dyn Send>) {
        let mut state = self.lock();
        if state.sender.is_none() {
            state.sender = self.start();
        }
        // Without a thread the removal is dropped, and so done, here.
        if state.sender.as_ref().is_some_and(|sender| sender.send(Removal { key, links }).is_ok()) {
            state.in_progress.push(key);
        }
    }

    /// `None` if no thread can be started.
    fn start(&self) -> Option<Sender<Removal>> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let mut any_started = false;
        for _ in 0..REMOVERS {
            // Weak: the threads end with the last owner of a sender.
            let (receiver, removals) = (receiver.clone(), Arc::downgrade(&self.0));
            let thread = std::thread::Builder::new().name("probe remover".to_owned());
            let started = thread.spawn(move || {
                privileges::restore_priority();
                remove_all(&receiver, &removals);
            });
            any_started |= started.is_ok();
        }
        any_started.then_some(sender)
    }

    fn has(&self, key: Key) -> bool {
        self.lock().in_progress.contains(&key)
    }

    fn count(&self) -> usize {
        self.lock().in_progress.len()
    }

    fn wait_for(&self, key: Key) {
        let state = self.lock();
        let busy = |state: &mut RemovalState| state.in_progress.contains(&key);
        drop(self.0.one_finished.wait_while(state, busy).unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, RemovalState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove_all(removals: &Mutex<Receiver<Removal>>, of: &Weak<Removals>) {
    // One thread waits for the next removal, and the others for that thread.
    let next = || removals.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(Removal { key, links }) = next() {
        drop(links);
        let Some(removals) = of.upgrade() else { continue };
        let mut state = removals.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = state.in_progress.iter().position(|one| *one == key) {
            state.in_progress.swap_remove(at);
        }
        drop(state);
        removals.one_finished.notify_all();
    }
}

fn is_single(form: ProgramAttachType) -> bool {
    !matches!(form, ProgramAttachType::TraceUprobeMulti)
}

fn failed(reason: impl Into<String>) -> CaptureError {
    CaptureError::Probe { reason: reason.into() }
}

fn attach_many(program: &ProgramMut<'_>, place: &Place<'_>) -> Result<Link, CaptureError> {
    let tgid = i32::try_from(place.tgid).map_err(|_| failed("no such process"))?;
    let options = UprobeMultiOpts {
        offsets: place.points.iter().map(|point| point.offset as usize).collect(),
        ref_ctr_offsets: place.points.iter().map(|point| point.semaphore as usize).collect(),
        cookies: place.points.iter().map(|point| point.cookie).collect(),
        ..UprobeMultiOpts::default()
    };
    let link = program.attach_uprobe_multi_with_opts(tgid, place.file, "", options);
    link.map_err(|error| failed(messages::reason(&error)))
}

/// The event of the instruction at `offset` of a file, without the path. `semaphore`: offset of the semaphore
/// to raise, or 0. The event is not inherited, because the kernel filters by the process's memory, which all
/// threads share.
pub(crate) fn event_attr(event_type: u32, (offset, semaphore): (u64, u64)) -> Attr {
    const SEMAPHORE_SHIFT: u32 = 32;
    let mut attr = Attr::new(event_type, semaphore << SEMAPHORE_SHIFT);
    attr.config2 = offset;
    attr
}

/// The number of the type of events at instructions of programs.
pub(crate) fn event_type() -> Option<u32> {
    let number = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type").ok()?;
    number.trim().parse().ok()
}

/// Returns the threads of a process, the first one first, because it usually lives longest.
fn threads(tgid: u32) -> impl Iterator<Item = i32> {
    let tasks = std::fs::read_dir(format!("/proc/{tgid}/task")).into_iter().flatten();
    let others = tasks.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let others = others.filter(move |tid| *tid != tgid);
    std::iter::once(tgid).chain(others).filter_map(|tid| i32::try_from(tid).ok())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn kernels_with_links_for_the_first_thread_only_get_single_probes() {
        for release in ["6.6.0", "6.6.32-generic", "6.7.12+bpo-amd64", "6.8.0-45-generic", "6.9.3-arch1-1"] {
            assert!(misses_threads(release), "{release}");
        }
        for release in ["6.6.33", "6.9.4", "6.10.0-rc1", "6.12.95+deb13", "7.3.4", "5.15.0", "", "x"] {
            assert!(!misses_threads(release), "{release}");
        }
    }

    /// A removal that ends when all threads are in such a removal.
    struct Meets(Arc<Barrier>);

    impl Drop for Meets {
        fn drop(&mut self) {
            self.0.wait();
        }
    }

    #[test]
    fn probes_are_removed_by_all_threads_at_the_same_time() {
        let (remover, barrier) = (Remover::default(), Arc::new(Barrier::new(REMOVERS)));
        let key = |number: usize| (PROGRAMS[0], 7, number as u32);
        (0..REMOVERS).for_each(|number| remover.remove(key(number), Box::new(Meets(barrier.clone()))));
        (0..REMOVERS).for_each(|number| remover.wait_for(key(number)));
        assert_eq!((remover.count(), remover.has(key(0))), (0, false));
    }

    #[test]
    fn more_removals_than_the_limit_are_many() {
        let uprobes =
            Uprobes { opener: None, event_type: None, single: Arc::default(), remover: Remover::default() };
        let (hold, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        /// A removal that lasts until the sender is dropped.
        struct Held(Arc<Mutex<Receiver<()>>>);
        impl Drop for Held {
            fn drop(&mut self) {
                let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).recv();
            }
        }
        let key = |number: usize| (PROGRAMS[0], number as u32, 0);
        for number in 0..REMOVALS_MAX {
            uprobes.remover.remove(key(number), Box::new(Held(held.clone())));
        }
        assert!(!uprobes.are_many_being_removed());
        uprobes.remover.remove(key(REMOVALS_MAX), Box::new(Held(held)));
        assert!(uprobes.are_many_being_removed());
        drop(hold);
        (0..=REMOVALS_MAX).for_each(|number| uprobes.remover.wait_for(key(number)));
        assert!(!uprobes.are_many_being_removed());
    }

    #[test]
    fn the_limit_of_single_probes_is_kept_and_given_back() {
        let all = Arc::default();
        let most = Count::take(&all, SINGLE_MAX - 1).expect("room");
        assert!(Count::take(&all, 2).is_none());
        let last = Count::take(&all, 1).expect("room for one");
        drop((most, last));
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
