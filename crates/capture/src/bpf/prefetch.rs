//! Prefetch of memory that will be read soon, by the CPU's own instruction. Does nothing on other
//! architectures.

/// Asks for the cache line at `address`, which need not be one that may be read.
#[inline]
pub(super) fn soon_read(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads nothing and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
