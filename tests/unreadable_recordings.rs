//! Recordings of another user: they exist, and users who may not read them get a message.

mod support;

use support::{Scratch, as_unprivileged_user, holdup, stderr, unprivileged_place};

#[test]
fn a_recording_of_root_is_unreadable_and_not_missing() {
    let scratch = Scratch::new("of-root");
    let Some(program) = unprivileged_place(&scratch) else { return };
    let recording = scratch.join("r.holdup");
    let made = holdup(&scratch).args(["-q", "-o"]).arg(&recording).args(["--", "true"]).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    for command in ["report", "view", "whatif"] {
        let output = as_unprivileged_user(&program, &scratch).arg(command).arg(&recording).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{command}: {said}");
        assert!(said.contains("may not read it") && said.contains("sudo chown"), "{command}: {said}");
    }
    let output =
        as_unprivileged_user(&program, &scratch).args(["report", "/nowhere.holdup"]).output().unwrap();
    assert!(stderr(&output).contains("no recording is there"), "{}", stderr(&output));
}
