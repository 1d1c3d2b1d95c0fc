//! One binary: found, checked to be the one that was recorded, and asked for the places in it.

use std::collections::BTreeMap;

use holdup_events::tables::{FrameSpin, Mapping};

use super::cache::{self, Known};
use super::dwarf::{self, Found, Sections};
use super::elf::Elf;
use super::files::{Bytes, DebugFile, Files};
use super::go::FunctionTable;
use super::place::Place;
use crate::spin::{Spin, spins};

/// Why places in a binary are not named, or not fully.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unnamed {
    /// Nothing was offered.
    #[error("the file is not there any more")]
    Gone,
    /// The file differs from the one that ran.
    #[error("the file was replaced: its build id is {found}, that of what ran was {recorded}")]
    Replaced {
        /// In the file.
        found: String,
        /// In the recording.
        recorded: String,
    },
    /// The file is not ELF.
    #[error("not an ELF file")]
    NotElf,
    /// The file has no information about this code.
    #[error("stripped: no symbol for this code, and no debug file for build id {0}")]
    Stripped(String),
    /// Not all of it could be read.
    #[error("its debug information is broken: {0}")]
    Broken(String),
    /// Debug information is in `.dwo` files.
    #[error("its debug information is split off (.dwo), which is not read: no inlined calls")]
    Split,
}

/// Request for one binary.
pub struct Wanted<'a> {
    /// A process that mapped it.
    pub pid: u32,
    /// One mapping of it.
    pub mapping: &'a Mapping,
    /// Offsets in the file, ascending.
    pub offsets: Vec<u64>,
    /// Offsets at which threads were sampled, instead of calls.
    pub leaves: Vec<u64>,
}

/// Result of a look-up.
#[derive(Default)]
pub struct Answer {
    /// By file offset.
    pub places: BTreeMap<u64, Place>,
    /// Leaf offsets at which threads spin, and the variable they read.
    pub spins: BTreeMap<u64, (FrameSpin, String)>,
    /// Why there is not more.
    pub unnamed: Option<Unnamed>,
}

/// Looks up all wanted offsets, with up to `threads` threads.
pub fn look_up(files: &dyn Files, wanted: &Wanted<'_>, threads: usize) -> Answer {
    let own = match open(files, wanted) {
        Ok(own) => own,
        Err(unnamed) => {
            return Answer { places: kept(files, wanted), unnamed: Some(unnamed), ..Answer::default() };
        }
    };
    let Some(elf) = Elf::parse((*own).as_ref()) else {
        return Answer { unnamed: Some(Unnamed::NotElf), ..Answer::default() };
    };
    let debug_bytes = (!elf.has_dwarf()).then(|| debug_file(files, wanted, &elf)).flatten();
    let debug = debug_bytes.as_ref().and_then(|bytes| Elf::parse((**bytes).as_ref()));
    let binary = Binary { files, wanted, elf, debug, threads };
    Answer { spins: binary.spins((*own).as_ref()), ..binary.answer() }
}

/// A place in a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variable {
    /// Name of the variable, empty if it has none.
    pub name: String,
    /// `[1].count` if its type is known, else `+0xdistance`. Empty at its first byte.
    pub part: String,
}

/// The variables at `addresses` (ascending) in a process that mapped the file. The name is empty if the file
/// has none for an address in its data. Addresses outside of its data are left out.
pub fn variables(
    files: &dyn Files,
    (pid, mapping): (u32, &Mapping),
    addresses: &[u64],
) -> BTreeMap<u64, Variable> {
    let wanted = Wanted { pid, mapping, offsets: Vec::new(), leaves: Vec::new() };
    let Ok(own) = open(files, &wanted) else { return BTreeMap::new() };
    let Some(elf) = Elf::parse((*own).as_ref()) else { return BTreeMap::new() };
    let Some(bias) = elf.page_address(mapping.file_offset).map(|address| mapping.start.wrapping_sub(address))
    else {
        return BTreeMap::new();
    };
    let unbiased = addresses.iter().map(|address| address.wrapping_sub(bias));
    let inside: Vec<u64> = unbiased.filter(|address| elf.is_variable(*address)).collect();
    if inside.is_empty() {
        return BTreeMap::new();
    }
    let mut names = elf.variables(&inside);
    let debug_bytes = if elf.has_dwarf() { None } else { debug_file(files, &wanted, &elf) };
    let debug = debug_bytes.as_ref().and_then(|bytes| Elf::parse((**bytes).as_ref()));
    if let Some(debug) = debug.as_ref().filter(|_| names.len() < inside.len() && !elf.has_symbol_table()) {
        names.extend(debug.variables(&inside));
    }
    let sections = Sections::load(debug.as_ref().unwrap_or(&elf));
    let mut parts = sections.map(|sections| dwarf::parts(&sections, &inside)).unwrap_or_default();
    let variable = |address: u64| {
        let (name, distance) = names.remove(&address).unwrap_or_default();
        let part = parts.remove(&address).filter(|_| !name.is_empty());
        (address.wrapping_add(bias), Variable { name, part: part.unwrap_or_else(|| behind(distance)) })
    };
    inside.into_iter().map(variable).collect()
}

/// A distance as it is written behind a name.
fn behind(distance: u64) -> String {
    if distance == 0 { String::new() } else { format!("+0x{distance:x}") }
}

/// The bytes of the file that a process mapped, if it is still there and the same.
pub fn mapped_file(files: &dyn Files, pid: u32, mapping: &Mapping) -> Option<Bytes> {
    open(files, &Wanted { pid, mapping, offsets: Vec::new(), leaves: Vec::new() }).ok()
}

/// Names that an earlier recording found in a file that does not exist any more.
fn kept(files: &dyn Files, wanted: &Wanted<'_>) -> BTreeMap<u64, Place> {
    let build_id = &wanted.mapping.build_id;
    if build_id.is_empty() {
        return BTreeMap::new();
    }
    let known = MADE_FROM.iter().find_map(|made_from| {
        let bytes = files.recall(&key(build_id, made_from))?;
        cache::decode((*bytes).as_ref())
    });
    let mut known = known.unwrap_or_default();
    let place = |offset: &u64| Some((*offset, known.remove(offset).flatten()?));
    wanted.offsets.iter().filter_map(place).collect()
}

/// Sources of names, best first.
const MADE_FROM: [&str; 3] = ["debug-file", "dwarf", "symbols"];

/// Key of stored names. It includes their source.
fn key(build_id: &[u8], made_from: &str) -> String {
    // Go's own build ids are text, and long.
    format!("{}-{made_from}", hex(build_id.get(..32).unwrap_or(build_id)))
}

/// The bytes of the very file that was mapped.
fn open(files: &dyn Files, wanted: &Wanted<'_>) -> Result<Bytes, Unnamed> {
    let mut taken = None;
    let mut refused = Unnamed::Gone;
    files.binary(wanted.pid, wanted.mapping, &mut |bytes| match check((*bytes).as_ref(), wanted.mapping) {
        Ok(()) => {
            taken = Some(bytes);
            true
        }
        Err(unnamed) => {
            refused = unnamed;
            false
        }
    });
    taken.ok_or(refused)
}

fn check(bytes: &[u8], mapping: &Mapping) -> Result<(), Unnamed> {
    let elf = Elf::parse(bytes).ok_or(Unnamed::NotElf)?;
    // The kernel reports GNU build ids only. Go's build id is used if there is none.
    if mapping.build_id.is_empty() || elf.build_id() == mapping.build_id {
        return Ok(());
    }
    Err(Unnamed::Replaced { found: hex(elf.build_id()), recorded: hex(&mapping.build_id) })
}

/// Lower-case hexadecimal, "none" if empty.
pub fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "none".to_owned();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn debug_file(files: &dyn Files, wanted: &Wanted<'_>, elf: &Elf<'_>) -> Option<Bytes> {
    let link = elf.debug_link();
    let (build_id, crc) = (elf.gnu_build_id(), link.as_ref().map(|link| link.1));
    if build_id.is_empty() && link.is_none() {
        return None;
    }
    let file = DebugFile {
        pid: wanted.pid,
        binary: &wanted.mapping.path,
        build_id,
        link: link.as_ref().map(|link| link.0.as_str()),
    };
    let mut taken = None;
    files.debug(&file, &mut |bytes| {
        let fits = Elf::parse((*bytes).as_ref()).is_some_and(|debug| match build_id {
            [] => crc == Some(crc32fast::hash((*bytes).as_ref())),
            id => debug.gnu_build_id() == id,
        });
        if fits {
            taken = Some(bytes);
        }
        fits
    });
    taken
}

struct Binary<'a> {
    files: &'a dyn Files,
    wanted: &'a Wanted<'a>,
    elf: Elf<'a>,
    /// The separate debug file.
    debug: Option<Elf<'a>>,
    threads: usize,
}

impl Binary<'_> {
    fn answer(&self) -> Answer {
        let key = self.key();
        let recalled = key.as_ref().and_then(|key| self.files.recall(key));
        let mut known = recalled.and_then(|bytes| cache::decode((*bytes).as_ref())).unwrap_or_default();
        let new: Vec<u64> =
            self.wanted.offsets.iter().copied().filter(|offset| !known.contains_key(offset)).collect();
        let mut unnamed = None;
        if !new.is_empty() {
            unnamed = self.compute(&new, &mut known);
            // What could not be read today may be mended tomorrow.
            if let Some(key) = key.filter(|_| unnamed.is_none()) {
                self.files.remember(&key, &cache::encode(&known));
            }
        }
        let mut places = BTreeMap::new();
        for offset in &self.wanted.offsets {
            if let Some(place) = known.remove(offset).flatten() {
                places.insert(*offset, place);
            }
        }
        let is_poor = !self.elf.has_symbol_table() && !self.elf.has_dwarf() && self.debug.is_none();
        let is_named = |place: &&Place| place.calls.iter().any(|call| !call.function.is_empty());
        let named = places.values().filter(is_named).count();
        if unnamed.is_none() && is_poor && named < self.wanted.offsets.len() {
            unnamed = Some(Unnamed::Stripped(hex(self.elf.gnu_build_id())));
        }
        Answer { places, unnamed, ..Answer::default() }
    }

    /// Leaves whose code only waits.
    fn spins(&self, bytes: &[u8]) -> BTreeMap<u64, (FrameSpin, String)> {
        // Instructions of 32 bits mean something else.
        if self.elf.is_narrow() {
            return BTreeMap::new();
        }
        let segments = self.elf.segments();
        let spins: Vec<(u64, Spin)> =
            segments.flat_map(|segment| spins(bytes, segment, &self.wanted.leaves)).collect();
        let watched: Vec<u64> = spins.iter().filter_map(|(_, spin)| spin.watches).collect();
        let mut names = self.elf.variables(&watched);
        if let Some(debug) = &self.debug {
            names.extend(debug.variables(&watched));
        }
        let name = |spin: &Spin| {
            let (name, distance) = names.get(&spin.watches?)?;
            Some(format!("{name}{}", behind(*distance)))
        };
        spins
            .into_iter()
            .map(|(offset, spin)| (offset, (spin.how, name(&spin).unwrap_or_default())))
            .collect()
    }

    fn key(&self) -> Option<String> {
        let build_id = Some(self.elf.build_id()).filter(|id| !id.is_empty())?;
        let [debug_file, dwarf, symbols] = MADE_FROM;
        let own = if self.elf.has_dwarf() { dwarf } else { symbols };
        Some(key(build_id, if self.debug.is_some() { debug_file } else { own }))
    }

    fn compute(&self, offsets: &[u64], known: &mut Known) -> Option<Unnamed> {
        let by_address: BTreeMap<u64, u64> =
            offsets.iter().filter_map(|offset| Some((self.elf.address(*offset)?, *offset))).collect();
        let addresses: Vec<u64> = by_address.keys().copied().collect();
        let mut functions = self.debug.as_ref().map(|debug| debug.functions(&addresses)).unwrap_or_default();
        add_missing(&mut functions, &addresses, |missing| self.elf.functions(missing));
        add_missing(&mut functions, &addresses, |missing| {
            FunctionTable::find(&self.elf).map(|table| table.look_up(missing)).unwrap_or_default()
        });
        let (found, unnamed) = self.debug_information(&addresses);
        let mut places = found.places;
        // A function without a name is still identified by its start.
        add_missing(&mut functions, &addresses, |missing| {
            let nameless = |(address, start)| (address, Place::of_function(String::new(), address - start));
            self.elf.starts(missing).into_iter().map(nameless).collect()
        });
        for offset in offsets {
            known.insert(*offset, None);
        }
        for (address, offset) in by_address {
            let place = joined(places.remove(&address), functions.remove(&address));
            known.insert(offset, place);
        }
        unnamed
    }

    fn debug_information(&self, addresses: &[u64]) -> (Found, Option<Unnamed>) {
        let elf = self.debug.as_ref().unwrap_or(&self.elf);
        if !elf.has_dwarf() {
            return (Found::default(), None);
        }
        let sections = match Sections::load(elf) {
            Ok(sections) => sections,
            Err(error) => return (Found::default(), Some(Unnamed::Broken(error))),
        };
        let shared_bytes = self.shared_file(elf);
        let shared_elf = shared_bytes.as_ref().and_then(|bytes| Elf::parse((**bytes).as_ref()));
        let shared = shared_elf.as_ref().and_then(|elf| Sections::load(elf).ok());
        let found = dwarf::look_up(&sections, shared.as_ref(), addresses, self.threads);
        let unnamed = match &found {
            Found { gave_up: true, .. } => Some(Unnamed::Broken("not all of it could be read".to_owned())),
            Found { is_split: true, .. } => Some(Unnamed::Split),
            _ => None,
        };
        (found, unnamed)
    }

    /// The file that `dwz` moved common parts of the debug information to.
    fn shared_file(&self, elf: &Elf<'_>) -> Option<Bytes> {
        let (path, build_id) = elf.shared_debug_link()?;
        let file = DebugFile {
            pid: self.wanted.pid,
            binary: &self.wanted.mapping.path,
            build_id,
            link: Some(&path),
        };
        let mut taken = None;
        self.files.debug(&file, &mut |bytes| {
            let fits = Elf::parse((*bytes).as_ref()).is_some_and(|shared| shared.gnu_build_id() == build_id);
            if fits {
                taken = Some(bytes);
            }
            fits
        });
        taken
    }
}

fn add_missing(
    places: &mut BTreeMap<u64, Place>,
    addresses: &[u64],
    look_up: impl FnOnce(&[u64]) -> BTreeMap<u64, Place>,
) {
    let missing: Vec<u64> =
        addresses.iter().copied().filter(|address| !places.contains_key(address)).collect();
    if !missing.is_empty() {
        places.extend(look_up(&missing));
    }
}

/// Merges debug information and symbols.
fn joined(debug: Option<Place>, symbol: Option<Place>) -> Option<Place> {
    let (mut place, symbol) = match (debug, symbol) {
        (Some(place), Some(symbol)) => (place, symbol),
        (debug, symbol) => return debug.or(symbol).map(without_nameless),
    };
    place.distance = symbol.distance;
    let named = symbol.calls.into_iter().next_back().unwrap_or_default();
    if let Some(function) = place.calls.last_mut()
        && !named.function.is_empty()
        && !is_part_of(&named.function, &function.function)
    {
        // The symbol's name is whole where debug information has a class's or a closure's last part only.
        function.function = named.function;
    }
    Some(without_nameless(place))
}

/// `symbol` is a piece that the compiler cut out of `function`, such as `f.cold` or `f() [clone .part.0]`.
fn is_part_of(symbol: &str, function: &str) -> bool {
    !function.is_empty()
        && symbol
            .strip_prefix(function)
            .is_some_and(|rest| rest.starts_with('.') || rest.starts_with(" [clone"))
}

/// Drops inlined calls without a name.
fn without_nameless(mut place: Place) -> Place {
    let outermost = place.calls.pop();
    place.calls.retain(|call| !call.function.is_empty());
    place.calls.extend(outermost);
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::place::Call;

    fn place(names: &[&str], distance: u64) -> Place {
        let call = |name: &&str| Call { function: (*name).to_owned(), file: "a.c".to_owned(), line: 7 };
        Place { calls: names.iter().map(call).collect(), distance }
    }

    fn names(place: Option<Place>) -> Vec<String> {
        place.into_iter().flat_map(|place| place.calls).map(|call| call.function).collect()
    }

    #[test]
    fn the_whole_name_wins_but_a_piece_belongs_to_its_function() {
        let symbol = |name| Some(place(&[name], 5));
        assert_eq!(
            names(joined(Some(place(&["in", "operator()"], 0)), symbol("A::operator()"))),
            ["in", "A::operator()"]
        );
        assert_eq!(names(joined(Some(place(&["work"], 0)), symbol("work.cold"))), ["work"]);
        assert_eq!(names(joined(Some(place(&["", ""], 0)), symbol("asm"))), ["asm"]);
        assert_eq!(names(joined(None, symbol("f"))), ["f"]);
        assert_eq!(joined(Some(place(&["work"], 0)), symbol("work")).unwrap().distance, 5);
        assert_eq!(joined(None, None), None);
    }
}
