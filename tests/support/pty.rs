//! A terminal of the test's own, with a program in it as its session's leader.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Long enough for any machine, and only reached if the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The terminal, as its user sees it.
pub struct Terminal {
    keyboard: File,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    child: Child,
}

impl Terminal {
    /// Starts `command` with this terminal as standard input, output, error and controlling terminal.
    pub fn start(mut command: Command) -> Terminal {
        let (master, slave) = open();
        super::heed_interrupts(&mut command);
        command.stdin(slave.try_clone().expect("dup"));
        command.stdout(slave.try_clone().expect("dup")).stderr(slave);
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("starts in the terminal");
        drop(command); // It holds the slave: the terminal would never end.
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, sink) = (master.try_clone().expect("dup"), Arc::clone(&seen));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                sink.lock().expect("unpoisoned").extend_from_slice(&bytes[..count]);
            }
        });
        Terminal { keyboard: master, seen, reader, child }
    }

    /// Sets the number of columns and rows.
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the kernel reads one struct of plain numbers.
        assert_eq!(unsafe { libc::ioctl(self.keyboard.as_raw_fd(), libc::TIOCSWINSZ, &size) }, 0);
    }

    /// Sends a signal to the started process.
    pub fn signal(&self, signal: i32) {
        // SAFETY: a signal to a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as libc::pid_t, signal) }, 0);
    }

    /// Types.
    pub fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("a terminal");
    }

    /// Everything shown so far.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().expect("unpoisoned")).into_owned()
    }

    /// Waits until `text` has been shown `times` times.
    pub fn wait_for(&self, text: &str, times: usize) {
        let begun = Instant::now();
        while self.screen().matches(text).count() < times {
            assert!(begun.elapsed() < PATIENCE, "never shown: {text}\non the screen: {}", self.screen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end of the started process.
    pub fn end(mut self) -> (ExitStatus, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                let _ = self.child.kill();
                panic!("does not end\non the screen: {}", self.screen());
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        // Its last output may be pending. The terminal ends once no process has it open.
        while !self.reader.is_finished() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        (status, self.screen())
    }
}

fn open() -> (File, OwnedFd) {
    let (mut master, mut slave) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: the kernel writes two descriptors, which are ours. No name and no settings are requested.
    unsafe {
        let opened = libc::openpty(&mut master, &mut slave, none, std::ptr::null(), std::ptr::null());
        assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
        let master = File::from_raw_fd(master);
        libc::fcntl(master.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
        (master, OwnedFd::from_raw_fd(slave))
    }
}
