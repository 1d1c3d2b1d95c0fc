//! The line table of a unit, for the addresses that are asked for.

use std::collections::{BTreeMap, BTreeSet};

use gimli::{LineProgramHeader, Result, UnitRef};

use super::meter::Metered;

/// Lines by address, and the files that they are in.
#[derive(Default)]
pub struct Lines {
    by_address: BTreeMap<u64, (u64, u32)>,
    files: BTreeMap<u64, String>,
}

impl Lines {
    /// Runs the line program of `unit` for the ascending `addresses`. Resolves the files of these and of
    /// `calls`. A damaged program gives partial results.
    pub fn of_unit(
        unit: UnitRef<'_, Metered<'_>>,
        addresses: &[u64],
        calls: impl Iterator<Item = u64>,
    ) -> Lines {
        let mut lines = Lines::default();
        let Some(program) = unit.line_program.clone() else { return lines };
        let header = program.header().clone();
        // Results from before an error are kept.
        let _ = lines.run(program, addresses);
        let wanted: BTreeSet<u64> = lines.by_address.values().map(|(file, _)| *file).chain(calls).collect();
        for file in wanted {
            if let Some(name) = name(unit, &header, file) {
                lines.files.insert(file, name);
            }
        }
        lines
    }

    fn run(&mut self, program: gimli::IncompleteLineProgram<Metered<'_>>, addresses: &[u64]) -> Result<()> {
        let mut rows = program.rows();
        let mut before: Option<(u64, u64, u32)> = None;
        // The first address that is not below the present row.
        let mut next = 0;
        while let Some((_, row)) = rows.next_row()? {
            let at = row.address();
            match before {
                None => next = addresses.partition_point(|address| *address < at),
                Some((start, file, line)) => {
                    while let Some(address) = addresses.get(next).filter(|address| **address < at) {
                        if *address >= start {
                            self.by_address.entry(*address).or_insert((file, line));
                        }
                        next += 1;
                    }
                }
            }
            let line = row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0);
            // Sequences of what the linker threw away begin at 0.
            let thrown_away = before.is_none() && at == 0;
            if thrown_away {
                next = addresses.len();
            }
            before = (!row.end_sequence()).then_some((at, row.file_index(), line));
        }
        Ok(())
    }

    /// File and line of an address. Empty and 0 if unknown.
    pub fn at(&self, address: u64) -> (String, u32) {
        match self.by_address.get(&address) {
            Some((file, line)) => (self.file(*file), *line),
            None => (String::new(), 0),
        }
    }

    /// The file with this number.
    pub fn file(&self, number: u64) -> String {
        self.files.get(&number).cloned().unwrap_or_default()
    }
}

/// Directory of the compilation, directory of the file, file: each from where it begins at the root.
fn name<'d>(
    unit: UnitRef<'_, Metered<'d>>,
    header: &LineProgramHeader<Metered<'d>>,
    number: u64,
) -> Option<String> {
    let text = |value| Some(unit.attr_string(value).ok()?.text());
    let file = header.file(number)?;
    let name = text(file.path_name())?;
    let directory = file.directory(header).and_then(text).unwrap_or_default();
    let compiled_in = unit.comp_dir.map(Metered::text).unwrap_or_default();
    Some(joined(&[compiled_in, directory, name]))
}

fn joined(parts: &[String]) -> String {
    let from_root = parts.iter().rposition(|part| part.starts_with('/')).unwrap_or(0);
    let parts: Vec<&str> = parts
        .iter()
        .skip(from_root)
        .map(|part| part.trim_end_matches('/'))
        .filter(|part| !part.is_empty())
        .collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_the_last_root() {
        let join = |parts: [&str; 3]| joined(&parts.map(str::to_owned));
        assert_eq!(join(["/build", "src", "a.c"]), "/build/src/a.c");
        assert_eq!(join(["/build/", "/usr/include", "stdio.h"]), "/usr/include/stdio.h");
        assert_eq!(join(["/build", "", "/tmp/a.c"]), "/tmp/a.c");
        assert_eq!(join(["", "", "a.c"]), "a.c");
    }
}
