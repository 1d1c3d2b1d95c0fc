//! Walking a copied stack by rows: the same steps as `bpf/unwind.h`, for stacks that were taken before their
//! binaries were known.

use holdup_events::tables::{FrameVia, StackEnd};

use super::row::{BX_ELSEWHERE, Kind, LENT_WORDS, Row};

/// Registers of a thread that unwinding needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer register.
    pub bp: u64,
    /// Register bx, in which some code holds its frame.
    pub bx: u64,
}

/// Where a frame's bx is. Few frames need it: it is not read before.
#[derive(Clone, Copy)]
enum Bx {
    InRegister,
    SavedAt(u64),
    Lost,
}

/// Unwind information for the code at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The address is in no executable mapping.
    Unmapped,
    /// Code without a row: a gap, or from a just-in-time compiler.
    Bare,
    /// The row for the code.
    Row(Row),
}

impl Code {
    /// The same in a process in which code without a row may run on a frame like this (`Table::lent`).
    pub fn on_frame(self, lent: Option<Row>) -> Code {
        match (self, lent) {
            (Code::Bare | Code::Row(Row { kind: Kind::Gap, .. }), Some(lent)) => Code::Row(lent),
            (code, _) => code,
        }
    }
}

/// A walked stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Leaf first.
    pub addresses: Vec<u64>,
    /// How each was found.
    pub vias: Vec<FrameVia>,
    /// Why there are no more.
    pub end: StackEnd,
}

/// As `USER_FRAMES_MAX` in `bpf/unwind.h`.
const FRAMES_MAX: usize = 224;

/// User addresses have at most 56 bits: the kernel programs send no more.
const ADDRESS: u64 = u64::MAX >> 8;

struct Walk<'a> {
    registers: Registers,
    bx: Bx,
    exact: bool,
    via: FrameVia,
    depth: usize,
    /// The word at an address.
    word: &'a dyn Fn(u64) -> Option<u64>,
    code: &'a mut dyn FnMut(u64) -> Code,
}

/// Unwinds from `registers`. `word` reads the stack, `code` returns the unwind information for an address.
pub fn walk(
    registers: Registers,
    word: &dyn Fn(u64) -> Option<u64>,
    code: &mut dyn FnMut(u64) -> Code,
) -> Walked {
    let mut walked = Walked { end: StackEnd::TooDeep, ..Walked::default() };
    let mut walk =
        Walk { registers, bx: Bx::InRegister, exact: true, via: FrameVia::Registers, depth: 0, word, code };
    while walked.addresses.len() < FRAMES_MAX {
        walked.addresses.push(walk.registers.ip & ADDRESS);
        walked.vias.push(walk.via);
        if let Err(end) = walk.step() {
            walked.end = end;
            break;
        }
        walk.depth += 1;
    }
    walked
}

impl Walk<'_> {
    fn read(&self, address: u64) -> Result<u64, StackEnd> {
        (self.word)(address).ok_or(StackEnd::Unreadable)
    }

    fn step(&mut self) -> Result<(), StackEnd> {
        let ip = self.registers.ip.wrapping_sub(u64::from(!self.exact));
        let row = match (self.code)(ip) {
            Code::Unmapped => return Err(StackEnd::UnknownMapping),
            Code::Bare => return self.by_frame_pointer(),
            Code::Row(row) => row,
        };
        let Registers { sp, bp, .. } = self.registers;
        let cfa_bytes = (i64::from(row.cfa) * 8) as u64;
        let mut bp_at = None;
        let cfa = match row.kind {
            Kind::StackPointer => sp.wrapping_add(cfa_bytes),
            Kind::FramePointer | Kind::FrameElsewhere => bp.wrapping_add(cfa_bytes),
            Kind::Plt => sp.wrapping_add(if ip & 15 >= i64::from(row.cfa) as u64 { 16 } else { 8 }),
            Kind::Deref => {
                bp_at = Some(bp);
                self.read(bp.wrapping_add(cfa_bytes))?
            }
            Kind::Switched | Kind::SwitchedTwice => self.switched(&row)?,
            Kind::Held => self.held()?.wrapping_add(cfa_bytes),
            Kind::Signal => return self.by_signal_frame(),
            Kind::Lent => return self.by_lent_frame(&row).or_else(|_| self.by_frame_pointer()),
            Kind::Stop => return Err(StackEnd::Root),
            Kind::Gap | Kind::Interpreted => return self.by_frame_pointer(),
            Kind::Bad => return Err(StackEnd::NoRule),
        };
        if row.bp != 0 {
            bp_at = Some(cfa.wrapping_add((i64::from(row.bp) * 8) as u64));
        }
        self.note_bx(&row, cfa);
        if !row.switches() && cfa <= sp && self.depth > 0 {
            return Err(StackEnd::Loop);
        }
        let caller = self.read(cfa.wrapping_sub(8))?;
        if let Some(at) = bp_at {
            self.registers.bp = self.read(at)?;
        }
        self.go_to(caller, cfa, FrameVia::Table)
    }

    /// Where the caller's bx is, after a frame with this row.
    fn note_bx(&mut self, row: &Row, cfa: u64) {
        self.bx = match row.bx {
            0 => self.bx,
            BX_ELSEWHERE => Bx::Lost,
            below => Bx::SavedAt(cfa.wrapping_sub(u64::from(below) * 8)),
        };
    }

    /// The frame that is held in bx.
    fn held(&self) -> Result<u64, StackEnd> {
        match self.bx {
            Bx::InRegister => Ok(self.registers.bx),
            Bx::SavedAt(address) => self.read(address),
            Bx::Lost => Err(StackEnd::NoRule),
        }
    }

    /// The CFA on the stack that the code was called on.
    fn switched(&self, row: &Row) -> Result<u64, StackEnd> {
        let (at, behind) = row.switched();
        let mut word = self.read(self.registers.sp.wrapping_add(at as u64))?;
        if row.kind == Kind::SwitchedTwice {
            word = self.read(word)?;
        }
        Ok(word.wrapping_add(behind as u64))
    }

    fn go_to(&mut self, ip: u64, sp: u64, via: FrameVia) -> Result<(), StackEnd> {
        if ip == 0 {
            return Err(StackEnd::Root);
        }
        (self.registers.ip, self.registers.sp, self.exact, self.via) = (ip, sp, false, via);
        Ok(())
    }

    /// The frame that was made for the code: at the first of the words where it may end that is a return address.
    fn by_lent_frame(&mut self, row: &Row) -> Result<(), StackEnd> {
        let made = self.registers.sp.wrapping_add((i64::from(row.cfa) * 8) as u64);
        for word in 0..LENT_WORDS {
            let cfa = made.wrapping_add(word * 8);
            let caller = self.read(cfa.wrapping_sub(8))?;
            if !matches!((self.code)(caller.wrapping_sub(1)), Code::Row(row) if row.is_a_functions()) {
                continue;
            }
            if row.bp != 0 {
                self.registers.bp = self.read(cfa.wrapping_add((i64::from(row.bp) * 8) as u64))?;
            }
            self.bx = Bx::Lost;
            return self.go_to(caller, cfa, FrameVia::LentFrame);
        }
        Err(StackEnd::NoFramePointer)
    }

    fn is_code(&mut self, address: u64) -> bool {
        (self.code)(address.wrapping_sub(1)) != Code::Unmapped
    }

    /// Without the kernel's guess by scanning: the code before a return address is not in the copy.
    fn by_frame_pointer(&mut self) -> Result<(), StackEnd> {
        let Registers { sp, bp, .. } = self.registers;
        if bp == 0 && self.depth > 0 {
            return Err(StackEnd::Root);
        }
        if bp < sp || bp % 8 != 0 {
            return Err(StackEnd::NoFramePointer);
        }
        let (Ok(saved), Ok(caller)) = (self.read(bp), self.read(bp.wrapping_add(8))) else {
            return Err(StackEnd::NoFramePointer);
        };
        if caller != 0 && !self.is_code(caller) {
            return Err(StackEnd::NoFramePointer);
        }
        self.registers.bp = saved;
        self.bx = Bx::Lost;
        self.go_to(caller, bp.wrapping_add(16), FrameVia::FramePointer)
    }

    /// struct rt_sigframe: rbp is 120, rbx 128, rsp 160, rip 168 bytes above sp.
    fn by_signal_frame(&mut self) -> Result<(), StackEnd> {
        let at = self.registers.sp;
        let saved = |offset: u64| self.read(at.wrapping_add(offset));
        let (bp, sp, ip) = (saved(120)?, saved(160)?, saved(168)?);
        self.registers.bp = bp;
        self.bx = Bx::SavedAt(at.wrapping_add(128));
        self.go_to(ip, sp, FrameVia::SignalFrame)?;
        self.exact = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack of words from 0x1000 on.
    fn on(words: &[u64], registers: Registers, code: impl Fn(u64) -> Code) -> Walked {
        let word = |address: u64| {
            let index = usize::try_from(address.checked_sub(0x1000)? / 8).ok()?;
            words.get(index).copied()
        };
        walk(registers, &word, &mut |address| code(address))
    }

    fn row(kind: Kind, cfa: i16, bp: i8) -> Code {
        Code::Row(Row { cfa, bp, ..Row::plain(0, kind) })
    }

    #[test]
    fn rows_lead_to_the_root() {
        // 0x10: leaf without pushed registers. 0x20: saved bp below its return address. 0x30: root.
        let code = |ip| match ip {
            0x10 => row(Kind::StackPointer, 1, 0),
            0x1f => row(Kind::StackPointer, 3, -2),
            _ => row(Kind::Stop, 0, 0),
        };
        let walked = on(&[0x20, 7, 0xbb, 0x30], Registers { ip: 0x10, sp: 0x1000, bp: 1, bx: 0 }, code);
        assert_eq!(walked.addresses, [0x10, 0x20, 0x30]);
        assert_eq!(walked.vias, [FrameVia::Registers, FrameVia::Table, FrameVia::Table]);
        assert_eq!(walked.end, StackEnd::Root);
    }

    #[test]
    fn bare_code_is_walked_by_frame_pointers_until_they_are_none() {
        let code = |ip: u64| if ip < 0x100 { Code::Bare } else { Code::Unmapped };
        let words = [0, 0x1018, 0x20, 0, 0x500];
        let walked = on(&words, Registers { ip: 0x10, sp: 0x1000, bp: 0x1008, bx: 0 }, code);
        assert_eq!((walked.addresses.as_slice(), walked.end), (&[0x10, 0x20][..], StackEnd::NoFramePointer));
    }

    #[test]
    fn what_leads_back_or_nowhere_ends_by_name() {
        let loops = |_| row(Kind::FramePointer, 0, 0);
        let registers = Registers { ip: 0x10, sp: 0x1000, bp: 0x1010, bx: 0 };
        assert_eq!(on(&[0, 0x20, 0x20], registers, loops).end, StackEnd::Loop);
        let far = |_| row(Kind::StackPointer, 1000, 0);
        assert_eq!(on(&[0; 4], registers, far).end, StackEnd::Unreadable);
        let bad = |_| row(Kind::Bad, 0, 0);
        assert_eq!(on(&[0; 4], registers, bad).end, StackEnd::NoRule);
        let deep = |_| row(Kind::StackPointer, 1, 0);
        let walked = on(&[0x20; 1000], registers, deep);
        assert_eq!((walked.addresses.len(), walked.end), (FRAMES_MAX, StackEnd::TooDeep));
    }

    #[test]
    fn a_frame_held_in_a_register_is_found_where_the_register_was_saved() {
        // 0x10: leaf, which saved bx or not. 0x20: holds its frame in bx, with the return address at 0x1020.
        let words = [0x1018, 0x20, 0, 0, 0x30];
        let walked = |saved: u8, bx: u64| {
            let leaf = Row { cfa: 2, bx: saved, ..Row::plain(0, Kind::StackPointer) };
            let code = move |ip| match ip {
                0x10 => Code::Row(leaf),
                0x1f => row(Kind::Held, 2, 0),
                _ => row(Kind::Stop, 0, 0),
            };
            on(&words, Registers { ip: 0x10, sp: 0x1000, bp: 0, bx }, code)
        };
        for (saved, bx) in [(0, 0x1018), (2, 0)] {
            let walked = walked(saved, bx);
            assert_eq!((&walked.addresses[..], walked.end), (&[0x10, 0x20, 0x30][..], StackEnd::Root));
        }
        assert_eq!(walked(BX_ELSEWHERE, 0x1018).end, StackEnd::NoRule);
        assert_eq!(walked(0, 0x5000).end, StackEnd::Unreadable, "it holds something else");
    }

    #[test]
    fn a_frame_may_be_below_on_another_stack() {
        // 0x10: leaf, on the stack at 0x1020 and above. 0x20: its frame is on the stack below, from which the
        // switch came.
        let words = [0x1010, 0x30, 0, 0, 0x20];
        let walked = |kind: Kind| {
            let code = move |ip| match ip {
                0x10 => row(Kind::StackPointer, 1, 0),
                0x1f => row(kind, 2, -2),
                _ => row(Kind::Stop, 0, 0),
            };
            on(&words, Registers { ip: 0x10, sp: 0x1020, bp: 0x1000, bx: 0 }, code)
        };
        let elsewhere = walked(Kind::FrameElsewhere);
        assert_eq!((&elsewhere.addresses[..], elsewhere.end), (&[0x10, 0x20, 0x30][..], StackEnd::Root));
        assert_eq!(walked(Kind::FramePointer).end, StackEnd::Loop);
    }

    #[test]
    fn a_signal_frame_gives_what_was_interrupted() {
        let mut words = vec![0; 30];
        (words[15], words[20], words[21]) = (0x99, 0x10e0, 0x40);
        words[28] = 0x50;
        let code = |ip| match ip {
            0x10 => row(Kind::Signal, 0, 0),
            0x40 => row(Kind::StackPointer, 1, 0), // exact: not 0x3f
            _ => row(Kind::Stop, 0, 0),
        };
        let walked = on(&words, Registers { ip: 0x10, sp: 0x1000, bp: 0, bx: 0 }, code);
        assert_eq!(walked.addresses, [0x10, 0x40, 0x50]);
        assert_eq!(walked.vias[1], FrameVia::SignalFrame);
    }
}
