//! Counters that the kernel keeps for threads, CPUs and the network: page faults, TLB shootdowns, CPU time by
//! kind, retried connections. They are read about once per second and at the end. This gives rates over time,
//! and a killed recorder has lost little.

use holdup_capture::bpf::Session;
use holdup_capture::network_counts::NetworkCounts;
use holdup_capture::{cpu_counts, lower};
use holdup_decode::counts::Counts;
use holdup_decode::wire::WireDecoder;
use holdup_events::{CpuId, Event, Loss, Timestamp};

const EVERY_NS: u64 = 1_000_000_000;
/// Reading may use at most 1/500 of the time.
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
    /// Includes the network counters of a process, by default of holdup itself.
    pub fn open(pid: Option<u32>) -> KernelCounts {
        KernelCounts { network: NetworkCounts::open(pid), ..KernelCounts::default() }
    }

    /// Takes the baseline: counts from before the recording are subtracted.
    pub fn begin(&mut self, session: &Session, decoder: &mut WireDecoder) {
        self.begin_ns = lower::now().0;
        self.look(session, decoder, &mut |_| {});
        self.cpus(cpu_counts::shootdowns(), &mut |_| {});
        self.next_ns = self.begin_ns + EVERY_NS;
    }

    /// Reads the counters if a read is due. `sink` receives the changes.
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

    /// Reads for the last time. Returns the reasons for unreadable counters.
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

    /// Passes on the changes since the last read.
    pub fn look(&mut self, session: &Session, decoder: &mut WireDecoder, sink: &mut dyn FnMut(Event)) {
        let threads = session.thread_counts(&mut |record| {
            // Decoding cannot fail: our own BPF program writes records of a fixed size and kind.
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
