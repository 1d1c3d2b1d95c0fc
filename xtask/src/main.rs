//! Chores of the project: `cargo run -p xtask -- tidy | licences | sbom`. Nothing here is shipped.

mod checks;
mod licences;
mod rust_text;
mod sbom;
mod tree;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo run -p xtask -- CHORE

  tidy       the house rules of CONTRIBUTING.md, over every tracked file
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
