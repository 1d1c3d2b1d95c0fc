//! Stacks of addresses to stacks of names.

use super::*;
use holdup_events::tables::Process;

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
