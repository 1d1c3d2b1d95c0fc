//! In a terminal the program behaves as without holdup: terminal mode, Ctrl-C, Ctrl-Z and fg.

mod support;

use std::process::Command;

use support::pty::Terminal;
use support::{Scratch, backends};

/// `holdup --backend BACKEND ... -- sh -c SCRIPT`, or `sh -c SCRIPT` alone.
fn command(scratch: &Scratch, backend: Option<&str>, script: &str) -> Command {
    let mut command = match backend {
        None => Command::new("sh"),
        Some(backend) => {
            let mut command = support::holdup(scratch);
            command.args(["--quiet", "--backend", backend, "--", "sh"]);
            command
        }
    };
    command.args(["-c", script]);
    command
}

#[test]
fn the_terminal_is_the_programs() {
    let scratch = Scratch::new("terminal");
    let script = "for n in 0 1 2; do test -t $n && echo $n is a terminal; done; stty -a </dev/tty; \
                  test $(ps -o pgid= -p $$) = $(ps -o tpgid= -p $$) && echo in the foreground";
    let (_, alone) = Terminal::start(command(&scratch, None, script)).end();
    assert!(alone.contains("2 is a terminal") && alone.contains("in the foreground"), "{alone}");
    for backend in backends(&scratch) {
        let (status, screen) = Terminal::start(command(&scratch, Some(backend), script)).end();
        assert!(status.success(), "{backend}: {status}");
        assert_eq!(screen, alone, "{backend}");
    }
}

#[test]
fn control_c_goes_to_the_program() {
    let scratch = Scratch::new("control-c");
    let caught = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.02; done";
    // Without `exec` a shell may swallow a SIGINT that comes while it forks (seen with dash, on a busy machine, alone).
    let plain = "echo ready; exec sleep 1000";
    for script in [caught, plain] {
        let run = |backend| {
            let mut terminal = Terminal::start(command(&scratch, backend, script));
            terminal.wait_for("ready", 1);
            terminal.type_in("\x03");
            terminal.end()
        };
        let alone = run(None);
        for backend in backends(&scratch) {
            assert_eq!(run(Some(backend)), alone, "{backend}");
        }
    }
}

#[test]
fn control_z_and_fg_stop_and_continue_it() {
    let scratch = Scratch::new("control-z");
    for backend in backends(&scratch) {
        let mut shell = Command::new("sh");
        shell.args(["-i", "-m"]).env("PS1", "").env("ENV", "").env("XDG_STATE_HOME", scratch.join("state"));
        let go = scratch.join(&format!("go-{backend}"));
        let mut terminal = Terminal::start(shell);
        let script =
            format!("echo began; while [ ! -e {} ]; do sleep 0.02; done; echo the end; exit 7", go.display());
        terminal.type_in(&format!(
            "{} --quiet --backend {backend} -- sh -c '{script}'; echo the status: $?\n",
            env!("CARGO_BIN_EXE_holdup")
        ));
        // The terminal echoes the input, too.
        terminal.wait_for("began", 2);
        terminal.type_in("\x1a");
        terminal.wait_for("Stopped", 1);
        std::fs::write(&go, "").expect("go");
        terminal.type_in("fg; echo the status: $?\n");
        terminal.wait_for("the status: 7", 1);
        terminal.type_in("exit\n");
        let (_, screen) = terminal.end();
        assert!(screen.matches("the end").count() >= 2, "{backend}: {screen}");
    }
}
