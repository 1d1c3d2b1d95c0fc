//! Functions that an interpreter runs, as they stand in a stack in the place of addresses (`bpf/interpreters.h`, `bpf/wire.h`).

/// `WIRE_INTERPRETED`: no address of user space has it.
const MARK: u64 = 1 << 63;
/// `WIRE_INTERPRETED_IDENTITY_SHIFT`.
const IDENTITY_SHIFT: u32 = 55;
/// `WIRE_INTERPRETED_UNITS_SHIFT`, `WIRE_INTERPRETED_UNITS`.
const UNITS_SHIFT: u32 = 44;
const UNITS_MAX: u64 = 2047;
/// `WIRE_INTERPRETED_BEGINS`.
const BEGINS: u64 = 1 << 43;
/// Code objects' addresses are multiples of it.
const ALIGNED: u64 = 16;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreted {
    /// Address of its code object.
    pub code: u64,
    /// Which of those that were there.
    pub identity: u8,
    /// Instructions of two bytes before the one where it is; none if there are too many to be told.
    pub units: Option<u32>,
    /// An evaluation in C began with it: what called it is not interpreted.
    pub begins: bool,
}

impl Interpreted {
    /// What stands in a stack; none for a real address.
    pub fn of(address: u64) -> Option<Interpreted> {
        let units = (address >> UNITS_SHIFT) & UNITS_MAX;
        (address & MARK != 0).then_some(Interpreted {
            code: (address & (BEGINS - 1)) * ALIGNED,
            identity: (address >> IDENTITY_SHIFT) as u8,
            units: u32::try_from(units).ok().filter(|_| units < UNITS_MAX),
            begins: address & BEGINS != 0,
        })
    }

    /// As it stands in a stack.
    pub fn address(self) -> u64 {
        let begins = if self.begins { BEGINS } else { 0 };
        let units = self.units.map_or(UNITS_MAX, |units| u64::from(units).min(UNITS_MAX));
        // The highest bit of the identity lies below the mark.
        let identity = u64::from(self.identity) << IDENTITY_SHIFT;
        MARK | identity | (units << UNITS_SHIFT) | begins | ((self.code / ALIGNED) & (BEGINS - 1))
    }
}

/// A number that tells what has these numbers from others, as the kernel programs compute it (`mix` in `bpf/stacks.h`).
pub fn identity(numbers: [u64; 3]) -> u8 {
    let mix = |hash: u64, value: u64| {
        let hash = (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ (hash >> 29)
    };
    (numbers.into_iter().fold(0, mix) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_stack_is_read_as_it_was_meant() {
        let one = Interpreted { code: 0x7fff_1234_5670, identity: 0xa5, units: Some(5), begins: true };
        let expected = (1 << 63) | (0xa5 << 55) | (5 << 44) | (1 << 43) | 0x07ff_f123_4567;
        assert_eq!(one.address(), expected);
        assert_eq!(Interpreted::of(one.address()), Some(one));
        let far = Interpreted { units: None, begins: false, ..one };
        assert_eq!(Interpreted::of(far.address()), Some(far));
        assert_eq!(Interpreted::of(0x7fff_ffff_ffff), None);
    }
}
