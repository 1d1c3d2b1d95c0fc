//! Conditions on a function's arguments, `arg0 > 4096 && (arg1:s32 < 0 || arg2 & 4)`.
//!
//! The syntax follows the kernel's tracepoint filters, so that conditions on syscalls and on functions are
//! written alike. A condition is parsed into alternatives, each a conjunction of comparisons. The BPF program
//! evaluates them in one pass, without a tree (`bpf/spans.h`).

mod parse;

/// Number of integer arguments passed in registers (System V ABI of x86-64). Further arguments are on the
/// stack.
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
    /// The negation of this relation.
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

/// The part of a register that an argument occupies. In C, the bits above it are undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    /// The value is sign-extended.
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
    /// Right-hand side. A negative number is given as its 64-bit two's complement.
    pub value: u64,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    alternatives: Vec<Vec<Comparison>>,
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// The part of `text` that is not valid, or that the condition has too many comparisons.
    pub fn parse(text: &str) -> Result<Condition, String> {
        Ok(Condition { alternatives: parse::parse(text)? })
    }

    /// The condition holds if all comparisons of at least one alternative hold.
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
