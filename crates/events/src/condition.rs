//! Conditions on a function's arguments, `arg0 > 4096 && (arg1:s32 < 0 || arg2 & 4)`: in the words of the kernel's own filters
//! of tracepoints, so that what is asked of a syscall and of a function is written alike.
//!
//! What is parsed is alternatives of comparisons that hold together: the kernel program goes through them in one pass, without
//! a tree (`bpf/spans.h`).

mod parse;

/// Integers that are passed in registers; those behind them lie on the stack.
pub const ARGUMENTS_MAX: u8 = 6;
/// Comparisons of one condition, once it is alternatives of them. As in `struct wire_condition`.
pub const COMPARISONS_MAX: usize = 8;

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    More,
    /// `>=`
    MoreOrEqual,
    /// `&`: they have a bit in common.
    AnyBit,
    /// `!(… & …)`
    NoBit,
}

impl Relation {
    /// What holds exactly where this does not.
    fn opposite(self) -> Relation {
        use Relation::{AnyBit, Equal, Less, LessOrEqual, More, MoreOrEqual, NoBit, NotEqual};
        match self {
            Equal => NotEqual,
            NotEqual => Equal,
            Less => MoreOrEqual,
            MoreOrEqual => Less,
            More => LessOrEqual,
            LessOrEqual => More,
            AnyBit => NoBit,
            NoBit => AnyBit,
        }
    }
}

/// What of a register an argument is: C leaves the bits above it as they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    /// It may be negative.
    pub is_signed: bool,
}

/// An argument compared with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Which, from 0 on.
    pub argument: u8,
    /// How much of its register counts.
    pub width: Width,
    /// How.
    pub relation: Relation,
    /// With what; of a negative number all 64 bits of its two's complement.
    pub value: u64,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    alternatives: Vec<Vec<Comparison>>,
}

impl Condition {
    /// # Errors
    /// What is not understood in it, or that it is too long.
    pub fn parse(text: &str) -> Result<Condition, String> {
        Ok(Condition { alternatives: parse::parse(text)? })
    }

    /// It holds where all of one of these do.
    pub fn alternatives(&self) -> &[Vec<Comparison>] {
        &self.alternatives
    }

    /// The arguments that it asks for.
    pub fn arguments(&self) -> impl Iterator<Item = u8> + '_ {
        self.alternatives.iter().flatten().map(|comparison| comparison.argument)
    }
}

#[cfg(test)]
mod tests;
