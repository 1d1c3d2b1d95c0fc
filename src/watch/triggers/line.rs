//! A line on a FIFO or a unix socket: another program, or a person, knows that it has just happened, and why.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use holdup_events::Timestamp;
use holdup_events::recording::Fired;
use holdup_events::standing::Standing;

use super::{Trigger, happened};

pub const HELP: &str = "line:PATH         a process writes a line to this FIFO (created if missing), or to this unix socket (a name in .sock). The line is kept as the reason";

/// Longer ones are cut.
const LINE_MAX: usize = 4096;
const PEERS_MAX: usize = 64;
/// Maximum bytes read from each peer per step. The rest is read in the next steps, so that a peer that never
/// stops does not hold up the recorder.
const BYTES_MAX: usize = 64 << 10;
const LINES_MAX: usize = 64;

struct Line {
    path: PathBuf,
    listener: Option<UnixListener>,
    peers: Vec<Peer>,
    /// Whether holdup created the file and removes it.
    made: bool,
}

pub fn parse(rest: &str) -> Result<Box<dyn Trigger>, String> {
    if rest.is_empty() {
        return Err("a path is wanted: line:/run/app.trigger".to_owned());
    }
    Ok(Box::new(Line { path: rest.into(), listener: None, peers: Vec::new(), made: false }))
}

/// A writing client.
struct Peer {
    reader: BufReader<Box<dyn Read>>,
    /// The begin of an incomplete line.
    begun: Vec<u8>,
}

impl Line {
    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        for _ in 0..PEERS_MAX {
            let Ok((peer, _)) = listener.accept() else { return };
            if self.peers.len() < PEERS_MAX && peer.set_nonblocking(true).is_ok() {
                self.peers.push(Peer::new(peer));
            }
        }
    }
}

impl Peer {
    fn new(reader: impl Read + 'static) -> Peer {
        Peer { reader: BufReader::new(Box::new(reader)), begun: Vec::new() }
    }

    /// Reads available data within the limits. Adds complete lines to `lines`. Returns `false` if the peer
    /// has closed.
    fn read_lines(&mut self, lines: &mut Vec<String>) -> bool {
        let (mut bytes_left, mut lines_left) = (BYTES_MAX, LINES_MAX);
        while bytes_left > 0 && lines_left > 0 {
            let part = match self.reader.fill_buf() {
                Ok([]) => {
                    // A last line may have no end.
                    if !self.begun.is_empty() {
                        lines.push(line_of(&mut self.begun));
                    }
                    return false;
                }
                Ok(part) => part,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            };
            let of_line = part.iter().take(bytes_left).take_while(|byte| **byte != b'\n').count();
            let room = LINE_MAX.saturating_sub(self.begun.len());
            self.begun.extend(part.iter().take(of_line.min(room)));
            let ends = of_line < part.len().min(bytes_left);
            let taken = of_line + usize::from(ends);
            self.reader.consume(taken);
            bytes_left -= taken;
            if ends {
                lines_left -= 1;
                lines.push(line_of(&mut self.begun));
            }
        }
        true
    }
}

fn line_of(begun: &mut Vec<u8>) -> String {
    String::from_utf8_lossy(&std::mem::take(begun)).into_owned()
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
        self.peers.push(Peer::new(fifo));
        Ok(())
    }

    fn step(&mut self, now: Timestamp, _: &Standing, fire: &mut dyn FnMut(Fired)) {
        self.accept();
        let mut lines = Vec::new();
        self.peers.retain_mut(|peer| peer.read_lines(&mut lines));
        for line in lines.into_iter().filter(|line| !line.trim().is_empty()) {
            fire(happened(now, format!("line written: {}", line.trim())));
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
    use std::cell::Cell;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;

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
        assert_eq!(fired(trigger.as_mut()), ["line written: slow request 17"]);
        writer.write_all(b" one\n").unwrap();
        assert_eq!(fired(trigger.as_mut()), ["line written: second one"]);
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
        assert_eq!(fired(trigger.as_mut()), ["line written: one", "line written: two"]);
    }

    #[test]
    fn many_lines_are_read_in_parts() {
        let text: String = (0..150).map(|number| format!("{number}\n")).collect();
        let peers = vec![Peer::new(std::io::Cursor::new(text))];
        let mut trigger = Line { path: PathBuf::new(), listener: None, peers, made: false };
        let looks: Vec<usize> = (0..4).map(|_| fired(&mut trigger).len()).collect();
        assert_eq!(looks, [LINES_MAX, LINES_MAX, 150 - 2 * LINES_MAX, 0]);
        assert!(trigger.peers.is_empty(), "the other end is gone");
    }

    /// Gives one letter without end, and counts.
    struct Endless(Rc<Cell<usize>>);

    impl Read for Endless {
        fn read(&mut self, part: &mut [u8]) -> std::io::Result<usize> {
            assert!(self.0.get() < 100 * BYTES_MAX, "it is read without end");
            part.fill(b'x');
            self.0.set(self.0.get() + part.len());
            Ok(part.len())
        }
    }

    #[test]
    fn a_line_without_end_is_read_a_part_at_a_time() {
        let given = Rc::new(Cell::new(0));
        let peers = vec![Peer::new(Endless(given.clone()))];
        let mut trigger = Line { path: PathBuf::new(), listener: None, peers, made: false };
        for looks in 1..=3 {
            assert!(fired(&mut trigger).is_empty());
            assert_eq!(given.get(), looks * BYTES_MAX);
        }
        assert_eq!(trigger.peers[0].begun.len(), LINE_MAX);
    }

    #[test]
    fn peers_that_come_at_once_are_heard_one_after_the_other() {
        let path = std::env::temp_dir().join(format!("holdup-line-many-{}.sock", std::process::id()));
        let mut trigger = parse(path.to_str().unwrap()).unwrap();
        trigger.arm().unwrap();
        for _ in 0..PEERS_MAX + 6 {
            UnixStream::connect(&path).unwrap().write_all(b"now\n").unwrap();
        }
        assert_eq!(fired(trigger.as_mut()).len(), PEERS_MAX);
        assert_eq!(fired(trigger.as_mut()).len(), 6, "who came later was not sent away");
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
