//! The registry is complete, and matches the help text.

use super::*;

#[test]
fn every_file_is_registered_under_its_name() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/readers");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|file| file.ends_with(".rs") && file != "mod.rs" && file != "tests.rs")
        .map(|file| file.trim_end_matches(".rs").replace('_', "-"))
        .collect();
    let mut names: Vec<&str> = ALL.iter().map(|reader| reader.info().name).collect();
    files.sort();
    names.sort();
    assert_eq!(files, names);
    for info in ALL.iter().map(|reader| reader.info()) {
        assert!(info.summary.chars().count() <= 80 && !info.summary.ends_with('.'), "{}", info.summary);
    }
}
