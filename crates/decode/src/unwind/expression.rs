//! The few DWARF expressions that compilers put in unwind tables.

const BREG_RBP: u8 = 0x76;
const BREG_RSP: u8 = 0x77;
const DEREF: u8 = 0x06;
const PLUS_UCONST: u8 = 0x23;

/// Meaning of an expression for the CFA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cfa {
    /// A linker's PLT: `rsp + 8 + ((rip & 15) >= n) * 8`, with this n.
    Plt(i16),
    /// `*(rbp + offset)`, in bytes: a function that realigned its stack.
    Deref(i64),
    /// `*(rsp + at) + behind`, or with `twice` `**(rsp + at) + behind`, in bytes: code that runs on another stack than
    /// its caller.
    Switched {
        /// Where the word is.
        at: i64,
        /// Offset added to the pointed-to value.
        behind: i64,
        /// The address is reached through a second pointer.
        twice: bool,
    },
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
    switched(bytes).unwrap_or(Cfa::Other)
}

/// `breg7 at, deref, [plus_uconst 0, deref,] plus_uconst behind`, the numbers of one byte or two.
fn switched(bytes: &[u8]) -> Option<Cfa> {
    let [BREG_RSP, rest @ ..] = bytes else { return None };
    let (at, rest) = rest.split_at_checked(rest.iter().position(|byte| *byte == DEREF)?)?;
    let (twice, behind) = match rest {
        [DEREF, PLUS_UCONST, 0, DEREF, PLUS_UCONST, behind @ ..] => (true, behind),
        [DEREF, PLUS_UCONST, behind @ ..] => (false, behind),
        _ => return None,
    };
    let behind = match behind {
        [only] if only & 0x80 == 0 => i64::from(*only),
        [low, high] if low & 0x80 != 0 && high & 0x80 == 0 => i64::from(low & 0x7f) | i64::from(*high) << 7,
        _ => return None,
    };
    Some(Cfa::Switched { at: short_sleb(at)?, behind, twice })
}

/// The expression is `rsp + offset`: this offset, in bytes.
pub fn above_rsp(bytes: &[u8]) -> Option<i64> {
    let [BREG_RSP, offset @ ..] = bytes else { return None };
    match offset {
        [a, b, c] if a & b & 0x80 != 0 && c & 0x80 == 0 => {
            let value = i64::from(a & 0x7f) | i64::from(b & 0x7f) << 7 | i64::from(*c) << 14;
            Some(value << 43 >> 43)
        }
        short => short_sleb(short),
    }
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
        // OCaml 5: caml_c_call, caml_start_program, caml_runstack.
        let switched = |at, behind, twice| Cfa::Switched { at, behind, twice };
        assert_eq!(cfa(&[0x77, 8, 0x06, 0x23, 8]), switched(8, 8, false));
        assert_eq!(cfa(&[0x77, 16, 0x06, 0x23, 0xd0, 0x00]), switched(16, 80, false));
        assert_eq!(cfa(&[0x77, 56, 0x06, 0x23, 0, 0x06, 0x23, 8]), switched(56, 8, true));
        assert_eq!(cfa(&[0x73, 8, 0x06, 0x23, 8]), Cfa::Other);
        assert_eq!(cfa(&[0x77, 8, 0x06, 0x23]), Cfa::Other);
        assert!(is_at_rbp(&[0x76, 0]) && !is_at_rbp(&[0x76, 8]));
        // GHC's StgRun.
        assert_eq!(above_rsp(&[0x77, 0xb8, 0x80, 0x01]), Some(16_440));
        assert_eq!(above_rsp(&[0x77, 0x08]), Some(8));
        assert_eq!(above_rsp(&[0x77, 0x78]), Some(-8));
        assert_eq!(above_rsp(&[0x76, 0x08]), None);
        assert_eq!(above_rsp(&[0x77, 0x80, 0x80, 0x80]), None);
    }
}
