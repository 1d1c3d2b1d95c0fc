//! Chores of the project: `cargo run -p xtask -- tidy | licences | sbom`. Nothing here is shipped.

mod checks;
mod licences;
mod rust_text;
mod sbom;
mod tree;
mod words;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo run -p xtask -- CHORE

  tidy       the house rules of CONTRIBUTING.md, over every tracked file
  words [FOLDER [FORM]]
             counts of the forms that STYLE.md bans, by folder; with a folder or a file, the places
  words --ratchet
             lower the counts in xtask/words.txt, which tidy compares. Without that file: write all
  licences   every dependency has a licence of the allow list
  sbom FILE  what the binary consists of, as CycloneDX";

fn main() -> ExitCode {
    match chore() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn chore() -> Result<ExitCode> {
    let chore = std::env::args().nth(1).unwrap_or_default();
    match chore.as_str() {
        "tidy" => tidy(),
        "words" => words(),
        "licences" => licences::check(),
        "sbom" => match std::env::args().nth(2) {
            Some(file) => sbom::write(std::path::Path::new(&file)),
            None => bail!("{USAGE}"),
        },
        _ => bail!("{USAGE}"),
    }
}

/// Prints every complaint as `file:line: what`, so that editors can jump there.
fn tidy() -> Result<ExitCode> {
    let tree = tree::Tree::of_git()?;
    let mut count = 0;
    for check in checks::ALL {
        for complaint in (check.run)(&tree) {
            println!("{}:{}: {} [{}]", complaint.path, complaint.line, complaint.what, check.name);
            count += 1;
        }
    }
    println!("tidy: {count} complaints in {} files, {} checks", tree.files.len(), checks::ALL.len());
    Ok(if count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints counts by folder, the places in one folder or file, or writes the ratchet file.
fn words() -> Result<ExitCode> {
    let tree = tree::Tree::of_git()?;
    let hits = words::hits(&tree);
    let wanted = std::env::args().nth(2);
    let form = std::env::args().nth(3);
    match wanted.as_deref() {
        Some("--ratchet") => {
            let allowed = tree.get(words::ratchet::PATH).and_then(|file| file.text.as_deref());
            let allowed = words::ratchet::parse(allowed.unwrap_or(""));
            let text = words::ratchet::render(&words::ratchet::lowered(&allowed, words::counts(&hits)));
            std::fs::write(tree.top.join(words::ratchet::PATH), text)?;
        }
        Some(path) => {
            let is_wanted = |hit: &&words::Hit| {
                hit.path.starts_with(path)
                    && form.as_ref().is_none_or(|form| form == hit.form || form == hit.kind.name())
            };
            for hit in hits.iter().filter(is_wanted) {
                println!("{}:{}: {} {}: {}", hit.path, hit.line, hit.kind.name(), hit.form, hit.text);
            }
        }
        None => print!("{}", words::ratchet::render(&words::counts(&hits))),
    }
    Ok(ExitCode::SUCCESS)
}
