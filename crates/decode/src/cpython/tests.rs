//! Against a memory that is laid out as that of an interpreter.

use std::collections::BTreeMap;

use super::layout::Walk;
use super::*;

const RUNTIME: u64 = 0x10_0000;
const CODE_TYPE: u64 = 0x20_0000;
const CODE: u64 = 0x7f00_0000_1230;

/// Bytes by address.
#[derive(Default)]
struct Bytes(BTreeMap<u64, u8>);

impl Bytes {
    fn put(&mut self, address: u64, bytes: &[u8]) {
        self.0.extend((address..).zip(bytes.iter().copied()));
    }

    fn word(&mut self, address: u64, word: u64) {
        self.put(address, &word.to_le_bytes());
    }

    /// A compact ASCII string of 3.11: length, state, characters.
    fn text(&mut self, address: u64, text: &str) {
        self.word(address + 16, text.len() as u64);
        self.put(address + 32, &(1u32 << 2 | 1 << 5 | 1 << 6).to_le_bytes());
        self.put(address + 48, text.as_bytes());
    }
}

impl Memory for Bytes {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        for (at, byte) in (address..).zip(bytes) {
            *byte = *self.0.get(&at)?;
        }
        Some(())
    }
}

fn symbols_with(version: Option<u64>) -> Symbols {
    Symbols { runtime: RUNTIME, code_type: CODE_TYPE, version }
}

/// `Sweeper.sweep` in a file, as 3.11 has it.
fn memory_of_11() -> Bytes {
    let mut memory = Bytes::default();
    memory.word(0x500, 0x030b_07f0);
    memory.word(CODE + 8, CODE_TYPE);
    memory.put(CODE + 72, &10u32.to_le_bytes());
    for (offset, at) in [(112, 0x1000), (120, 0x2000), (128, 0x3000), (136, 0x4000)] {
        memory.word(CODE + offset, at);
    }
    memory.text(0x1000, "/srv/app.py");
    memory.text(0x2000, "sweep");
    memory.text(0x3000, "Sweeper.sweep");
    // One unit of line 10, four of line 11 (with the columns 8 and 9).
    let lines = [128, 0, 128 | 11 << 3 | 3, 8, 9];
    memory.word(0x4000 + 16, lines.len() as u64);
    memory.put(0x4000 + 32, &lines);
    memory
}

fn interpreter(memory: &Bytes) -> Interpreter {
    Interpreter::new(Layout::read(memory, &symbols_with(Some(0x500)), 0, None).expect("3.11"))
}

/// The stack entry of that code, at an offset of `units` two-byte units.
fn place(units: u32) -> u64 {
    let memory = memory_of_11();
    interpreter(&memory).layout.place(&memory, CODE, Some(units)).expect("code")
}

fn innermost_call(named: Option<NamedCode>) -> Option<(String, String, u32)> {
    let call = named?.calls.into_iter().next()?;
    Some((call.function, call.file, call.line))
}

#[test]
fn a_function_has_its_name_its_file_and_the_line_where_it_is() {
    let memory = memory_of_11();
    let at = |units| innermost_call(interpreter(&memory).code_at(&memory, place(units)));
    let expected = |line| Some(("app.Sweeper.sweep".to_owned(), "/srv/app.py".to_owned(), line));
    assert_eq!((at(0), at(1), at(4)), (expected(10), expected(11), expected(11)));
    assert_eq!(at(2047), expected(10), "too far to be told: where it begins");
    assert_eq!(at(200), expected(10), "behind its end");
    assert_eq!(
        innermost_call(interpreter(&memory).code_at(&memory, CODE)),
        None,
        "an address is no function"
    );
}

#[test]
fn what_is_no_code_any_more_keeps_the_name_that_it_had() {
    let mut memory = memory_of_11();
    let interpreter = interpreter(&memory);
    let before = innermost_call(interpreter.code_at(&memory, place(0)));
    // Other code is where it was.
    memory.put(CODE + 72, &11u32.to_le_bytes());
    assert_eq!(innermost_call(interpreter.code_at(&memory, place(0))), before);
    memory.word(CODE + 8, 0x1234);
    assert_eq!(innermost_call(interpreter.code_at(&memory, place(0))), before);
    assert_eq!(innermost_call(interpreter.code_at(&Bytes::default(), place(1))).map(|told| told.2), Some(11));
    let other = Interpreter::new(interpreter.layout);
    assert_eq!(innermost_call(other.code_at(&memory, place(0))), None);
}

#[test]
fn texts_that_make_no_sense_name_nothing() {
    for (offset, bytes) in [
        (32, (3u32 << 2 | 1 << 5).to_le_bytes().to_vec()),
        (32, (1u32 << 2 | 1 << 6).to_le_bytes().to_vec()),
        (16, u64::MAX.to_le_bytes().to_vec()),
        (48, vec![7]),
    ] {
        let mut memory = memory_of_11();
        memory.put(0x3000 + offset, &bytes);
        assert_eq!(innermost_call(interpreter(&memory).code_at(&memory, place(0))), None, "{offset}");
    }
}

#[test]
fn versions_come_from_the_runtime_or_the_file_name() {
    let mut memory = memory_of_11();
    let read = |memory: &Bytes, named| Layout::read(memory, &symbols_with(Some(0x500)), 0, named).map(|_| ());
    assert_eq!(read(&memory, Some(8)), Ok(()));
    memory.word(0x500, 0x0310_00f0);
    assert_eq!(read(&memory, Some(11)), Err(Refused::Version(16)));
    assert_eq!(read(&Bytes::default(), Some(11)), Err(Refused::Silent), "it cannot be read yet");
    let by_name = |minor| Layout::read(&Bytes::default(), &symbols_with(None), 0, minor).map(|_| ());
    assert_eq!(
        (by_name(Some(9)), by_name(Some(7)), by_name(None)),
        (Ok(()), Err(Refused::Version(7)), Err(Refused::Silent))
    );
    for (path, minor) in [
        ("/usr/lib/libpython3.9.so.1.0", Some(9)),
        ("/usr/bin/python3.10", Some(10)),
        ("/usr/bin/python3", None),
        ("/usr/lib/libpython3.so", None),
        ("/usr/bin/python2.7", None),
    ] {
        assert_eq!(version_by_name(path), minor, "{path}");
    }
}

#[test]
fn version_13_is_read_by_its_own_table() {
    let mut memory = Bytes::default();
    memory.word(0x500, 0x030d_00f0);
    memory.put(RUNTIME, b"xdebugpy");
    memory.word(RUNTIME + 8, 0x030d_00f0);
    (16..584).step_by(8).for_each(|at| memory.word(RUNTIME + at, at));
    memory.word(RUNTIME + 312, 264);
    let layout = |memory: &Bytes| Layout::read(memory, &symbols_with(Some(0x500)), 0, None);
    let read = layout(&memory).expect("3.13");
    let bytes = read.walk.pack();
    assert_eq!(bytes.get(..8), Some(&(RUNTIME + 40).to_ne_bytes()[..]), "where its first interpreter is");
    assert_eq!((read.walk.code(), read.text_compact_bytes), ([264, 280, 288], 576));
    memory.word(RUNTIME + 168, 1 << 40);
    assert_eq!(layout(&memory).err(), Some(Refused::Silent), "no structure is so large");
}

/// `struct interpreter_layout` of `bpf/interpreters.h`: one word, fourteen 32-bit numbers, two 16-bit ones,
/// four padding bytes.
#[test]
fn what_the_kernel_programs_read_has_their_size() {
    let layout = Layout::read(&Bytes::default(), &symbols_with(None), 0, Some(9)).expect("3.9");
    assert_eq!(Walk::pack(&layout.walk).len(), 8 + 14 * 4 + 2 * 2 + 4);
}
