//! CPU samples of files that hold how often each stack was seen, but not when. Samples are laid out one after
//! the other, so shares are correct, but their order is arbitrary.

use holdup_events::event::{RawStack, Sample, Snapshot, SnapshotState};
use holdup_events::{CpuId, Event, Timestamp};

use super::LaneThread;

/// Emits the samples, of one thread that runs all the time.
pub(crate) struct Laid<'a> {
    thread: LaneThread,
    period_ns: u64,
    told: u64,
    stacks: u64,
    sink: &'a mut dyn FnMut(Event),
}

impl<'a> Laid<'a> {
    /// Starts with a thread of this name. Each sample represents `period_ns`.
    pub fn new(name: &str, period_ns: u64, sink: &'a mut dyn FnMut(Event)) -> Laid<'a> {
        let thread = LaneThread { tid: 1, pid: 1, name: name.to_owned() };
        let mut laid = Laid { thread, period_ns, told: 0, stacks: 0, sink };
        laid.look();
        laid
    }

    /// Appends `samples` samples with this stack. Assigns the stack's id.
    pub fn add(&mut self, mut stack: RawStack, samples: u64) {
        let in_kernel = stack.kernel_frames > 0;
        self.stacks += 1;
        // Events are in the order of time: those that are not count as lost where a recording is read.
        (stack.at, stack.id, stack.tgid) = (Timestamp(self.now()), self.stacks, self.thread.pid);
        (self.sink)(Event::Stack(stack));
        for _ in 0..samples {
            let at = Timestamp(self.now() + self.period_ns / 2);
            (self.sink)(Event::Sample(Sample {
                at,
                cpu: CpuId::NONE,
                tid: self.thread.tid,
                tgid: self.thread.pid,
                in_kernel,
                syscall: if in_kernel { i32::MIN } else { -1 },
                stack: self.stacks,
                ..Sample::default()
            }));
            self.told += 1;
        }
    }

    /// First and last moment.
    pub fn finish(mut self) -> (Timestamp, Timestamp) {
        self.look();
        (Timestamp(0), Timestamp(self.now()))
    }

    fn now(&self) -> u64 {
        self.told.saturating_mul(self.period_ns)
    }

    /// Emits a snapshot with the CPU time so far.
    fn look(&mut self) {
        let now = self.now();
        (self.sink)(Event::Snapshot(Snapshot {
            at: Timestamp(now),
            tid: self.thread.tid,
            tgid: self.thread.pid,
            parent_tgid: 0,
            name: self.thread.name.clone(),
            target: true,
            state: SnapshotState::Running(CpuId::NONE),
            exec_ns: Some(now),
            queue_ns: Some(0),
        }));
    }
}
