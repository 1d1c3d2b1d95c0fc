//! Each built-in descriptor is read and checked here; `tests/descriptors.rs` asks them about recorded names.

use super::*;

#[test]
fn every_built_in_descriptor_is_read() {
    for (name, text) in BUILT_IN {
        match file::parse(text) {
            Ok(runtime) => assert_eq!(runtime.name, *name),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    assert_eq!(Descriptors::built_in().runtimes().len(), BUILT_IN.len());
}

#[test]
fn every_file_is_registered() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/descriptors/builtin");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|file| file.trim_end_matches(".toml").to_owned())
        .collect();
    let mut names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    files.sort();
    names.sort();
    assert_eq!(files, names);
}
