//! Stacks that were copied because their binaries were not known yet: walked when the recording ends.

use std::collections::HashMap;

use holdup_events::event::{RawMemory, RawStack};
use holdup_events::tables::Mapping;
use holdup_events::{ProcessId, Timestamp};

use super::kept;
use super::row::{Kind, Row};
use super::table::{Table, build_id};
use super::walk::{Code, Registers, walk};
use crate::states::Catalogue;
use crate::symbols::Files;

/// Maximum delay of mappings after their use. After an exec, the loader maps one library after the other, and
/// each mapping is reported some milliseconds later.
const MAPPED_SOON_NS: u64 = 50_000_000;

/// Unwinds every copied stack of the recording. Stacks that still cannot be unwound keep the reason.
pub fn walk_raw_stacks(catalogue: &mut Catalogue, files: &dyn Files) {
    if !catalogue.stacks.iter().flatten().any(|stack| stack.raw.is_some()) {
        return;
    }
    let processes: HashMap<u32, ProcessId> =
        catalogue.processes.iter().enumerate().map(|(row, one)| (one.pid, ProcessId(row as u32))).collect();
    let mut by_process: HashMap<ProcessId, Vec<&Mapping>> = HashMap::new();
    for mapping in &catalogue.mappings {
        by_process.entry(mapping.process).or_default().push(mapping);
    }
    let mut tables = Tables { files, by_file: HashMap::new(), lent: HashMap::new() };
    for stack in catalogue.stacks.iter_mut().flatten() {
        let Some(raw) = stack.raw.take() else { continue };
        let known = processes.get(&stack.tgid).and_then(|process| by_process.get(process));
        if let Some(mappings) = known {
            tables.walk(stack, &raw, mappings);
        }
        if stack.addresses.len() == usize::from(stack.kernel_frames) {
            stack.addresses.push(raw.ip);
        }
    }
}

/// End of the addresses of 32-bit programs.
const COMPAT_END: u64 = 1 << 32;

/// Path and build id. Without a build id, the process too, because the path may be another file in another
/// container. The kernel's vdso is the same in every process of one word size.
type FileKey = (String, Vec<u8>, u32);

struct Tables<'a> {
    files: &'a dyn Files,
    by_file: HashMap<FileKey, Option<Table>>,
    /// By process: see [`Table::lent`].
    lent: HashMap<u32, Option<Row>>,
}

impl Tables<'_> {
    fn walk(&mut self, stack: &mut RawStack, raw: &RawMemory, mappings: &[&Mapping]) {
        let word = |address: u64| {
            let at = usize::try_from(address.checked_sub(raw.sp)?).ok()?;
            let bytes = raw.bytes.get(at..at.checked_add(8)?)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let (pid, at) = (stack.tgid, stack.at);
        let registers = Registers { ip: raw.ip, sp: raw.sp, bp: raw.bp, bx: raw.bx };
        let walked = walk(registers, &word, &mut |address| match holding(mappings, address, at) {
            None => Code::Unmapped,
            Some(mapping) => match self.code(pid, mapping, address).unwrap_or(Code::Bare) {
                code @ Code::Row(row) if row.kind != Kind::Gap => code,
                code => code.on_frame(self.lent(pid, mappings)),
            },
        });
        stack.addresses.extend(walked.addresses);
        stack.vias = walked.vias;
        stack.end = walked.end;
    }

    /// Asked only where code without a row is met: it takes the tables of all that the process has mapped.
    fn lent(&mut self, pid: u32, mappings: &[&Mapping]) -> Option<Row> {
        if let Some(known) = self.lent.get(&pid) {
            return *known;
        }
        let found = mappings.iter().find_map(|mapping| self.table(pid, mapping)?.lent());
        self.lent.insert(pid, found);
        found
    }

    fn table(&mut self, pid: u32, mapping: &Mapping) -> Option<&Table> {
        let files = self.files;
        let whose = match mapping.path.as_str() {
            _ if !mapping.build_id.is_empty() => 0,
            "[vdso]" => u32::from(mapping.end <= COMPAT_END),
            _ => pid,
        };
        let key = (mapping.path.clone(), mapping.build_id.clone(), whose);
        self.by_file.entry(key).or_insert_with(|| table_of(files, pid, mapping)).as_ref()
    }

    fn code(&mut self, pid: u32, mapping: &Mapping, address: u64) -> Option<Code> {
        let table = self.table(pid, mapping)?;
        let length = mapping.end.checked_sub(mapping.start)?;
        let base = table.base_when_mapped(mapping.start, length, mapping.file_offset)?;
        let pc = u32::try_from(address.checked_sub(base)?).ok()?;
        let behind = table.rows.partition_point(|row| row.pc <= pc);
        Some(Code::Row(*table.rows.get(behind.checked_sub(1)?)?))
    }
}

fn table_of(files: &dyn Files, pid: u32, mapping: &Mapping) -> Option<Table> {
    let mut found = None;
    files.binary(pid, mapping, &mut |bytes| {
        let bytes = (*bytes).as_ref();
        let id = build_id(bytes);
        if !mapping.build_id.is_empty() && mapping.build_id != id {
            return false;
        }
        let recalled = kept::key(&id).and_then(|key| kept::decode((*files.recall(&key)?).as_ref(), &id));
        found = recalled.or_else(|| Table::compile(bytes).ok());
        found.is_some()
    });
    found
}

/// The mapping of `address` at `at`: the last one reported before, else one reported soon after.
fn holding<'a>(mappings: &[&'a Mapping], address: u64, at: Timestamp) -> Option<&'a Mapping> {
    let holds = |mapping: &&&Mapping| (mapping.start..mapping.end).contains(&address);
    let before = mappings.iter().rev().filter(|mapping| mapping.at <= at).find(holds);
    let soon = Timestamp(at.0.saturating_add(MAPPED_SOON_NS));
    before.or_else(|| mappings.iter().find(|mapping| mapping.at <= soon && holds(mapping))).copied()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::symbols::Bytes;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Files for Counted {
        fn binary(&self, _pid: u32, _mapping: &Mapping, _take: &mut dyn FnMut(Bytes) -> bool) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_vdso_of_many_processes_is_read_once() {
        let files = Counted::default();
        let mut tables = Tables { files: &files, by_file: HashMap::new(), lent: HashMap::new() };
        let mut reads = |path: &str, end: u64| {
            let mapping = Mapping { path: path.to_owned(), end, ..Mapping::default() };
            (1..4).for_each(|pid| assert!(tables.table(pid, &mapping).is_none()));
            files.0.swap(0, Ordering::Relaxed)
        };
        assert_eq!((reads("[vdso]", 1 << 47), reads("/lib/without_build_id.so", 1 << 47)), (1, 3));
        assert_eq!(reads("[vdso]", 0xf7f0_0000), 1, "32-bit programs have another one");
    }
}
