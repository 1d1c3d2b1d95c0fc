//! Parses the command line. Adds `run` if no subcommand is given, and a hint about `--` if it is missing.

use std::ffi::OsString;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Cli;

/// The command line of this process, or why it is none.
///
/// # Errors
/// Help and version are errors to clap, too.
pub fn parse(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    let given = words.clone();
    Cli::try_parse_from(with_default_command(words)).map_err(|error| with_tip(error, &given))
}

/// The command line with `run` put in where it is left out: `holdup [OPTIONS] -- CMD`. `help` is `--help`.
fn with_default_command(mut words: Vec<OsString>) -> Vec<OsString> {
    let first = words.get(1).map(|word| word.to_string_lossy().into_owned());
    let takes_run = match first.as_deref() {
        Some("help") => {
            words.remove(1);
            words.push("--help".into());
            false
        }
        None | Some("-h" | "--help" | "-V" | "--version") => false,
        Some(word) => word.starts_with('-') && words.iter().any(|word| word == "--"),
    };
    if takes_run {
        words.insert(1, "run".into());
    }
    words
}

/// Adds a hint about `--` if a program's name stands where a subcommand is expected. A similarly named
/// subcommand is suggested second.
fn with_tip(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let first = words.get(1).map(|word| word.to_string_lossy());
    let tip = match (error.kind(), first) {
        (ErrorKind::InvalidSubcommand, Some(word)) => {
            format!("to run a program and record it: holdup -- {}", holdup_report::text::shell_word(&word))
        }
        (ErrorKind::UnknownArgument, Some(word)) if word.starts_with('-') && !is_behind_dashes(words) => {
            "to run a program and record it: holdup [OPTIONS] -- CMD".to_owned()
        }
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

fn is_behind_dashes(words: &[OsString]) -> bool {
    words.iter().any(|word| word == "--")
}

/// A process to attach to.
pub(super) fn pid(text: &str) -> Result<u32, String> {
    number(text, "to run a program: holdup -- CMD")
}

/// The same where a program may be named, too.
pub(super) fn pid_or_program(text: &str) -> Result<u32, String> {
    number(text, "a program stands behind --")
}

fn number(text: &str, program: &str) -> Result<u32, String> {
    let number = text.parse::<u32>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("expected a process id, which `pgrep NAME` prints. {program}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(Into::into).collect()
    }

    fn refused(line: &str) -> String {
        parse(words(line)).expect_err(line).to_string()
    }

    #[test]
    fn run_is_the_default_command() {
        let put_in = |line| with_default_command(words(line));
        assert_eq!(put_in("holdup -- ls -l"), words("holdup run -- ls -l"));
        assert_eq!(put_in("holdup -o a.holdup -- ls"), words("holdup run -o a.holdup -- ls"));
        assert_eq!(put_in("holdup report -- x"), words("holdup report -- x"));
        assert_eq!(put_in("holdup --help"), words("holdup --help"));
        assert_eq!(put_in("holdup"), words("holdup"));
        assert_eq!(put_in("holdup help"), words("holdup --help"));
        assert_eq!(put_in("holdup help run"), words("holdup run --help"));
    }

    #[test]
    fn options_behind_the_program_are_its_own() {
        for line in ["holdup --freq 99 -- ls --json -o x", "holdup run --freq 99 ls --json -o x"] {
            let cli = parse(words(line)).unwrap();
            let Command::Run(run) = cli.command else { panic!("not run") };
            assert_eq!(run.record.freq, 99);
            assert!(!run.record.json);
            assert_eq!(run.command, words("ls --json -o x"));
        }
        let cli = parse(words("holdup scale --at 9 -- x --workers {} --json")).unwrap();
        let Command::Scale(scale) = cli.command else { panic!("not scale") };
        assert_eq!((scale.at, scale.command.join(" ").as_str()), (9, "x --workers {} --json"));
        assert!(scale.workers.is_empty() && !scale.results.json);
        assert!(parse(words("holdup -- --odd-name -x")).is_ok(), "a program may be called so");
    }

    #[test]
    fn a_mistyped_option_is_not_the_program() {
        for line in ["holdup run --quite -- true", "holdup --quite -- true", "holdup run --quite true"] {
            let said = refused(line);
            assert!(said.contains("unexpected argument '--quite'") && said.contains("'--quiet'"), "{said}");
        }
        assert!(refused("holdup scale --workes 1,2 -- x {}").contains("'--workers'"));
        assert!(refused("holdup sweep --sets a=1,2 -- x").contains("'--set'"));
    }

    #[test]
    fn missing_dashes_are_reported() {
        let run = |word: &str| format!("to run a program and record it: holdup -- {word}");
        assert!(refused("holdup ./server --threads 8").contains(&run("./server")));
        assert!(refused("holdup sleep 1").contains(&run("sleep")));
        assert!(refused("holdup --quiet ./server").contains("holdup [OPTIONS] -- CMD"));
        for line in ["holdup watch -t line:x ./server", "holdup top ./server"] {
            let said = refused(line);
            assert!(said.contains("a process id") && said.contains("behind --"), "{said}");
        }
        let said = refused("holdup attach redis-server");
        assert!(said.contains("`pgrep NAME`") && said.contains("holdup -- CMD"), "{said}");
        assert!(refused("holdup attach 0").contains("a process id"));
        assert!(refused("holdup --help").contains("holdup [OPTIONS] -- CMD ARGS...\n"));
    }
}
