//! Stacks as (frame, parent) pairs, and frames.

use crate::{FrameId, StackId};

/// No stack is deeper.
pub const DEPTH_MAX: usize = 1 << 16;

/// One stack: its leaf frame on top of its caller's stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StackRow {
    /// The leaf.
    pub frame: FrameId,
    /// The caller's stack, [`StackId::NONE`] at the root.
    pub parent: StackId,
    /// How `frame` was found.
    pub via: FrameVia,
    /// Where there is no caller: why.
    pub end: StackEnd,
}

/// All stacks. Row 0 means "none" and has no frame.
#[derive(Clone, Debug)]
pub struct Stacks {
    rows: Vec<StackRow>,
}

impl Default for Stacks {
    fn default() -> Stacks {
        Stacks { rows: vec![StackRow::default()] }
    }
}

impl Stacks {
    /// From rows as [`Stacks::rows`] gives them. A parent that is no row becomes "none".
    pub fn from_rows(mut rows: Vec<StackRow>) -> Stacks {
        if rows.is_empty() {
            return Stacks::default();
        }
        let count = rows.len();
        for row in rows.iter_mut().filter(|row| row.parent.index() >= count) {
            row.parent = StackId::NONE;
        }
        Stacks { rows }
    }

    /// Appends a row. The caller must intern rows.
    pub fn append(&mut self, row: StackRow) -> StackId {
        self.rows.push(row);
        StackId((self.rows.len() - 1) as u32)
    }

    /// Every row, "none" first.
    pub fn rows(&self) -> &[StackRow] {
        &self.rows
    }

    /// Why a stack has no further callers.
    pub fn end(&self, stack: StackId) -> StackEnd {
        let mut row = self.rows.get(stack.index());
        for _ in 0..DEPTH_MAX {
            match row {
                Some(found) if found.parent != StackId::NONE => row = self.rows.get(found.parent.index()),
                _ => break,
            }
        }
        row.map_or(StackEnd::Unknown, |row| row.end)
    }

    /// The frames of a stack, leaf first, at most [`DEPTH_MAX`]. The limit also ends cycles in a damaged
    /// recording.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = FrameId> + '_ {
        let mut next = stack;
        std::iter::from_fn(move || {
            if next == StackId::NONE {
                return None;
            }
            let row = self.rows.get(next.index())?;
            next = row.parent;
            Some(row.frame)
        })
        .take(DEPTH_MAX)
    }
}

crate::wait::codes! {
    /// How a frame was found: how far it can be trusted.
    FrameVia {
        /// Not recorded (a kernel frame, or a frame of an imported recording).
        Unknown = 0 "unknown",
        /// Where the thread was: its registers.
        Registers = 1 "registers",
        /// By the binary's unwind table (`.eh_frame`).
        Table = 2 "table",
        /// By the chain of frame pointers: a guess where code keeps none.
        FramePointer = 3 "frame-pointer",
        /// Where a signal interrupted the thread.
        SignalFrame = 4 "signal-frame",
        /// The next return address on the stack, behind code that nothing describes: a guess.
        Scan = 5 "scan",
        /// The caller of the function on whose frame the code runs: GHC's Haskell code, which has none of its own.
        LentFrame = 6 "lent-frame",
        /// An interpreter's own list of the functions that it runs.
        Interpreted = 7 "interpreted",
    }
}

crate::wait::codes! {
    /// Why a stack ends where it does.
    StackEnd {
        /// Not recorded.
        Unknown = 0 "unknown",
        /// At the thread's root: it is complete.
        Root = 1 "root",
        /// More frames than the recorder takes.
        TooDeep = 2 "too-deep",
        /// Stack memory could not be read (paged out).
        Unreadable = 3 "unreadable",
        /// The binary describes a frame in a way that is not understood.
        NoRule = 4 "no-rule",
        /// An address that is in no known executable mapping.
        UnknownMapping = 5 "unknown-mapping",
        /// The process's binaries were not known yet (the first moments after an exec).
        NoTables = 6 "no-tables",
        /// Code that nothing describes, and that keeps no frame pointer.
        NoFramePointer = 7 "no-frame-pointer",
        /// A description that leads back to where it was.
        Loop = 8 "loop",
    }
}

crate::wait::codes! {
    /// Where a frame's code is.
    FrameKind {
        /// Not known.
        Unknown = 0 "unknown",
        /// A native user-space function.
        User = 1 "user",
        /// The kernel.
        Kernel = 2 "kernel",
    }
}

crate::wait::codes! {
    /// Whether a thread at this place is spinning, as far as its code shows.
    FrameSpin {
        /// No, or not known.
        No = 0 "no",
        /// In a spin loop with a `pause` instruction.
        Pauses = 1 "pauses",
        /// In a loop that only reads the same memory again.
        Rereads = 2 "rereads",
        /// In `sched_yield`: it lets others run, and asks again.
        Yields = 3 "yields",
    }
}

/// [`Frame::module`] of code that a runtime made while the program ran.
pub const GENERATED_MODULE: &str = "[jit]";

/// [`Frame::module`] of functions that CPython runs: their file is in [`Frame::file`], as are their names in other programs.
pub const PYTHON_MODULE: &str = "[python]";

/// A place in the code. A call that the compiler inlined is a frame of its own, above its caller's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Where the code is.
    pub kind: FrameKind,
    /// Demangled name, empty if there is no symbol (use `module` + `offset` then).
    pub function: String,
    /// File name of the binary (path as the process saw it), `[kernel]`, `[vdso]`, `[jit]`, `[python]`, or empty.
    pub module: String,
    /// Exact place. For a user frame in a file, the offset in that file. For an interpreted function, the
    /// address of its code object plus the offset of the instruction. Otherwise the address. A function has
    /// as many frames as sampled places, so group by module and function, not by frame.
    pub offset: u64,
    /// Distance of `offset` from the start of its function (bytes). The start comes from a symbol, or without
    /// a symbol from unwind tables. 0 if unknown. Frames that were inlined into the function have the same
    /// value.
    pub function_offset: u64,
    /// Source file from the debug information, empty if unknown.
    pub file: String,
    /// Line in `file`, from 1. 0 if unknown. For a caller, the line of the call.
    pub line: u32,
    /// The compiler inlined this function into the next frame's.
    pub inlined: bool,
    /// For a leaf frame, whether the thread is spinning there.
    pub spin: FrameSpin,
    /// The variable that a spin loop reads: its symbol if the code names it, else empty.
    pub watches: String,
}

/// Row = [`FrameId`].
pub type Frames = Vec<Frame>;
