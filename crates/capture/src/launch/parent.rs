//! Ends with the parent process: without it, no reader is left for the measurement.

use crate::error::CaptureError;

/// Requests SIGTERM when the parent's thread that started us exits. `parent` is its process.
/// [`super::watch_signals`] passes the signal on to the program. This process requests it itself, because an
/// `execve` of a binary with capabilities clears a parent's request (`prctl(2)`, `PR_SET_PDEATHSIG`).
///
/// # Errors
/// If the parent is dead already, or the kernel refuses.
pub fn end_with(parent: u32) -> Result<(), CaptureError> {
    // SAFETY: no memory is handed over.
    let (asked, now) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM), libc::getppid()) };
    if asked != 0 {
        return Err(CaptureError::last("asking to end with the process that started this one"));
    }
    // It may have died before we asked.
    match now as u32 == parent {
        true => Ok(()),
        false => Err(CaptureError::NoProcess { pid: parent }),
    }
}
