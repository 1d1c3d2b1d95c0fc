//! A synthetic virtual machine: two code heaps with a method, a stub, and free segments.

use std::collections::HashMap;

use super::*;
use crate::interpreted::Standing;

const BASE: u64 = 0x10_0000;
const LOADED: u64 = 0x4000;
/// The heap's segments, of 128 bytes.
const CODE: u64 = 0x20_0000;

/// The interpreter's code.
const INTERPRETER: u64 = CODE + 400 * 128;

/// Memory from `BASE` on. Code bytes are left out.
#[derive(Clone, Default)]
struct Made(Vec<u8>);

impl Memory for Made {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let at = usize::try_from(address.checked_sub(BASE)?).ok()?;
        bytes.copy_from_slice(self.0.get(at..at.checked_add(bytes.len())?)?);
        Some(())
    }
}

impl Made {
    /// Appends bytes. Returns their address.
    fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.0.len().next_multiple_of(8);
        self.0.resize(at, 0);
        self.0.extend_from_slice(bytes);
        BASE + at as u64
    }

    fn words(&mut self, words: &[u64]) -> u64 {
        self.put(&bytes_of(words))
    }

    fn text(&mut self, text: &str) -> u64 {
        self.put(&[text.as_bytes(), &[0]].concat())
    }

    /// Length and letters, as the machine keeps names.
    fn symbol(&mut self, text: &str) -> u64 {
        let head = [0, 0, 0, 0, text.len() as u8, 0];
        self.put(&[&head, text.as_bytes()].concat())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        let at = (address - BASE) as usize;
        if self.0.len() < at + bytes.len() {
            self.0.resize(at + bytes.len(), 0);
        }
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Structure, field, its type, and its offset.
const FIELDS: [(&str, &str, &str, u64); 35] = [
    ("GrowableArrayBase", "_len", "int", 0),
    ("GrowableArray<int>", "_data", "int*", 8),
    ("CodeHeap", "_memory", "VirtualSpace", 0),
    ("CodeHeap", "_segmap", "VirtualSpace", 32),
    ("CodeHeap", "_log2_segment_size", "int", 64),
    ("VirtualSpace", "_low", "char*", 16),
    ("VirtualSpace", "_high", "char*", 24),
    ("VirtualSpace", "_high_boundary", "char*", 8),
    ("StubQueue", "_stub_buffer", "address", 8),
    ("StubQueue", "_buffer_limit", "int", 16),
    ("HeapBlock::Header", "_length", "uint32_t", 0),
    ("HeapBlock::Header", "_used", "bool", 4),
    ("CodeBlob", "_name", "const char*", 8),
    ("nmethod", "_method", "Method*", 16),
    ("Method", "_constMethod", "ConstMethod*", 8),
    ("ConstMethod", "_constants", "ConstantPool*", 8),
    ("ConstMethod", "_name_index", "u2", 16),
    ("ConstantPool", "_pool_holder", "InstanceKlass*", 8),
    ("Klass", "_name", "Symbol*", 8),
    ("Symbol", "_length", "u2", 4),
    ("Symbol", "_body", "", 6),
    ("Unknown", "_other", "int", 4),
    ("ConstMethod", "_flags._flags", "u4", 18),
    ("ConstMethod", "_code_size", "u2", 20),
    ("ConstantPool", "_source_file_name_index", "u2", 16),
    ("CodeBlob", "_code_offset", "int", 24),
    ("CodeBlob", "_relocation_size", "int", 28),
    ("CodeBlob", "_frame_size", "int", 56),
    ("CodeBlob", "_frame_complete_offset", "int16_t", 60),
    ("CodeBlob", "_mutable_data", "address", 40),
    ("nmethod", "_immutable_data", "address", 32),
    ("nmethod", "_scopes_pcs_offset", "int", 48),
    ("nmethod", "_scopes_data_offset", "int", 52),
    ("PcDesc", "_pc_offset", "int", 0),
    ("PcDesc", "_scope_decode_offset", "int", 4),
];

/// The tables as `libjvm.so` has them, and the names of its variables.
fn tables(made: &mut Made, heaps: u64) -> HashMap<String, u64> {
    let mut rows: Vec<u64> = Vec::new();
    for (owner, name, kind, offset) in FIELDS {
        rows.extend([made.text(owner), made.text(name), made.text(kind), 0, offset, 0]);
    }
    rows.extend([made.text("CodeCache"), made.text("_heaps"), 0, 1, 0, heaps]);
    let queue = made.words(&[0, INTERPRETER, 4096]);
    let queue = made.words(&[queue]);
    rows.extend([made.text("AbstractInterpreter"), made.text("_code"), 0, 1, 0, queue]);
    let version = made.words(&[25]);
    rows.extend([made.text("Abstract_VM_Version"), made.text("_vm_major_version"), 0, 1, 0, version]);
    rows.extend([0; 6]);
    let structs = made.words(&rows);
    let names = ["HeapBlock", "ConstantPool", "ConstMethod", "PcDesc"].map(|name| made.text(name));
    let types = made.words(&[names[0], 8, names[1], 24, names[2], 24, names[3], 16, 0, 0]);
    let values = [
        ("Structs", structs),
        ("StructEntryArrayStride", 48),
        ("StructEntryTypeNameOffset", 0),
        ("StructEntryFieldNameOffset", 8),
        ("StructEntryTypeStringOffset", 16),
        ("StructEntryIsStaticOffset", 24),
        ("StructEntryOffsetOffset", 32),
        ("StructEntryAddressOffset", 40),
        ("Types", types),
        ("TypeEntryArrayStride", 16),
        ("TypeEntryTypeNameOffset", 0),
        ("TypeEntrySizeOffset", 8),
    ];
    let put = |(name, value): (&str, u64)| (format!("gHotSpotVM{name}"), made.words(&[value]) - LOADED);
    values.into_iter().map(put).collect()
}

/// A method of that class: its lines are 5, and 6 from index 2 on.
fn method(made: &mut Made, (class, name): (u64, &str)) -> u64 {
    let (name, file) = (made.symbol(name), made.symbol("Orders.java"));
    let pool = made.words(&[0, class, 2, 0, name, file]);
    // Name index, flags and byte code length. Then the byte code, then the line table.
    let constant =
        made.words(&[0, pool, 1 | 1 << 16 | 4 << 32, u64::from_le_bytes([9, 9, 9, 9, 5, 2 << 3 | 1, 0, 0])]);
    made.words(&[0, constant])
}

/// Inlining data of `outer`: `inner` up to byte 20 of the code, no call from there to byte 40.
fn scopes(made: &mut Made, [outer, inner]: [u64; 2]) -> [u64; 2] {
    let place = |pc: i32, calls: u32| u64::from(pc as u32) | u64::from(calls) << 32;
    let places = [place(-1, 0), 0, place(20, 5), 0, place(40, 1), 0, place(i32::MAX, 0), 0];
    // Per call: offset of the caller, the method's number, and the byte code index plus 1. All are stored
    // plus 1.
    let calls = [0, 1, 2, 2, 0, 2, 3, 4];
    let fixed = made.words(&[&[0, 0][..], &places, &[u64::from_le_bytes(calls)]].concat());
    [fixed, made.words(&[0, outer, inner])]
}

/// A machine with a method in the segments 2 to 302, a stub in 302 and 303, and nothing behind.
fn machine() -> (Made, HashMap<String, u64>) {
    let mut made = Made::default();
    let class = made.symbol("shop/Orders$$Lambda+0x00007f12");
    let class = made.words(&[0, class]);
    let methods = ["place", "count"].map(|name| method(&mut made, (class, name)));
    let [fixed, changing] = scopes(&mut made, methods);
    let (nmethod, stub) = (made.text("nmethod"), made.text("StubRoutines (1)"));
    let back = |segment: u64| segment.min(254) as u8;
    let mut segments = vec![FREE; 2];
    segments.extend((0..300).map(back));
    segments.extend([0, 1]);
    segments.extend([FREE; 8]);
    let segments = made.put(&segments);
    let end = CODE + 500 * 128;
    let heap = made.words(&[0, end, CODE, CODE + 312 * 128, 0, end, segments, segments + 312, 7]);
    let list = made.words(&[heap]);
    let list = made.words(&[1, list]);
    let heaps = made.words(&[list]);
    let symbols = tables(&mut made, heaps);
    for (segment, length, kind) in [(2, 300, nmethod), (302, 2, stub)] {
        let block = CODE + segment * 128;
        made.write(block, &(length as u64 | 1 << 32).to_le_bytes());
        let parts = [128 | 8 << 32, fixed, changing, 16 | (16 + 64) << 32];
        made.write(block + 8, &bytes_of(&[&[0, kind, methods[0]][..], &parts].concat()));
    }
    (made, symbols)
}

/// Numbers as they lie in memory.
fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn code_has_the_name_that_the_machine_gives_it() {
    let (made, symbols) = machine();
    let layout = Layout::read(&made, &symbols, LOADED).unwrap();
    let name = |address: u64| layout.code_at(&made, address);
    let call = |name: &str, line: u32| Call {
        function: format!("shop.Orders$$Lambda.{name}"),
        file: if line > 0 { "Orders.java".to_owned() } else { String::new() },
        line,
    };
    // Its code begins behind the block's head and 128 bytes.
    let code = CODE + 256 + 8 + 128;
    let told = [
        (CODE + 256, vec![call("place", 0)]),
        (code, vec![call("count", 6), call("place", 5)]),
        (code + 20, vec![call("count", 6), call("place", 5)]),
        (code + 21, vec![call("place", 5)]),
        (code + 41, vec![call("place", 0)]),
        (CODE + 302 * 128 - 1, vec![call("place", 0)]),
    ];
    for (address, calls) in told {
        assert_eq!(
            name(address),
            Some(NamedCode { addresses: CODE + 256..CODE + 302 * 128, calls }),
            "{address:#x}"
        );
    }
    assert_eq!(name(CODE + 303 * 128).unwrap().calls[0].function, "StubRoutines (1)");
    assert_eq!([CODE, CODE + 305 * 128, CODE - 1, 0].map(name), [const { None }; 4]);
}

#[test]
fn a_method_that_is_interpreted_has_its_name_and_line() {
    let (made, symbols) = machine();
    let layout = Layout::read(&made, &symbols, LOADED).unwrap();
    let Some(KernelLayout::Frames(bytes)) = layout.kernel_layout(&made) else { panic!("no frames") };
    let heap = layout.heaps(&made).unwrap().pop().unwrap();
    let interpreter =
        [INTERPRETER, 4096, u64::from_le_bytes([232, 255, 255, 255, 192, 255, 255, 255]), 8 | 24 << 32];
    // One heap with segments of 2^7 bytes. A block header has 8 bytes. The frame size is at 56, a two-byte
    // field at 60, and the code offset at 24 as an int.
    let heaps = [&[CODE, CODE + 500 * 128, heap.segments][..], &[0; 9]].concat();
    let blocks = [1 | 7 << 32, 8 | 56 << 32, 60 | 24 << 32, 2 | 4 << 16];
    assert_eq!(bytes, bytes_of(&[&interpreter[..], &heaps, &blocks].concat()));
    // A compiled method leads to it.
    let code = pointer(&made, CODE + 256 + 8 + layout.blob_method).unwrap();
    let constant = pointer(&made, code + layout.method_constant).unwrap();
    let identity = crate::interpreted::identity(&[constant]);
    let place = |units| Interpreted { code, identity, units, standing: Standing::InPlace };
    let told = |place: Interpreted| {
        let mut calls = layout.code_at(&made, place.address())?.calls;
        assert_eq!(calls.len(), 1);
        calls.pop()
    };
    let call = |line: u32| Call {
        function: "shop.Orders$$Lambda.place".to_owned(),
        file: if line > 0 { "Orders.java".to_owned() } else { String::new() },
        line,
    };
    assert_eq!(
        [Some(0), Some(2), None].map(|units| told(place(units))),
        [5, 6, 0].map(|line| Some(call(line)))
    );
    // The identity of another method, or an address without a method.
    assert_eq!(told(Interpreted { identity: identity ^ 1, ..place(None) }), None);
    assert_eq!(told(Interpreted { code: code + 8, ..place(None) }), None);
    let behind = Standing::Behind { begins: false };
    assert_eq!(told(Interpreted { standing: behind, ..place(None) }), None);
}

#[test]
fn code_may_come_to_be_where_a_heap_may_grow() {
    let (made, symbols) = machine();
    let layout = Layout::read(&made, &symbols, LOADED).unwrap();
    let is_code = |address: u64| layout.is_code(&made, address);
    assert_eq!([CODE, INTERPRETER, CODE + 500 * 128, CODE - 1].map(is_code), [true, true, false, false]);
}

#[test]
fn a_machine_without_an_interpreter_yet_has_no_frames_of_it() {
    let (mut made, symbols) = machine();
    let layout = Layout::read(&made, &symbols, LOADED).unwrap();
    let queue = layout.interpreter.as_ref().unwrap().queue;
    made.write(queue, &0u64.to_le_bytes());
    assert_eq!(layout.kernel_layout(&made), None);
}

#[test]
fn a_virtual_machine_without_layout_symbols_has_no_names() {
    let (made, symbols) = machine();
    assert!(Layout::read(&Made::default(), &symbols, LOADED).is_none());
    assert!(Layout::read(&made, &HashMap::new(), LOADED).is_none());
    assert!(Layout::read(&made, &symbols, 0).is_none());
    assert!(symbols_of_garbage());
}

fn symbols_of_garbage() -> bool {
    symbols(&[0x7f; 64]).is_none() && loaded(&[0x7f; 64], (0x1000, 0)).is_none()
}

/// Whatever is there instead: no panic, and no name without end.
#[test]
fn hostile_memory_gives_no_panic_and_no_endless_name() {
    let (made, symbols) = machine();
    let layout = Layout::read(&made, &symbols, LOADED).unwrap();
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    for _ in 0..3_000 {
        let mut hostile = made.clone();
        for _ in 0..8 {
            let at = random() as usize % hostile.0.len();
            hostile.0[at] = random() as u8;
        }
        for address in [CODE + 256, CODE + 290 * 128, CODE + 303 * 128] {
            let told = layout.code_at(&hostile, address);
            assert!(told.is_none_or(|code| code.addresses.contains(&address) && !code.calls.is_empty()));
        }
    }
    for _ in 0..100 {
        let mut hostile = made.clone();
        let at = random() as usize % hostile.0.len();
        hostile.0[at] = random() as u8;
        if let Some(layout) = Layout::read(&hostile, &symbols, LOADED) {
            let _ = layout.code_at(&hostile, CODE + 256);
        }
    }
}
