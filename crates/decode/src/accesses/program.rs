//! The code of one file: where its functions begin, and in them the instructions.

use std::collections::HashMap;
use std::ops::Range;

use gimli::{BaseAddresses, EhFrame, UnwindSection};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::symbols::{Bytes, Elf};

/// Functions are not decoded beyond this.
const FUNCTION_BYTES_MAX: u64 = 1 << 18;
/// Instructions that are remembered of all functions together.
const INSTRUCTIONS_MAX: usize = 1 << 22;

/// The instructions that a thread was at and came by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around {
    /// The one that it is at.
    pub at: Option<Instruction>,
    /// The one before, unless that may be jumped over.
    pub before: Option<Instruction>,
    /// The instruction before that one, unless a jump may skip it. Always set if `before` is a fence.
    pub earlier: Option<Instruction>,
}

/// A file's code.
pub struct Program {
    bytes: Bytes,
    /// Offsets in the file, and the address of the first, of each executable segment.
    segments: Vec<(Range<u64>, u64)>,
    /// Where functions begin, by address.
    starts: Vec<u64>,
    functions: HashMap<u64, Function>,
    instructions: usize,
}

/// Distances from a function's start.
struct Function {
    /// Offsets of the instructions, ascending.
    instructions: Vec<u32>,
    /// Offsets of jump targets, ascending.
    targets: Vec<u32>,
}

impl Program {
    /// The code of an ELF file, `None` for any other file.
    pub fn new(bytes: Bytes) -> Option<Program> {
        let file: &[u8] = (*bytes).as_ref();
        let elf = Elf::parse(file)?;
        let segments = elf.segments().collect();
        let starts = starts(file)?;
        Some(Program { bytes, segments, starts, functions: HashMap::new(), instructions: 0 })
    }

    /// The instructions at an offset in the file and before, decoded for a thread that was there with its instruction pointer at `ip`.
    pub fn around(&mut self, offset: u64, ip: u64) -> Around {
        self.find(offset, ip).unwrap_or_default()
    }

    fn find(&mut self, offset: u64, ip: u64) -> Option<Around> {
        let (offsets, first) = self.segments.iter().find(|(offsets, _)| offsets.contains(&offset))?.clone();
        let address = first.checked_add(offset - offsets.start)?;
        let index = self.starts.partition_point(|start| *start <= address).checked_sub(1)?;
        let start = self.starts.get(index).copied().filter(|start| *start >= first)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(u64::MAX);
        let length = (end - start).min(FUNCTION_BYTES_MAX);
        let from = usize::try_from(offset.checked_sub(address - start)?).ok()?;
        let file: &[u8] = (*self.bytes).as_ref();
        let until =
            from.saturating_add(length as usize).min(usize::try_from(offsets.end).ok()?).min(file.len());
        let code = file.get(from..until)?;
        if self.instructions > INSTRUCTIONS_MAX {
            self.functions.clear();
            self.instructions = 0;
        }
        let function = self.functions.entry(start).or_insert_with(|| {
            let function = Function::decode(code, start);
            self.instructions += function.instructions.len();
            function
        });
        let distance = u32::try_from(address - start).ok()?;
        let at = function.instructions.binary_search(&distance).ok()?;
        let decode = |distance: u32, ip: u64| {
            let bytes = code.get(distance as usize..)?;
            let instruction = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode();
            (!instruction.is_invalid()).then_some(instruction)
        };
        // One that ends where the next begins, which is not jumped to.
        let before = |at: usize| {
            let distance = *function.instructions.get(at)?;
            let before = at.checked_sub(1).and_then(|at| function.instructions.get(at));
            before.filter(|_| function.targets.binary_search(&distance).is_err())
        };
        let decoded = |before: &u32| decode(*before, ip.wrapping_sub(u64::from(distance - before)));
        let (last, earlier) = (before(at), before(at).and_then(|_| before(at.checked_sub(1)?)));
        Some(Around {
            at: decode(distance, ip),
            before: last.and_then(decoded),
            earlier: earlier.and_then(decoded),
        })
    }
}

impl Function {
    fn decode(code: &[u8], start: u64) -> Function {
        let mut function = Function { instructions: Vec::new(), targets: Vec::new() };
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            function.instructions.push((instruction.ip() - start) as u32);
            let jumps = matches!(
                instruction.flow_control(),
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
            );
            if jumps && instruction.op0_kind() == OpKind::NearBranch64 {
                let target = instruction.near_branch_target().wrapping_sub(start);
                function.targets.extend(u32::try_from(target).ok());
            }
        }
        function.targets.sort_unstable();
        function.targets.dedup();
        function
    }
}

/// Where functions begin, by symbols and by unwind entries.
fn starts(file: &[u8]) -> Option<Vec<u64>> {
    let elf = ElfFile64::<LittleEndian>::parse(file).ok()?;
    let is_function = |symbol: &object::read::elf::ElfSymbol64<'_, '_, LittleEndian>| {
        symbol.kind() == SymbolKind::Text && symbol.is_definition()
    };
    let symbols = elf.symbols().chain(elf.dynamic_symbols()).filter(is_function);
    let mut starts: Vec<u64> = symbols.map(|symbol| symbol.address()).collect();
    starts.extend(unwind_entries(&elf).unwrap_or_default());
    starts.sort_unstable();
    starts.dedup();
    Some(starts)
}

fn unwind_entries(elf: &ElfFile64<'_, LittleEndian>) -> Option<Vec<u64>> {
    let section = elf.section_by_name(".eh_frame")?;
    let eh_frame = EhFrame::new(section.data().ok()?, gimli::LittleEndian);
    let of = |name| elf.section_by_name(name).map_or(0, |section| section.address());
    let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(of(".text"));
    let mut entries = eh_frame.entries(&bases);
    let mut starts = Vec::new();
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        if let Ok(fde) = partial.parse(EhFrame::cie_from_offset) {
            starts.push(fde.initial_address());
        }
    }
    Some(starts)
}
