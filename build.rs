//! Puts the viewer's page, as Vite built it, into the binary. Without the page, `holdup view` reports that it is
//! missing. Builds the libraries that `holdup sweep` and `run --allocs` load into programs.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=viewer/dist");
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let dist = manifest.join("viewer/dist");
    // Cargo treats a missing folder as a changed one, and would build again each time.
    let _ = std::fs::create_dir_all(&dist);
    let mut files = Vec::new();
    collect(&dist, &mut files);
    files.sort();
    let mut list = String::from("&[\n");
    for file in files.iter().filter(|_| dist.join("index.html").is_file()) {
        let name = file.strip_prefix(&dist).unwrap_or(file).to_string_lossy().into_owned();
        // A copy, because a path of this machine in the list would make builds irreproducible.
        let copy = out.join("viewer").join(&name);
        std::fs::create_dir_all(copy.parent().unwrap_or(&out)).expect("OUT_DIR can be written");
        std::fs::copy(file, &copy).expect("OUT_DIR can be written");
        writeln!(list, "    ({name:?}, include_bytes!({:?})),", format!("viewer/{name}")).expect("a string");
    }
    list.push_str("]\n");
    std::fs::write(out.join("viewer_assets.rs"), list).expect("OUT_DIR can be written");
    println!("cargo::rerun-if-changed=preload");
    // Line tables are most of the binary, and only needed when holdup itself is profiled.
    println!("cargo::rustc-link-arg-bins=-Wl,--compress-debug-sections=zlib");
    // Recordings contain the build id.
    println!("cargo::rustc-link-arg-bins=-Wl,--build-id=sha1");
    build_library(&manifest.join("preload/preload.c"), &out.join("libholdup_preload.so"));
    build_library(&manifest.join("preload/allocs.c"), &out.join("libholdup_allocs.so"));
}

/// Builds a library that is loaded into programs. It is empty if it cannot be built, which its user reports.
fn build_library(source: &Path, library: &Path) {
    let compiler = cc::Build::new().opt_level(2).warnings(true).cargo_metadata(false).try_get_compiler();
    let object = library.with_extension("o");
    let built = compiler.is_ok_and(|compiler| {
        // No builtins, because a replacement of malloc must not call it.
        let compile = [
            "-fPIC",
            "-fno-builtin",
            "-fno-stack-protector",
            "-U_FORTIFY_SOURCE",
            "-fno-sanitize=all",
            "-c",
            "-o",
        ];
        // No libc of its own: the library uses that of the program, glibc or musl. Symbols are bound when it is loaded.
        let link = ["-shared", "-nostdlib", "-Wl,-z,now", "-Wl,--build-id", "-o"];
        let run = |flags: &[&str], files: [&Path; 2]| {
            compiler.to_command().args(flags).args(files).status().is_ok_and(|status| status.success())
        };
        run(&compile, [&object, source]) && run(&link, [library, &object])
    });
    if !built {
        println!("cargo::warning={} cannot be compiled: commands that need it will fail", source.display());
        std::fs::write(library, []).expect("OUT_DIR can be written");
    }
}

/// Collects the files of the page, without hidden files and source maps.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name.ends_with(".map") {
            continue;
        }
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
