//! Where to put the probes of a span: at entries and returns of functions, also in stripped Go programs (by
//! Go's own table).
//!
//! A probe costs 0.4 µs if the kernel emulates the instruction (`push`, a relative jump or call, a one-byte
//! `nop`). Otherwise the kernel single-steps a copy of it, which costs up to 14 µs. An entry is probed only
//! if one of the function's first instructions is emulated. `ret` never is. Return addresses are never
//! replaced, because that breaks a runtime that moves or reads its stacks (Go).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use object::{Object, ObjectSymbol, SymbolKind};

use super::{Binary, Site, arguments, offset, parse, usdt};
use crate::symbols::{Elf, GoFunctions, demangle};

/// Number of instructions that are searched for an emulated one. All but the last must be straight-line code.
const PROLOGUE_MAX: usize = 6;
/// Longer functions are not read for their returns.
const FUNCTION_BYTES_MAX: u64 = 1 << 16;
/// A function with more returns has too many places.
const RETURNS_MAX: usize = 16;
/// More functions of one name are not one function.
const SAME_NAME_MAX: usize = 4;

/// A binary in which functions are looked for.
pub struct Prober<'a> {
    binary: Binary<'a>,
    bytes: &'a [u8],
    go: Option<GoFunctions<'a>>,
}

/// Functions by name: the addresses of each one's code.
pub type Functions = BTreeMap<String, Vec<Range<u64>>>;

impl<'a> Prober<'a> {
    /// Reads the headers. `None`: it is no binary.
    pub fn parse(bytes: &'a [u8]) -> Option<Prober<'a>> {
        let go = Elf::parse(bytes).and_then(|elf| GoFunctions::find(&elf));
        Some(Prober { binary: parse(bytes).ok()?, bytes, go })
    }

    /// The functions with one of these names, as demangled by `plain`. Names that are not found are left out.
    pub fn functions(&self, names: &BTreeSet<&str>, plain: &dyn Fn(&str) -> Cow<'_, str>) -> Functions {
        let mut found = Functions::new();
        if let Some(go) = &self.go {
            for (name, code) in go.named(&|name| names.contains(name)) {
                found.entry(name).or_default().push(code);
            }
        }
        let symbols = self.binary.symbols().chain(self.binary.dynamic_symbols());
        let code = symbols.filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text);
        for symbol in code.filter(|symbol| symbol.size() > 0) {
            let Ok(raw) = symbol.name() else { continue };
            let Some(name) = named(raw, names, plain) else { continue };
            let code = symbol.address()..symbol.address().saturating_add(symbol.size());
            let all = found.entry(name.to_owned()).or_default();
            if !all.iter().any(|known| known.start == code.start) {
                all.push(code);
            }
        }
        found.retain(|_, all| all.len() <= SAME_NAME_MAX);
        found
    }

    /// The probe sites at the entries of these functions where `arguments` are still in their registers. The
    /// error states why that is too expensive or impossible.
    pub fn entries(&self, functions: &[Range<u64>], arguments: &[u8]) -> Result<Vec<Site>, String> {
        if self.go.is_some() && !arguments.is_empty() {
            return Err("Go passes arguments in other registers than C".to_owned());
        }
        let name = |at: usize| format!("arg{}", arguments.get(at).copied().unwrap_or_default());
        self.entered(functions, &arguments::registers(arguments), &name)
    }

    /// The same for any calling convention: these registers, by instruction encoding, still have their values
    /// at entry. If no suitable instruction is emulated, returns other sites and `false`.
    pub fn entries_keeping(
        &self,
        functions: &[Range<u64>],
        registers: &[u8],
    ) -> Result<(Vec<Site>, bool), String> {
        let kept: Vec<Register> = registers.iter().map(|number| arguments::register(*number)).collect();
        let name = |at: usize| {
            kept.get(at).map(|register| format!("{register:?}").to_lowercase()).unwrap_or_default()
        };
        if let Ok(sites) = self.entered(functions, &kept, &name) {
            return Ok((sites, true));
        }
        let entry = |code: &Range<u64>| self.site(self.dear_entry(code)?);
        let sites: Option<Vec<Site>> = functions.iter().map(entry).collect();
        sites.map(|sites| (sites, false)).ok_or_else(|| "it is not in the file".to_owned())
    }

    fn entered(
        &self,
        functions: &[Range<u64>],
        kept: &[Register],
        name: &dyn Fn(usize) -> String,
    ) -> Result<Vec<Site>, String> {
        let entry = |code: &Range<u64>| {
            let address = self.cheap_entry(code).ok_or(
                "its first instructions are such that the kernel would have to step over them (14 µs a pass)",
            )?;
            let before = self.instructions(code).take_while(|instruction| instruction.ip() < address);
            match arguments::first_overwritten(before, kept) {
                Some(at) => {
                    Err(format!("{} is overwritten before an instruction that is cheap to probe", name(at)))
                }
                None => self.site(address).ok_or_else(|| "it is not in the file".to_owned()),
            }
        };
        functions.iter().map(entry).collect()
    }

    /// Every place where these functions return. A jump to another function is none.
    pub fn returns(&self, functions: &[Range<u64>]) -> Result<Vec<Site>, String> {
        let mut sites = Vec::new();
        for code in functions {
            let is_return = |one: &Instruction| one.flow_control() == FlowControl::Return;
            let all: Vec<u64> =
                self.instructions(code).filter(is_return).map(|instruction| instruction.ip()).collect();
            if all.is_empty() || sites.len() + all.len() > RETURNS_MAX {
                return Err(format!("it has {} returns", all.len()));
            }
            sites.extend(all.into_iter().filter_map(|address| self.site(address)));
        }
        Ok(sites)
    }

    /// The sites of a USDT probe. An error if there is none.
    pub fn usdt(&self, provider: &str, name: &str) -> Result<Vec<Site>, String> {
        usdt(self.bytes, provider, name)
    }

    fn site(&self, address: u64) -> Option<Site> {
        Some(Site { offset: offset(&self.binary, address)?, semaphore: 0 })
    }

    /// An emulated instruction near the entry that runs once per call. Go's functions begin with a stack
    /// check, which is repeated after the stack has grown. The code after the check runs once.
    fn cheap_entry(&self, code: &Range<u64>) -> Option<u64> {
        let mut grows = self.go.is_some();
        for instruction in self.instructions(code).take(PROLOGUE_MAX) {
            match instruction.flow_control() {
                FlowControl::ConditionalBranch if grows => grows = false,
                FlowControl::Next | FlowControl::Call | FlowControl::UnconditionalBranch
                    if is_cheap(&instruction) =>
                {
                    return Some(instruction.ip());
                }
                FlowControl::Next => {}
                _ => return None,
            }
        }
        None
    }

    /// An instruction that runs once per call, at any cost: the first one, or the one after Go's stack check.
    /// The check overwrites no argument.
    fn dear_entry(&self, code: &Range<u64>) -> Option<u64> {
        let mut first = self.instructions(code).take(PROLOGUE_MAX);
        let look = first.position(|one| one.flow_control() == FlowControl::ConditionalBranch);
        match look.filter(|_| self.go.is_some()) {
            Some(_) => first.next().map(|one| one.ip()),
            None => Some(code.start),
        }
    }

    fn instructions(&self, code: &Range<u64>) -> impl Iterator<Item = Instruction> + 'a {
        let length = code.end.saturating_sub(code.start).min(FUNCTION_BYTES_MAX);
        let from = offset(&self.binary, code.start).and_then(|at| usize::try_from(at).ok());
        let bytes = from.and_then(|from| self.bytes.get(from..from.checked_add(length as usize)?));
        Decoder::with_ip(64, bytes.unwrap_or_default(), code.start, DecoderOptions::NONE)
            .into_iter()
            .take_while(|instruction| !instruction.is_invalid())
    }
}

/// The name in `names` that a symbol has. Demangling is slow, so only symbols that contain all parts of a
/// name are demangled.
fn named<'n>(raw: &str, names: &BTreeSet<&'n str>, plain: &dyn Fn(&str) -> Cow<'_, str>) -> Option<&'n str> {
    let raw = raw.split('@').next().unwrap_or(raw);
    if let Some(name) = names.get(raw) {
        return Some(name);
    }
    let may_be = |name: &&&str| name.split("::").all(|part| raw.contains(part));
    let mut candidates = names.iter().filter(|name| name.contains("::")).filter(may_be).peekable();
    candidates.peek()?;
    let shown = demangle(raw);
    // A part of a function that was moved elsewhere is not its entry.
    if shown.contains("[clone") {
        return None;
    }
    let shown = plain(&shown);
    candidates.find(|name| **name == shown).copied()
}

/// Whether the kernel carries it out itself (`branch_setup_xol_ops`, `push_setup_xol_ops` in arch/x86/kernel/uprobes.c).
fn is_cheap(instruction: &Instruction) -> bool {
    match instruction.code() {
        Code::Push_r64 => instruction.op0_kind() == OpKind::Register,
        Code::Nopd | Code::Nopq | Code::Nopw => instruction.len() == 1,
        Code::Call_rel32_64 | Code::Jmp_rel32_64 | Code::Jmp_rel8_64 => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(name: &str) -> Cow<'_, str> {
        Cow::Borrowed(name)
    }

    fn first(bytes: &[u8]) -> Instruction {
        Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode()
    }

    #[test]
    fn what_the_kernel_carries_out_itself_is_cheap() {
        for cheap in
            [&[0x55][..], &[0x41, 0x57], &[0x90], &[0xe8, 0, 0, 0, 0], &[0xeb, 2], &[0xe9, 0, 0, 0, 0]]
        {
            assert!(is_cheap(&first(cheap)), "{cheap:x?}");
        }
        // mov, sub, endbr64, ret, cmp, push of memory, a nop of several bytes.
        let dear: [&[u8]; 7] = [
            &[0x48, 0x89, 0xe5],
            &[0x48, 0x83, 0xec, 8],
            &[0xf3, 0x0f, 0x1e, 0xfa],
            &[0xc3],
            &[0x49, 0x3b, 0x66, 0x10],
            &[0xff, 0x30],
            &[0x0f, 0x1f, 0x40, 0],
        ];
        for dear in dear {
            assert!(!is_cheap(&first(dear)), "{dear:x?}");
        }
    }

    #[test]
    fn names_are_found_as_they_are_shown() {
        let names = BTreeSet::from(["SafepointSynchronize::begin", "plain_c"]);
        assert_eq!(named("plain_c@@V1", &names, &same), Some("plain_c"));
        fn plain(name: &str) -> Cow<'_, str> {
            Cow::Borrowed(name.split('(').next().unwrap_or(name))
        }
        assert_eq!(
            named("_ZN20SafepointSynchronize5beginEv", &names, &plain),
            Some("SafepointSynchronize::begin")
        );
        assert_eq!(named("_ZN20SafepointSynchronize3endEv", &names, &plain), None);
        assert_eq!(named("other_c", &names, &plain), None);
    }

    #[test]
    fn what_is_no_binary_has_no_places() {
        assert!(Prober::parse(b"#!/bin/sh\n").is_none());
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let prober = Prober::parse(&own).unwrap();
        let found = prober.functions(&BTreeSet::from(["main", "no_such_function"]), &same);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["main"]);
        assert!(!prober.returns(&found["main"]).unwrap().is_empty());
        // Ranges that are nowhere have neither.
        let nowhere = [1..9, u64::MAX - 1..u64::MAX];
        assert!(prober.entries(&nowhere, &[]).is_err() && prober.returns(&nowhere).is_err());
    }
}
