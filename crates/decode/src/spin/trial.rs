//! Executes a loop path symbolically. Each value is a hash of its computation. Memory that the path does not
//! write is constant.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::FrameSpin;
use iced_x86::{ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use super::cycle::{is_stack, is_write};
use super::{Spin, is_pause};

/// Number of rounds after which stable values have settled. Values move through few registers.
const ROUNDS: usize = 6;

/// How a value came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Value {
    hash: u64,
    /// Set if the value depends on shared memory: its address, if the code contains it.
    asked: Option<Option<u64>>,
}

/// A register, or a place in memory by the hash of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Register(Register),
    Memory(u64),
}

/// Flags: of which comparison, if of one.
#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    value: Value,
    compared: Option<(u64, u64)>,
}

#[derive(Default)]
struct Machine {
    places: BTreeMap<Place, Value>,
    flags: Flags,
    // Of this round:
    /// Addresses read.
    read: Vec<u64>,
    /// Places written other than by counting or copying.
    made: BTreeSet<Place>,
    /// The shared memory that decides whether the loop continues: its address if the code contains it, and
    /// the value with which it is compared.
    asks: Vec<(Option<u64>, u64)>,
    /// The loop ends while memory is unchanged.
    leaves: bool,
    /// The loop atomically stores a value computed from its reads, so it makes progress.
    works: bool,
}

/// Tries out a way around, which leads from its last instruction to its first.
pub fn run(way: &[Instruction]) -> Option<Spin> {
    let mut machine = Machine::default();
    let mut before = (BTreeMap::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (read, asks) = (std::mem::take(&mut machine.read), std::mem::take(&mut machine.asks));
        before = (machine.places.clone(), read, asks);
        machine.made.clear();
        (machine.leaves, machine.works) = (false, false);
        for (at, instruction) in way.iter().enumerate() {
            let next = way.get(at + 1).or(way.first())?.ip();
            machine.step(instruction, next);
        }
    }
    if machine.leaves || machine.works {
        return None;
    }
    // A loop that compares memory with its own counter ends by itself.
    let asks = machine.asks.first().filter(|_| machine.asks == before.2).map(|asked| asked.0);
    let watches = asks.flatten();
    if way.iter().any(is_pause) {
        return Some(Spin { how: FrameSpin::Pauses, watches });
    }
    let moved = |(place, value): (&Place, &Value)| before.0.get(place) != Some(value);
    let mut moving = machine.places.iter().filter(|entry| moved(*entry)).map(|(place, _)| place);
    let counts_only = moving.all(|place| !machine.made.contains(place));
    let keeps_reading = machine.read == before.1 && !way.iter().any(reads_clock);
    (counts_only && keeps_reading && asks.is_some()).then_some(Spin { how: FrameSpin::Rereads, watches })
}

/// Each round finds something new.
fn reads_clock(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Rdtsc | Mnemonic::Rdtscp | Mnemonic::Rdrand | Mnemonic::Rdseed | Mnemonic::Cpuid
    )
}

fn mix(hash: u64, with: u64) -> u64 {
    (hash ^ with).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ with
}

impl Machine {
    fn register(&self, register: Register) -> Value {
        let whole = register.full_register();
        let unknown = Value { hash: mix(1, whole as u64), asked: None };
        self.places.get(&Place::Register(whole)).copied().unwrap_or(unknown)
    }

    fn address(&self, instruction: &Instruction) -> u64 {
        if instruction.is_ip_rel_memory_operand() {
            return mix(2, instruction.ip_rel_memory_address());
        }
        let mut hash = mix(3, instruction.memory_displacement64());
        for register in [instruction.memory_base(), instruction.memory_index()] {
            let value = if register == Register::None { 0 } else { self.register(register).hash };
            hash = mix(hash, value);
        }
        hash = mix(hash, u64::from(instruction.memory_index_scale()));
        mix(hash, instruction.segment_prefix() as u64)
    }

    fn memory(&self, instruction: &Instruction, address: u64) -> Value {
        let named = instruction.is_ip_rel_memory_operand().then(|| instruction.ip_rel_memory_address());
        let known = self.places.get(&Place::Memory(address)).copied();
        let value = known.unwrap_or(Value { hash: mix(4, address), asked: None });
        let shared = !is_stack(instruction);
        Value { asked: if shared { Some(named) } else { value.asked }, ..value }
    }

    fn operand(&self, instruction: &Instruction, number: u32) -> Value {
        match instruction.op_kind(number) {
            OpKind::Register => self.register(instruction.op_register(number)),
            OpKind::Memory => self.memory(instruction, self.address(instruction)),
            _ => Value { hash: mix(5, immediate(instruction)), asked: None },
        }
    }

    fn step(&mut self, instruction: &Instruction, next: u64) {
        if instruction.is_jcc_short_or_near() {
            self.branch(instruction, next);
            return;
        }
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(instruction);
        let memory = info.used_memory().first().map_or(OpAccess::None, |memory| memory.access());
        let touches = !matches!(memory, OpAccess::None | OpAccess::NoMemAccess);
        let address = self.address(instruction);
        if touches && memory != OpAccess::Write {
            self.read.push(address);
        }
        self.works |= self.stores_what_it_read(instruction, address);
        let made = self.made_value(instruction, info, touches && memory != OpAccess::Write);
        let flags = self.flags_of(instruction, made);
        let mut writes = Vec::new();
        for used in info.used_registers().iter().filter(|used| is_write(used.access())) {
            let place = Place::Register(used.register().full_register());
            writes.push((place, self.result(instruction, place, made)));
        }
        if touches && is_write(memory) {
            let place = Place::Memory(address);
            writes.push((place, self.result(instruction, place, made)));
        }
        let plain = is_copy(instruction) || counts(instruction);
        for (place, value) in writes {
            self.places.insert(place, value);
            if !plain {
                self.made.insert(place);
            }
        }
        if instruction.rflags_modified() != 0 {
            self.flags = flags;
        }
    }

    /// The value that all it reads makes.
    fn made_value(
        &self,
        instruction: &Instruction,
        info: &iced_x86::InstructionInfo,
        reads_memory: bool,
    ) -> Value {
        if is_copy(instruction) {
            return self.operand(instruction, 1);
        }
        let mut made = Value { hash: mix(instruction.code() as u64, immediate(instruction)), asked: None };
        let mut take = |value: Value| {
            made = Value { hash: mix(made.hash, value.hash), asked: made.asked.or(value.asked) };
        };
        if reads_memory {
            take(self.memory(instruction, self.address(instruction)));
        }
        for used in info.used_registers().iter().filter(|used| used.access() != OpAccess::Write) {
            take(self.register(used.register()));
        }
        if instruction.rflags_read() != 0 {
            take(self.flags.value);
        }
        made
    }

    /// The value that an instruction writes to `place`. A conditional write counts as a write.
    fn result(&self, instruction: &Instruction, place: Place, made: Value) -> Value {
        use Mnemonic::{And, Btr, Bts, Cmpxchg, Mov, Or, Xchg};
        let there = || self.memory(instruction, self.address(instruction));
        match (instruction.mnemonic(), place) {
            // While memory is unchanged, an attempt fails and reads the current value.
            (Cmpxchg, _) if has_memory(instruction) => there(),
            (Xchg, Place::Register(_)) if has_memory(instruction) => there(),
            (Xchg, Place::Memory(_)) => self.operand(instruction, 1),
            // Setting a bit again changes nothing.
            (Bts | Btr | Or | And, Place::Memory(address)) => {
                let kept = mix(mix(6, address), mix(instruction.code() as u64, immediate(instruction)));
                Value { hash: mix(kept, self.operand(instruction, 1).hash), asked: made.asked }
            }
            (Mov, _) | (_, Place::Memory(_)) => made,
            (_, Place::Register(register)) => {
                let hash = mix(mix(made.hash, instruction.code() as u64), register as u64);
                Value { hash, ..made }
            }
        }
    }

    fn flags_of(&self, instruction: &Instruction, made: Value) -> Flags {
        let compares = matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Sub | Mnemonic::Cmpxchg);
        let compared = compares.then(|| {
            let second = match instruction.mnemonic() {
                Mnemonic::Cmpxchg => self.register(Register::RAX),
                _ => self.operand(instruction, 1),
            };
            (self.operand(instruction, 0).hash, second.hash)
        });
        Flags { value: made, compared }
    }

    /// An atomic step from the value that was read to the next, or one that adds: it counts or links something.
    fn stores_what_it_read(&self, instruction: &Instruction, address: u64) -> bool {
        let learns = |value: Value| value.asked.is_some();
        match instruction.mnemonic() {
            Mnemonic::Cmpxchg if has_memory(instruction) => {
                let there = self.memory(instruction, address).hash;
                learns(self.register(instruction.op1_register()))
                    || self.register(Register::RAX).hash == there
            }
            Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b => true,
            _ => false,
        }
    }

    fn branch(&mut self, instruction: &Instruction, next: u64) {
        let taken = instruction.near_branch_target() == next;
        use ConditionCode as C;
        let if_equal = matches!(instruction.condition_code(), C::e | C::ae | C::be | C::ge | C::le);
        let if_different = matches!(instruction.condition_code(), C::ne | C::a | C::b | C::g | C::l);
        if let Some((first, second)) = self.flags.compared
            && first == second
            && ((taken && if_different) || (!taken && if_equal))
        {
            self.leaves = true;
        }
        self.asks.extend(self.flags.value.asked.map(|address| (address, self.flags.value.hash)));
    }
}

fn has_memory(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|number| instruction.op_kind(number) == OpKind::Memory)
}

/// Whether the instruction copies its second operand.
fn is_copy(instruction: &Instruction) -> bool {
    use Mnemonic::{Mov, Movsx, Movsxd, Movzx};
    matches!(instruction.mnemonic(), Mov | Movzx | Movsx | Movsxd) && instruction.op_count() == 2
}

/// Adds a constant to one place.
fn counts(instruction: &Instruction) -> bool {
    let constant = |number| !matches!(instruction.op_kind(number), OpKind::Register | OpKind::Memory);
    let shared = has_memory(instruction) && !is_stack(instruction);
    match instruction.mnemonic() {
        Mnemonic::Inc | Mnemonic::Dec => !shared,
        Mnemonic::Add | Mnemonic::Sub => constant(1) && !shared,
        Mnemonic::Lea => {
            instruction.memory_index() == Register::None
                && instruction.memory_base() == instruction.op0_register()
        }
        _ => false,
    }
}

fn immediate(instruction: &Instruction) -> u64 {
    let is_constant = |number: &u32| {
        !matches!(
            instruction.op_kind(*number),
            OpKind::Register | OpKind::Memory | OpKind::NearBranch64 | OpKind::NearBranch32
        )
    };
    let constants = (0..instruction.op_count()).filter(is_constant);
    constants.filter_map(|number| instruction.try_immediate(number).ok()).fold(0, mix)
}
