//! Waits of runtimes' tasks for locks and channels: the probed sites (`[task_wait]` of a descriptor), and the probing
//! times. Rare waits are probed all the time. Otherwise each second is probed from its begin until the limit
//! is reached.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdup_capture::bpf::{ChannelRegisters, Session, TaskPlaces, WaitPlace, Waiting, WakePlace};
use holdup_capture::{lower, sources};
use holdup_decode::probes::{Functions, Prober, Site};
use holdup_decode::wire::WireDecoder;
use holdup_events::event::{TaskWait, TaskWindow};
use holdup_events::recording::SourceState;
use holdup_events::{Event, Timestamp};
use holdup_findings::descriptors::{TaskProbe, TaskWaits, TaskWakes};

use super::process_exists;

/// Maximum hits per process and second. A wait has two hits, each with a stack. At 2 µs per hit, that is at
/// most 1.2 % of a CPU.
const PASSES_PER_SECOND: u32 = 6_000;
/// The same for hits at which the kernel single-steps an instruction: 14 µs on a virtual machine, 2 µs on
/// bare metal. That is at most 0.7 % of a CPU.
const STEPPED_PER_SECOND: u32 = 500;
/// From the beginning of a window in which there were too many to that of the next.
const WINDOW_EVERY: Duration = Duration::from_secs(1);

/// The probe to search for in a binary.
pub(super) struct Wanted {
    pub runtime: String,
    pub probe: TaskProbe,
}

/// Where that is.
#[derive(Clone, Debug)]
pub(super) struct Sites {
    waits: Vec<WaitPlace>,
    goes_on: Vec<WakePlace>,
    woken_task_at: u32,
    channel_fields: [u16; 2],
    per_second_max: u32,
}

impl Wanted {
    /// The functions that are named.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        let TaskProbe { waits, goes_on, .. } = &self.probe;
        waits.iter().map(|waits| &waits.entry).chain(goes_on.iter().map(|wakes| &wakes.entry))
    }

    /// Returns the sites in a binary. `None` if its tasks never wait. An error if they wait but cannot be
    /// probed.
    pub fn find(&self, prober: &Prober<'_>, functions: &Functions) -> Option<Result<Sites, String>> {
        let mut search = Search { prober, functions, are_cheap: true };
        let begins = match search.waits(&self.probe.waits) {
            Ok(begins) if begins.is_empty() => return None,
            Ok(begins) => begins,
            Err(why) => return Some(Err(why)),
        };
        let goes_on = match search.wakes(&self.probe.goes_on) {
            Ok(goes_on) => goes_on,
            Err(why) => return Some(Err(why)),
        };
        if goes_on.is_empty() {
            let names: Vec<&str> = self.probe.goes_on.iter().map(|wakes| wakes.entry.as_str()).collect();
            return Some(Err(format!("there is no {} in it", names.join(", "))));
        }
        Some(Ok(Sites {
            waits: begins,
            goes_on,
            woken_task_at: self.probe.woken_task_at,
            channel_fields: self.probe.channel_fields,
            per_second_max: if search.are_cheap { PASSES_PER_SECOND } else { STEPPED_PER_SECOND },
        }))
    }
}

/// Searches the sites in a binary.
struct Search<'a> {
    prober: &'a Prober<'a>,
    functions: &'a Functions,
    /// The kernel emulates the instructions of all sites so far.
    are_cheap: bool,
}

impl Search<'_> {
    /// Sites of a function at which these registers still have the arguments. None if the binary lacks it.
    fn sites(&mut self, name: &str, kept: &[u8]) -> Result<Vec<Site>, String> {
        let Some(function) = self.functions.get(name) else { return Ok(Vec::new()) };
        let (sites, are_cheap) = self.prober.entries_keeping(function, kept)?;
        self.are_cheap &= are_cheap;
        Ok(sites)
    }

    fn waits(&mut self, wanted: &[TaskWaits]) -> Result<Vec<WaitPlace>, String> {
        let mut found = Vec::new();
        for &TaskWaits { ref entry, task, object } in wanted {
            let kept: Vec<u8> = [task].into_iter().chain(object).collect();
            let place = |site: Site| WaitPlace { offset: site.offset, task, object };
            found.extend(self.sites(entry, &kept)?.into_iter().map(place));
        }
        Ok(found)
    }

    fn wakes(&mut self, wanted: &[TaskWakes]) -> Result<Vec<WakePlace>, String> {
        let mut found = Vec::new();
        for &TaskWakes { ref entry, woken, channel } in wanted {
            let channel = channel.map(|by| ChannelRegisters {
                object: by.object,
                task: by.task,
                wakes_sender: by.wakes_sender,
            });
            let of_channel = channel.iter().flat_map(|by| [by.object, by.task]);
            let kept: Vec<u8> = [woken].into_iter().chain(of_channel).collect();
            let place = |site: Site| WakePlace { offset: site.offset, woken, channel };
            found.extend(self.sites(entry, &kept)?.into_iter().map(place));
        }
        Ok(found)
    }
}

struct Process {
    file: PathBuf,
    sites: Arc<Sites>,
    /// When the window began that is or was the last.
    began: Instant,
    is_open: bool,
}

/// The windows of a recording.
#[derive(Default)]
pub(super) struct TaskWindows {
    processes: BTreeMap<u32, Process>,
    /// All that ever had one.
    met: BTreeSet<u32>,
    problems: BTreeSet<String>,
}

impl TaskWindows {
    /// Adds the sites of a process, which are probed from now on.
    pub fn add(
        &mut self,
        session: &mut Session,
        (tgid, file, sites): (u32, &Path, &Arc<Sites>),
        sink: &mut dyn FnMut(Event),
    ) {
        let process =
            Process { file: file.to_owned(), sites: sites.clone(), began: Instant::now(), is_open: false };
        self.processes.insert(tgid, process);
        self.open(session, tgid, sink);
    }

    /// Begins windows that are due, where the last one was closed.
    pub fn step(&mut self, session: &mut Session, decoder: &mut WireDecoder, sink: &mut dyn FnMut(Event)) {
        for (tgid, at) in decoder.take_closed() {
            close(session, (tgid, at), sink);
            if let Some(process) = self.processes.get_mut(&tgid) {
                process.is_open = false;
            }
        }
        let is_due = |process: &Process| !process.is_open && process.began.elapsed() >= WINDOW_EVERY;
        if session.are_many_probes_being_removed() {
            return;
        }
        let due: Vec<u32> = self
            .processes
            .iter()
            .filter(|(tgid, process)| is_due(process) && !session.are_tasks_being_removed(**tgid))
            .map(|(tgid, _)| *tgid)
            .collect();
        due.into_iter().for_each(|tgid| self.open(session, tgid, sink));
    }

    fn open(&mut self, session: &mut Session, tgid: u32, sink: &mut dyn FnMut(Event)) {
        let Some(process) = self.processes.get_mut(&tgid) else { return };
        let Sites { waits, goes_on, woken_task_at, channel_fields, per_second_max } = &*process.sites;
        let at = TaskPlaces {
            tgid,
            file: &process.file,
            waits,
            goes_on,
            woken_task_at: *woken_task_at,
            channel_fields: *channel_fields,
            per_second_max: *per_second_max,
        };
        match session.arm_tasks(&at) {
            Ok(()) => {
                (process.began, process.is_open) = (Instant::now(), true);
                self.met.insert(tgid);
                sink(Event::TaskWindow(TaskWindow { at: lower::now(), tgid, opens: true }));
            }
            Err(error) => {
                // A process that has exited since needs no probes.
                if process_exists(tgid) {
                    self.problem(error.to_string());
                }
                self.processes.remove(&tgid);
            }
        }
    }

    /// The process has exited, or runs another program.
    pub fn forget(&mut self, session: &mut Session, tgid: u32) {
        if self.processes.remove(&tgid).is_some() {
            session.disarm_tasks(tgid);
        }
    }

    /// Ends the recording: reports the tasks that still wait.
    pub fn end(&mut self, session: &mut Session, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        let open = self.processes.iter().filter(|(_, process)| process.is_open).map(|(tgid, _)| *tgid);
        open.for_each(|tgid| close(session, (tgid, at), sink));
        self.processes.clear();
    }

    /// Adds the reason why waits are not recorded.
    pub fn problem(&mut self, what: String) {
        self.problems.insert(what);
    }

    /// Ends the probes. `events`: number of recorded waits. `sources` gets the result, unless no such runtime
    /// was found.
    pub fn finish(self, sources: &mut Vec<SourceState>, events: u64) {
        let active = !self.met.is_empty();
        if active || !self.problems.is_empty() {
            let missing = self.problems.into_iter().collect::<Vec<_>>().join("; ");
            let name = sources::TASK_WAITS.to_owned();
            sources.push(SourceState { name, active, missing, events, ..SourceState::default() });
        }
    }
}

/// Removes the probes of a process, and reports the tasks that were waiting at the last hit.
fn close(session: &mut Session, (tgid, at): (u32, Timestamp), sink: &mut dyn FnMut(Event)) {
    // The waker of a task that waits for an unknown object did not come. The task may no longer wait.
    let waiting = session.disarm_tasks(tgid).into_iter().filter(|waiting| waiting.object != 0);
    for Waiting { since, object, stack, tid } in waiting {
        let still = TaskWait { at: at.max(since), since, tid, tgid, object, stack, ..TaskWait::default() };
        sink(Event::TaskWait(still));
    }
}
