//! Instructions as bytes, registers as numbers.

use std::sync::Arc;

use holdup_events::event::Registers;
use holdup_events::tables::AccessKind;
use iced_x86::{Decoder, DecoderOptions, Instruction};

use super::program::Program;
use super::touched::Touched;
use super::x86::Access;
use super::*;

const RAX: usize = 0;
const RCX: usize = 1;
const RSI: usize = 6;
const RDI: usize = 7;
const R9: usize = 9;

fn decode(bytes: &[u8], ip: u64) -> Instruction {
    Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode()
}

fn touched(bytes: &[u8], set: &[(usize, u64)]) -> Option<(AccessKind, u64, u8)> {
    let mut registers: Registers = [0; 16];
    for (number, value) in set {
        registers[*number] = *value;
    }
    let data = Access::from_instruction(&decode(bytes, 0x1000))?.with(&registers);
    Some((data.kind, data.address, data.bytes))
}

#[test]
fn addresses_come_from_base_index_scale_and_displacement() {
    // add (%r9,%rcx,8),%r8
    let add = [0x4d, 0x03, 0x04, 0xc9];
    assert_eq!(touched(&add, &[(R9, 0x7000), (RCX, 3)]), Some((AccessKind::Read, 0x7018, 8)));
    // mov %eax,-0x10(%rdi)
    let store = [0x89, 0x47, 0xf0];
    assert_eq!(touched(&store, &[(RDI, 0x7010)]), Some((AccessKind::Write, 0x7000, 4)));
    // mov 0x100(%rip),%al: relative to the next instruction
    let relative = [0x8a, 0x05, 0x00, 0x01, 0x00, 0x00];
    assert_eq!(touched(&relative, &[]), Some((AccessKind::Read, 0x1106, 1)));
}

#[test]
fn reading_and_writing_in_one_is_atomic_only_if_locked() {
    // addq $1,(%rdi), lock addq $1,(%rdi), xchg %rax,(%rdi)
    let update = [0x48, 0x83, 0x07, 0x01];
    let locked = [0xf0, 0x48, 0x83, 0x07, 0x01];
    let swapped = [0x48, 0x87, 0x07];
    let kind = |bytes: &[u8]| touched(bytes, &[(RDI, 0x7000)]).map(|(kind, ..)| kind);
    assert_eq!(kind(&update), Some(AccessKind::Update));
    assert_eq!(kind(&locked), Some(AccessKind::Atomic));
    assert_eq!(kind(&swapped), Some(AccessKind::Atomic));
}

#[test]
fn unknown_addresses_give_no_access() {
    // mov (%rsi),%rsi: the address is overwritten. mov %fs:0x28,%rax: thread-local. lea 8(%rdi),%rax: no
    // memory access.
    assert_eq!(touched(&[0x48, 0x8b, 0x36], &[(RSI, 0x7000)]), None);
    let own = [0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0x00, 0x00, 0x00];
    assert_eq!(touched(&own, &[(RAX, 1)]), Some((AccessKind::None, 0, 0)));
    assert_eq!(touched(&[0x48, 0x8d, 0x47, 0x08], &[(RDI, 0x7000)]), None);
    // push %rax, ret: the stack is the thread's own.
    assert_eq!(touched(&[0x50], &[]), None);
    assert_eq!(touched(&[0xc3], &[]), None);
}

#[test]
fn a_repeated_string_instruction_gives_its_current_address() {
    // rep movsq
    let copy = decode(&[0xf3, 0x48, 0xa5], 0x1000);
    let mut registers: Registers = [0; 16];
    (registers[RSI], registers[RDI]) = (0x5000, 0x6000);
    let data = Access::repeated(&copy).unwrap().with(&registers);
    assert_eq!((data.kind, data.address, data.bytes), (AccessKind::Write, 0x6000, 8));
    assert!(Access::repeated(&decode(&[0x48, 0xa5], 0x1000)).is_none());
}

/// The test's own binary: a function is found in it by this process's own symbols.
#[test]
fn the_instruction_before_is_found_in_a_real_binary() {
    let bytes = std::fs::read("/proc/self/exe").unwrap();
    let mut program = Program::new(Arc::new(bytes.clone())).unwrap();
    let elf = crate::symbols::Elf::parse(&bytes).unwrap();
    let (offsets, _) = elf.segments().max_by_key(|(offsets, _)| offsets.end - offsets.start).unwrap();
    let (mut found, mut jumped) = (0, 0);
    for offset in offsets.step_by(997).take(2_000) {
        let around = program.around(offset, offset);
        if let Some(before) = around.before {
            assert_eq!(before.next_ip(), offset, "it ends where the next begins");
            assert!(around.earlier.is_none_or(|earlier| earlier.next_ip() == before.ip()));
            found += 1;
        } else if around.at.is_some() {
            jumped += 1;
        }
    }
    // One offset in four or so is where an instruction begins.
    assert!(found > 200, "{found} found, {jumped} begin functions or are jumped to");
    assert!(program.around(u64::MAX, 0).at.is_none());
}

/// Code of a real binary without its function bounds.
#[test]
fn code_without_bounds_is_decoded_as_with_them_or_not_at_all() {
    let bytes = std::fs::read("/proc/self/exe").unwrap();
    let mut program = Program::new(Arc::new(bytes.clone())).unwrap();
    let elf = crate::symbols::Elf::parse(&bytes).unwrap();
    let (offsets, _) = elf.segments().max_by_key(|(offsets, _)| offsets.end - offsets.start).unwrap();
    let (mut known, mut found) = (0, 0);
    for offset in offsets.step_by(1009).skip(10).take(4_000) {
        let page = offset & !4095;
        let piece = bytes[(page - 4096) as usize..(page as usize + 8192).min(bytes.len())].to_vec();
        let code = GeneratedCode { start: page - 4096, bytes: piece };
        let (real, told) = (program.around(offset, offset), code.around(offset));
        let Some(before) = real.before else { continue };
        known += 1;
        if let Some(told) = told.before {
            assert_eq!((told.ip(), told.len(), told), (before.ip(), before.len(), before));
            found += 1;
        }
    }
    assert!(found * 10 > known * 8, "{found} of {known}");
}

#[test]
fn a_fence_is_the_time_of_the_store_before_it() {
    // `mov %rax,0x18(%rdi); lock addl $0,-0x40(%rsp); nop`
    let store = [0x48, 0x89, 0x47, 0x18];
    let fence = [0xf0, 0x83, 0x44, 0x24, 0xc0, 0x00];
    let told = |parts: &[&[u8]], behind: &[u8]| {
        let mut bytes = vec![0x90; 512];
        let (start, code) = (0x1000, parts.concat());
        let end = 300 + code.len();
        bytes[300..end].copy_from_slice(&code);
        bytes[end..end + behind.len()].copy_from_slice(behind);
        let ip = start + end as u64;
        let mut registers: Registers = [0; 16];
        registers[RDI] = 0x7000;
        let Place::Touches(access) = executed(GeneratedCode { start, bytes }.around(ip)) else { return None };
        let data = access.with(&registers);
        Some((data.kind, data.address))
    };
    let at = |parts: &[&[u8]]| told(parts, &[]);
    assert_eq!(at(&[&store]), Some((AccessKind::Write, 0x7018)));
    assert_eq!(at(&[&store, &fence]), Some((AccessKind::Write, 0x7018)));
    assert_eq!(at(&[&store, &[0x0f, 0xae, 0xf0]]), Some((AccessKind::Write, 0x7018)), "mfence");
    // What the fence does not wait for, and an atomic instruction that changes something.
    assert_eq!(at(&[&[0x48, 0x8b, 0x47, 0x18], &fence]), None, "a load");
    assert_eq!(at(&[&store, &[0xf0, 0x83, 0x47, 0x20, 0x01]]), Some((AccessKind::Atomic, 0x7020)));
    // Jumps to the fence, to behind it, and to the store: in the first two cases whether it was stored is not known.
    assert_eq!(told(&[&store, &fence], &[0xeb, 0xf8]), None);
    assert_eq!(told(&[&store, &fence], &[0x0f, 0x84, 0xfa, 0xff, 0xff, 0xff]), None);
    assert_eq!(told(&[&store, &fence], &[0xeb, 0xf4]), Some((AccessKind::Write, 0x7018)));
}

#[test]
fn hostile_code_is_decoded_without_panic() {
    let bytes: Vec<u8> = (0..9000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for length in [0, 1, 63, 64, 65, 300, 9000] {
        let code = GeneratedCode { start: u64::MAX - 500, bytes: bytes[..length].to_vec() };
        for ip in (0..600).map(|into| (u64::MAX - 550).wrapping_add(into)) {
            let _ = executed(code.around(ip));
        }
    }
}

#[test]
fn memory_without_a_file_is_detected_by_name() {
    let is = |path: &str| is_generated(&Mapping { path: path.to_owned(), ..Mapping::default() });
    assert!(is("") && is("//anon") && is("[anon:v8]") && is("/memfd:doublemapper") && is("/dev/zero"));
    assert!(!is("/usr/lib/libc.so.6") && !is("[vdso]"));
}

/// Code that was read while it was there, of process 1.
struct Read(Vec<GeneratedCode>);

impl Files for Read {
    fn generated_code(&self, pid: u32, _address: u64) -> Vec<GeneratedCode> {
        if pid == 1 { self.0.clone() } else { Vec::new() }
    }
}

#[test]
fn samples_in_code_that_is_not_known_are_counted() {
    // mov %rax,0x18(%rdi), or mov %rax,0x20(%rdi) in its place.
    let code = |distance: u8| {
        let mut bytes = vec![0x90; 512];
        bytes[300..304].copy_from_slice(&[0x48, 0x89, 0x47, distance]);
        GeneratedCode { start: 0x1000, bytes }
    };
    let mappings = [1, 2].map(|process| Mapping {
        process: ProcessId(process),
        start: 0x1000,
        end: 0x3000,
        path: "//anon".to_owned(),
        ..Mapping::default()
    });
    let ask = |versions: Vec<GeneratedCode>, asked: &[(u32, u64)]| {
        let files = Read(versions);
        let mut accesses = Accesses::new(&files);
        let one = |(tgid, ip): &(u32, u64)| {
            let registers = Some(Box::new([0x7000; 16]));
            let sample = Sample { tid: 7, tgid: *tgid, ip: *ip, registers, ..Sample::default() };
            accesses.of_sample(&sample, ProcessId(*tgid), &mappings).0.address
        };
        let addresses: Vec<u64> = asked.iter().map(one).collect();
        (addresses, accesses.unread().clone())
    };
    let asked = [(1, 0x1000 + 304), (1, 0x1000 + 200), (2, 0x1000 + 304), (2, 0x1000 + 304), (2, 0x9000)];
    let (addresses, unread) = ask(vec![code(0x18)], &asked);
    assert_eq!(addresses, [0x7018, 0, 0, 0, 0]);
    let by_path = BTreeMap::from([(GENERATED.to_owned(), 2), (String::new(), 1)]);
    assert_eq!(unread, Unread { samples: 5, by_path });
    // Versions of the code that access different memory.
    assert_eq!(ask(vec![code(0x18), code(0x18)], &asked[..1]).0, [0x7018]);
    assert_eq!(ask(vec![code(0x18), code(0x20)], &asked[..1]).0, [0]);
}

#[test]
fn hostile_files_are_read_without_panic() {
    assert!(Program::new(Arc::new(vec![0x7f; 100])).is_none());
    let bytes = std::fs::read("/proc/self/exe").unwrap();
    for length in (0..bytes.len()).step_by(bytes.len() / 30) {
        if let Some(mut program) = Program::new(Arc::new(bytes[..length].to_vec())) {
            for offset in (0..length as u64 * 2).step_by(length.max(1) / 20 + 1) {
                let _ = program.around(offset, offset);
            }
        }
    }
}

#[test]
fn lines_that_several_threads_touch_are_named_if_one_writes() {
    let access = |kind, address| DataAccess { kind, address, bytes: 8 };
    let process = ProcessId(1);
    let mut touched = Touched::default();
    for tid in [7, 8] {
        touched.add(process, tid, &access(AccessKind::Read, 0x1000 + u64::from(tid - 6) * 8));
        touched.add(process, tid, &access(AccessKind::Read, 0x2000));
    }
    touched.add(process, 7, &access(AccessKind::Write, 0x1000));
    touched.add(process, 7, &access(AccessKind::Write, 0x3000));
    let addresses: Vec<u64> = touched.shared().iter().map(|variable| variable.address).collect();
    assert_eq!(addresses, [0x1000, 0x1008, 0x1010]);
}
