//! A virtual machine's memory that is made up: two heaps of code with a method, a stub, and what is free.

use std::collections::HashMap;

use super::*;

const BASE: u64 = 0x10_0000;
const LOADED: u64 = 0x4000;
/// The heap's segments, of 128 bytes.
const CODE: u64 = 0x20_0000;

/// Memory from `BASE` on, and code that nobody reads.
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
    /// Puts bytes behind all others; gives their address.
    fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.0.len().next_multiple_of(8);
        self.0.resize(at, 0);
        self.0.extend_from_slice(bytes);
        BASE + at as u64
    }

    fn words(&mut self, words: &[u64]) -> u64 {
        self.put(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
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
const FIELDS: [(&str, &str, &str, u64); 19] = [
    ("GrowableArrayBase", "_len", "int", 0),
    ("GrowableArray<int>", "_data", "int*", 8),
    ("CodeHeap", "_memory", "VirtualSpace", 0),
    ("CodeHeap", "_segmap", "VirtualSpace", 32),
    ("CodeHeap", "_log2_segment_size", "int", 64),
    ("VirtualSpace", "_low", "char*", 16),
    ("VirtualSpace", "_high", "char*", 24),
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
];

/// The tables as `libjvm.so` has them, and the names of its variables.
fn tables(made: &mut Made, heaps: u64) -> HashMap<String, u64> {
    let mut rows: Vec<u64> = Vec::new();
    for (owner, name, kind, offset) in FIELDS {
        rows.extend([made.text(owner), made.text(name), made.text(kind), 0, offset, 0]);
    }
    rows.extend([made.text("CodeCache"), made.text("_heaps"), 0, 1, 0, heaps]);
    rows.extend([0; 6]);
    let structs = made.words(&rows);
    let sizes = [made.text("HeapBlock"), 8, made.text("ConstantPool"), 24, 0, 0];
    let types = made.words(&sizes);
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

/// A machine with a method in the segments 2 to 302, a stub in 302 and 303, and nothing behind.
fn machine() -> (Made, HashMap<String, u64>) {
    let mut made = Made::default();
    let (class, name) = (made.symbol("shop/Orders$$Lambda+0x00007f12"), made.symbol("place"));
    let class = made.words(&[0, class]);
    let pool = made.words(&[0, class, 0, 0, name]);
    let constant = made.words(&[0, pool, 1]);
    let method = made.words(&[0, constant]);
    let (nmethod, stub) = (made.text("nmethod"), made.text("StubRoutines (1)"));
    let back = |segment: u64| segment.min(254) as u8;
    let mut segments = vec![FREE; 2];
    segments.extend((0..300).map(back));
    segments.extend([0, 1]);
    segments.extend([FREE; 8]);
    let segments = made.put(&segments);
    let heap = made.words(&[0, 0, CODE, CODE + 312 * 128, 0, 0, segments, segments + 312, 7]);
    let list = made.words(&[heap]);
    let list = made.words(&[1, list]);
    let heaps = made.words(&[list]);
    let symbols = tables(&mut made, heaps);
    for (segment, length, kind) in [(2, 300, nmethod), (302, 2, stub)] {
        let block = CODE + segment * 128;
        made.write(block, &(length as u64 | 1 << 32).to_le_bytes());
        made.write(block + 8, &[0, kind, method].map(u64::to_le_bytes).concat());
    }
    (made, symbols)
}

#[test]
fn code_has_the_name_that_the_machine_gives_it() {
    let (made, symbols) = machine();
    let layout = Layout::read(&made, &symbols, LOADED).unwrap();
    let name = |address: u64| layout.code_at(&made, address);
    let method =
        NamedCode { addresses: CODE + 256..CODE + 302 * 128, name: "shop.Orders$$Lambda.place".to_owned() };
    for address in [CODE + 256, CODE + 270, CODE + 290 * 128 + 77, CODE + 302 * 128 - 1] {
        assert_eq!(name(address).as_ref(), Some(&method), "{address:#x}");
    }
    assert_eq!(name(CODE + 303 * 128).unwrap().name, "StubRoutines (1)");
    assert_eq!([CODE, CODE + 305 * 128, CODE - 1, 0].map(name), [const { None }; 4]);
}

#[test]
fn a_machine_that_tells_nothing_or_too_little_has_no_names() {
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
fn hostile_memory_tells_nothing_that_makes_no_sense() {
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
            assert!(
                told.is_none_or(
                    |code| code.addresses.contains(&address) && code.name.len() < 4 * NAME_BYTES_MAX
                )
            );
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
