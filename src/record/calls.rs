//! Exact counts of all syscalls (`--syscalls`). The sums of the BPF programs are read about once per second.
//! This gives rates over time, and a killed recorder loses at most the last interval.

use holdup_capture::bpf::{CALL_MAPS, CountFrom, Session};
use holdup_capture::lower;
use holdup_decode::calls::{CallDecoder, CallMap};
use holdup_events::recording::SourceState;
use holdup_events::{CpuId, Event, Loss, Timestamp};
use holdup_findings::derive::syscall_names::is_ring_operation;

use super::skipped_runs;

const NAME: &str = "syscalls";
const EVERY_NS: u64 = 1_000_000_000;
/// Reading may use at most 1/200 of the time.
const READING_PART: u64 = 200;
/// In the order of [`CALL_MAPS`].
pub const MAPS: [CallMap; 6] =
    [CallMap::Sums, CallMap::Sums, CallMap::Errors, CallMap::Stacks, CallMap::Stacks, CallMap::Names];

/// Reads the sums of one recording.
pub struct Calls {
    wanted: bool,
    decoder: CallDecoder,
    begin_ns: u64,
    told_ns: u64,
    next_ns: u64,
    /// Duration of a syscall before any program is attached to syscalls (ns).
    bare_ns: f64,
    /// Added duration of each syscall since, for all callers (ns).
    longer_ns: f64,
    calls: u64,
    /// Runs of the programs that the kernel had left out when counting began.
    skipped_before: u64,
    missing: String,
}

impl Calls {
    /// Before any program is attached.
    pub fn new(wanted: bool, session: &Session) -> Calls {
        Calls {
            wanted,
            decoder: CallDecoder::default(),
            begin_ns: 0,
            told_ns: 0,
            next_ns: u64::MAX,
            bare_ns: if wanted { session.time_of_a_call_ns() } else { 0.0 },
            longer_ns: 0.0,
            calls: 0,
            skipped_before: 0,
            missing: String::new(),
        }
    }

    /// Called when the BPF programs are attached and the program does not run yet. `runs`: holdup starts the
    /// program.
    pub fn begin(&mut self, session: &Session, runs: bool) {
        if !self.wanted {
            return;
        }
        self.longer_ns = (session.time_of_a_call_ns() - self.bare_ns).max(0.0);
        let from = if runs { CountFrom::NextProgram } else { CountFrom::Now };
        if let Err(error) = session.count_calls(from) {
            self.missing = error.to_string();
        }
        self.skipped_before = skipped_runs::calls(session);
        self.begin_ns = lower::now().0;
        (self.told_ns, self.next_ns) = (self.begin_ns, self.begin_ns + EVERY_NS);
    }

    /// Reads the sums if a read is due. `sink` receives the changes.
    pub fn step(&mut self, session: &Session, sink: &mut dyn FnMut(Event)) {
        let now = lower::now().0;
        if !self.wanted || now < self.next_ns {
            return;
        }
        let began_ns = lower::thread_cpu_ns();
        self.read(session, now, sink);
        let took_ns = lower::thread_cpu_ns().saturating_sub(began_ns);
        self.next_ns = now + EVERY_NS.max(took_ns.saturating_mul(READING_PART));
    }

    /// Reads the last sums after the end of the recording. Returns the state of the source, and the CPU time
    /// that the kernel's longer syscall entry took (ns).
    pub fn finish(
        &mut self,
        session: &Session,
        end: Timestamp,
        sink: &mut dyn FnMut(Event),
    ) -> (Option<SourceState>, u64) {
        if !self.wanted {
            return (None, 0);
        }
        self.read(session, end.0, sink);
        let skipped = skipped_runs::calls(session).saturating_sub(self.skipped_before);
        let without_room = session.calls_uncounted() + self.decoder.bad();
        for (reason, events) in [("no room", without_room), (Loss::SKIPPED, skipped)] {
            if events > 0 {
                sink(Event::Loss(Loss {
                    source: NAME.to_owned(),
                    reason: reason.to_owned(),
                    cpu: CpuId::NONE,
                    start: Timestamp(self.begin_ns),
                    end,
                    events,
                }));
            }
        }
        let lost = without_room + skipped;
        let missing = std::mem::take(&mut self.missing);
        let state = SourceState { name: NAME.to_owned(), active: true, missing, events: self.calls, lost };
        (Some(state), (self.calls as f64 * self.longer_ns) as u64)
    }

    fn read(&mut self, session: &Session, now: u64, sink: &mut dyn FnMut(Event)) {
        for (name, map) in CALL_MAPS.into_iter().zip(MAPS) {
            let decoder = &mut self.decoder;
            if let Err(error) = session.calls(name, &mut |key, values| decoder.take(map, key, values)) {
                self.missing = format!("{name} could not be read: {error}");
            }
        }
        let calls = &mut self.calls;
        self.decoder.emit((Timestamp(self.told_ns), Timestamp(now)), &mut |event| {
            if let Event::Calls(sums) = &event
                && !is_ring_operation(sums.syscall)
            {
                *calls += sums.count;
            }
            sink(event);
        });
        self.told_ns = now;
    }
}
