//! The Perfetto trace format: scheduling as ftrace events, for ui.perfetto.dev and trace_processor. Only the
//! written messages and fields are declared, with the format's numbers.

use std::collections::BTreeMap;
use std::io::{self, Write};

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{CpuId, ThreadId, Timestamp, Trace, WaitReason};
use holdup_findings::Analysis;
use prost::Message;

use super::{Exporter, Holds, Info, Options};
use crate::text::clean;

pub(super) struct Format;

/// Each packet is written as a field of the whole trace: a file may be one message or many joined.
#[derive(Clone, PartialEq, Message)]
struct TraceFile {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(message, optional, tag = "1")]
    ftrace_events: Option<FtraceEvents>,
    #[prost(message, optional, tag = "2")]
    process_tree: Option<ProcessTree>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct FtraceEvents {
    #[prost(uint32, optional, tag = "1")]
    cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    event: Vec<FtraceEvent>,
}

#[derive(Clone, PartialEq, Message)]
struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pid: Option<u32>,
    #[prost(message, optional, tag = "4")]
    sched_switch: Option<SchedSwitch>,
    #[prost(message, optional, tag = "20")]
    sched_waking: Option<SchedWaking>,
}

#[derive(Clone, PartialEq, Message)]
struct SchedSwitch {
    #[prost(string, optional, tag = "1")]
    prev_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    prev_prio: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    prev_state: Option<i64>,
    #[prost(string, optional, tag = "5")]
    next_comm: Option<String>,
    #[prost(int32, optional, tag = "6")]
    next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    next_prio: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct SchedWaking {
    #[prost(string, optional, tag = "1")]
    comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    prio: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    success: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    target_cpu: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    processes: Vec<ProcessEntry>,
    #[prost(message, repeated, tag = "2")]
    threads: Vec<ThreadEntry>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessEntry {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    ppid: Option<i32>,
    #[prost(string, repeated, tag = "3")]
    cmdline: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadEntry {
    #[prost(int32, optional, tag = "1")]
    tid: Option<i32>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(int32, optional, tag = "3")]
    tgid: Option<i32>,
}

/// All packets come from one writer.
const SEQUENCE: u32 = 1;
/// Events in a packet: readers hold a packet in memory as a whole.
const EVENTS_PER_PACKET: usize = 4096;
/// The kernel's priority of an ordinary thread of nice value 0. Recordings do not contain others.
const PRIORITY: i32 = 120;
/// Task states in ftrace's numbering. A file without a kernel version is read as Linux 4.4, whose number for
/// "preempted" differs from later versions (Perfetto's `task_state.cc`).
const STATE_RUNNABLE: i64 = 0;
const STATE_SLEEPS: i64 = 1;
const STATE_SLEEPS_DEEPLY: i64 = 2;
const STATE_STOPPED: i64 = 4;
const STATE_DEAD: i64 = 16;
const STATE_PREEMPTED: i64 = 0x800;

impl Exporter for Format {
    fn info(&self) -> Info {
        Info {
            name: "perfetto",
            summary: "Scheduling for ui.perfetto.dev: threads on CPUs, and wakeups",
            extension: "perfetto-trace",
            holds: Holds::Timeline,
            cannot_carry: "wait reasons and objects, stacks, samples, the ledger and findings",
        }
    }

    fn write(&self, trace: &Trace, _: &Analysis, _: &Options, out: &mut dyn Write) -> io::Result<()> {
        write_packet(out, Packet { process_tree: Some(process_tree(trace)), ..packet(trace.start()) })?;
        for (cpu, mut events) in events_by_cpu(trace) {
            events.sort_by_key(|event| event.timestamp);
            for events in events.chunks(EVENTS_PER_PACKET) {
                let at = Timestamp(events[0].timestamp.unwrap_or(0));
                let bundle = FtraceEvents { cpu: Some(u32::from(cpu.0)), event: events.to_vec() };
                write_packet(out, Packet { ftrace_events: Some(bundle), ..packet(at) })?;
            }
        }
        Ok(())
    }
}

fn packet(at: Timestamp) -> Packet {
    Packet { timestamp: Some(at.0), trusted_packet_sequence_id: Some(SEQUENCE), ..Packet::default() }
}

fn write_packet(out: &mut dyn Write, packet: Packet) -> io::Result<()> {
    out.write_all(&TraceFile { packet: vec![packet] }.encode_to_vec())
}

fn process_tree(trace: &Trace) -> ProcessTree {
    let ppid = |parent: Option<holdup_events::ProcessId>| {
        parent.and_then(|parent| trace.processes.get(parent.index())).map_or(0, |parent| parent.pid as i32)
    };
    let processes = trace.processes.iter().map(|process| ProcessEntry {
        pid: Some(process.pid as i32),
        ppid: Some(ppid(process.parent)),
        cmdline: vec![clean(&process.name)],
    });
    let threads = trace.threads.iter().map(|thread| ThreadEntry {
        tid: Some(thread.tid as i32),
        name: Some(clean(&thread.name)),
        tgid: trace.processes.get(thread.process.index()).map(|process| process.pid as i32),
    });
    ProcessTree { processes: processes.collect(), threads: threads.collect() }
}

/// One running stretch of a CPU.
struct Run {
    thread: ThreadId,
    start: Timestamp,
    end: Timestamp,
    /// State in which the thread left the CPU.
    left: i64,
}

fn events_by_cpu(trace: &Trace) -> BTreeMap<CpuId, Vec<FtraceEvent>> {
    let mut events: BTreeMap<CpuId, Vec<FtraceEvent>> = BTreeMap::new();
    for wakeup in trace.wakeups.iter() {
        let waker = (wakeup.context == WakeContext::Thread).then_some(wakeup.waker);
        events.entry(wakeup.cpu).or_default().push(FtraceEvent {
            timestamp: Some(wakeup.at.0),
            pid: Some(waker.map_or(0, |waker| tid(trace, Some(waker)) as u32)),
            sched_waking: Some(SchedWaking {
                comm: Some(comm(trace, Some(wakeup.wakee))),
                pid: Some(tid(trace, Some(wakeup.wakee))),
                prio: Some(PRIORITY),
                success: Some(1),
                target_cpu: Some(i32::from(target_cpu(trace, wakeup.wakee, wakeup.at).0)),
            }),
            ..FtraceEvent::default()
        });
    }
    events.remove(&CpuId::NONE);
    for (cpu, mut runs) in runs_by_cpu(trace) {
        runs.sort_by_key(|run| (run.start, run.end, run.thread));
        events.entry(cpu).or_default().extend(switches(trace, &runs));
    }
    events
}

fn runs_by_cpu(trace: &Trace) -> BTreeMap<CpuId, Vec<Run>> {
    let mut runs: BTreeMap<CpuId, Vec<Run>> = BTreeMap::new();
    for id in (0..trace.threads.len() as u32).map(ThreadId) {
        let mut slices = trace.slices.of_thread(id).peekable();
        while let Some(slice) = slices.next() {
            if slice.state != ThreadState::Running || slice.cpu == CpuId::NONE || slice.end <= slice.start {
                continue;
            }
            let left = left_in(trace, &slice, slices.peek());
            runs.entry(slice.cpu).or_default().push(Run {
                thread: id,
                start: slice.start,
                end: slice.end,
                left,
            });
        }
    }
    runs
}

fn left_in(trace: &Trace, slice: &Slice, next: Option<&Slice>) -> i64 {
    let Some(next) = next else {
        let alive = trace.threads[slice.thread.index()].alive_at_end;
        return if alive { STATE_RUNNABLE } else { STATE_DEAD };
    };
    match next.state {
        ThreadState::Preempted => STATE_PREEMPTED,
        ThreadState::Blocked => match trace.wait(next.wait).reason {
            WaitReason::Disk | WaitReason::Fault | WaitReason::MmapLock => STATE_SLEEPS_DEEPLY,
            WaitReason::Stopped => STATE_STOPPED,
            _ => STATE_SLEEPS,
        },
        // For a thread of another process, only the switch itself is known.
        ThreadState::Untracked | ThreadState::Unknown => STATE_SLEEPS,
        _ => STATE_RUNNABLE,
    }
}

/// Switches between the runs of one CPU. Between two runs with a gap, the idle thread ran.
fn switches(trace: &Trace, runs: &[Run]) -> Vec<FtraceEvent> {
    let mut events = Vec::new();
    let mut last: Option<&Run> = None;
    for run in runs {
        match last {
            Some(previous) if previous.end >= run.start => {
                events.push(switch(trace, run.start, Some(previous), Some(run.thread)));
            }
            _ => {
                events.extend(last.map(|previous| switch(trace, previous.end, Some(previous), None)));
                events.push(switch(trace, run.start, None, Some(run.thread)));
            }
        }
        last = Some(run);
    }
    events.extend(last.map(|previous| switch(trace, previous.end, Some(previous), None)));
    events
}

fn switch(trace: &Trace, at: Timestamp, from: Option<&Run>, to: Option<ThreadId>) -> FtraceEvent {
    let prev = from.map(|run| run.thread);
    FtraceEvent {
        timestamp: Some(at.0),
        pid: Some(tid(trace, prev) as u32),
        sched_switch: Some(SchedSwitch {
            prev_comm: Some(comm(trace, prev)),
            prev_pid: Some(tid(trace, prev)),
            prev_prio: Some(PRIORITY),
            prev_state: Some(from.map_or(STATE_RUNNABLE, |run| run.left)),
            next_comm: Some(comm(trace, to)),
            next_pid: Some(tid(trace, to)),
            next_prio: Some(PRIORITY),
        }),
        ..FtraceEvent::default()
    }
}

/// The kernel's TID. 0, the idle thread's, for `None`.
fn tid(trace: &Trace, thread: Option<ThreadId>) -> i32 {
    thread.and_then(|thread| trace.threads.get(thread.index())).map_or(0, |thread| thread.tid as i32)
}

fn comm(trace: &Trace, thread: Option<ThreadId>) -> String {
    match thread.and_then(|thread| trace.threads.get(thread.index())) {
        Some(thread) => clean(&thread.name),
        None => "swapper".to_owned(),
    }
}

/// The CPU on which the wakee ran next. CPU 0 if unknown.
fn target_cpu(trace: &Trace, wakee: ThreadId, at: Timestamp) -> CpuId {
    let row = trace.slices.covering(wakee, at);
    let cpu = row.map(|row| trace.slices.at(wakee, row).cpu).unwrap_or(CpuId::NONE);
    if cpu == CpuId::NONE { CpuId(0) } else { cpu }
}

#[cfg(test)]
mod tests {
    use holdup_testkit::check::trace_of_lanes;

    use super::*;

    #[test]
    fn what_was_written_can_be_read() {
        let (_, trace) = trace_of_lanes("A  0000mmmm\nB  mmmm1111  holds m 4..8\n~C 1111....\n");
        let mut out = Vec::new();
        Format.write(&trace, &Analysis::default(), &Options::default(), &mut out).unwrap();
        let file = TraceFile::decode(out.as_slice()).unwrap();
        let tree = file.packet[0].process_tree.as_ref().unwrap();
        assert_eq!(tree.threads.len(), trace.threads.len());
        let events: Vec<&FtraceEvent> = file
            .packet
            .iter()
            .filter_map(|packet| packet.ftrace_events.as_ref())
            .flat_map(|all| &all.event)
            .collect();
        let arrivals = events
            .iter()
            .filter_map(|event| event.sched_switch.as_ref())
            .filter(|switch| switch.next_pid != Some(0))
            .count();
        let running = (0..trace.threads.len() as u32)
            .flat_map(|id| trace.slices.of_thread(ThreadId(id)))
            .filter(|slice| slice.state == ThreadState::Running)
            .count();
        assert_eq!(arrivals, running);
        assert_eq!(events.iter().filter(|event| event.sched_waking.is_some()).count(), trace.wakeups.len());
    }
}
