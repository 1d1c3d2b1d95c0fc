//! Calls that OCaml's compiler puts after a function's last instruction. If an allocation finds no space, the
//! function jumps to a `call caml_call_gc` there, and back. Unwind tables describe the stack as at the
//! function's end. Really it is as at the jump, which is two words deeper inside `try`.

use std::collections::{BTreeMap, HashMap};

use iced_x86::{Decoder, DecoderOptions, FlowControl};

use super::row::{Kind, Row};

/// A binary with functions that change stacks.
pub struct Binary<'a> {
    /// Linked address of pc 0 of the rows.
    pub base: u64,
    /// Linked addresses of functions that go on on another stack (`caml_call_gc` is one), ascending.
    pub changing: &'a [u64],
    /// The linked address of its code, and the code.
    pub text: (u64, &'a [u8]),
}

/// A late call, with the jump back: linked addresses.
#[derive(Debug, PartialEq, Eq)]
struct LateCall {
    /// Addresses of the jumps to the call.
    from: Vec<u64>,
    start: u64,
    end: u64,
}

/// Mends the rows (in the order of pc) of late calls in `functions`, ranges of linked addresses.
pub fn mend(rows: &mut Vec<Row>, functions: &[(u64, u64)], binary: &Binary<'_>) {
    let pc = |address: u64| u32::try_from(address.checked_sub(binary.base)?).ok();
    let row = |address: u64| {
        let pc = pc(address)?;
        let behind = rows.partition_point(|row| row.pc <= pc);
        rows.get(behind.checked_sub(1)?).filter(|row| row.kind == Kind::StackPointer)
    };
    let (mut ends, mut mended) = (BTreeMap::new(), BTreeMap::new());
    for call in functions.iter().filter_map(|range| code(range, binary)).flat_map(|code| calls(code, binary))
    {
        let mut jumps = call.from.iter().map(|from| row(*from));
        let (Some(Some(true_row)), Some(here)) = (jumps.next(), row(call.start)) else { continue };
        let agree = jumps.all(|other| other.is_some_and(|other| other.same_rule(true_row)));
        let (Some(start), Some(end)) = (pc(call.start), pc(call.end)) else { continue };
        if agree && !here.same_rule(true_row) {
            mended.insert(start, Row { pc: start, ..*true_row });
            ends.insert(end, Row { pc: end, ..*here });
        }
    }
    // An existing row at the end of a call stays valid.
    ends.retain(|end, _| rows.binary_search_by_key(end, |row| row.pc).is_err());
    ends.append(&mut mended);
    rows.retain(|row| !ends.contains_key(&row.pc));
    rows.extend(ends.into_values());
    rows.sort_by_key(|row| row.pc);
    rows.dedup_by(|later, earlier| later.same_rule(earlier));
}

/// A function's address and its code.
fn code<'a>((start, end): &(u64, u64), binary: &Binary<'a>) -> Option<(u64, &'a [u8])> {
    let (address, text) = binary.text;
    let at = |address_in: u64| usize::try_from(address_in.checked_sub(address)?).ok();
    Some((*start, text.get(at(*start)?..at(*end)?)?))
}

fn calls((start, code): (u64, &[u8]), binary: &Binary<'_>) -> Vec<LateCall> {
    let (mut jumps, mut found) = (HashMap::<u64, Vec<u64>>::new(), Vec::<LateCall>::new());
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        let (ip, next) = (instruction.ip(), instruction.next_ip());
        match instruction.flow_control() {
            FlowControl::ConditionalBranch if instruction.near_branch_target() > ip => {
                jumps.entry(instruction.near_branch_target()).or_default().push(ip);
            }
            FlowControl::Call if binary.changing.binary_search(&instruction.near_branch_target()).is_ok() => {
                let from = jumps.remove(&ip);
                found.extend(from.map(|from| LateCall { from, start: ip, end: next }));
            }
            FlowControl::UnconditionalBranch => {
                found.iter_mut().filter(|call| call.end == ip).for_each(|call| call.end = next);
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const GC: u64 = 0x1100;

    /// `jb +5; push rax; jb +7; pop rcx; ret; call GC; jmp back; call GC; jmp back`, at 0x1000.
    fn function(other_call: u64) -> Vec<u8> {
        let call = |from: u64, to: u64| (to.wrapping_sub(from + 5) as u32).to_le_bytes();
        let mut code = vec![0x72, 0x05, 0x50, 0x72, 0x09, 0x59, 0xc3];
        code.extend([&[0xe8][..], &call(0x1007, GC), &[0xeb, 0xf4]].concat());
        code.extend([&[0xe8][..], &call(0x100e, other_call), &[0xeb, 0xf0]].concat());
        code
    }

    fn row(pc: u32, cfa: i16) -> Row {
        Row { cfa, ..Row::plain(pc, Kind::StackPointer) }
    }

    fn mended(code: &[u8]) -> Vec<Row> {
        let mut rows = vec![row(0, 1), row(3, 2), row(6, 1), Row::plain(0x15, Kind::Gap)];
        let binary = Binary { base: 0x1000, changing: &[GC], text: (0x1000, code) };
        mend(&mut rows, &[(0x1000, 0x1000 + code.len() as u64)], &binary);
        rows
    }

    #[test]
    fn a_late_call_has_the_row_of_the_jump_to_it() {
        // The first call is described correctly. The second was jumped to with one more word on the stack.
        let gap = Row::plain(0x15, Kind::Gap);
        assert_eq!(mended(&function(GC)), [row(0, 1), row(3, 2), row(6, 1), row(0xe, 2), gap]);
    }

    #[test]
    fn other_calls_keep_theirs() {
        let as_it_was = [row(0, 1), row(3, 2), row(6, 1), Row::plain(0x15, Kind::Gap)];
        assert_eq!(mended(&function(GC + 16)), as_it_was, "of a function that stays on its stack");
        let mut from_two = function(GC);
        from_two[1] = 0x0c; // both jumps lead to the second call, with different stacks
        assert_eq!(mended(&from_two), as_it_was);
        assert_eq!(mended(&[]), as_it_was, "its code is not in the file");
    }
}
