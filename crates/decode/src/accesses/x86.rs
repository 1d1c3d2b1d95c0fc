//! The memory operand of one x86-64 instruction.

use holdup_events::event::Registers;
use holdup_events::tables::{AccessKind, DataAccess};
use iced_x86::{
    Instruction, InstructionInfo, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind,
    Register,
};

/// How an instruction touches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    instruction: Instruction,
    operand: u32,
    kind: AccessKind,
}

impl Access {
    /// The access of an executed instruction. `None` if it accesses no memory or its address is unknown.
    pub fn from_instruction(instruction: &Instruction) -> Option<Access> {
        let operand = (0..instruction.op_count()).find(|at| instruction.op_kind(*at) == OpKind::Memory)?;
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
        let kind = kind(instruction, info.op_access(operand))?;
        let parts = [instruction.memory_base(), instruction.memory_index()];
        if parts.into_iter().any(|part| part != Register::None && is_changed(info, part)) {
            return None;
        }
        Some(Access { instruction: *instruction, operand, kind })
    }

    /// Whether the access writes, and its address is still known after `other`.
    pub fn writes_over(&self, other: &Instruction) -> bool {
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info_options(other, InstructionInfoOptions::NO_MEMORY_USAGE);
        let parts = [self.instruction.memory_base(), self.instruction.memory_index()];
        self.kind.writes() && !parts.into_iter().any(|part| part != Register::None && is_changed(info, part))
    }

    /// The access of a string instruction with a repeat prefix during execution: its write if any, otherwise
    /// its read.
    pub fn repeated(instruction: &Instruction) -> Option<Access> {
        if !(instruction.has_rep_prefix() || instruction.has_repne_prefix()) {
            return None;
        }
        let of_kind = |kinds: &[OpKind]| {
            (0..instruction.op_count()).find(|at| kinds.contains(&instruction.op_kind(*at)))
        };
        let operand = of_kind(&[OpKind::MemoryESRDI]).or_else(|| of_kind(&[OpKind::MemorySegRSI]))?;
        let mut factory = InstructionInfoFactory::new();
        let access =
            factory.info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE).op_access(operand);
        Some(Access { instruction: *instruction, operand, kind: kind(instruction, access)? })
    }

    /// With these registers.
    pub fn with(&self, registers: &Registers) -> DataAccess {
        let value = |register: Register, _, _| match register {
            Register::ES | Register::CS | Register::SS | Register::DS => Some(0),
            Register::FS | Register::GS => None,
            general => {
                let full = general.full_register();
                full.is_gpr64().then(|| registers.get(full.number()).copied()).flatten()
            }
        };
        match self.instruction.virtual_address(self.operand, 0, value) {
            Some(address) => DataAccess {
                kind: self.kind,
                address,
                bytes: u8::try_from(self.instruction.memory_size().size()).unwrap_or(u8::MAX),
            },
            None => DataAccess::default(),
        }
    }
}

/// Whether the instruction only waits for earlier stores. That is `mfence`, or an atomic instruction that
/// leaves the thread's own stack unchanged. The latter is faster, so compilers and runtimes emit `lock or` or
/// `lock add` of 0 on the stack.
pub fn is_fence(instruction: &Instruction) -> bool {
    let changes_nothing = matches!(instruction.mnemonic(), Mnemonic::Or | Mnemonic::Add)
        && instruction.op_count() == 2
        && instruction.op0_kind() == OpKind::Memory
        && matches!(
            instruction.op1_kind(),
            OpKind::Immediate8 | OpKind::Immediate8to32 | OpKind::Immediate8to64 | OpKind::Immediate32
        )
        && instruction.immediate(1) == 0;
    let is_own = instruction.memory_base() == Register::RSP && instruction.memory_index() == Register::None;
    instruction.mnemonic() == Mnemonic::Mfence || instruction.has_lock_prefix() && changes_nothing && is_own
}

fn kind(instruction: &Instruction, access: OpAccess) -> Option<AccessKind> {
    let is_locked = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg;
    match access {
        OpAccess::Read | OpAccess::CondRead => Some(AccessKind::Read),
        OpAccess::Write | OpAccess::CondWrite => Some(AccessKind::Write),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite if is_locked => Some(AccessKind::Atomic),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Some(AccessKind::Update),
        OpAccess::None | OpAccess::NoMemAccess => None,
    }
}

/// The instruction may have changed a register.
fn is_changed(info: &InstructionInfo, register: Register) -> bool {
    info.used_registers().iter().any(|used| {
        let writes = matches!(
            used.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        writes && used.register().full_register() == register.full_register()
    })
}
