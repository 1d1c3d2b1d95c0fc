//! Programs of OCaml 5, compiled for a test: by the compiler that `./dev setup` keeps, or one on the PATH.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Scratch;

/// Where `./dev setup` puts it.
const KEPT: &str = "holdup/ocaml-5.3.0/bin/ocamlopt";

fn compiler() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::var_os("HOLDUP_OCAML").map(|prefix| PathBuf::from(prefix).join("bin/ocamlopt"));
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("ocamlopt"));
    let places = own.into_iter().chain(cache.map(|cache| cache.join(KEPT))).chain(on_path);
    places.filter(|place| place.is_file()).find(|place| {
        let version = Command::new(place).arg("-version").output();
        version.is_ok_and(|version| version.stdout.starts_with(b"5."))
    })
}

/// Compiles `fixtures/runtime_events/NAME.ml`. Prints a skip without a compiler.
pub fn program(scratch: &Scratch, name: &str) -> Option<PathBuf> {
    let Some(compiler) = compiler() else {
        println!("skipped: there is no OCaml 5 (`./dev setup` gets it)");
        return None;
    };
    let source = scratch.join(&format!("{name}.ml"));
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/runtime_events/{name}.ml"));
    std::fs::copy(fixture, &source).expect("the program's source");
    let built = scratch.join(name);
    let output = Command::new(compiler)
        .args(["-w", "-a", "-I", "+unix", "-I", "+threads", "-I", "+runtime_events"])
        .args(["unix.cmxa", "threads.cmxa", "runtime_events.cmxa"])
        .arg(&source)
        .arg("-o")
        .arg(&built)
        .output()
        .expect("the compiler starts");
    assert!(output.status.success(), "{}", super::stderr(&output));
    Some(built)
}
