//! Resolved names in memory, for consecutive intervals of a recording. A binary is opened again only for
//! places that were not looked up before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::binary::{Answer, Variable};
use super::kernel::KernelSymbols;

/// Maximum number of places, and of words. Beyond it, all are dropped, and those still wanted are looked up
/// again.
const KEPT_MAX: usize = 1 << 18;

/// Path and build id of a binary, and the process where it has none.
type File<'a> = (&'a str, &'a [u8], u32);

/// See the module.
pub struct KeptNames {
    pub(super) kernel: Arc<KernelSymbols>,
    binaries: Mutex<HashMap<OwnedFile, Known>>,
    /// By process and path.
    variables: Mutex<HashMap<(u32, String), Asked>>,
}

/// A [`File`] to keep.
type OwnedFile = (String, Vec<u8>, u32);

/// Addresses looked up, and their variables.
type Asked = BTreeMap<u64, Option<Variable>>;

/// Places looked up in a binary, and their results.
#[derive(Default)]
struct Known {
    offsets: BTreeSet<u64>,
    leaves: BTreeSet<u64>,
    answer: Answer,
}

impl KeptNames {
    /// Nothing but the kernel's symbols: the text of /proc/kallsyms (empty: none).
    pub fn new(kallsyms: &str) -> KeptNames {
        let kernel = Arc::new(KernelSymbols::parse(kallsyms));
        KeptNames { kernel, binaries: Mutex::default(), variables: Mutex::default() }
    }

    /// The places at `offsets` of a binary, some of them `leaves`. New ones are looked up by `ask`.
    pub(super) fn places(
        &self,
        (path, build_id, whose): File<'_>,
        (offsets, leaves): (&BTreeSet<u64>, &BTreeSet<u64>),
        ask: impl FnOnce(&BTreeSet<u64>, &BTreeSet<u64>) -> Answer,
    ) -> Answer {
        let key = (path.to_owned(), build_id.to_owned(), whose);
        // Other threads look up other binaries, so the lock is not held while a file is read.
        let taken = self.binaries.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        let mut known = taken.unwrap_or_default();
        let fresh_leaves: BTreeSet<u64> = leaves.difference(&known.leaves).copied().collect();
        let fresh: BTreeSet<u64> = offsets.difference(&known.offsets).chain(&fresh_leaves).copied().collect();
        if !fresh.is_empty() {
            let answer = ask(&fresh, &fresh_leaves);
            known.answer.places.extend(answer.places);
            known.answer.spins.extend(answer.spins);
            known.answer.unnamed = answer.unnamed;
            known.offsets.extend(fresh);
            known.leaves.extend(fresh_leaves);
        }
        let places = offsets.iter().filter_map(|at| Some((*at, known.answer.places.get(at)?.clone())));
        let spins = leaves.iter().filter_map(|at| Some((*at, known.answer.spins.get(at)?.clone())));
        let answer = Answer {
            places: places.collect(),
            spins: spins.collect(),
            unnamed: known.answer.unnamed.clone(),
        };
        let mut binaries = self.binaries.lock().unwrap_or_else(PoisonError::into_inner);
        if binaries.values().map(|known| known.offsets.len()).sum::<usize>() > KEPT_MAX {
            binaries.clear();
        }
        binaries.insert(key, known);
        answer
    }

    /// The variables at `addresses` of a process, in a file that it has mapped. New ones are looked up by
    /// `look_up`.
    pub(super) fn variables(
        &self,
        (pid, path): (u32, &str),
        addresses: &[u64],
        look_up: impl FnOnce(&[u64]) -> BTreeMap<u64, Variable>,
    ) -> BTreeMap<u64, Variable> {
        let mut variables = self.variables.lock().unwrap_or_else(PoisonError::into_inner);
        if variables.values().map(BTreeMap::len).sum::<usize>() > KEPT_MAX {
            variables.clear();
        }
        let known = variables.entry((pid, path.to_owned())).or_default();
        let fresh: Vec<u64> = addresses.iter().copied().filter(|at| !known.contains_key(at)).collect();
        if !fresh.is_empty() {
            let mut found = look_up(&fresh);
            known.extend(fresh.into_iter().map(|at| (at, found.remove(&at))));
        }
        addresses.iter().filter_map(|at| Some((*at, known.get(at)?.clone()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::Place;
    use super::*;

    #[test]
    fn a_binary_is_asked_once_for_each_place() {
        let kept = KeptNames::new("");
        let set = |numbers: &[u64]| numbers.iter().copied().collect::<BTreeSet<u64>>();
        let ask = |offsets: &[u64], leaves: &[u64], expected: Option<(&[u64], &[u64])>| {
            let mut asked = None;
            let answer =
                kept.places(("/bin/x", &[1], 0), (&set(offsets), &set(leaves)), |offsets, leaves| {
                    asked = Some((offsets.clone(), leaves.clone()));
                    let places = offsets.iter().map(|at| (*at, Place { distance: *at, ..Place::default() }));
                    Answer { places: places.collect(), ..Answer::default() }
                });
            assert_eq!(asked, expected.map(|(offsets, leaves)| (set(offsets), set(leaves))));
            answer.places.into_keys().collect::<Vec<u64>>()
        };
        assert_eq!(ask(&[1, 2], &[1], Some((&[1, 2], &[1]))), [1, 2]);
        assert_eq!(ask(&[2], &[], None), [2], "what was not asked for now is not told");
        assert_eq!(ask(&[2, 3], &[2], Some((&[2, 3], &[2]))), [2, 3], "now a thread was there itself");
    }

    #[test]
    fn an_address_without_a_variable_is_known_too() {
        let kept = KeptNames::new("");
        let name = |at: u64| Variable { name: format!("v{at}"), part: String::new() };
        let first = kept.variables((7, "/bin/x"), &[1, 2], |asked| {
            assert_eq!(asked, [1, 2]);
            BTreeMap::from([(1, name(1))])
        });
        assert_eq!(first, BTreeMap::from([(1, name(1))]));
        let again = kept.variables((7, "/bin/x"), &[1, 2], |_| unreachable!());
        assert_eq!(again, first);
    }
}
