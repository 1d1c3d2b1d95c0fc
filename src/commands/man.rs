//! `holdup man`: one page with every command's options, sections and triggers.

use std::collections::HashSet;
use std::io::Result as IoResult;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::Cli;

/// Prints it.
pub fn print() -> Result<ExitCode> {
    super::print(&page()?)
}

fn page() -> IoResult<String> {
    let mut whole = Cli::command();
    whole.build();
    let mut text = Vec::new();
    let man = Man::new(whole.clone());
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    let mut text = String::from_utf8_lossy(&text).into_owned();
    for command in whole.get_subcommands().filter(|command| !command.is_hide_set()) {
        text.push_str(&of_command(command)?);
    }
    text.push_str(&notes(".SH", &whole));
    // Each section that clap generates repeats the definition of the apostrophe.
    let (mut seen, mut page) = (HashSet::new(), String::new());
    for line in text.lines() {
        let is_again = (line.starts_with(".ie ") || line.starts_with(".el ")) && !seen.insert(line);
        if !is_again {
            page.push_str(line);
            page.push('\n');
        }
    }
    Ok(page)
}

/// The notes below a command's help: lists, whose line breaks are kept.
fn notes(heading: &str, command: &Command) -> String {
    let Some(help) = command.get_after_help() else { return String::new() };
    let escaped = help.to_string().replace('\\', "\\e").replace('-', "\\-");
    // What begins with these would be an instruction.
    let lines = escaped.lines().map(|line| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}\n"),
        false => format!("{line}\n"),
    });
    format!("{heading} NOTES\n.nf\n{}.fi\n", lines.collect::<String>())
}

/// Renders a command as one section, with the sections of clap's page as subsections.
fn of_command(command: &Command) -> IoResult<String> {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let man = Man::new(command.clone());
    let mut below = Vec::new();
    man.render_synopsis_section(&mut below)?;
    man.render_description_section(&mut below)?;
    man.render_options_section(&mut below)?;
    let below = String::from_utf8_lossy(&below).replace("\n.SH ", "\n.SS ");
    Ok(format!(".SH \"{}\"\n{below}{}", name.to_uppercase(), notes(".SS", command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_holds_every_option() {
        let page = page().unwrap().replace("\\-", "-");
        assert!(page.contains("-- CMD ARGS..."), "the main form");
        assert!(!page.contains("(1)"), "no other page is installed");
        let mut whole = Cli::command();
        whole.build();
        for command in whole.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_bin_name().unwrap_or_default();
            assert!(page.contains(&format!(".SH \"{}\"", name.to_uppercase())), "{name}");
            let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
            for option in shown.filter_map(clap::Arg::get_long) {
                assert!(page.contains(&format!("--{option}")), "{name} --{option}");
            }
        }
        for word in ["critical-path", "Exit status", "function:"] {
            assert!(page.contains(word), "{word}");
        }
    }
}
