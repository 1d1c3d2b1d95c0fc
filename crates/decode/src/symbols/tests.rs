//! Stacks of addresses to stacks of names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use holdup_events::StackId;
use holdup_events::event::RawStack;
use holdup_events::tables::{Frame, FrameKind, FrameSpin, FrameVia, Mapping, Process, StackEnd};

use super::*;
use crate::accesses::GeneratedCode;

fn catalogue(stacks: Vec<Vec<u64>>) -> Catalogue {
    let mut defined: Vec<Option<RawStack>> = vec![None];
    defined.extend(
        stacks
            .into_iter()
            .map(|addresses| Some(RawStack { tgid: 7, addresses, kernel_frames: 0, ..RawStack::default() })),
    );
    Catalogue {
        processes: vec![Process { pid: 7, ..Process::default() }],
        mappings: vec![Mapping {
            start: 0x1000,
            end: 0x9000,
            path: "/bin/app".to_owned(),
            ..Mapping::default()
        }],
        stacks: defined,
        ..Catalogue::default()
    }
}

#[test]
fn callers_are_shared_and_rows_keep_their_numbers() {
    let catalogue = catalogue(vec![vec![0x1100, 0x2000, 0x3000], vec![0x1200, 0x2000, 0x3000]]);
    let (stacks, frames) = Symbols::new(&NoFiles, "").resolve(&catalogue);
    let offsets = |stack: u32| -> Vec<u64> {
        stacks.frames(StackId(stack)).map(|frame| frames[frame.index()].offset).collect()
    };
    // Return addresses are looked up one byte before.
    assert_eq!(offsets(1), [0x100, 0xfff, 0x1fff]);
    assert_eq!(offsets(2), [0x200, 0xfff, 0x1fff]);
    assert_eq!(stacks.rows().len(), 3 + 2, "none, two leaves, two shared callers");
}

#[test]
fn kernel_frames_are_named_by_kallsyms() {
    let mut catalogue = catalogue(vec![vec![0xffff_0010, 0xffff_0110, 0x1100]]);
    if let Some(Some(stack)) = catalogue.stacks.get_mut(1) {
        stack.kernel_frames = 2;
    }
    let kallsyms =
        "00000000ffff0000 T schedule\n00000000ffff0100 t futex_wait [mod]\n00000000ffff0200 D data\n";
    let (stacks, frames) = Symbols::new(&NoFiles, kallsyms).resolve(&catalogue);
    let names: Vec<&str> =
        stacks.frames(StackId(1)).map(|frame| frames[frame.index()].function.as_str()).collect();
    assert_eq!(names, ["schedule", "futex_wait", ""]);
    assert!(Symbols::new(&NoFiles, "0000000000000000 T schedule\n").kernel_hidden());
}

#[test]
fn a_stack_that_was_never_defined_is_unknown() {
    let mut catalogue = catalogue(vec![vec![0x1100]]);
    catalogue.stacks.push(None);
    let (stacks, frames) = Symbols::new(&NoFiles, "").resolve(&catalogue);
    let frame = stacks.frames(StackId(2)).next().unwrap();
    assert_eq!(frames[frame.index()], Frame::default());
}

/// Binaries and perf maps by path, and stored names.
#[derive(Default)]
struct Given {
    files: BTreeMap<String, Vec<u8>>,
    kept: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Versions of the memory.
    generated: Vec<GeneratedCode>,
}

impl Files for Given {
    fn binary(&self, _pid: u32, mapping: &Mapping, take: &mut dyn FnMut(Bytes) -> bool) {
        if let Some(bytes) = self.files.get(&mapping.path) {
            take(Arc::new(bytes.clone()));
        }
    }

    fn perf_map(&self, pid: u32) -> Option<Bytes> {
        Some(Arc::new(self.files.get(&format!("/tmp/perf-{pid}.map"))?.clone()))
    }

    fn generated_code(&self, _pid: u32, _address: u64) -> Vec<GeneratedCode> {
        self.generated.clone()
    }

    fn recall(&self, key: &str) -> Option<Bytes> {
        Some(Arc::new(self.kept.lock().unwrap().get(key)?.clone()))
    }

    fn remember(&self, key: &str, bytes: &[u8]) {
        self.kept.lock().unwrap().insert(key.to_owned(), bytes.to_vec());
    }
}

fn given(path: &str, bytes: &[u8]) -> Given {
    Given { files: BTreeMap::from([(path.to_owned(), bytes.to_vec())]), ..Given::default() }
}

#[test]
fn code_of_a_runtime_is_named_by_its_perf_map() {
    let mut catalogue = catalogue(vec![vec![0x1234, 0x20_0000]]);
    catalogue.mappings[0].path = "//anon".to_owned();
    let files = given("/tmp/perf-7.map", b"1200 40 JS:*hot a.js:1:2\n");
    let (stacks, frames) = Symbols::new(&files, "").resolve(&catalogue);
    let named: Vec<&Frame> = stacks.frames(StackId(1)).map(|frame| &frames[frame.index()]).collect();
    let hot = Frame {
        kind: FrameKind::User,
        function: "JS:*hot a.js:1:2".to_owned(),
        module: "[jit]".to_owned(),
        offset: 0x1234,
        function_offset: 0x34,
        ..Frame::default()
    };
    assert_eq!(named[0], &hot);
    assert_eq!((named[1].module.as_str(), named[1].offset), ("", 0x1f_ffff));
}

#[test]
fn loops_that_wait_are_seen_in_code_that_was_read_while_it_was_there() {
    let mut catalogue = catalogue(vec![vec![0x1210, 0x1300], vec![0x1300, 0x1210]]);
    catalogue.mappings[0].path = "//anon".to_owned();
    let code = |is_there: bool| {
        let mut bytes = vec![0x90; 4096];
        // `pause; cmpl $0,(%rdi); je back`
        let spin = [0xf3, 0x90, 0x83, 0x3f, 0x00, 0x74, 0xf9];
        bytes[0x210..0x217].copy_from_slice(if is_there { &spin } else { &[0x90; 7] });
        GeneratedCode { start: 0x1000, bytes }
    };
    let leaves = |generated: Vec<GeneratedCode>| {
        let files = Given { generated, ..Given::default() };
        let (stacks, frames) = Symbols::new(&files, "").resolve(&catalogue);
        [1, 2].map(|stack| frames[stacks.frames(StackId(stack)).next().unwrap().index()].spin)
    };
    let [spins, works] = leaves(vec![code(true), code(true)]);
    assert_ne!(spins, FrameSpin::default());
    assert_eq!(works, FrameSpin::default());
    assert_eq!(leaves(vec![code(true), code(false)]), [FrameSpin::default(); 2], "other code took its place");
    assert_eq!(leaves(Vec::new()), [FrameSpin::default(); 2]);
}

#[test]
fn another_file_under_the_same_path_gives_no_names() {
    let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let mut catalogue = catalogue(vec![vec![0x1100]]);
    catalogue.mappings[0].build_id = vec![0xab; 20];
    let files = given("/bin/app", &own);
    let mut symbols = Symbols::new(&files, "");
    let (_, frames) = symbols.resolve(&catalogue);
    assert!(frames.iter().all(|frame| frame.function.is_empty()));
    let [note] = symbols.notes() else { panic!("{:?}", symbols.notes()) };
    assert!(note.starts_with("/bin/app: the file was replaced: its build id is "), "{note}");
    assert!(note.ends_with(&format!("that of what ran was {} (1 address)", "ab".repeat(20))), "{note}");
}

#[test]
fn every_missing_name_has_its_reason() {
    let mut catalogue = catalogue(vec![vec![0xffff_0010, 0x1100]]);
    catalogue.stacks[1].as_mut().unwrap().kernel_frames = 1;
    let mut symbols = Symbols::new(&NoFiles, "");
    symbols.resolve(&catalogue);
    assert!(symbols.notes()[0].starts_with("/bin/app: the file is not there any more"));
    assert!(symbols.notes()[1].starts_with("[kernel]: hidden by kernel.kptr_restrict"));
    let files = given("/bin/app", b"#!/bin/sh\n");
    let mut symbols = Symbols::new(&files, "00000000ffff0000 T schedule\n");
    symbols.resolve(&catalogue);
    assert_eq!(symbols.notes(), ["/bin/app: not an ELF file (1 address)"]);
}

#[test]
fn inlined_calls_share_their_unwind_method_and_the_root_has_the_end_reason() {
    let mut catalogue = catalogue(vec![vec![0x1100, 0x2000]]);
    let raw = catalogue.stacks[1].as_mut().unwrap();
    raw.vias = vec![FrameVia::Registers, FrameVia::SignalFrame];
    raw.end = StackEnd::Root;
    let (stacks, frames) = Symbols::new(&NoFiles, "").resolve(&catalogue);
    let rows = stacks.rows();
    assert_eq!((rows[1].via, rows[1].end), (FrameVia::Registers, StackEnd::Unknown));
    let root = rows[rows[1].parent.index()];
    assert_eq!((root.via, root.end), (FrameVia::SignalFrame, StackEnd::Root));
    // What a signal interrupted is exact.
    assert_eq!(frames[root.frame.index()].offset, 0x1000);
}
