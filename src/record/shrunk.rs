//! Handles files that are truncated while they are mapped. The missing bytes read as zeros instead of raising
//! SIGBUS. The parsers reject zeros like other invalid input.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `BUS_ADRERR` of siginfo(2): no such part of the mapped file any more.
const NO_SUCH_PART: i32 = 2;

static PAGE: AtomicUsize = AtomicUsize::new(0);

/// From now on, for the whole process.
pub fn read_as_zeros() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a plain number.
        PAGE.store(unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize, Ordering::Relaxed);
        // SAFETY: installs a handler that only reads an atomic and makes system calls.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
        }
    });
}

extern "C" fn on_bus_error(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let page = PAGE.load(Ordering::Relaxed);
    // SAFETY: the kernel passes a valid siginfo. The page at the address belongs to a mapped file that has
    // become shorter. It is replaced by a page of zeros, and the read is repeated.
    unsafe {
        let at = (*info).si_addr() as usize & !(page - 1);
        let replaced = (*info).si_code == NO_SUCH_PART
            && libc::mmap(
                at as *mut libc::c_void,
                page,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            ) != libc::MAP_FAILED;
        if !replaced {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_parts_of_a_mapping_read_as_zeros() {
        read_as_zeros();
        let path = std::env::temp_dir().join(format!("holdup-shrunk-{}", std::process::id()));
        std::fs::write(&path, vec![7u8; 64 << 10]).unwrap();
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        // SAFETY: the test is about a file that becomes shorter under its mapping.
        let mapped = unsafe { memmap2::Mmap::map(&file) }.unwrap();
        assert_eq!(mapped[60 << 10], 7);
        file.set_len(8 << 10).unwrap();
        assert_eq!((mapped[100], mapped[60 << 10], mapped[(64 << 10) - 1]), (7, 0, 0));
        std::fs::remove_file(&path).unwrap();
    }
}
