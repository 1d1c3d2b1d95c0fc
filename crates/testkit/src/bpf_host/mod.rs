//! The BPF stack walker (`bpf/unwind.h`), compiled for user space. It can be tested without a kernel or a
//! privilege.
//!
//! The C code is the same as in the BPF programs. Only the loop around it and the memory reads are different.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use holdup_decode::unwind::{Registers, Row};
use holdup_events::tables::{FrameVia, StackEnd};

/// As `USER_FRAMES_MAX` in `bpf/unwind.h`.
pub const FRAMES_MAX: usize = 224;

/// As `UNWIND_MAPPINGS_MAX` in `bpf/unwind.h`.
pub const MAPPINGS_MAX: usize = 512;

/// An executable mapping, and its rows.
#[derive(Clone, Debug, Default)]
pub struct HostMapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// An address less this is the pc of a row.
    pub base: u64,
    /// In the order of pc. Empty for frame pointers.
    pub rows: Vec<Row>,
}

/// The executable mappings of one process, as the kernel programs get them.
pub struct HostProcess {
    process: Box<Process>,
    rows: Vec<u64>,
}

/// Result of the walker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostWalk {
    /// Leaf first.
    pub addresses: Vec<u64>,
    /// How each was found.
    pub vias: Vec<FrameVia>,
    /// Why there are no more.
    pub end: StackEnd,
    /// Registers of the last frame, with bx of the first.
    pub registers: Registers,
}

/// Reads memory of the walked thread: fills all of the bytes, or returns `false`.
pub type ReadMemory<'a> = dyn FnMut(u64, &mut [u8]) -> bool + 'a;

/// `struct unwind_mapping`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Mapping {
    start: u64,
    end: u64,
    base: u64,
    first_row: u32,
    rows: u32,
}

/// `struct unwind_process`.
#[repr(C)]
struct Process {
    count: u32,
    generation: u32,
    lent: u64,
    mappings: [Mapping; MAPPINGS_MAX],
}

/// `struct unwind_state`.
#[repr(C)]
#[derive(Default)]
struct State {
    ip: u64,
    sp: u64,
    bp: u64,
    bx: u64,
    bx_at: u64,
    exact: u32,
    via: u32,
    mapping: u32,
    depth: u32,
}

#[repr(C)]
struct Host {
    read: extern "C" fn(*mut c_void, *mut u8, u64, u64) -> i32,
    reader: *mut c_void,
    rows: *const u64,
    row_count: u64,
}

unsafe extern "C" {
    fn holdup_bpf_host_walk(
        with: *const Host,
        process: *const Process,
        state: *mut State,
        addresses: *mut u64,
        frames: *mut u32,
    ) -> u32;
}

impl HostProcess {
    /// From mappings in the order of their addresses. Mappings beyond [`MAPPINGS_MAX`] are ignored.
    pub fn new(mappings: &[HostMapping]) -> HostProcess {
        static GENERATION: AtomicU32 = AtomicU32::new(1);
        let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
        let mappings_of_it = [Mapping::default(); MAPPINGS_MAX];
        let mut process = Box::new(Process { count: 0, generation, lent: 0, mappings: mappings_of_it });
        let mut rows = Vec::new();
        for (slot, mapping) in process.mappings.iter_mut().zip(mappings) {
            let (first_row, count) = (rows.len() as u32, mapping.rows.len() as u32);
            rows.extend(mapping.rows.iter().map(|row| row.pack()));
            let HostMapping { start, end, base, .. } = *mapping;
            *slot = Mapping { start, end, base, first_row, rows: count };
        }
        process.count = mappings.len().min(MAPPINGS_MAX) as u32;
        HostProcess { process, rows }
    }

    /// The same process, whose code without rows may run on a frame like this.
    pub fn lending(mut self, lent: Option<Row>) -> HostProcess {
        self.process.lent = lent.map_or(0, Row::pack);
        self
    }

    /// Walks from `registers`, as the kernel programs do.
    pub fn walk(&self, registers: Registers, mut read: &mut ReadMemory<'_>) -> HostWalk {
        let Registers { ip, sp, bp, bx } = registers;
        let mut state = State { ip, sp, bp, bx, ..State::default() };
        let (mut addresses, mut frames) = ([0u64; FRAMES_MAX], 0u32);
        let host = Host {
            read: read_memory,
            reader: (&raw mut read).cast(),
            rows: self.rows.as_ptr(),
            row_count: self.rows.len() as u64,
        };
        // SAFETY: the C code writes at most FRAMES_MAX addresses, and reads at most `row_count` rows and
        // MAPPINGS_MAX mappings. It keeps none of the pointers. `reader` is the argument that `read_memory`
        // expects.
        let end = unsafe {
            holdup_bpf_host_walk(&host, &*self.process, &mut state, addresses.as_mut_ptr(), &mut frames)
        };
        let found = &addresses[..frames as usize];
        let via = |address: &u64| FrameVia::from_code((address >> 56) as u8 + 1).expect("a known way");
        HostWalk {
            addresses: found.iter().map(|address| address << 8 >> 8).collect(),
            vias: found.iter().map(via).collect(),
            end: StackEnd::from_code(end as u8).expect("a known end"),
            registers: Registers { ip: state.ip, sp: state.sp, bp: state.bp, bx: state.bx },
        }
    }
}

/// Called from C with the reader that [`HostProcess::walk`] gave.
extern "C" fn read_memory(reader: *mut c_void, to: *mut u8, bytes: u64, address: u64) -> i32 {
    // SAFETY: `reader` points to the `&mut ReadMemory` of the current walk, and `to` has room for `bytes`.
    let (read, to) = unsafe {
        (&mut *reader.cast::<&mut ReadMemory<'_>>(), std::slice::from_raw_parts_mut(to, bytes as usize))
    };
    to.fill(0);
    if read(address, to) { 0 } else { -1 }
}
