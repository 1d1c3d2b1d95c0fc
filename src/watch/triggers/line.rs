//! A line on a FIFO or a unix socket: another program, or a person, knows that it has just happened, and why.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use holdup_events::Timestamp;
use holdup_events::recording::Fired;
use holdup_events::standing::Standing;

use super::{Trigger, happened};

pub const HELP: &str = "line:PATH         somebody writes a line to this FIFO (made if nothing is there), or to this unix socket, \
                        if the name ends in .sock; the line is kept as the reason";

/// Longer ones are cut.
const LINE_MAX: usize = 4096;
const PEERS_MAX: usize = 64;

struct Line {
    path: PathBuf,
    listener: Option<UnixListener>,
    /// What is read, and what has come of a line.
    peers: Vec<(Box<dyn Read>, Vec<u8>)>,
    /// It is ours to take away.
    made: bool,
}

pub fn parse(rest: &str) -> Result<Box<dyn Trigger>, String> {
    if rest.is_empty() {
        return Err("a path is wanted: line:/run/app.trigger".to_owned());
    }
    Ok(Box::new(Line { path: rest.into(), listener: None, peers: Vec::new(), made: false }))
}

impl Line {
    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        while let Ok((peer, _)) = listener.accept() {
            if self.peers.len() < PEERS_MAX && peer.set_nonblocking(true).is_ok() {
                self.peers.push((Box::new(peer) as Box<UnixStream>, Vec::new()));
            }
        }
    }
}

/// A FIFO that is never at its end: we are a writer, too.
fn open_fifo(path: &Path) -> Result<(File, bool)> {
    let made = match std::fs::metadata(path) {
        Ok(found) if found.file_type().is_fifo() => false,
        Ok(_) => bail!("{} is there, and is no FIFO", path.display()),
        Err(_) => {
            let name = std::ffi::CString::new(path.as_os_str().as_bytes())?;
            // SAFETY: a path that ends in a zero byte.
            if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } != 0 {
                let error = std::io::Error::last_os_error();
                return Err(error).with_context(|| format!("making the FIFO {}", path.display()));
            }
            true
        }
    };
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
    Ok((file.with_context(|| format!("opening {}", path.display()))?, made))
}

/// Reads what is there; gives the lines that ended. `false`: the other end is gone.
fn read_lines(reader: &mut dyn Read, rest: &mut Vec<u8>, lines: &mut Vec<String>) -> bool {
    let mut part = [0; 1024];
    loop {
        match reader.read(&mut part) {
            Ok(0) => {
                // A last line may have no end.
                if !rest.is_empty() {
                    lines.push(String::from_utf8_lossy(&std::mem::take(rest)).into_owned());
                }
                return false;
            }
            Ok(count) => {
                for byte in part.iter().take(count) {
                    match byte {
                        b'\n' => lines.push(String::from_utf8_lossy(&std::mem::take(rest)).into_owned()),
                        byte if rest.len() < LINE_MAX => rest.push(*byte),
                        _ => {}
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

impl Trigger for Line {
    fn arm(&mut self) -> Result<()> {
        if self.path.extension().is_some_and(|extension| extension == "sock") {
            let listener = UnixListener::bind(&self.path)
                .with_context(|| format!("listening on {}", self.path.display()))?;
            listener.set_nonblocking(true)?;
            (self.listener, self.made) = (Some(listener), true);
            return Ok(());
        }
        let (fifo, made) = open_fifo(&self.path)?;
        self.made = made;
        self.peers.push((Box::new(fifo), Vec::new()));
        Ok(())
    }

    fn step(&mut self, now: Timestamp, _: &Standing, fire: &mut dyn FnMut(Fired)) {
        self.accept();
        let mut lines = Vec::new();
        self.peers.retain_mut(|(reader, rest)| read_lines(reader, rest, &mut lines));
        for line in lines.into_iter().filter(|line| !line.trim().is_empty()) {
            fire(happened(now, format!("somebody wrote: {}", line.trim())));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.made {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn fired(trigger: &mut dyn Trigger) -> Vec<String> {
        let mut all = Vec::new();
        trigger.step(Timestamp(1), &Standing::default(), &mut |fired| all.push(fired.what));
        all
    }

    #[test]
    fn every_line_fires_and_half_a_line_waits() {
        let path = std::env::temp_dir().join(format!("holdup-line-{}", std::process::id()));
        let mut trigger = parse(path.to_str().unwrap()).unwrap();
        trigger.arm().unwrap();
        let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
        writer.write_all(b"slow request 17\n\nsecond").unwrap();
        assert_eq!(fired(trigger.as_mut()), ["somebody wrote: slow request 17"]);
        writer.write_all(b" one\n").unwrap();
        assert_eq!(fired(trigger.as_mut()), ["somebody wrote: second one"]);
        drop(trigger);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_takes_several_peers() {
        let path = std::env::temp_dir().join(format!("holdup-line-{}.sock", std::process::id()));
        let mut trigger = parse(path.to_str().unwrap()).unwrap();
        trigger.arm().unwrap();
        for text in ["one\n", "two"] {
            UnixStream::connect(&path).unwrap().write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(fired(trigger.as_mut()), ["somebody wrote: one", "somebody wrote: two"]);
    }

    #[test]
    fn what_is_in_the_way_is_left_alone() {
        let path = std::env::temp_dir().join(format!("holdup-line-file-{}", std::process::id()));
        std::fs::write(&path, "mine").unwrap();
        let mut trigger = parse(path.to_str().unwrap()).unwrap();
        assert!(trigger.arm().unwrap_err().to_string().contains("is no FIFO"));
        drop(trigger);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        std::fs::remove_file(&path).unwrap();
    }
}
