//! Addresses → names, after the recording: functions, inlined calls, source lines. Reads binaries only through
//! [`Files`], and only for the addresses that occur. Any of them may be hostile: what cannot be read is a reason
//! in [`Symbols::notes`].

mod binary;
mod cache;
pub(crate) mod demangle;
mod dwarf;
mod elf;
mod files;
pub(crate) mod go;
mod interpreter;
mod jitdump;
mod kept;
mod kernel;
mod maps;
mod perf_map;
mod place;
mod rows;
mod spots;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use holdup_events::tables::{Frames, Stacks};

use crate::states::Catalogue;
pub use binary::hex;
pub(crate) use binary::mapped_file;
pub(crate) use demangle::{demangle, symbol as demangle_symbol};
pub(crate) use elf::Elf;
pub use files::{Bytes, DebugFile, Files, NoFiles};
pub(crate) use go::FunctionTable as GoFunctions;
pub use kept::KeptNames;
use kernel::KernelSymbols;
pub use maps::is_jitdump;
pub use place::Call;
use spots::Spots;
pub use spots::looked_up;

/// Resolves the stacks of one recording.
pub struct Symbols<'a> {
    files: &'a dyn Files,
    kernel: Arc<KernelSymbols>,
    notes: Vec<String>,
    kept: Option<&'a KeptNames>,
}

impl<'a> Symbols<'a> {
    /// With the text of /proc/kallsyms of the recorded kernel (empty: none).
    pub fn new(files: &'a dyn Files, kallsyms: &str) -> Symbols<'a> {
        Symbols { files, kernel: Arc::new(KernelSymbols::parse(kallsyms)), notes: Vec::new(), kept: None }
    }

    /// Uses earlier results for the same machine, and adds the new ones.
    pub fn with_kept(files: &'a dyn Files, kept: &'a KeptNames) -> Symbols<'a> {
        Symbols { files, kernel: kept.kernel.clone(), notes: Vec::new(), kept: Some(kept) }
    }

    /// The kernel's addresses are hidden from us (`kernel.kptr_restrict`), or none were given.
    pub fn kernel_hidden(&self) -> bool {
        self.kernel.is_empty()
    }

    /// The stacks and frames of a recording. Row k of the stacks is the leaf of the catalogue's stack k, and
    /// its callers are later rows. An inlined call has its own row.
    pub fn resolve(&mut self, catalogue: &Catalogue) -> (Stacks, Frames) {
        let mut spots = Spots::new(catalogue);
        let in_kernel = spots.kernel_addresses();
        let mut reasons = spots.look_up(self.files, self.kept);
        if in_kernel > 0 && self.kernel_hidden() {
            let hidden = "hidden by kernel.kptr_restrict: be root, or `sysctl kernel.kptr_restrict=0`";
            reasons.insert(("[kernel]".to_owned(), hidden.to_owned()), in_kernel);
        }
        self.notes = worded(reasons);
        rows::build(catalogue, &spots, &self.kernel)
    }

    /// Names the variables that threads waited on, and those that they shared.
    pub fn name_words(&self, catalogue: &mut Catalogue) {
        let Catalogue { waits, mappings, processes, variables, .. } = catalogue;
        words::name(waits, (mappings, processes), self.files, self.kept);
        let addresses = variables.iter().map(|variable| (variable.process, variable.address)).collect();
        let mut found = words::variables(&addresses, (mappings, processes), self.files, self.kept);
        for variable in variables {
            let (named, module) = found.remove(&(variable.process, variable.address)).unwrap_or_default();
            (variable.name, variable.part, variable.module) = (named.name, named.part, module);
        }
    }

    /// Which code could not be named, or not fully, and why: a line each, the most frequent first.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Module and reason, and how many addresses are concerned.
type Reasons = BTreeMap<(String, String), u64>;

fn worded(reasons: Reasons) -> Vec<String> {
    let mut reasons: Vec<((String, String), u64)> = reasons.into_iter().collect();
    reasons.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let line = |((module, reason), addresses): ((String, String), u64)| {
        let plural = if addresses == 1 { "address" } else { "addresses" };
        format!("{module}: {reason} ({addresses} {plural})")
    };
    reasons.into_iter().map(line).collect()
}

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod real_tests;
#[cfg(test)]
mod tests;
