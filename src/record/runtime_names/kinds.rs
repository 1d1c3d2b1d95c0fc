//! The runtimes whose names are read, and how each is known and begun with.

use std::collections::HashMap;
use std::path::PathBuf;

use holdup_capture::process_memory;
use holdup_decode::cpython::{self, Interpreter, Refused};
use holdup_decode::hotspot;
use holdup_decode::interpreted::{Interpreted, Standing};
use holdup_decode::process_memory::Names;
use holdup_decode::symbols::Bytes;
use holdup_events::event::RawMapping;

use super::memory::OfProcess;
use crate::record::files::{living, map, open};

/// The runtime whose names are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// HotSpot.
    Java,
    /// CPython.
    Python,
}

/// Interpreters' symbols by their binaries' build ids: to look through one takes some milliseconds, and a program may start many.
pub type KnownBinaries = HashMap<Vec<u8>, cpython::Symbols>;

/// Maximum number of remembered binaries.
const BINARIES_MAX: usize = 64;

/// A runtime whose structures could not be located.
pub struct Unopened {
    /// In words.
    pub why: String,
    /// To ask again is of no use.
    pub for_good: bool,
}

impl Kind {
    /// The runtime of a process that maps this, and its code.
    pub fn detect(mappings: &[RawMapping]) -> Option<(Kind, &RawMapping)> {
        let find = |is_it: &dyn Fn(&str) -> bool| {
            mappings.iter().find(|mapping| is_it(mapping.path.rsplit('/').next().unwrap_or("")))
        };
        // The program may be no more than a call of its library.
        let python = || {
            let is_one = |file: &str| cpython::version_by_name(file).is_some();
            find(&|file| file.starts_with("lib") && is_one(file)).or_else(|| find(&is_one))
        };
        let java = find(&|file| file == "libjvm.so").map(|library| (Kind::Java, library));
        java.or_else(|| python().map(|library| (Kind::Python, library)))
    }

    /// Whether the runtime may have a name for this address in a stack.
    pub fn may_name(self, address: u64) -> bool {
        match Interpreted::from_address(address).map(|place| place.standing) {
            None | Some(Standing::InPlace) => self == Kind::Java,
            Some(Standing::Behind { .. }) => self == Kind::Python,
        }
    }

    /// Description of the code without names if the runtime cannot be read.
    pub fn unnamed(self) -> &'static str {
        match self {
            Kind::Java => "its methods have no names",
            Kind::Python => "its Python functions have no names",
        }
    }

    /// Locates the runtime's structures. Fails if the runtime has not initialized them yet.
    pub fn open(
        self,
        memory: &OfProcess,
        library: &RawMapping,
        known: &mut KnownBinaries,
    ) -> Result<Box<dyn Names>, Unopened> {
        let unread = || {
            let why = match process_memory::read(memory.pid, library.start, &mut [0; 1]) {
                Err(error) => format!("where its runtime has what could not be read ({error})"),
                Ok(_) => "where its runtime has what could not be read".to_owned(),
            };
            Unopened { why, for_good: false }
        };
        let bytes = binary(memory.pid, library).ok_or_else(unread)?;
        let bytes: &[u8] = (*bytes).as_ref();
        let loaded = hotspot::loaded(bytes, (library.start, library.file_offset)).ok_or_else(unread)?;
        match self {
            Kind::Java => {
                let symbols = hotspot::symbols(bytes).ok_or_else(unread)?;
                let names = hotspot::Layout::read(memory, &symbols, loaded).ok_or_else(unread)?;
                Ok(Box::new(names))
            }
            Kind::Python => {
                let symbols = symbols_of(bytes, &library.build_id, known).ok_or_else(unread)?;
                let named = cpython::version_by_name(&library.path);
                let layout =
                    cpython::Layout::read(memory, &symbols, loaded, named).map_err(
                        |refused| match refused {
                            Refused::Silent => unread(),
                            Refused::Version(minor) => Unopened {
                                why: format!("how CPython 3.{minor} keeps its functions is not known"),
                                for_good: true,
                            },
                        },
                    )?;
                Ok(Box::new(Interpreter::new(layout)))
            }
        }
    }
}

fn symbols_of(bytes: &[u8], build_id: &[u8], known: &mut KnownBinaries) -> Option<cpython::Symbols> {
    if let Some(symbols) = known.get(build_id) {
        return Some(*symbols);
    }
    let symbols = cpython::symbols(bytes)?;
    if !build_id.is_empty() && known.len() < BINARIES_MAX {
        known.insert(build_id.to_vec(), symbols);
    }
    Some(symbols)
}

fn binary(pid: u32, library: &RawMapping) -> Option<Bytes> {
    let below_root = PathBuf::from(format!("/proc/{pid}/root{}", library.path));
    let links = living(pid, (library.start, library.end), &library.path);
    let file = links.into_iter().chain([below_root]).find_map(|path| open(&path))?;
    crate::record::shrunk::read_as_zeros();
    map(&file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_known_by_its_library() {
        let kind = |paths: &[&str]| {
            let mapping = |path: &&str| RawMapping { path: (*path).to_owned(), ..RawMapping::default() };
            let mappings: Vec<RawMapping> = paths.iter().map(mapping).collect();
            Kind::detect(&mappings).map(|(kind, library)| (kind, library.path.clone()))
        };
        let python = |path: &str| Some((Kind::Python, path.to_owned()));
        assert_eq!(kind(&["/usr/bin/python3.11"]), python("/usr/bin/python3.11"));
        assert_eq!(kind(&["/v/bin/python3.9", "/v/libpython3.9.so.1.0"]), python("/v/libpython3.9.so.1.0"));
        assert_eq!(kind(&["/j/bin/java", "/j/libjvm.so"]), Some((Kind::Java, "/j/libjvm.so".to_owned())));
        assert_eq!(kind(&["/bin/app", "/usr/lib/libpython3.so"]), None, "it only leads to the library");
    }
}
