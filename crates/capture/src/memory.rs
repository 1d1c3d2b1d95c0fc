//! Memory of this process.

/// Larger pieces are mapped by themselves, and unmapped when they are freed.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 256 << 10;

/// From now on, every large allocation is returned to the kernel when it is freed. By default, the C library
/// raises its mmap threshold with each freed large allocation. The next one then comes from a thread's heap,
/// whose free end is kept (up to 64 MiB each), even by [`give_back_freed`]. A process that makes tables once
/// per hour would keep their memory forever.
pub fn keep_nothing_large() {
    // SAFETY: plain numbers. The call takes the allocator's own lock.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES)
    };
}

/// Returns freed memory to the kernel. The C library keeps it per thread. Otherwise each thread started for a
/// recording would leave some behind.
pub fn give_back_freed() {
    // SAFETY: a plain number. The call takes the allocator's own locks.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}
