//! Memory of this process.

/// Gives what was freed back to the kernel. The C library keeps it for each thread that freed some, and one that is started
/// for each recording leaves as much behind.
pub fn give_back_freed() {
    // SAFETY: a plain number; it takes the allocator's own locks.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}
