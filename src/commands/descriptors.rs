//! Reads the files of `--descriptor` into the analysis's descriptors of runtimes.

use anyhow::{Context, Result};
use holdup_findings::derive::stacks::Selection;
use holdup_findings::descriptors::Descriptors;
use holdup_report::StackAsk;

use crate::cli::DescriptorArgs;

/// Returns the built-in descriptors, with the user's own before them.
pub fn read(args: &DescriptorArgs) -> Result<Descriptors> {
    let mut descriptors = Descriptors::built_in();
    // The first that is given is asked first.
    for file in args.descriptor.iter().rev() {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        descriptors = descriptors
            .with(&[text])
            .with_context(|| format!("{} is no descriptor (docs/descriptors.md)", file.display()))?;
    }
    Ok(descriptors)
}

/// The default selection of stacks.
pub fn stack_ask(descriptors: Descriptors) -> StackAsk {
    let selection = Selection { descriptors, ..Selection::all() };
    StackAsk { selection, ..StackAsk::default() }
}
