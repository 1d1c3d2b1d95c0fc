//! Where a frame of the interpreter has what on x86-64, in bytes from its pointer on (`cpu/x86/frame_x86.hpp`). Of versions 9 to 25; what
//! the tables do not tell. Before, the instruction was one word above.

/// `interpreter_frame_method_offset`.
pub(super) const FUNCTION: i32 = -3 * 8;
/// `interpreter_frame_bcp_offset`.
pub(super) const AT: i32 = -8 * 8;
