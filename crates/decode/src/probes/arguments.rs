//! Where the integer arguments of a function are when it is entered: System V's calling convention for x86-64. What the kernel
//! program reads of them is in `bpf/arguments_x86_64.h`.

use iced_x86::{Instruction, InstructionInfoFactory, Register};

use crate::spin::is_write;

const REGISTERS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];

/// The registers of these arguments. Arguments on the stack are left out.
pub(super) fn registers(arguments: &[u8]) -> Vec<Register> {
    arguments.iter().filter_map(|number| REGISTERS.get(usize::from(*number)).copied()).collect()
}

/// A register by its number in instructions: 0 is `rax`, 15 is `r15`.
pub(super) fn register(number: u8) -> Register {
    const ALL: [Register; 16] = [
        Register::RAX,
        Register::RCX,
        Register::RDX,
        Register::RBX,
        Register::RSP,
        Register::RBP,
        Register::RSI,
        Register::RDI,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    ALL.get(usize::from(number)).copied().unwrap_or(Register::None)
}

/// The place of the first of these registers that one of the instructions overwrites.
pub(super) fn first_overwritten(
    instructions: impl Iterator<Item = Instruction>,
    registers: &[Register],
) -> Option<usize> {
    let mut factory = InstructionInfoFactory::new();
    for instruction in instructions {
        let used = factory.info(&instruction).used_registers();
        let written = |register: &Register| {
            used.iter().any(|used| is_write(used.access()) && used.register().full_register() == *register)
        };
        if let Some(at) = registers.iter().position(written) {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    #[test]
    fn what_is_written_over_is_no_argument_any_more() {
        // `endbr64; mov rax, rdi; xor ecx, ecx; mov esi, [rdx]; push rbx`
        let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xf8, 0x31, 0xc9, 0x8b, 0x32, 0x53];
        let overwritten = |arguments: &[u8]| {
            let code = Decoder::with_ip(64, &code, 0, DecoderOptions::NONE).into_iter();
            first_overwritten(code, &registers(arguments))
        };
        assert_eq!(overwritten(&[0, 2, 4, 5]), None);
        assert_eq!(overwritten(&[3]), Some(0));
        assert_eq!(overwritten(&[0, 1, 3]), Some(2), "in the order of the instructions");
        assert_eq!(overwritten(&[1]), Some(0));
        let code = Decoder::with_ip(64, &code, 0, DecoderOptions::NONE).into_iter();
        assert_eq!(first_overwritten(code, &[register(14), register(0)]), Some(1));
    }
}
