//! Numbers of the trace's events, and how many numbers each carries (Go's src/internal/trace/tracev2/events.go).

pub(super) const EVENT_BATCH: u8 = 1;
pub(super) const STACKS: u8 = 2;
pub(super) const STACK: u8 = 3;
pub(super) const STRINGS: u8 = 4;
pub(super) const STRING: u8 = 5;
pub(super) const CPU_SAMPLES: u8 = 6;
pub(super) const FREQUENCY: u8 = 8;
pub(super) const PROC_START: u8 = 10;
pub(super) const PROC_STOP: u8 = 11;
pub(super) const PROC_STEAL: u8 = 12;
pub(super) const PROC_STATUS: u8 = 13;
pub(super) const GO_CREATE: u8 = 14;
pub(super) const GO_CREATE_SYSCALL: u8 = 15;
pub(super) const GO_START: u8 = 16;
pub(super) const GO_DESTROY: u8 = 17;
pub(super) const GO_DESTROY_SYSCALL: u8 = 18;
pub(super) const GO_STOP: u8 = 19;
pub(super) const GO_BLOCK: u8 = 20;
pub(super) const GO_UNBLOCK: u8 = 21;
pub(super) const GO_SYSCALL_BEGIN: u8 = 22;
pub(super) const GO_SYSCALL_END: u8 = 23;
pub(super) const GO_SYSCALL_END_BLOCKED: u8 = 24;
pub(super) const GO_STATUS: u8 = 25;
pub(super) const STW_BEGIN: u8 = 26;
pub(super) const STW_END: u8 = 27;
pub(super) const GC_ACTIVE: u8 = 28;
pub(super) const GC_BEGIN: u8 = 29;
pub(super) const GC_END: u8 = 30;
pub(super) const GC_SWEEP_BEGIN: u8 = 32;
pub(super) const GC_SWEEP_END: u8 = 33;
pub(super) const GC_MARK_ASSIST_BEGIN: u8 = 35;
pub(super) const GC_MARK_ASSIST_END: u8 = 36;
pub(super) const HEAP_ALLOC: u8 = 37;
pub(super) const HEAP_GOAL: u8 = 38;
pub(super) const USER_REGION_BEGIN: u8 = 42;
pub(super) const USER_REGION_END: u8 = 43;
pub(super) const USER_LOG: u8 = 44;
pub(super) const GO_SWITCH: u8 = 45;
pub(super) const GO_SWITCH_DESTROY: u8 = 46;
pub(super) const GO_CREATE_BLOCKED: u8 = 47;
pub(super) const GO_STATUS_STACK: u8 = 48;
pub(super) const EXPERIMENTAL_BATCH: u8 = 49;
pub(super) const SYNC: u8 = 50;
pub(super) const CLOCK_SNAPSHOT: u8 = 51;
pub(super) const END_OF_GENERATION: u8 = 52;

/// Number of values per event id, including the time. 0 for ids that are not events.
const LENGTHS: [u8; 49] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, // batches
    3, 3, 1, 4, 3, // procs
    4, 2, 3, 1, 1, 3, 3, 4, 3, 1, 1, 4, // goroutines
    3, 1, // stop the world
    2, 3, 2, 2, 2, 3, 2, 2, 1, 2, 2, // collector
    2, 5, 3, 4, 4, 5, // user's
    3, 3, 4, 5, // since 1.23
];

/// Number of values of an event, `None` if unknown.
pub(super) fn length(id: u8) -> Option<u8> {
    LENGTHS.get(usize::from(id)).copied().filter(|length| *length > 0)
}
