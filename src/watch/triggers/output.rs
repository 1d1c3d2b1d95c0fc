//! Trigger on a matching line of the program's output. The output passes unchanged through a pipe to its
//! original destination.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use holdup_capture::{lower, privileges};
use holdup_events::Timestamp;
use holdup_events::recording::Fired;
use holdup_events::standing::Standing;
use regex_lite::Regex;

use super::{Trigger, happened};

pub const HELP: &str = "output:REGEX      a line that the program writes matches. Its output becomes a pipe instead of a terminal";

/// Longer lines are cut.
const LINE_MAX: usize = 16 << 10;
/// Maximum number of matches not reported yet.
const FOUND_MAX: usize = 64;

/// The expression, and the matches.
#[derive(Clone)]
pub struct Pattern {
    regex: Regex,
    found: Arc<Mutex<Vec<(Timestamp, String)>>>,
}

struct Output {
    pattern: Pattern,
    text: String,
}

pub fn parse(rest: &str) -> Result<Box<dyn Trigger>, String> {
    let regex = Regex::new(rest).map_err(|error| error.to_string())?;
    Ok(Box::new(Output { pattern: Pattern { regex, found: Arc::default() }, text: rest.to_owned() }))
}

impl Trigger for Output {
    fn step(&mut self, _: Timestamp, _: &Standing, fire: &mut dyn FnMut(Fired)) {
        let found = std::mem::take(&mut *self.pattern.found.lock().unwrap_or_else(PoisonError::into_inner));
        for (at, line) in found {
            fire(happened(at, format!("the program wrote: {line}")));
        }
    }

    fn output(&self) -> Option<Pattern> {
        (!self.text.is_empty()).then(|| self.pattern.clone())
    }
}

/// Lines as they come together.
struct Lines {
    patterns: Vec<Pattern>,
    line: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], at: Timestamp) {
        for byte in bytes {
            match byte {
                b'\n' => self.judge(at),
                byte if self.line.len() < LINE_MAX => self.line.push(*byte),
                _ => {}
            }
        }
    }

    fn judge(&mut self, at: Timestamp) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        for pattern in self.patterns.iter().filter(|pattern| pattern.regex.is_match(&line)) {
            let mut found = pattern.found.lock().unwrap_or_else(PoisonError::into_inner);
            if found.len() < FOUND_MAX {
                found.push((at, line.trim().to_owned()));
            }
        }
    }
}

/// The pipes of a program that was started by [`tapped`].
#[derive(Clone, Default)]
pub struct Pipes(Vec<Arc<Mutex<Pipe>>>);

/// Held while something that came out of it is on its way.
struct Pipe {
    /// Closed when forwarding ends. Writers must then get an error, because the pipe has no reader.
    from: Option<File>,
    to: File,
    lines: Lines,
}

impl Pipes {
    /// Starts forwarding the output. The threads are started only now, so that they have no more privileges
    /// than the recorder.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn begin(&self) -> Result<()> {
        for pipe in &self.0 {
            let watched = match &pipe.lock().unwrap_or_else(PoisonError::into_inner).from {
                Some(from) => from.try_clone()?,
                None => continue,
            };
            let pipe = pipe.clone();
            let thread = std::thread::Builder::new().name("output".to_owned());
            thread.spawn(move || pass_on(&watched, &pipe)).context("starting a thread")?;
        }
        Ok(())
    }

    /// Waits until the output so far is forwarded. Later writers find the pipe closed.
    pub fn finish(&self) {
        self.0.iter().for_each(|pipe| pipe.lock().unwrap_or_else(PoisonError::into_inner).finish());
    }
}

/// Starts a program by `start` with pipes for its output, which are forwarded and matched from
/// [`Pipes::begin`] on.
///
/// # Errors
/// If a pipe cannot be made, or the program cannot be started.
pub fn tapped<T>(patterns: &[Pattern], start: impl FnOnce() -> Result<T>) -> Result<(T, Pipes)> {
    if patterns.is_empty() {
        return Ok((start()?, Pipes::default()));
    }
    std::io::stdout().flush().context("writing")?;
    let mut pipes = Pipes::default();
    let taps =
        [tap(libc::STDOUT_FILENO, patterns, &mut pipes)?, tap(libc::STDERR_FILENO, patterns, &mut pipes)?];
    let started = start();
    drop(taps);
    Ok((started?, pipes))
}

/// Puts a standard descriptor back where it was.
struct Tap {
    descriptor: RawFd,
    before: OwnedFd,
}

impl Drop for Tap {
    fn drop(&mut self) {
        // SAFETY: two descriptors that are open.
        unsafe { libc::dup2(self.before.as_raw_fd(), self.descriptor) };
    }
}

/// Replaces a standard descriptor by a pipe, whose output is forwarded to the original destination.
fn tap(descriptor: RawFd, patterns: &[Pattern], pipes: &mut Pipes) -> Result<Tap> {
    let failed = std::io::Error::last_os_error;
    let mut ends = [0; 2];
    // SAFETY: the kernel fills two numbers. The descriptors that it returns are ours.
    let (from, writer, before) = unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(failed()).context("making a pipe");
        }
        let (from, writer) = (File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]));
        let before = libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3);
        if before < 0 {
            return Err(failed()).context("copying a descriptor");
        }
        (from, writer, OwnedFd::from_raw_fd(before))
    };
    let lines = Lines { patterns: patterns.to_vec(), line: Vec::new() };
    pipes.0.push(Arc::new(Mutex::new(Pipe { from: Some(from), to: before.try_clone()?.into(), lines })));
    // SAFETY: two descriptors that are open.
    if unsafe { libc::dup2(writer.as_raw_fd(), descriptor) } < 0 {
        return Err(failed()).context("copying a descriptor");
    }
    Ok(Tap { descriptor, before })
}

/// Forwards until the last writer or the reader has closed. In the second case, the program's next write
/// fails.
fn pass_on(watched: &File, pipe: &Mutex<Pipe>) {
    privileges::restore_priority();
    loop {
        if is_ready(watched, libc::POLLIN, -1) {
            let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
            // At the end, the recorder may have read the rest already.
            if is_ready(watched, libc::POLLIN, 0) && pipe.pass_on().is_none() {
                return;
            }
        }
    }
}

/// Waits up to `timeout_ms` (-1: forever) until the file can be read or written, or its other end is closed.
fn is_ready(file: &File, what: libc::c_short, timeout_ms: i32) -> bool {
    let mut one = libc::pollfd { fd: file.as_raw_fd(), events: what, revents: 0 };
    // SAFETY: the descriptor is open, and the kernel writes one number.
    unsafe { libc::poll(&raw mut one, 1, timeout_ms) > 0 }
}

impl Pipe {
    /// Forwards the available data and returns its length in bytes. `None` if the writers or the reader have
    /// closed.
    fn pass_on(&mut self) -> Option<usize> {
        let mut part = [0; 16 << 10];
        match self.from.as_mut()?.read(&mut part) {
            Ok(count) if count > 0 => {
                let bytes = part.get(..count).unwrap_or_default();
                self.lines.take(bytes, lower::now());
                match self.write(bytes) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                    // A full disk may have room later. Without holdup, the program would continue, too.
                    _ => return Some(count),
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Some(0),
            Ok(_) | Err(_) => {}
        }
        self.from = None;
        None
    }

    /// All of it, even if others have made the descriptor one that does not wait.
    fn write(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            match self.to.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    is_ready(&self.to, libc::POLLOUT, -1);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Forwards the data available now, and no later data: an orphan may never stop writing.
    fn finish(&mut self) {
        let mut left = self.waiting();
        while left > 0 {
            let Some(count) = self.pass_on() else { return };
            left = left.saturating_sub(count);
        }
    }

    /// Bytes that can be read.
    fn waiting(&self) -> usize {
        let Some(from) = &self.from else { return 0 };
        let mut bytes: libc::c_int = 0;
        // SAFETY: the descriptor is open, and the kernel writes one number.
        let asked = unsafe { libc::ioctl(from.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
        if asked == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_from_parts() {
        let mut trigger = parse("took [0-9]{3,} ms").unwrap();
        let mut lines = Lines { patterns: trigger.output().into_iter().collect(), line: Vec::new() };
        for part in ["request took 1", "2 ms\nrequest took 12", "34 ms\n", "took 999 ms, unfinished"] {
            lines.take(part.as_bytes(), Timestamp(5));
        }
        let mut all = Vec::new();
        trigger.step(Timestamp(9), &Standing::default(), &mut |fired| all.push((fired.at_ns, fired.what)));
        assert_eq!(all, [(5, "the program wrote: request took 1234 ms".to_owned())]);
        assert!(parse("took [").is_err());
    }

    /// A pipe to which nothing was written yet, and what writes to it.
    fn piped(to: File) -> (File, Pipe) {
        let (from, writer) = std::io::pipe().unwrap();
        let lines = Lines { patterns: Vec::new(), line: Vec::new() };
        let file = |end: OwnedFd| File::from(end);
        (file(writer.into()), Pipe { from: Some(file(from.into())), to, lines })
    }

    #[test]
    fn a_writer_without_a_reader_gets_sigpipe() {
        let (reader, to) = std::io::pipe().unwrap();
        drop(reader);
        let (mut writer, pipe) = piped(OwnedFd::from(to).into());
        writer.write_all(b"one\n").unwrap();
        let watched = pipe.from.as_ref().unwrap().try_clone().unwrap();
        let pipe = Mutex::new(pipe);
        pass_on(&watched, &pipe);
        drop(watched);
        assert!(pipe.lock().unwrap().from.is_none());
        // Other tests start programs, which briefly inherit every descriptor. A pipe with a reader becomes
        // full in the end. SAFETY: the descriptor is open.
        unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let refused = loop {
            if let Err(error) = writer.write_all(b"x") {
                break error.kind();
            }
        };
        assert_eq!(refused, ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_full_disk_does_not_end_the_program() {
        let Ok(full) = File::options().write(true).open("/dev/full") else {
            return println!("skipped: no /dev/full");
        };
        let (mut writer, mut pipe) = piped(full);
        for _ in 0..2 {
            writer.write_all(b"one\n").unwrap();
            assert_eq!(pipe.pass_on(), Some(4));
        }
        drop(writer);
        assert_eq!(pipe.pass_on(), None);
        assert!(pipe.from.is_none(), "nobody writes any more");
    }

    #[test]
    fn the_end_does_not_wait_for_endless_output() {
        let (mut writer, mut pipe) = piped(File::open("/dev/null").unwrap());
        // The output goes back into the pipe, so the pipe is never empty.
        pipe.to = writer.try_clone().unwrap();
        writer.write_all(&[b'x'; 40_000]).unwrap();
        pipe.finish();
        assert_eq!(pipe.waiting(), 40_000);
    }

    #[test]
    fn what_was_written_before_the_end_arrives() {
        let (reader, to) = std::io::pipe().unwrap();
        let (mut writer, pipe) = piped(OwnedFd::from(to).into());
        writer.write_all(b"the last words\n").unwrap();
        let pipes = Pipes(vec![Arc::new(Mutex::new(pipe))]);
        pipes.finish();
        drop(pipes);
        assert_eq!(std::io::read_to_string(reader).unwrap(), "the last words\n");
    }
}
