//! Whether a library can be loaded into a program before its own (`LD_PRELOAD`).

use object::Endianness;
use object::ReadRef;
use object::elf::{EM_AARCH64, EM_X86_64};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};

use crate::unwind::needed;

/// Runtimes that must come first, and end a program in which they do not.
const MUST_BE_FIRST: [&str; 5] = ["libasan.", "libtsan.", "libmsan.", "liblsan.", "libclang_rt."];

/// Machines that this build runs on.
const MACHINE: object::elf::Machine = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };

/// Why the program cannot be preloaded, as the end of a sentence about it. `None` if it can.
pub fn why_not_preloaded<'a, R: ReadRef<'a>>(bytes: R) -> Option<String> {
    let Ok(file) = ElfFile64::<Endianness, R>::parse(bytes) else {
        return Some("is no 64-bit program".to_owned());
    };
    let endian = file.endian();
    if file.elf_header().e_machine(endian) != MACHINE {
        return Some("is a program of another kind of machine".to_owned());
    }
    let segments = file.elf_program_headers();
    let named = segments.iter().find_map(|segment| segment.interpreter(endian, bytes).ok().flatten());
    let Some(loader) = named.map(String::from_utf8_lossy) else {
        return Some("is statically linked, and nothing can be loaded into it".to_owned());
    };
    if !loader.contains("ld-linux") {
        let shown: String = loader.chars().filter(|c| !c.is_control()).collect();
        return Some(format!("is loaded by {shown}, and glibc's loader is wanted"));
    }
    let first =
        needed(bytes).into_iter().find(|name| MUST_BE_FIRST.iter().any(|first| name.starts_with(first)));
    first.map(|name| format!("has {name} in it, which replaces the allocator itself"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_can_and_what_is_none_cannot() {
        let own = std::fs::read("/proc/self/exe").expect("it is there");
        let why = why_not_preloaded(own.as_slice());
        assert!(why.is_none() || cfg!(target_env = "musl"), "{why:?}");
        assert_eq!(why_not_preloaded(&b"\x7fELF"[..]).as_deref(), Some("is no 64-bit program"));
        // Cut anywhere it has an answer.
        for length in (0..own.len().min(4096)).step_by(61) {
            let _ = why_not_preloaded(&own[..length]);
        }
    }

    #[test]
    fn without_a_loader_it_is_static() {
        let mut own = std::fs::read("/proc/self/exe").expect("it is there");
        // The first program headers' types, made unknown: there is no interpreter any more.
        let (offset, size, count) = (word(&own, 32), half(&own, 54), half(&own, 56));
        for number in 0..count {
            let at = (offset + size * number) as usize;
            if own.get(at..at + 4) == Some(&[3, 0, 0, 0]) {
                own[at] = 0x70;
            }
        }
        let why = why_not_preloaded(own.as_slice()).expect("it cannot");
        assert!(why.contains("statically linked"), "{why}");
    }

    fn word(bytes: &[u8], at: usize) -> u64 {
        bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
    }

    fn half(bytes: &[u8], at: usize) -> u64 {
        bytes[at..at + 2].try_into().map_or(0, u16::from_le_bytes).into()
    }
}
