//! The stack that the BPF programs take, computed from the object: old kernels allow 512 bytes over a whole call chain.

use std::collections::{BTreeMap, BTreeSet};

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SymbolKind};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/holdup.bpf.o"));

/// `MAX_BPF_STACK` of include/linux/filter.h.
const STACK_BYTES_MAX: u64 = 512;
/// `MAX_CALL_FRAMES` of include/linux/bpf_verifier.h: functions in one chain of calls.
const FRAMES_MAX: usize = 8;
/// Each frame counts in steps of this: `check_max_stack_depth` of kernel/bpf/verifier.c, before Linux 6.13 for every program.
const FRAME_STEP_BYTES: u64 = 32;

const INSTRUCTION_BYTES: usize = 8;
/// Register 10 points at the end of a function's frame.
const FRAME_POINTER: u8 = 10;
/// `BPF_LD | BPF_IMM | BPF_DW`: the only instruction of two words.
const LOAD_64: u8 = 0x18;
/// `BPF_JMP | BPF_CALL`. The source register marks calls of another function of the object.
const CALL: u8 = 0x85;
const PSEUDO_CALL: u8 = 1;
/// `BPF_ALU64 | BPF_MOV | BPF_X` and `BPF_ALU64 | BPF_ADD | BPF_K`.
const MOVE: u8 = 0xbf;
const ADD: u8 = 0x07;
/// Classes of instructions: the low three bits.
const CLASS_LOAD: u8 = 1;
const CLASS_STORES: [u8; 2] = [2, 3];
const CLASS_ALU: [u8; 2] = [4, 7];

/// A function: the number of its section, and where in it.
type Place = (usize, u64);

struct Function {
    name: String,
    section: String,
    stack_bytes: u64,
    calls: BTreeSet<Place>,
}

/// The deepest chain of calls that begins with a function.
struct Chain {
    bytes: u64,
    frames: usize,
    names: Vec<String>,
}

#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    to: u8,
    from: u8,
    offset: i16,
    immediate: i32,
}

fn instruction(bytes: &[u8]) -> Instruction {
    Instruction {
        code: bytes[0],
        to: bytes[1] & 15,
        from: bytes[1] >> 4,
        offset: i16::from_le_bytes(bytes[2..4].try_into().unwrap()),
        immediate: i32::from_le_bytes(bytes[4..8].try_into().unwrap()),
    }
}

/// Bytes of the frame that the instructions reach, directly or by a copy of the frame pointer.
fn stack_bytes(code: &[u8]) -> u64 {
    let mut copies: BTreeMap<u8, i64> = BTreeMap::new();
    let (mut at, mut lowest) = (0, 0i64);
    while at < code.len() {
        let step = instruction(&code[at..]);
        let class = step.code & 7;
        let is_frame = |register: u8| register == FRAME_POINTER;
        if class == CLASS_LOAD && is_frame(step.from) || CLASS_STORES.contains(&class) && is_frame(step.to) {
            lowest = lowest.min(step.offset.into());
        }
        if step.code == MOVE && is_frame(step.from) {
            copies.insert(step.to, 0);
        } else if step.code == ADD && copies.contains_key(&step.to) {
            let copy = copies.get_mut(&step.to).unwrap();
            *copy += i64::from(step.immediate);
            lowest = lowest.min(*copy);
        } else if CLASS_ALU.contains(&class) {
            copies.remove(&step.to);
        }
        at += if step.code == LOAD_64 { 2 * INSTRUCTION_BYTES } else { INSTRUCTION_BYTES };
    }
    lowest.unsigned_abs()
}

fn calls(file: &ElfFile64<'_, Endianness>, (section, start): Place, code: &[u8]) -> BTreeSet<Place> {
    let section = file.section_by_index(SectionIndex(section)).unwrap();
    let relocated: BTreeMap<u64, _> = section.relocations().collect();
    let mut called = BTreeSet::new();
    for at in (0..code.len()).step_by(INSTRUCTION_BYTES) {
        let step = instruction(&code[at..]);
        if step.code != CALL || step.from != PSEUDO_CALL {
            continue;
        }
        let here = start + at as u64;
        // Both forms count from the next instruction on.
        let ahead = (i64::from(step.immediate) + 1) * INSTRUCTION_BYTES as i64;
        let place = match relocated.get(&here).map(object::Relocation::target) {
            Some(RelocationTarget::Symbol(symbol)) => {
                let symbol = file.symbol_by_index(symbol).unwrap();
                let Some(section) = symbol.section_index() else { continue }; // one of the kernel's
                let is_function = symbol.kind() == SymbolKind::Text;
                (
                    section.0,
                    if is_function { symbol.address() } else { symbol.address().wrapping_add_signed(ahead) },
                )
            }
            _ => (section.index().0, here.wrapping_add_signed(ahead)),
        };
        called.insert(place);
    }
    called
}

fn functions(file: &ElfFile64<'_, Endianness>) -> BTreeMap<Place, Function> {
    let texts = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
    texts
        .map(|symbol| {
            let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
            let place = (section.index().0, symbol.address());
            let (from, bytes) = (place.1 as usize, symbol.size() as usize);
            let code = &section.data().unwrap()[from..from + bytes];
            let function = Function {
                name: symbol.name().unwrap().to_owned(),
                section: section.name().unwrap().to_owned(),
                stack_bytes: stack_bytes(code),
                calls: calls(file, place, code),
            };
            (place, function)
        })
        .collect()
}

fn deepest(functions: &BTreeMap<Place, Function>, place: Place) -> Chain {
    let function = &functions[&place];
    let own = function.stack_bytes.max(1).next_multiple_of(FRAME_STEP_BYTES);
    let below = function.calls.iter().map(|place| deepest(functions, *place));
    let below: Vec<Chain> = below.collect();
    let frames = 1 + below.iter().map(|chain| chain.frames).max().unwrap_or(0);
    let deepest = below.into_iter().max_by_key(|chain| chain.bytes);
    let deepest = deepest.unwrap_or(Chain { bytes: 0, frames: 0, names: Vec::new() });
    let names = std::iter::once(format!("{} {own}", function.name)).chain(deepest.names).collect();
    Chain { bytes: own + deepest.bytes, frames, names }
}

#[test]
fn the_deepest_chain_of_calls_keeps_a_tenth_of_the_stack_free() {
    let file = ElfFile64::<Endianness>::parse(OBJECT).unwrap();
    let functions = functions(&file);
    let mut programs = 0;
    for (place, function) in functions.iter().filter(|(_, function)| function.section != ".text") {
        let chain = deepest(&functions, *place);
        let path = chain.names.join(" > ");
        assert!(chain.bytes <= STACK_BYTES_MAX * 9 / 10, "{}: {} bytes: {path}", function.name, chain.bytes);
        assert!(chain.frames < FRAMES_MAX, "{}: {} frames: {path}", function.name, chain.frames);
        programs += 1;
    }
    let walks = functions.iter().filter(|(_, function)| function.name == "on_switch");
    let walk = walks.map(|(place, _)| deepest(&functions, *place)).next().unwrap();
    assert!(programs > 30 && walk.frames > 4 && walk.bytes > 200, "{programs} {}", walk.bytes);
}
