//! Calls that have no place where they stand, each with what to write instead.

use super::{Complaint, is_test_file, mentions};
use crate::rust_text;
use crate::tree::Tree;

struct Ban {
    call: &'static str,
    instead: &'static str,
    /// Whether the ban holds at this path.
    holds: fn(&str) -> bool,
}

const BANS: &[Ban] = &[
    Ban { call: "todo!(", instead: "finish it, or return an error", holds: everywhere },
    Ban { call: "unimplemented!(", instead: "finish it, or return an error", holds: everywhere },
    Ban { call: "dbg!(", instead: "remove it", holds: everywhere },
    Ban { call: "println!(", instead: PRINT, holds: speaks },
    Ban { call: "print!(", instead: PRINT, holds: speaks },
    Ban { call: "eprintln!(", instead: SAY, holds: speaks },
    Ban { call: "eprint!(", instead: SAY, holds: speaks },
    Ban { call: "process::exit(", instead: "return an error or an exit code", holds: ends_nothing },
    Ban { call: "SystemTime::now(", instead: "take the time as an argument", holds: below_capture },
    Ban { call: "Instant::now(", instead: "take the time as an argument", holds: below_capture },
    Ban { call: "env::var(", instead: "take the setting as an argument", holds: below_capture },
    Ban { call: "env::var_os(", instead: "take the setting as an argument", holds: below_capture },
    Ban { call: "env::args(", instead: "take the words as an argument", holds: below_capture },
    Ban { call: "thread::sleep(", instead: "nothing here may wait for time", holds: below_capture },
];

/// The macros panic if the output is closed or the disk is full. The traced program's exit status is then lost
/// with holdup.
const PRINT: &str = "in a library return the text, in src/ hand it to commands::print";
const SAY: &str = "in a library return an error or a Loss, in src/ use `say!`";

fn everywhere(_path: &str) -> bool {
    true
}

/// Libraries do not speak to the terminal and do not end the process.
fn in_library(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/") && !path.contains("/src/bin/")
}

/// Shipped code prints only through `commands::print`.
fn speaks(path: &str) -> bool {
    in_library(path) || path.starts_with("src/")
}

/// Capture alone may: it ends as the program that it ran did, by a signal too.
fn ends_nothing(path: &str) -> bool {
    in_library(path) && !path.starts_with("crates/capture/")
}

/// The same recording gives the same bytes, on any machine at any time.
fn below_capture(path: &str) -> bool {
    let pure = ["crates/decode/", "crates/events/", "crates/findings/", "crates/report/"];
    pure.iter().any(|folder| path.starts_with(folder)) && path.contains("/src/")
}

/// Checks only shipped Rust code. Tests may print and wait.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.with_extension(&["rs"]).filter(|file| !is_test_file(&file.path)) {
        let code = rust_text::shipped_code(file.text.as_deref().unwrap_or(""));
        for (index, line) in code.lines().enumerate() {
            for ban in BANS.iter().filter(|ban| (ban.holds)(&file.path) && mentions(line, ban.call)) {
                let what = format!("{}…) is banned here: {}", ban.call, ban.instead);
                complaints.push(Complaint::new(&file.path, index + 1, what));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ban_bites_where_it_holds() {
        for ban in BANS {
            let text = format!("fn a() {{\n    std::{}x);\n}}\n", ban.call);
            let found = check(&Tree::of_texts(&[("crates/events/src/a.rs", &text)]));
            assert_eq!(found.len(), 1, "{}", ban.call);
            assert_eq!(found[0].line, 2);
        }
    }

    #[test]
    fn commands_print_without_panics() {
        let text =
            "fn a() {\n    eprintln!(x);\n}\n#[cfg(test)]\nmod tests {\n    fn a() { println!(x); }\n}\n";
        assert_eq!(check(&Tree::of_texts(&[("src/commands/run.rs", text)])).len(), 1);
    }

    #[test]
    fn and_nowhere_else() {
        let text = "// todo!()\nfn a() {\n    println!(\"dbg!()\");\n    std::time::Instant::now();\n    std::process::exit(1);\n}\n";
        assert_eq!(
            check(&Tree::of_texts(&[("xtask/src/main.rs", text), ("crates/testkit/src/bin/a.rs", text)])),
            []
        );
    }
}
