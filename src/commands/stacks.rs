//! Converts flags into a selection of stacks.

use anyhow::{Context, Result, bail};
use holdup_events::{Duration, ThreadId, Trace};
use holdup_findings::derive::stacks::{Folding, Rule, Selection, folding};
use holdup_report::StackAsk;
use holdup_report::stacks::{SHARE_MIN, Shape, parse_classes};

use crate::cli::{PartArgs, StackArgs};

/// Whether anything is asked.
pub fn asks(args: &StackArgs) -> bool {
    let part = &args.part;
    args.function.is_some()
        || args.tree
        || args.callers
        || args.wakers
        || args.min.is_some()
        || !part.thread.is_empty()
        || part.class.is_some()
        || part.from.is_some()
        || args.to.is_some()
        || !part.fold.is_empty()
        || part.no_fold
        || part.no_inline
}

/// Returns the selection of stacks.
pub fn ask(trace: &Trace, args: &StackArgs) -> Result<StackAsk> {
    Ok(StackAsk {
        selection: selection(trace, &args.part, args.to)?,
        classes_named: args.part.class.is_some(),
        folding: rules(&args.part, Folding::built_in())?,
        function: args.function.clone(),
        wakers: args.wakers,
        shape: match (args.tree || args.wakers, args.callers) {
            (_, true) => Shape::Callers,
            (true, _) => Shape::Tree,
            _ => Shape::Flat,
        },
        share_min: args.min.unwrap_or(SHARE_MIN),
        ..StackAsk::default()
    })
}

/// Which part of the recording.
pub fn selection(trace: &Trace, args: &PartArgs, to: Option<std::time::Duration>) -> Result<Selection> {
    let mut selection = match &args.class {
        Some(names) => parse_classes(names).map_err(anyhow::Error::msg)?,
        None => Selection::all(),
    };
    selection.descriptors = super::descriptors::read(&args.descriptors)?;
    let at = |time: std::time::Duration| {
        trace.start() + Duration(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    };
    if let Some(from) = args.from {
        selection.from = at(from);
    }
    if let Some(to) = to {
        selection.to = at(to);
    }
    // A recording without times, as of folded stacks, lasts no time, and is all there at its start.
    if selection.from >= selection.to || selection.from > trace.start() && selection.from >= trace.end() {
        bail!("that is no part of the recording, which lasts {:.3} s", trace.wall().seconds());
    }
    if !args.thread.is_empty() {
        selection.threads = Some(threads(trace, &args.thread)?);
    }
    Ok(selection)
}

fn threads(trace: &Trace, names: &[String]) -> Result<Vec<ThreadId>> {
    let mut found = Vec::new();
    for name in names {
        let number = name.parse::<u32>().ok();
        let is = |id: &ThreadId| {
            let thread = &trace.threads[id.index()];
            number == Some(thread.tid) || folding::matches(name, &thread.name)
        };
        let before = found.len();
        found.extend(trace.target_threads().filter(is));
        if found.len() == before {
            bail!("no thread of the program is '{name}': `holdup report threads` lists them");
        }
    }
    Ok(found)
}

/// Returns `base` (unless disabled) and the given rules. Each argument is a rule or a file of rules.
pub fn rules(args: &PartArgs, base: Folding) -> Result<Folding> {
    let mut rules: Vec<Rule> = Vec::new();
    for text in &args.fold {
        match text.parse() {
            Ok(rule) => rules.push(rule),
            Err(no_rule) => {
                let Ok(lines) = std::fs::read_to_string(text) else {
                    bail!("{no_rule}, and there is no file of that name");
                };
                rules.extend(Folding::parse_rules(&lines).with_context(|| format!("in {text}"))?);
            }
        }
    }
    let folding = if args.no_fold { Folding::none() } else { base }.with(rules);
    Ok(if args.no_inline { folding.without_inlined() } else { folding })
}
