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
    let data = Access::of(&decode(bytes, 0x1000))?.with(&registers);
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
fn what_cannot_be_known_is_not_told() {
    // mov (%rsi),%rsi: the address is gone. mov %fs:0x28,%rax: whose thread's? lea 8(%rdi),%rax touches nothing.
    assert_eq!(touched(&[0x48, 0x8b, 0x36], &[(RSI, 0x7000)]), None);
    let own = [0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0x00, 0x00, 0x00];
    assert_eq!(touched(&own, &[(RAX, 1)]), Some((AccessKind::None, 0, 0)));
    assert_eq!(touched(&[0x48, 0x8d, 0x47, 0x08], &[(RDI, 0x7000)]), None);
    // push %rax, ret: the stack is the thread's own.
    assert_eq!(touched(&[0x50], &[]), None);
    assert_eq!(touched(&[0xc3], &[]), None);
}

#[test]
fn a_repeated_string_instruction_tells_where_it_is() {
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
        let (before, at) = program.around(offset, offset);
        if let Some(before) = before {
            assert_eq!(before.next_ip(), offset, "it ends where the next begins");
            found += 1;
        } else if at.is_some() {
            jumped += 1;
        }
    }
    // One offset in four or so is where an instruction begins.
    assert!(found > 200, "{found} found, {jumped} begin functions or are jumped to");
    assert_eq!(program.around(u64::MAX, 0), (None, None));
}

#[test]
fn hostile_files_tell_nothing() {
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
