//! What the kernel counts of threads, CPUs and the network anyway: page faults, shootdowns, the time of CPUs by kind, connections
//! that were tried again. Looked at about once a second, so that rates over time are known and a killed recorder has told most of
//! it, and at the end.

use holdup_capture::bpf::Session;
use holdup_capture::network_counts::NetworkCounts;
use holdup_capture::{cpu_counts, lower};
use holdup_decode::counts::Counts;
use holdup_decode::wire::WireDecoder;
use holdup_events::{CpuId, Event, Loss, Timestamp};

const EVERY_NS: u64 = 1_000_000_000;
/// Looking may take this part of the time at the most.
const LOOKING_PART: u64 = 500;

/// The looks of one recording.
#[derive(Default)]
pub struct KernelCounts {
    counts: Counts,
    network: NetworkCounts,
    begin_ns: u64,
    next_ns: u64,
    /// Why counts of threads, or of shootdowns, could not be read.
    missing: String,
}

impl KernelCounts {
    /// With those of the network of a process; of holdup's own if none is said.
    pub fn of(pid: Option<u32>) -> KernelCounts {
        KernelCounts { network: NetworkCounts::of(pid), ..KernelCounts::default() }
    }

    /// The program does not run yet, or not for the recording: what was counted before is not its.
    pub fn begin(&mut self, session: &Session, decoder: &mut WireDecoder) {
        self.begin_ns = lower::now().0;
        self.look(session, decoder, &mut |_| {});
        self.cpus(cpu_counts::shootdowns(), &mut |_| {});
        self.next_ns = self.begin_ns + EVERY_NS;
    }

    /// Looks, if it is time to. `sink` gets what is new.
    pub fn step(&mut self, session: &Session, decoder: &mut WireDecoder, sink: &mut dyn FnMut(Event)) {
        let now = lower::now().0;
        if now < self.next_ns {
            return;
        }
        let began_ns = lower::thread_cpu_ns();
        self.look(session, decoder, sink);
        let took_ns = lower::thread_cpu_ns().saturating_sub(began_ns);
        self.next_ns = now + EVERY_NS.max(took_ns.saturating_mul(LOOKING_PART));
    }

    /// The last look; says why there is nothing of what could not be read.
    pub fn finish(
        &mut self,
        session: &Session,
        decoder: &mut WireDecoder,
        sink: &mut dyn FnMut(Event),
    ) -> String {
        self.look(session, decoder, sink);
        self.cpus(cpu_counts::shootdowns(), sink);
        let lost = session.paging_uncounted() + self.counts.bad();
        if lost > 0 {
            sink(Event::Loss(Loss {
                source: "shootdowns".to_owned(),
                reason: "no room for counts of shootdowns, huge pages and memory that was taken back"
                    .to_owned(),
                cpu: CpuId::NONE,
                start: Timestamp(self.begin_ns),
                end: lower::now(),
                events: lost,
            }));
        }
        let missing = [session.faults_missing(), &self.missing];
        missing.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// Passes on what is new now.
    pub fn look(&mut self, session: &Session, decoder: &mut WireDecoder, sink: &mut dyn FnMut(Event)) {
        let threads = session.thread_counts(&mut |record| {
            // Of one size and kind, by our own program.
            let _ = decoder.decode(record, sink);
        });
        let at = lower::now();
        let counts = &mut self.counts;
        let paging = session.paging(&mut |key, value| counts.paging((key, value), at, sink));
        if let Some(error) = threads.err().or(paging.err()) {
            self.missing = error.to_string();
        }
        self.cpus(cpu_counts::times(), sink);
        self.cpus(cpu_counts::memory(), sink);
        let network = self.network.look();
        self.cpus(network, sink);
    }

    fn cpus(&mut self, counts: Vec<cpu_counts::CpuCount>, sink: &mut dyn FnMut(Event)) {
        let at = lower::now();
        counts.into_iter().for_each(|(cpu, what, total)| self.counts.cpu((cpu, what), total, at, sink));
    }
}
