//! Memory of this process.

/// Larger pieces are mapped by themselves, and unmapped when they are freed.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 256 << 10;

/// Has every large piece given back as soon as it is freed, for as long as this process lives. By itself the C library learns from
/// each large one that is freed: it takes the next from a thread's heap, and keeps what is free at the heap's end (up to 64 MiB
/// for each of them), which [`give_back_freed`] leaves as it is. Who makes tables once an hour would hold their memory for ever.
pub fn keep_nothing_large() {
    // SAFETY: plain numbers; it takes the allocator's own lock.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES)
    };
}

/// Gives what was freed back to the kernel. The C library keeps it for each thread that freed some, and one that is started
/// for each recording leaves as much behind.
pub fn give_back_freed() {
    // SAFETY: a plain number; it takes the allocator's own locks.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}
