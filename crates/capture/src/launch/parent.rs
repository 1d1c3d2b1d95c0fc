//! Ending with whoever started us: a measurement that nobody waits for any more would go on for nobody.

use crate::error::CaptureError;

/// Has the kernel send us SIGTERM, as [`super::watch_signals`] passes it on to the program, when the thread that started us
/// ends; `parent` is its process. Asked for by ourselves, since what a parent asks for is forgotten by an `execve` of a
/// binary with capabilities (`prctl(2)`, `PR_SET_PDEATHSIG`).
///
/// # Errors
/// It is dead already, or the kernel refuses.
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
