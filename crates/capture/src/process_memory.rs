//! Memory of another process, read while it lives.

use std::io;

use crate::lower::procfs;

/// Reads from `address` on. Returns the number of bytes before unreadable memory. Needs a debugger's access
/// (ptrace(2), `PTRACE_MODE_ATTACH_REALCREDS`). The process is not stopped.
pub fn read(pid: u32, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
    match read_as(pid, address, bytes) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => match procfs::shown_as(pid) {
            shown if shown != pid => read_as(shown, address, bytes),
            _ => Err(error),
        },
        read => read,
    }
}

fn read_as(pid: u32, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let address = usize::try_from(address).map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))?;
    let into = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let from = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: writes at most into `bytes`. `from` is an address of the other process.
    let read = unsafe { libc::process_vm_readv(pid, &raw const into, 1, &raw const from, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let own = [7u8; 32];
        let mut bytes = [0; 32];
        assert_eq!(read(std::process::id(), own.as_ptr() as u64, &mut bytes).unwrap(), 32);
        assert_eq!(bytes, own);
        assert_eq!(read(std::process::id(), 8, &mut bytes).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        assert_eq!(read(u32::MAX, 8, &mut bytes).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
