//! The BPF walker (C) and the offline walker of copied stacks (Rust) must agree on random rows, stacks and
//! registers.

use std::collections::BTreeMap;

use holdup_decode::unwind::{Code, Kind, Registers, Row, walk};
use holdup_events::tables::{FrameVia, StackEnd};
use holdup_testkit::bpf_host::{HostMapping, HostProcess, MAPPINGS_MAX};
use holdup_testkit::random::Random;

const STACK: u64 = 0x7ffc_0000_1000;
const CODE: u64 = 0x40_0000;
/// Words in which the C walker searches for a return address.
const SCAN_WORDS: u64 = 48;

/// A process as both walkers see it: mappings, and words from [`STACK`] on. Its code holds no call instruction, so
/// that the scan of the C walker, which the other lacks, finds nothing.
struct World {
    mappings: Vec<HostMapping>,
    words: Vec<u64>,
    registers: Registers,
    lent: Option<Row>,
}

impl World {
    fn random(random: &mut Random) -> World {
        let calm = random.once_in(2);
        let count = if random.once_in(20) { MAPPINGS_MAX as u64 } else { random.within(1, 8) };
        let mut start = CODE;
        let mut mappings = Vec::new();
        for _ in 0..count {
            start += 0x1000 * random.within(0, 3);
            let end = start + 0x1000 * random.within(1, 4);
            let base = start - 0x1000 * random.within(0, 2);
            mappings.push(HostMapping { start, end, base, rows: rows(random, end - base, calm) });
            start = end;
        }
        let count = random.within(8, 900);
        let words = (0..count).map(|at| match calm && !random.once_in(200) {
            true => code_address(random, &mappings),
            false => word(random, &mappings, at, count),
        });
        let words: Vec<u64> = words.collect();
        let registers = Registers {
            ip: code_address(random, &mappings),
            sp: STACK + 8 * random.within(1, 8),
            bp: word(random, &mappings, 0, count),
            bx: word(random, &mappings, 0, count),
        };
        let cfa = random.within(0, 60) as i16;
        let lent = random.once_in(4).then_some(Row { cfa, ..Row::plain(0, Kind::Lent) });
        World { mappings, words, registers, lent }
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.read(address, &mut word).then(|| u64::from_le_bytes(word))
    }

    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        for (byte, at) in to.iter_mut().zip(address..) {
            let index = at.wrapping_sub(STACK);
            match self.words.get((index / 8) as usize) {
                Some(word) => *byte = word.to_le_bytes()[(index % 8) as usize],
                None if self.mappings.iter().any(|one| (one.start..one.end).contains(&at)) => *byte = 0x90,
                None => return false,
            }
        }
        true
    }

    fn code(&self, address: u64) -> Code {
        let holds = |one: &&HostMapping| (one.start..one.end).contains(&address);
        let Some(mapping) = self.mappings.iter().find(holds) else { return Code::Unmapped };
        let pc = address - mapping.base;
        let row = mapping.rows.iter().rev().find(|row| u64::from(row.pc) <= pc);
        row.map_or(Code::Bare, |row| Code::Row(*row)).on_frame(self.lent)
    }

    /// A scan from here meets memory that cannot be read before it gives up.
    fn scan_is_cut(&self, sp: u64) -> bool {
        (0..=SCAN_WORDS).any(|word| self.word((sp + 8 * word).wrapping_sub(8)).is_none())
    }
}

fn code_address(random: &mut Random, mappings: &[HostMapping]) -> u64 {
    let mapping = &mappings[random.within(0, mappings.len() as u64) as usize];
    random.within(mapping.start, mapping.end)
}

/// Mostly values of real stacks: return addresses, frame pointers to higher addresses, zeros.
fn word(random: &mut Random, mappings: &[HostMapping], at: u64, count: u64) -> u64 {
    match random.within(0, 100) {
        0..55 => code_address(random, mappings),
        55..80 => STACK + 8 * random.within(at, at + 40).min(count - 1),
        80..85 => STACK + random.within(0, 8 * count),
        85..97 => random.bits() >> random.within(0, 64),
        _ => 0,
    }
}

/// Calm ones are such that a walk gets far.
fn rows(random: &mut Random, length: u64, calm: bool) -> Vec<Row> {
    let mut by_pc = BTreeMap::new();
    for _ in 0..random.within(0, 40) {
        let pc = random.within(0, length) as u32;
        let small = |random: &mut Random| random.within(1, 9) as i16;
        let (kind, cfa, bp) = match random.within(0, 100) {
            _ if calm && !random.once_in(500) => (Kind::StackPointer, small(random) / 3 + 1, 0),
            0..50 => (Kind::StackPointer, small(random), if random.once_in(2) { -2 } else { 0 }),
            50..65 => (Kind::FramePointer, 2, -2),
            65..70 => (Kind::StackPointer, random.bits() as i16, random.bits() as i8),
            70..71 => (Kind::FrameElsewhere, 2, -2),
            71..73 => (Kind::Held, small(random), if random.once_in(2) { -2 } else { 0 }),
            73..75 => (Kind::FramePointer, random.bits() as i16 >> 8, random.bits() as i8),
            75..80 => (Kind::Plt, random.bits() as i16 >> random.within(0, 13), 0),
            80..84 => (Kind::Deref, -small(random), 0),
            84..86 => (Kind::Signal, 0, 0),
            86..87 => (Kind::Switched, random.bits() as i16 & 0x0307, if random.once_in(2) { -2 } else { 0 }),
            87..88 => (Kind::SwitchedTwice, random.bits() as i16 & 0x0307, 0),
            88..93 => (Kind::Gap, 0, 0),
            93..96 => (Kind::Lent, random.within(0, 60) as i16, if random.once_in(2) { -6 } else { 0 }),
            96..98 => (Kind::Stop, 0, 0),
            _ => (Kind::Bad, 0, 0),
        };
        let bx = if random.once_in(3) { random.within(1, 16) as u8 } else { 0 };
        by_pc.insert(pc, Row { pc, kind, cfa, bp, bx });
    }
    if calm {
        by_pc.insert(0, Row { cfa: 2, ..Row::plain(0, Kind::StackPointer) });
    }
    by_pc.into_values().collect()
}

#[test]
fn on_random_rows_stacks_and_registers() {
    let worlds = if std::env::var_os("HOLDUP_QUICK").is_some() { 2_000 } else { 15_000 };
    let (mut ends, mut vias) = (BTreeMap::new(), BTreeMap::new());
    for seed in 0..worlds {
        let world = World::random(&mut Random::new(seed));
        let host = HostProcess::new(&world.mappings).lending(world.lent);
        let c = host.walk(world.registers, &mut |address, to| world.read(address, to));
        let rust = walk(world.registers, &|address| world.word(address), &mut |address| world.code(address));
        // From a guessed frame on the twin, which does not guess, is out of it.
        let guessed = c.vias.iter().position(|via| *via == FrameVia::Scan);
        let common = guessed.unwrap_or(c.vias.len());
        assert_eq!(c.addresses[..common], rust.addresses, "seed {seed}");
        assert_eq!(c.vias[..common], rust.vias, "seed {seed}");
        if guessed.is_some() {
            let given_up = [StackEnd::NoFramePointer, StackEnd::Root];
            assert!(given_up.contains(&rust.end), "seed {seed}: {:?}", rust.end);
        }
        let cut = c.end == StackEnd::Unreadable && world.scan_is_cut(c.registers.sp);
        if guessed.is_none() && !(cut && rust.end == StackEnd::NoFramePointer) {
            assert_eq!(c.end, rust.end, "seed {seed}");
        }
        *ends.entry(rust.end).or_insert(0) += 1;
        for via in rust.vias {
            *vias.entry(via).or_insert(0) += 1;
        }
    }
    println!("ends {ends:?}, frames {vias:?}");
    let missed =
        |end: &StackEnd| ![StackEnd::Unknown, StackEnd::NoTables].contains(end) && !ends.contains_key(end);
    let missed: Vec<_> = StackEnd::ALL.iter().filter(|end| missed(end)).collect();
    assert!(missed.is_empty(), "random worlds never end in {missed:?}");
    for via in [FrameVia::FramePointer, FrameVia::SignalFrame, FrameVia::LentFrame] {
        assert!(vias.contains_key(&via), "random worlds never have {via:?}");
    }
}
