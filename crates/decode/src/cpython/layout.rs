//! Offsets in CPython's structures. Versions up to 3.12 do not publish them, so they are taken from the
//! headers (`offsetof` of `PyThreadState`, `PyFrameObject`, `_PyInterpreterFrame`, `PyCodeObject`, ... on a
//! 64-bit machine). All releases of a version share its ABI. From 3.13 on, the runtime begins with a table
//! for debuggers (`_Py_DebugOffsets`, `Include/internal/pycore_runtime.h`).

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};

use super::lines::Kind;
use crate::process_memory::{Memory, pointer, word};

/// Symbols of the interpreter's binary, as addresses in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Address of `_PyRuntime`.
    pub runtime: u64,
    /// Address of `PyCode_Type`.
    pub code_type: u64,
    /// Address of `Py_Version`, from 3.11 on.
    pub version: Option<u64>,
}

/// The interpreter's symbols in a binary, `None` for any other binary.
pub fn symbols(binary: &[u8]) -> Option<Symbols> {
    let file = ElfFile64::<Endianness>::parse(binary).ok()?;
    // All names are many times as many as those for others, which are enough nearly always.
    find_symbols(file.dynamic_symbols()).or_else(|| find_symbols(file.symbols()))
}

fn find_symbols<'a>(symbols: impl Iterator<Item = impl ObjectSymbol<'a>>) -> Option<Symbols> {
    let mut found = Symbols::default();
    for symbol in symbols.filter(|symbol| symbol.is_definition()) {
        match symbol.name() {
            Ok("_PyRuntime") => found.runtime = symbol.address(),
            Ok("PyCode_Type") => found.code_type = symbol.address(),
            Ok("Py_Version") => found.version = Some(symbol.address()),
            _ => {}
        }
    }
    (found.runtime != 0 && found.code_type != 0).then_some(found)
}

/// The minor version of Python 3 in a binary's file name: `libpython3.9.so.1.0`, `python3.10`.
pub fn version_by_name(path: &str) -> Option<u8> {
    let file = path.rsplit('/').next()?;
    let behind = file.strip_prefix("libpython3.").or_else(|| file.strip_prefix("python3."))?;
    let digits = behind.find(|character: char| !character.is_ascii_digit()).unwrap_or(behind.len());
    behind.get(..digits)?.parse().ok()
}

/// Why nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The interpreter's memory is not readable, or is not initialized yet.
    Silent,
    /// Unsupported minor version of Python 3.
    Version(u8),
}

/// How the kernel programs find which functions a thread is in (`struct interpreter_layout` in `bpf/interpreters.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    interpreter: u64,
    threads: u32,
    thread_next: u32,
    thread_id: u32,
    thread_frame: u32,
    frame_through: u32,
    frame_bytes: u32,
    frame_code: u32,
    frame_caller: u32,
    frame_at: u32,
    frame_begins: u32,
    code_first: u32,
    code_line: u32,
    code_file: u32,
    code_name: u32,
    at_kind: u16,
    begin_kind: u16,
}

/// Maximum distance between the fields of a code object (bytes). Larger offsets are not those of a layout that is known.
const CODE_BYTES_MAX: u32 = 128;
/// `INTERPRETER_DIRECTLY`.
const DIRECTLY: u32 = u32::MAX;
/// `enum interpreted_at`.
const AT_BYTE: u16 = 0;
const AT_UNIT: u16 = 1;
const AT_PLACE: u16 = 2;
/// `enum interpreted_begin`.
const BEGINS_EACH: u16 = 0;
const BEGINS_FLAG: u16 = 1;
const BEGINS_FRAME: u16 = 2;

impl Walk {
    /// Where a code object has its first line, its file's name and its own.
    pub(super) fn code(&self) -> [u64; 3] {
        [self.code_line, self.code_file, self.code_name].map(u64::from)
    }

    /// As the kernel programs read it.
    pub fn pack(&self) -> Vec<u8> {
        let mut bytes = self.interpreter.to_ne_bytes().to_vec();
        for offset in [
            self.threads,
            self.thread_next,
            self.thread_id,
            self.thread_frame,
            self.frame_through,
            self.frame_bytes,
            self.frame_code,
            self.frame_caller,
            self.frame_at,
            self.frame_begins,
            self.code_first,
            self.code_line,
            self.code_file,
            self.code_name,
        ] {
            bytes.extend(offset.to_ne_bytes());
        }
        bytes.extend(self.at_kind.to_ne_bytes());
        bytes.extend(self.begin_kind.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes
    }
}

/// Offsets in structures, and sizes (bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// For the kernel programs.
    pub walk: Walk,
    pub(super) code_type: u64,
    pub(super) object_type: u64,
    /// From 3.11 on.
    pub(super) code_qualified_name: Option<u64>,
    pub(super) code_lines: u64,
    pub(super) lines: Kind,
    pub(super) text_length: u64,
    pub(super) text_state: u64,
    pub(super) text_ascii_bytes: u64,
    pub(super) text_compact_bytes: u64,
    pub(super) bytes_length: u64,
    pub(super) bytes_data: u64,
}

impl Layout {
    /// Layout of an interpreter with load bias `loaded`. `named` is the version in its file name.
    pub fn read(
        memory: &dyn Memory,
        symbols: &Symbols,
        loaded: u64,
        named: Option<u8>,
    ) -> Result<Layout, Refused> {
        let at = |address: u64| loaded.checked_add(address).ok_or(Refused::Silent);
        let minor = match symbols.version {
            Some(version) => {
                let version = pointer(memory, at(version)?).ok_or(Refused::Silent)?;
                // 3 in the fourth byte, then the minor one (`PY_VERSION_HEX`).
                (version >> 24 == 3).then_some((version >> 16) as u8).ok_or(Refused::Silent)?
            }
            None => named.ok_or(Refused::Silent)?,
        };
        let (runtime, code_type) = (at(symbols.runtime)?, at(symbols.code_type)?);
        match minor {
            8..=12 => Ok(of_version(minor, runtime, code_type)),
            13 => of_table(memory, runtime, code_type).ok_or(Refused::Silent),
            other => Err(Refused::Version(other)),
        }
    }
}

/// Fields that are equal in all versions, or were equal up to 3.10.
fn of_version(minor: u8, runtime: u64, code_type: u64) -> Layout {
    let before_11 = Layout {
        walk: Walk {
            interpreter: runtime + 40,
            threads: 8,
            thread_next: 8,
            thread_id: 176,
            thread_frame: 24,
            frame_through: DIRECTLY,
            frame_bytes: 112,
            frame_code: 32,
            frame_caller: 24,
            frame_at: if minor == 10 { 96 } else { 104 },
            frame_begins: 0,
            code_first: 0,
            code_line: 40,
            code_file: 104,
            code_name: 112,
            at_kind: if minor == 10 { AT_UNIT } else { AT_BYTE },
            begin_kind: BEGINS_EACH,
        },
        code_type,
        object_type: 8,
        code_qualified_name: None,
        code_lines: 120,
        lines: if minor == 10 { Kind::Ranges } else { Kind::Steps },
        text_length: 16,
        text_state: 32,
        text_ascii_bytes: 48,
        text_compact_bytes: 72,
        bytes_length: 16,
        bytes_data: 32,
    };
    match minor {
        11 => since_11(before_11, runtime),
        12 => of_12(since_11(before_11, runtime)),
        _ => before_11,
    }
}

fn since_11(before: Layout, runtime: u64) -> Layout {
    Layout {
        walk: Walk {
            interpreter: runtime + 48,
            threads: 16,
            thread_next: 8,
            thread_id: 152,
            thread_frame: 56,
            frame_through: 8,
            frame_bytes: 72,
            frame_code: 32,
            frame_caller: 48,
            frame_at: 56,
            frame_begins: 68,
            code_first: 184,
            code_line: 72,
            code_file: 112,
            code_name: 120,
            at_kind: AT_PLACE,
            begin_kind: BEGINS_FLAG,
        },
        code_qualified_name: Some(128),
        code_lines: 136,
        lines: Kind::Locations,
        ..before
    }
}

fn of_12(before: Layout) -> Layout {
    Layout {
        walk: Walk {
            threads: 72,
            thread_id: 136,
            frame_through: 0,
            frame_code: 0,
            frame_caller: 8,
            frame_begins: 70,
            code_first: 192,
            code_line: 68,
            begin_kind: BEGINS_FRAME,
            ..before.walk
        },
        text_ascii_bytes: 40,
        text_compact_bytes: 56,
        ..before
    }
}

/// How `_Py_DebugOffsets` begins.
const COOKIE: &[u8; 8] = b"xdebugpy";
/// Offset of the characters of a compact non-ASCII string: the ASCII header and two words
/// (`PyCompactUnicodeObject`).
const NOT_ASCII_BYTES: u64 = 16;

/// Layout from the runtime's own table. Positions in the table are those of 3.13.
fn of_table(memory: &dyn Memory, runtime: u64, code_type: u64) -> Option<Layout> {
    let field =
        |position: u64| pointer(memory, runtime.checked_add(position)?).filter(|offset| *offset < 1 << 24);
    let short = |position: u64| u32::try_from(field(position)?).ok();
    (word::<8>(memory, runtime)? == *COOKIE).then_some(())?;
    let version = pointer(memory, runtime.checked_add(8)?)?;
    (version >> 16 == 0x030d).then_some(())?;
    let before = of_version(12, runtime, code_type);
    let (caller, code, at, begins) = (short(232)?, short(240)?, short(248)?, short(264)?);
    let (line, file, name) = (short(312)?, short(280)?, short(288)?);
    let are_near = file > line && name > line && file.max(name) - line < CODE_BYTES_MAX - 8;
    are_near.then_some(())?;
    let ascii = field(560)?;
    Some(Layout {
        walk: Walk {
            interpreter: runtime.checked_add(field(40)?)?,
            threads: short(72)?,
            thread_next: short(168)?,
            thread_id: short(192)?,
            thread_frame: short(184)?,
            frame_through: DIRECTLY,
            frame_bytes: [caller, code, at, begins].into_iter().max()?.checked_add(8)?,
            frame_code: code,
            frame_caller: caller,
            frame_at: at,
            frame_begins: begins,
            code_first: short(344)?,
            code_line: line,
            code_file: file,
            code_name: name,
            ..before.walk
        },
        code_qualified_name: Some(field(296)?),
        code_lines: field(304)?,
        text_state: field(544)?,
        text_length: field(552)?,
        text_ascii_bytes: ascii,
        text_compact_bytes: ascii + NOT_ASCII_BYTES,
        bytes_length: field(520)?,
        bytes_data: field(528)?,
        ..before
    })
}
