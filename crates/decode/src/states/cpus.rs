//! Who runs on which CPU, as far as the events have told: at most one thread each.

use holdup_events::CpuId;

/// Occupants by CPU, as indices of live threads.
#[derive(Default)]
pub struct Occupants {
    by_cpu: Vec<Option<usize>>,
    /// Something was seen on this CPU.
    touched: Vec<bool>,
}

impl Occupants {
    /// `index` runs on `cpu` now; returns who was there.
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

    /// Whether anything was seen on `cpu` before; from now on it was.
    pub fn touch(&mut self, cpu: CpuId) -> bool {
        let slot = usize::from(cpu.0);
        if slot >= self.touched.len() {
            self.touched.resize(slot + 1, false);
        }
        self.touched.get_mut(slot).is_some_and(|touched| std::mem::replace(touched, true))
    }

    /// Nobody runs on `cpu` now; returns who was there.
    pub fn take(&mut self, cpu: CpuId) -> Option<usize> {
        self.by_cpu.get_mut(usize::from(cpu.0)).and_then(Option::take)
    }

    /// `index` is not on `cpu` any more, unless that is where it arrives now.
    pub fn forget(&mut self, cpu: CpuId, index: usize, arrives_on: CpuId) {
        if cpu != arrives_on
            && let Some(slot) = self.by_cpu.get_mut(usize::from(cpu.0))
            && *slot == Some(index)
        {
            *slot = None;
        }
    }
}
