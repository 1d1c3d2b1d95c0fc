//! One row of a table: from its pc on, how to find the caller's frame.

/// How the canonical frame address (CFA: the stack pointer before the call) is found. The numbers are
/// `enum unwind_kind` of `bpf/unwind.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Nothing is known here: the walker follows frame pointers.
    Gap = 0,
    /// CFA = sp + 8 × `cfa`.
    StackPointer = 1,
    /// CFA = bp + 8 × `cfa`.
    FramePointer = 2,
    /// A PLT entry: CFA = sp + 8, and 8 more behind its byte `cfa`.
    Plt = 3,
    /// CFA = *(bp + 8 × `cfa`), and the caller's bp is at *bp: functions that realign their stack.
    Deref = 4,
    /// The frame that the kernel made for a signal is at sp.
    Signal = 5,
    /// The thread's root, which has no caller.
    Stop = 6,
    /// A rule that rows cannot express.
    Bad = 7,
    /// The code switched to another stack: CFA = *(sp + 8 × at) + 8 × behind. See [`Row::switched`].
    Switched = 8,
    /// The same, with one word more to follow: CFA = **(sp + 8 × at) + 8 × behind.
    SwitchedTwice = 9,
    /// Code that runs on a frame made by another function: CFA = sp + 8 × `cfa`, plus a few words while it
    /// calls another function ([`LENT_WORDS`]).
    Lent = 10,
    /// Code that keeps its frame in bx while its callee runs on another stack: CFA = bx + 8 × `cfa`.
    Held = 11,
    /// Code with a frame pointer that keeps the caller's stack pointer below it. Only the kernel programs find such code.
    Interpreted = 12,
    /// Code that went on on another stack and left bp on the one that it was called on: CFA = bp + 8 × `cfa`, wherever that is.
    FrameElsewhere = 13,
}

/// Maximum number of additional words on a lent frame, pushed for a call by the code that uses the frame.
pub const LENT_WORDS: u64 = 16;

const KINDS: [Kind; 14] = [
    Kind::Gap,
    Kind::StackPointer,
    Kind::FramePointer,
    Kind::Plt,
    Kind::Deref,
    Kind::Signal,
    Kind::Stop,
    Kind::Bad,
    Kind::Switched,
    Kind::SwitchedTwice,
    Kind::Lent,
    Kind::Held,
    Kind::Interpreted,
    Kind::FrameElsewhere,
];

/// The rule from a pc up to the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Relative to the table's base.
    pub pc: u32,
    /// See [`Kind`].
    pub kind: Kind,
    /// In units of 8 bytes, except for [`Kind::Plt`]. Two numbers for [`Kind::Switched`].
    pub cfa: i16,
    /// The caller's bp is saved at CFA + 8 × this. 0: it is still in bp.
    pub bp: i8,
    /// The caller's bx is saved at CFA - 8 × this. 0: it is still in bx. Or [`BX_ELSEWHERE`].
    pub bx: u8,
}

/// In [`Row::bx`]: saved at a place that a row cannot express.
pub const BX_ELSEWHERE: u8 = 15;

impl Row {
    /// A row without numbers.
    pub fn plain(pc: u32, kind: Kind) -> Row {
        Row { pc, kind, cfa: 0, bp: 0, bx: 0 }
    }

    /// A frame of code that describes itself.
    pub fn is_a_functions(&self) -> bool {
        matches!(self.kind, Kind::StackPointer | Kind::FramePointer | Kind::Deref)
    }

    /// The caller may be on another stack.
    pub fn switches(&self) -> bool {
        matches!(self.kind, Kind::Switched | Kind::SwitchedTwice | Kind::Held | Kind::FrameElsewhere)
    }

    /// For a switched stack: offset of the pointer to the CFA, and the distance to add (bytes).
    pub fn switched(&self) -> (i64, i64) {
        let [at, behind] = self.cfa.to_le_bytes().map(|byte| i64::from(byte as i8) * 8);
        (at, behind)
    }

    /// As the kernel programs read it (`unwind_row` in `bpf/unwind.h`).
    pub fn pack(self) -> u64 {
        u64::from(self.pc)
            | u64::from(self.cfa as u16) << 32
            | u64::from(self.bp as u8) << 48
            | u64::from(self.kind as u8) << 56
            | u64::from(self.bx) << 60
    }

    /// Unpacks the output of [`Row::pack`]. `None` for anything else.
    pub fn unpack(packed: u64) -> Option<Row> {
        let [p0, p1, p2, p3, c0, c1, bp, last] = packed.to_le_bytes();
        let kind = KINDS.into_iter().find(|known| *known as u8 == last & 15)?;
        let (pc, cfa) = (u32::from_le_bytes([p0, p1, p2, p3]), i16::from_le_bytes([c0, c1]));
        Some(Row { pc, kind, cfa, bp: bp as i8, bx: last >> 4 })
    }

    /// Whether the rule equals that of `other`, apart from the pc.
    pub fn same_rule(&self, other: &Row) -> bool {
        Row { pc: other.pc, ..*self } == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_places() {
        let row = Row { pc: 0x1234_5678, kind: Kind::FramePointer, cfa: -2, bp: -3, bx: 7 };
        assert_eq!(row.pack(), 0x72fd_fffe_1234_5678);
        assert_eq!(Row::unpack(row.pack()), Some(row));
    }

    #[test]
    fn every_kind_comes_back_and_no_other() {
        let kinds = (0..16).filter_map(|kind: u64| Row::unpack(kind << 56));
        assert_eq!(kinds.map(|row| row.kind).collect::<Vec<_>>(), KINDS);
    }
}
