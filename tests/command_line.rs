//! What the command line accepts, refuses and leaves behind.

mod support;

use support::*;

#[test]
fn the_report_has_how_the_command_ended() {
    let scratch = Scratch::new("command-line-ended");
    let cases = [
        ("exit 7", 7.into(), serde_json::Value::Null, "Exit status 7."),
        ("kill -9 $$", 137.into(), 9.into(), "Ended by signal 9 (SIGKILL)."),
    ];
    for (script, status, signal, sentence) in cases {
        let recording = scratch.join("t.holdup");
        let output =
            holdup(&scratch).args(["run", "-o"]).arg(&recording).args(["--", "sh", "-c", script]).output();
        let printed = stderr(&output.expect("holdup starts")).replace('\n', " ");
        assert!(printed.contains(sentence), "{printed}");
        let report = report_json(&scratch, &recording);
        assert_eq!((&report["exit_status"], &report["exit_signal"]), (&status, &signal));
    }
}
