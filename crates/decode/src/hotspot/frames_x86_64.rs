//! Offsets in an interpreter frame on x86-64 that the tables lack, in bytes from the frame pointer
//! (`cpu/x86/frame_x86.hpp`). Valid for versions 9 to 25. Before version 9, the byte code pointer was one
//! word higher.

/// `interpreter_frame_method_offset`.
pub(super) const FUNCTION: i32 = -3 * 8;
/// `interpreter_frame_bcp_offset`.
pub(super) const AT: i32 = -8 * 8;
