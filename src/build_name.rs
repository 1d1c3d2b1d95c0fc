//! Version and build id of this holdup binary. Recordings contain them, so that a recording can be matched to
//! the binary that made it.

use std::sync::LazyLock;

use holdup_decode::unwind::build_id;

/// Version and build id in SemVer form: `0.1.0+6c4d605d...`. Without a build id, only the version.
pub fn name() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| named(&own_build_id()));
    &NAME
}

fn own_build_id() -> Vec<u8> {
    let Ok(file) = std::fs::File::open("/proc/self/exe") else { return Vec::new() };
    // SAFETY: the file is being executed, so the kernel refuses writes to it (ETXTBSY).
    let Ok(bytes) = (unsafe { memmap2::Mmap::map(&file) }) else { return Vec::new() };
    build_id(&*bytes)
}

fn named(id: &[u8]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    if id.is_empty() { version.to_owned() } else { format!("{version}+{id}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_is_named() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(named(&[0x0a, 0xff]), format!("{version}+0aff"));
        assert_eq!(named(&[]), version);
        assert_eq!(own_build_id().len(), 20, "the linker writes a SHA-1");
    }
}
