//! `holdup report`

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use holdup_report::StackAsk;

use super::locate;
use crate::cli::ReportArgs;
use crate::cli::experiment::ResultArgs;
use crate::experiment::set::Set;

/// Prints the verdict, or sections.
pub fn execute(args: &ReportArgs) -> Result<ExitCode> {
    if let Some(at) = args.words.iter().position(|word| word == "annotate") {
        of_recording(&args.results)?;
        return super::annotate::execute(&args.words[..at], &args.words[at + 1..], args);
    }
    let (recording, mut sections) = split(&args.words)?;
    if let Some(set) = recording.as_deref().filter(|path| Set::is_at(path)) {
        return super::experiment::reopen(set)?.print(&args.results);
    }
    of_recording(&args.results)?;
    let asks_for_stacks = super::stacks::asks(&args.stacks);
    if asks_for_stacks && !sections.iter().any(|name| name == "stacks" || name == "allocs") {
        sections.push("stacks".to_owned());
    }
    if args.over_time && !sections.iter().any(|name| name == "threads") {
        sections.push("threads".to_owned());
    }
    let (path, trace) = locate::open_silently(recording.as_deref())?;
    let stacks = StackAsk {
        operations: args.operations.map(|number| u64::from(number.get())),
        over_time: args.over_time,
        ..super::stacks::ask(&trace, &args.stacks)?
    };
    let analysis = holdup_findings::analyse_with(&trace, &stacks.selection.descriptors);
    if args.results.json {
        return super::print_json(&holdup_report::to_json_with(&trace, &analysis, &stacks));
    }
    let style = holdup_report::Style { full: args.full, ..super::style(&std::io::stdout()) };
    let name = path.display().to_string();
    let asked = (sections.as_slice(), &stacks);
    super::print(&holdup_report::render_named(&trace, &analysis, asked, (&style, Some(&name)))?)
}

/// Prints a recording as text or JSON. The other formats need runs.
fn of_recording(results: &ResultArgs) -> Result<()> {
    if results.markdown || results.table.is_some() || results.html.is_some() {
        bail!(
            "--markdown, --table and --html are for sets of runs (NAME.holdup-set); of a recording there are `holdup view --html \
             FILE` and `holdup export`"
        );
    }
    Ok(())
}

/// A word that is no section's name is the recording: the first, or one that is there.
fn split(words: &[OsString]) -> Result<(Option<PathBuf>, Vec<String>)> {
    let names = holdup_report::section_names();
    let mut recording = None;
    let mut sections = Vec::new();
    for word in words {
        if let Some(name) = word.to_str().filter(|word| names.contains(word)) {
            sections.push(name.to_owned());
        } else if recording.is_none() && (sections.is_empty() || Path::new(word).exists()) {
            recording = Some(PathBuf::from(word));
        } else {
            bail!("'{}' is not a section. The sections are: {}", word.to_string_lossy(), names.join(", "));
        }
    }
    if let Some(path) = &recording
        && !Path::new(path).exists()
        && !path.to_string_lossy().contains(['/', '.'])
    {
        bail!(
            "'{}' is neither a recording nor a section. The sections are: {}",
            path.display(),
            names.join(", ")
        );
    }
    Ok((recording, sections))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recording_may_stand_before_or_behind_its_sections() {
        let there = env!("CARGO_MANIFEST_DIR");
        let split = |words: &[&str]| split(&words.iter().map(OsString::from).collect::<Vec<_>>());
        let both = (Some(PathBuf::from(there)), vec!["locks".to_owned()]);
        assert_eq!(split(&[there, "locks"]).unwrap(), both);
        assert_eq!(split(&["locks", there]).unwrap(), both);
        assert!(split(&["locks", "cheese"]).is_err());
        assert!(split(&[there, "locks", there]).is_err());
    }
}
