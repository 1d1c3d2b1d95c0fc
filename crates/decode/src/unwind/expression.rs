//! The few DWARF expressions that compilers put in unwind tables.

const BREG_RBP: u8 = 0x76;
const DEREF: u8 = 0x06;

/// What an expression for the CFA says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cfa {
    /// A linker's PLT: `rsp + 8 + ((rip & 15) >= n) * 8`, with this n.
    Plt(i16),
    /// `*(rbp + offset)`, in bytes: a function that realigned its stack.
    Deref(i64),
    /// Something else.
    Other,
}

/// Recognises the CFA's expression.
pub fn cfa(bytes: &[u8]) -> Cfa {
    // breg7 8, breg16 0, lit15, and, litN, ge, lit3, shl, plus
    if let [0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, literal @ 0x30..=0x3f, 0x2a, 0x33, 0x24, 0x22] = bytes {
        return Cfa::Plt(i16::from(literal - 0x30));
    }
    if let [BREG_RBP, offset @ .., DEREF] = bytes
        && let Some(offset) = short_sleb(offset)
    {
        return Cfa::Deref(offset);
    }
    Cfa::Other
}

/// The expression is just `rbp + 0`: the caller's bp is where bp points.
pub fn is_at_rbp(bytes: &[u8]) -> bool {
    bytes == [BREG_RBP, 0]
}

/// A signed LEB128 number of one or two bytes, all of `bytes`.
fn short_sleb(bytes: &[u8]) -> Option<i64> {
    match bytes {
        [only] if only & 0x80 == 0 => Some(i64::from((only << 1) as i8 >> 1)),
        [low, high] if low & 0x80 != 0 && high & 0x80 == 0 => {
            let value = i64::from(low & 0x7f) | i64::from(*high) << 7;
            Some(value << 50 >> 50)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_ones_are_known() {
        let plt = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(cfa(&plt), Cfa::Plt(11));
        assert_eq!(cfa(&[0x76, 0x78, 0x06]), Cfa::Deref(-8));
        assert_eq!(cfa(&[0x76, 0xf0, 0x7e, 0x06]), Cfa::Deref(-144));
        assert_eq!(cfa(&[0x77, 0x00]), Cfa::Other);
        assert!(is_at_rbp(&[0x76, 0]) && !is_at_rbp(&[0x76, 8]));
    }
}
