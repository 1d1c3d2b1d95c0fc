//! Dense identifiers of one trace.
//!
//! The operating system reuses its numbers (`tid`, `pid`). A trace therefore gives each thread and each
//! process its own id, a zero-based index into the trace's table. Ids are not stable across traces.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The row of this id in its table.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(/** A row of [`crate::tables::Threads`]. */ ThreadId);
id!(/** A row of [`crate::tables::Processes`]. */ ProcessId);
id!(/** A row of [`crate::tables::Stacks`]; row 0 is the empty stack, "none was taken". */ StackId);
id!(/** A row of [`crate::tables::Frames`]. */ FrameId);
id!(/** A row of [`crate::tables::Waits`]; row 0 is "not known". */ WaitId);

/// A logical CPU, by the kernel's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct CpuId(pub u16);

impl StackId {
    /// No stack was taken.
    pub const NONE: StackId = StackId(0);
}

impl WaitId {
    /// No wait information.
    pub const NONE: WaitId = WaitId(0);
}

impl CpuId {
    /// On no CPU, or not known which.
    pub const NONE: CpuId = CpuId(u16::MAX);
}
