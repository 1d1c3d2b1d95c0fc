//! The sections of the report. A new one is one new file and one word in the list below.

use super::View;
use crate::text::Tint;

/// One section.
pub(super) struct Section {
    /// Name on the command line.
    pub name: &'static str,
    /// One line, no full stop.
    pub summary: &'static str,
    /// The lines.
    pub lines: fn(&View) -> Vec<String>,
}

macro_rules! sections {
    (@name $module:ident) => { stringify!($module) };
    (@name $module:ident $name:literal) => { $name };
    ($($module:ident $(as $name:literal)?,)*) => {
        $(mod $module;)*

        pub(super) static ALL: &[Section] = &[$(Section {
            name: sections!(@name $module $($name)?),
            summary: $module::SUMMARY,
            lines: $module::lines,
        },)*];
    };
}

sections! {
    ledger,
    findings,
    threads,
    cpus,
    counters,
    locks,
    waits,
    critical_path as "critical-path",
    barriers,
    gc,
    lines,
    faults,
    allocs,
    syscalls,
    sched,
    runtimes,
    stacks,
    losses,
    sources,
}

/// A line with the reason why there is no table.
fn nothing(view: &View, text: &str) -> String {
    let text = view.style.fit(text, view.style.columns() - 2);
    format!("  {}", view.style.paint(Tint::Faint, &text))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_file_is_registered() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/terminal/sections");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|file| file != "mod.rs" && file != "syscalls")
            .map(|file| file.trim_end_matches(".rs").to_owned())
            .collect();
        let mut names: Vec<String> =
            super::ALL.iter().map(|section| section.name.replace('-', "_")).collect();
        files.sort();
        names.sort();
        assert_eq!(files, names);
    }
}
