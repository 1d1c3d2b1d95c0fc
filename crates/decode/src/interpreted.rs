//! Functions that an interpreter runs, as they stand in a stack in the place of addresses (`bpf/interpreters.h`, `bpf/wire.h`).

/// `WIRE_INTERPRETED`: no address of user space has it.
const MARK: u64 = 1 << 63;
/// `WIRE_INTERPRETED_IN_PLACE`, `WIRE_INTERPRETED_IN_PLACE_CODE`.
const IN_PLACE: u64 = 1 << 62;
const IN_PLACE_CODE: u64 = (1 << 44) - 1;
/// `WIRE_INTERPRETED_IDENTITY_SHIFT`, `WIRE_INTERPRETED_IDENTITY_BITS`.
const IDENTITY_SHIFT: u32 = 55;
const IDENTITY_BITS: u32 = 7;
/// `WIRE_INTERPRETED_UNITS_SHIFT`, `WIRE_INTERPRETED_UNITS`.
const UNITS_SHIFT: u32 = 44;
const UNITS_MAX: u64 = 2047;
/// `WIRE_INTERPRETED_BEGINS`.
const BEGINS: u64 = 1 << 43;

/// How functions of an interpreter stand in a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Behind all frames.
    Behind {
        /// An evaluation in C began with it: what called it is not interpreted.
        begins: bool,
    },
    /// In the place of its own frame.
    InPlace,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreted {
    /// Address of the code object, or of the method for a function with a frame.
    pub code: u64,
    /// Which of those that were there.
    pub identity: u8,
    /// Offset of the current instruction in units of [`Standing::unit_bytes`]. `None` if it is too large to
    /// be encoded.
    pub units: Option<u32>,
    /// Where it stands.
    pub standing: Standing,
}

impl Standing {
    /// Codes' addresses are multiples of it.
    fn aligned(self) -> u64 {
        if self == Standing::InPlace { 8 } else { 16 }
    }

    /// Bits that hold the code address. The address bits not stored are 0.
    fn code_bits(self) -> u64 {
        if self == Standing::InPlace { IN_PLACE_CODE } else { BEGINS - 1 }
    }

    /// Length of an instruction.
    pub fn unit_bytes(self) -> u64 {
        if self == Standing::InPlace { 1 } else { 2 }
    }
}

impl Interpreted {
    /// Decodes a stack entry. `None` for a real address.
    pub fn from_address(address: u64) -> Option<Interpreted> {
        let units = (address >> UNITS_SHIFT) & UNITS_MAX;
        let standing = match address & IN_PLACE {
            0 => Standing::Behind { begins: address & BEGINS != 0 },
            _ => Standing::InPlace,
        };
        (address & MARK != 0).then_some(Interpreted {
            code: (address & standing.code_bits()) * standing.aligned(),
            identity: (address >> IDENTITY_SHIFT) as u8 & ((1 << IDENTITY_BITS) - 1),
            units: u32::try_from(units).ok().filter(|_| units < UNITS_MAX),
            standing,
        })
    }

    /// As it stands in a stack.
    pub fn address(self) -> u64 {
        let mark = match self.standing {
            Standing::Behind { begins: false } => MARK,
            Standing::Behind { begins: true } => MARK | BEGINS,
            Standing::InPlace => MARK | IN_PLACE,
        };
        let units = self.units.map_or(UNITS_MAX, |units| u64::from(units).min(UNITS_MAX));
        let identity = u64::from(self.identity) << IDENTITY_SHIFT;
        mark | identity
            | (units << UNITS_SHIFT)
            | ((self.code / self.standing.aligned()) & self.standing.code_bits())
    }
}

/// Hash of the numbers that identify a code object, as in BPF (`mix` in `bpf/stacks.h`).
pub fn identity(numbers: &[u64]) -> u8 {
    let mix = |hash: u64, value: &u64| {
        let hash = (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ (hash >> 29)
    };
    (numbers.iter().fold(0, mix) >> (64 - IDENTITY_BITS)) as u8
}

/// Where the kernel programs find what a process interprets: bytes as they read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelLayout {
    /// In lists, a thread each: `struct interpreter_layout`.
    Lists(Vec<u8>),
    /// In frames on the stack, mixed with those of compiled code: `struct hotspot`.
    Frames(Vec<u8>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_stack_is_read_as_it_was_meant() {
        let standing = Standing::Behind { begins: true };
        let one = Interpreted { code: 0x7fff_1234_5670, identity: 0x25, units: Some(5), standing };
        let expected = (1 << 63) | (0x25 << 55) | (5 << 44) | (1 << 43) | 0x07ff_f123_4567;
        assert_eq!(one.address(), expected);
        assert_eq!(Interpreted::from_address(one.address()), Some(one));
        let far = Interpreted { units: None, standing: Standing::Behind { begins: false }, ..one };
        assert_eq!(Interpreted::from_address(far.address()), Some(far));
        let frame = Interpreted { code: 0x7fff_1234_5678, standing: Standing::InPlace, ..one };
        assert_eq!(frame.address(), (3 << 62) | (0x25 << 55) | (5 << 44) | 0x0fff_e246_8acf);
        assert_eq!(Interpreted::from_address(frame.address()), Some(frame));
        assert_eq!(Interpreted::from_address(0x7fff_ffff_ffff), None);
    }
}
