//! Where the integer arguments of a function are when it is entered: System V's calling convention for x86-64. What the kernel
//! program reads of them is in `bpf/arguments_x86_64.h`.

use iced_x86::{Instruction, InstructionInfoFactory, Register};

use crate::spin::is_write;

const REGISTERS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];

/// The first of these arguments that one of the instructions overwrites.
pub(super) fn first_overwritten(
    instructions: impl Iterator<Item = Instruction>,
    arguments: &[u8],
) -> Option<u8> {
    let mut factory = InstructionInfoFactory::new();
    for instruction in instructions {
        let used = factory.info(&instruction).used_registers();
        let written = |number: &&u8| {
            let register = REGISTERS.get(usize::from(**number));
            used.iter()
                .any(|used| is_write(used.access()) && Some(&used.register().full_register()) == register)
        };
        if let Some(number) = arguments.iter().find(written) {
            return Some(*number);
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
        // endbr64; mov rax, rdi; xor ecx, ecx; mov esi, [rdx]; push rbx
        let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xf8, 0x31, 0xc9, 0x8b, 0x32, 0x53];
        let overwritten = |arguments: &[u8]| {
            first_overwritten(Decoder::with_ip(64, &code, 0, DecoderOptions::NONE).into_iter(), arguments)
        };
        assert_eq!(overwritten(&[0, 2, 4, 5]), None);
        assert_eq!(overwritten(&[3]), Some(3));
        assert_eq!(overwritten(&[0, 1, 3]), Some(3), "in the order of the instructions");
        assert_eq!(overwritten(&[1]), Some(1));
    }
}
