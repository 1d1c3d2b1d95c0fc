//! Files that a command writes at its end: checked before the runs, and the result is printed even if a file
//! fails.

mod support;

use std::process::Output;

use support::{Scratch, holdup, stderr, stdout};

fn run(scratch: &Scratch, words: &[&str]) -> Output {
    holdup(scratch).args(words).output().expect("holdup starts")
}

#[test]
fn an_unwritable_file_is_reported_before_the_program_runs() {
    let scratch = Scratch::new("written");
    let ran = scratch.join("ran");
    let ran = ran.to_str().unwrap();
    let quick = ["-n", "2", "--warm-up", "0", "--record", "none"];
    let touch = format!("touch {ran}");
    let command = ["--", "touch", ran];
    let bad = "/nowhere/x";
    let cases: Vec<Vec<&str>> = vec![
        [&["run", "--report", bad][..], &command].concat(),
        [&["watch", "-t", "output:x", "--report", bad][..], &command].concat(),
        [&["diff", "--a", &touch, "--b", &touch, "--html", bad][..], &quick].concat(),
        [&["scale", "--workers", "1,2", "--env", "N", "--svg", bad][..], &quick, &command].concat(),
        [&["scale", "--workers", "1,2", "--env", "N", "--png", bad][..], &quick, &command].concat(),
        [&["sweep", "--set", "N=1,2", "--table", bad][..], &quick, &command].concat(),
    ];
    for words in cases {
        let output = run(&scratch, &words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("cannot write /nowhere/x"), "{}", stderr(&output));
        assert!(!std::path::Path::new(ran).exists(), "{words:?}: it ran all the same");
    }
    // No incomplete file is left, and the old one stays until the result exists.
    let page = scratch.join("page.html");
    let page = page.to_str().unwrap();
    let words = ["sweep", "--set", "cpus=0", "--html", page, "--", "true"];
    assert_eq!(run(&scratch, &words).status.code(), Some(2), "one value is no sweep");
    assert!(!std::path::Path::new(page).exists());
}

#[test]
fn a_late_write_failure_reports_the_result_and_the_recording() {
    let scratch = Scratch::new("written-late");
    let folder = scratch.join("f");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("report");
    let removes = format!("rm -r {}", folder.display());
    let (file, recording) = (file.to_str().unwrap(), scratch.join("a b.holdup"));
    let name = recording.to_str().unwrap();
    let output = run(
        &scratch,
        &["run", "--report", file, "-o", name, "--", "sh", "-c", &format!("{removes}; exit 3")],
    );
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains(&format!("the recording is {name}")) && said.contains("writing"), "{said}");
    std::fs::create_dir(&folder).unwrap();
    let quick = ["-n", "2", "--warm-up", "0", "--record", "none", "--ignore-failure"];
    let output =
        run(&scratch, &[&["diff", "--a", &removes, "--b", "true", "--html", file][..], &quick].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stdout(&output).contains("Saved in"), "{}", stdout(&output));
    assert!(stderr(&output).contains("writing"), "{}", stderr(&output));
}

#[test]
fn a_recording_of_any_name_can_be_reported_and_is_quoted() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new("odd-names");
    let odd = scratch.0.join(std::ffi::OsStr::from_bytes(b"\xff.holdup"));
    let made = holdup(&scratch).args(["--quiet", "-o"]).arg(&odd).args(["--", "true"]).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let shown = holdup(&scratch).arg("report").arg(&odd).arg("threads").output().unwrap();
    assert!(shown.status.success() && stdout(&shown).contains("THREADS"), "{}", stderr(&shown));
    let spaced = scratch.join("a b.holdup");
    let made = holdup(&scratch).arg("-o").arg(&spaced).args(["--", "true"]).output().unwrap();
    let more = format!("More: holdup report '{}' ledger", spaced.display());
    assert!(stderr(&made).contains(&more), "{}", stderr(&made));
}
