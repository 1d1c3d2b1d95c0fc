//! A way from an instruction back to itself, without a call and without a trace left in memory.

use std::collections::HashMap;

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register};

use super::{Segment, is_pause};

/// Maximum length of a wait loop. Longer paths are not searched.
const LENGTH_MAX: usize = 64;
/// Nor are more instructions than these.
const LOOKED_AT_MAX: usize = 512;

/// The shortest way, its first instruction the one at `start`. Nothing where there is none.
pub fn back_to(code: &Segment, start: u64) -> Option<Vec<Instruction>> {
    let first = code.instruction(start).filter(leaves_no_trace)?;
    let mut seen: HashMap<u64, (Instruction, u64, usize)> = HashMap::from([(start, (first, start, 1))]);
    let mut queue = std::collections::VecDeque::from([first]);
    while let Some(instruction) = queue.pop_front() {
        let length = seen.get(&instruction.ip()).map_or(0, |(_, _, length)| *length);
        for next in successors(&instruction) {
            if next == start {
                return Some(way(&seen, instruction.ip(), start));
            }
            if length >= LENGTH_MAX || seen.len() >= LOOKED_AT_MAX || seen.contains_key(&next) {
                continue;
            }
            if let Some(found) = code.instruction(next).filter(leaves_no_trace) {
                seen.insert(next, (found, instruction.ip(), length + 1));
                queue.push_back(found);
            }
        }
    }
    None
}

fn way(seen: &HashMap<u64, (Instruction, u64, usize)>, last: u64, start: u64) -> Vec<Instruction> {
    let mut way = Vec::new();
    let mut at = last;
    while let Some((instruction, before, _)) = seen.get(&at) {
        way.push(*instruction);
        if at == start {
            break;
        }
        at = *before;
    }
    way.reverse();
    way
}

fn successors(instruction: &Instruction) -> impl Iterator<Item = u64> {
    let (falls, jumps) = match instruction.flow_control() {
        FlowControl::Next => (true, false),
        FlowControl::ConditionalBranch => (true, true),
        FlowControl::UnconditionalBranch => (false, true),
        _ => (false, false),
    };
    let falls = falls.then(|| instruction.next_ip());
    jumps.then(|| instruction.near_branch_target()).into_iter().chain(falls)
}

/// Whether the instruction can be part of a wait loop. It must not be a call, system call or string
/// operation. It writes only to the stack, or attempts to acquire something (an atomic exchange).
fn leaves_no_trace(instruction: &Instruction) -> bool {
    use FlowControl::{ConditionalBranch, Next, UnconditionalBranch};
    let flow = instruction.flow_control();
    if !matches!(flow, Next | ConditionalBranch | UnconditionalBranch)
        || instruction.is_string_instruction()
        || instruction.is_stack_instruction()
        || instruction.is_loop()
        || instruction.is_loopcc()
    {
        return false;
    }
    if is_pause(instruction) {
        return true;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    if info.used_memory().len() > 1 {
        return false;
    }
    let is_x87 = |used: &iced_x86::UsedRegister| used.register().is_st() || used.register().is_mm();
    if info.used_registers().iter().any(is_x87) {
        return false;
    }
    let writes = info.used_memory().first().is_some_and(|memory| is_write(memory.access()));
    !writes || is_stack(instruction) || is_attempt(instruction)
}

/// Something is written there.
pub fn is_write(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// Whether the operand is a local variable. Unoptimised code keeps counters there.
pub fn is_stack(instruction: &Instruction) -> bool {
    let direct = instruction.memory_index() == Register::None;
    match instruction.memory_base() {
        Register::RSP => direct,
        Register::RBP => direct && (instruction.memory_displacement64() as i64) < 0,
        _ => false,
    }
}

/// Whether the instruction writes atomically and reads the old value, as an attempt to acquire a lock does.
fn is_attempt(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Xchg || instruction.has_lock_prefix()
}
