//! The thread on each CPU, as far as known from events. At most one per CPU.

use holdup_events::{CpuId, Timestamp};

/// Occupants by CPU, as indices of live threads.
#[derive(Default)]
pub struct Occupants {
    by_cpu: Vec<Option<usize>>,
    /// When something was last seen on each CPU.
    touched: Vec<Option<Timestamp>>,
}

impl Occupants {
    /// Puts thread `index` on `cpu`. Returns the thread that was there.
    pub fn put(&mut self, cpu: CpuId, index: usize) -> Option<usize> {
        if cpu == CpuId::NONE {
            return None;
        }
        let slot = usize::from(cpu.0);
        if slot >= self.by_cpu.len() {
            self.by_cpu.resize(slot + 1, None);
        }
        self.by_cpu.get_mut(slot).and_then(|occupant| occupant.replace(index))
    }

    /// Records activity on `cpu` at `at`. Returns the time of the previous activity.
    pub fn touch(&mut self, cpu: CpuId, at: Timestamp) -> Option<Timestamp> {
        let slot = usize::from(cpu.0);
        if slot >= self.touched.len() {
            self.touched.resize(slot + 1, None);
        }
        let touched = self.touched.get_mut(slot)?;
        let before = *touched;
        *touched = before.max(Some(at));
        before
    }

    /// When something was last seen on `cpu`.
    pub fn touched(&self, cpu: CpuId) -> Option<Timestamp> {
        self.touched.get(usize::from(cpu.0)).copied().flatten()
    }

    /// Clears `cpu`. Returns the thread that was there.
    pub fn take(&mut self, cpu: CpuId) -> Option<usize> {
        self.by_cpu.get_mut(usize::from(cpu.0)).and_then(Option::take)
    }

    /// The thread on `cpu`.
    pub fn thread_on(&self, cpu: CpuId) -> Option<usize> {
        self.by_cpu.get(usize::from(cpu.0)).copied().flatten()
    }

    /// The running threads.
    pub fn running(&self) -> impl Iterator<Item = usize> + '_ {
        self.by_cpu.iter().flatten().copied()
    }

    /// `index` is not on `cpu` any more, unless that is where it arrives at `at`.
    pub fn forget(&mut self, cpu: CpuId, index: usize, arrives_on: CpuId, at: Timestamp) {
        if cpu != arrives_on
            && let Some(slot) = self.by_cpu.get_mut(usize::from(cpu.0))
            && *slot == Some(index)
        {
            *slot = None;
            self.touch(cpu, at);
        }
    }
}
