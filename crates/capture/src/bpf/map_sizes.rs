//! Map sizes that depend on the number of possible CPUs.
//!
//! A per-CPU hash holds each value once per possible CPU. An LRU hash gives each possible CPU a list of free
//! entries, of up to 128 before Linux 6.17 (`LOCAL_FREE_TARGET`, kernel/bpf/bpf_lru_list.c). With such lists,
//! a small map on a machine with many CPUs evicts entries long before it is full.

use libbpf_rs::MapType;

/// All values of a per-CPU hash that takes its memory in advance (bytes).
const PREALLOCATED_MAX: u64 = 16 << 20;
/// All values of a per-CPU hash that takes its memory as entries come (bytes).
const ON_DEMAND_MAX: u64 = 256 << 20;
/// Entries of a per-CPU hash that are kept whatever they take.
const ENTRIES_MIN: u32 = 256;
/// Entries of an LRU hash for each possible CPU: twice the list of free entries.
const LRU_PER_CPU: u32 = 256;

/// A map before loading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub kind: MapType,
    pub entries: u32,
    pub value_bytes: u32,
    /// `BPF_F_NO_PREALLOC`.
    pub on_demand: bool,
}

/// The number of entries that such a map gets with this many possible CPUs.
pub(super) fn entries(planned: Planned, cpus: u32) -> u32 {
    match planned.kind {
        MapType::PercpuHash => {
            let limit = if planned.on_demand { ON_DEMAND_MAX } else { PREALLOCATED_MAX };
            let each = u64::from(planned.value_bytes.next_multiple_of(8).max(8)) * u64::from(cpus.max(1));
            let fit = u32::try_from(limit / each).unwrap_or(u32::MAX).max(ENTRIES_MIN);
            planned.entries.min(fit)
        }
        MapType::LruHash => planned.entries.max(cpus.saturating_mul(LRU_PER_CPU)),
        _ => planned.entries,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(kind: MapType, entries: u32, value_bytes: u32, on_demand: bool) -> Planned {
        Planned { kind, entries, value_bytes, on_demand }
    }

    #[test]
    fn sums_of_syscalls_take_bounded_memory_at_256_cpus() {
        let (sums, plain) =
            (planned(MapType::PercpuHash, 65_536, 488, true), planned(MapType::PercpuHash, 1024, 488, false));
        for cpus in [1, 2, 8, 64, 256, 1024] {
            let bytes = |map: Planned| u64::from(entries(map, cpus)) * 488 * u64::from(cpus);
            assert!(bytes(sums) <= ON_DEMAND_MAX || entries(sums, cpus) == ENTRIES_MIN, "{cpus}");
            assert!(bytes(plain) <= PREALLOCATED_MAX || entries(plain, cpus) == ENTRIES_MIN, "{cpus}");
        }
        assert_eq!((entries(sums, 8), entries(plain, 2)), (65_536, 1024), "few CPUs: as planned");
        assert_eq!((entries(sums, 256), entries(plain, 256)), (2_148, ENTRIES_MIN));
    }

    #[test]
    fn small_lru_maps_have_room_for_each_cpus_list() {
        let sockets = planned(MapType::LruHash, 1024, 288, false);
        assert_eq!([2, 64, 256].map(|cpus| entries(sockets, cpus)), [1024, 16_384, 65_536]);
        let plain = planned(MapType::Hash, 1024, 288, false);
        assert_eq!(entries(plain, 256), 1024);
    }
}
