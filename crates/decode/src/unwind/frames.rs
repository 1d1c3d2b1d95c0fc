//! `.eh_frame` and `.debug_frame` → rows, by gimli.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EndianSlice, LittleEndian, RegisterRule, UnwindContext,
    UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};

use super::expression::{self, Cfa};
use super::go::GoStacks;
use super::row::{BX_ELSEWHERE, Kind, Row};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Rows while they are collected.
pub struct Rows {
    base: u64,
    rows: Vec<Row>,
    max: usize,
    /// Frame of a function that lends it to code without rows: GHC's `StgRun`, whose frame Haskell code
    /// neither moves nor describes.
    lent: Option<Row>,
    /// Ranges of linked addresses.
    functions: Vec<(u64, u64)>,
    /// Addresses of those that go on on another stack.
    changing: Vec<u64>,
    /// Functions whose description makes no sense.
    pub broken: usize,
}

impl Rows {
    /// For a table with pcs relative to `base`, of at most `max` rows.
    pub fn new(base: u64, max: usize) -> Rows {
        Rows {
            base,
            rows: Vec::new(),
            max,
            lent: None,
            functions: Vec::new(),
            changing: Vec::new(),
            broken: 0,
        }
    }

    /// No more fit.
    pub fn full(&self) -> bool {
        self.rows.len() >= self.max
    }

    fn push(&mut self, address: u64, row: Row) {
        let Some(pc) = address.checked_sub(self.base).and_then(|pc| u32::try_from(pc).ok()) else { return };
        self.rows.push(Row { pc, ..row });
    }

    /// Every function of one section. A function that cannot be read costs only itself.
    pub fn collect<'a, S>(&mut self, section: &S, bases: &BaseAddresses)
    where
        S: UnwindSection<Bytes<'a>>,
        S::Offset: gimli::UnwindOffset<usize>,
    {
        let mut context = UnwindContext::new();
        let mut entries = section.entries(bases);
        while !self.full() {
            let partial = match entries.next() {
                Ok(Some(CieOrFde::Fde(partial))) => partial,
                Ok(Some(CieOrFde::Cie(_))) => continue,
                Ok(None) => return,
                Err(_) => {
                    self.broken += 1;
                    return;
                }
            };
            let Ok(fde) = partial.parse(S::cie_from_offset) else {
                self.broken += 1;
                continue;
            };
            let (start, end) = (fde.initial_address(), fde.end_address());
            if start == 0 || end <= start {
                continue; // a function that the linker dropped
            }
            if self.function(section, bases, &fde, &mut context).is_none() {
                self.broken += 1;
                self.push(start, BAD);
            }
            self.functions.push((start, end));
            self.push(end, GAP);
        }
    }

    fn function<'a, S>(
        &mut self,
        section: &S,
        bases: &BaseAddresses,
        fde: &gimli::FrameDescriptionEntry<Bytes<'a>>,
        context: &mut UnwindContext<usize>,
    ) -> Option<()>
    where
        S: UnwindSection<Bytes<'a>>,
        S::Offset: gimli::UnwindOffset<usize>,
    {
        let expression = |unread: &UnwindExpression<usize>| -> &'a [u8] {
            unread.get(section).map_or(&[][..], |expression| expression.0.slice())
        };
        let mut table = fde.rows(section, bases, context).ok()?;
        while let Some(row) = table.next_row().ok()? {
            if self.full() {
                return None;
            }
            if let Some(lent) = lent(row, &expression) {
                self.push(row.start_address(), Row { kind: Kind::StackPointer, ..lent });
                self.lent = Some(lent);
                continue;
            }
            let rule = rule(row, fde.is_signal_trampoline(), &expression);
            if rule.kind == Kind::Switched {
                self.changing.push(fde.initial_address());
            }
            self.push(row.start_address(), rule);
        }
        Some(())
    }

    /// Functions that go on on another stack, ascending, and what ranges all functions have.
    pub fn take_functions(&mut self) -> (Vec<u64>, Vec<(u64, u64)>) {
        self.changing.sort_unstable();
        (std::mem::take(&mut self.changing), std::mem::take(&mut self.functions))
    }

    /// Adds another section's rows.
    pub fn append(&mut self, other: Rows) {
        self.rows.extend(other.rows);
        self.lent = self.lent.or(other.lent);
        self.broken += other.broken;
    }

    /// Applies a Go binary's line table. Its functions save the caller's bp just below the return address as
    /// soon as they have a frame (the compiler's `-framepointer`). `.debug_frame` does not describe that.
    pub fn apply_go(&mut self, stacks: &GoStacks) {
        for row in self.rows.iter_mut().filter(|row| row.kind == Kind::StackPointer && row.cfa >= 2) {
            row.bp = -2;
        }
        self.replace(&stacks.tops, Row::plain(0, Kind::Stop));
        self.replace(&stacks.switches, GAP);
        self.replace(&stacks.framed, Row { cfa: 2, bp: -2, ..Row::plain(0, Kind::FrameElsewhere) });
    }

    /// Whatever is described in `ranges` (sorted linked addresses), `row` holds for the whole of each.
    fn replace(&mut self, ranges: &[(u64, u64)], row: Row) {
        let base = self.base;
        let covers = |row: &Row| {
            let address = base + u64::from(row.pc);
            let behind = ranges.partition_point(|(start, _)| *start <= address);
            behind.checked_sub(1).and_then(|last| ranges.get(last)).is_some_and(|(_, end)| address < *end)
        };
        self.rows.retain(|row| !covers(row));
        for (start, end) in ranges {
            self.push(*start, row);
            self.push(*end, GAP);
        }
    }

    /// The rows in pc order. If several have one pc, a known row replaces a gap, and the first known row is
    /// kept. Equal neighbours are merged.
    pub fn finish(mut self) -> Vec<Row> {
        if self.lent.is_some() {
            self.push(self.base, GAP);
        }
        self.rows.sort_by_key(|row| (row.pc, row.kind == Kind::Gap));
        self.rows.dedup_by_key(|row| row.pc);
        if let Some(lent) = self.lent {
            let gaps = self.rows.iter_mut().filter(|row| row.kind == Kind::Gap);
            gaps.for_each(|row| *row = Row { pc: row.pc, ..lent });
        }
        self.rows.dedup_by(|later, earlier| later.same_rule(earlier));
        self.rows.shrink_to_fit();
        self.rows
    }
}

const BAD: Row = Row { pc: 0, kind: Kind::Bad, cfa: 0, bp: 0, bx: 0 };
const GAP: Row = Row { kind: Kind::Gap, ..BAD };

/// Units of 8 bytes, if they fit.
fn words<T: TryFrom<i64>>(bytes: i64) -> Option<T> {
    if bytes % 8 != 0 { None } else { T::try_from(bytes / 8).ok() }
}

/// The frame of a function that lends it. The caller's sp is not the CFA, unlike in all other functions. An
/// expression gives it, and the return address is just below.
fn lent<'a>(
    row: &UnwindTableRow<usize>,
    expression: &dyn Fn(&UnwindExpression<usize>) -> &'a [u8],
) -> Option<Row> {
    let Some(RegisterRule::ValExpression(unread)) = row.register(X86_64::RSP) else { return None };
    let callers_sp = expression::above_rsp(expression(&unread))?;
    let CfaRule::RegisterAndOffset { register: X86_64::RSP, offset: cfa } = *row.cfa() else { return None };
    let Some(RegisterRule::Offset(return_at)) = row.register(X86_64::RA) else { return None };
    let bp = match row.register(X86_64::RBP) {
        Some(RegisterRule::Offset(bp_at)) => bp_at.checked_add(cfa)?.checked_sub(callers_sp)?,
        _ => 0,
    };
    (return_at.checked_add(cfa)?.checked_add(8)? == callers_sp).then_some(())?;
    Some(Row { cfa: words(callers_sp)?, bp: words(bp)?, ..Row::plain(0, Kind::Lent) })
}

/// Where the caller's bx is ([`Row::bx`]).
fn saved_bx(row: &UnwindTableRow<usize>) -> u8 {
    match row.register(X86_64::RBX) {
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => 0,
        Some(RegisterRule::Offset(offset)) => {
            let below = offset.checked_neg().and_then(words::<u8>);
            below.filter(|below| (1..BX_ELSEWHERE).contains(below)).unwrap_or(BX_ELSEWHERE)
        }
        Some(_) => BX_ELSEWHERE,
    }
}

fn rule<'a>(
    row: &UnwindTableRow<usize>,
    signal: bool,
    expression: &dyn Fn(&UnwindExpression<usize>) -> &'a [u8],
) -> Row {
    // OCaml also marks code that switches stacks as a signal frame. There, the return address is at its usual
    // place.
    let elsewhere = !matches!(row.register(X86_64::RA), Some(RegisterRule::Offset(-8)));
    if signal && elsewhere && matches!(row.cfa(), CfaRule::Expression(_)) {
        return Row::plain(0, Kind::Signal);
    }
    match row.register(X86_64::RA) {
        Some(RegisterRule::Undefined) => return Row::plain(0, Kind::Stop),
        // In `.debug_frame` of some assemblers the rule is left out: it is the usual one.
        Some(RegisterRule::Offset(-8)) | None => {}
        _ => return BAD,
    }
    frame(row, expression).map_or(BAD, |(kind, cfa, bp)| Row { pc: 0, kind, cfa, bp, bx: saved_bx(row) })
}

/// How to find the CFA and the caller's bp. `None` if a row cannot express it.
fn frame<'a>(
    row: &UnwindTableRow<usize>,
    expression: &dyn Fn(&UnwindExpression<usize>) -> &'a [u8],
) -> Option<(Kind, i16, i8)> {
    let saved = row.register(X86_64::RBP);
    let bp = match &saved {
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => Some(0),
        Some(RegisterRule::Offset(offset)) => words::<i8>(*offset),
        _ => None,
    };
    let unread = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            let kind = match *register {
                X86_64::RSP => Kind::StackPointer,
                X86_64::RBP => Kind::FramePointer,
                X86_64::RBX => Kind::Held,
                _ => return None,
            };
            return Some((kind, words(*offset)?, bp?));
        }
        CfaRule::Expression(unread) => unread,
    };
    match expression::cfa(expression(unread)) {
        Cfa::Plt(threshold) => Some((Kind::Plt, threshold, 0)),
        Cfa::Deref(offset) => {
            let at_bp = matches!(&saved, Some(RegisterRule::Expression(unread))
                if expression::is_at_rbp(expression(unread)));
            at_bp.then_some((Kind::Deref, words(offset)?, 0))
        }
        Cfa::Switched { at, behind, twice } => {
            let kind = if twice { Kind::SwitchedTwice } else { Kind::Switched };
            let [at, behind] = [words::<i8>(at)?, words::<i8>(behind)?].map(|number| number as u8);
            Some((kind, i16::from_le_bytes([at, behind]), bp?))
        }
        Cfa::Other => None,
    }
}
