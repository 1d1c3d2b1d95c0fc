//! A line of the program's output that matches. What the program writes goes through a pipe to where it would have gone,
//! unchanged.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use holdup_capture::{lower, privileges};
use holdup_events::Timestamp;
use holdup_events::recording::Fired;
use holdup_events::standing::Standing;
use regex_lite::Regex;

use super::{Trigger, happened};

pub const HELP: &str =
    "output:REGEX      a line that the program writes matches; its output is a pipe then, and no terminal";

/// Of a longer line only the beginning is looked at.
const LINE_MAX: usize = 16 << 10;
/// Lines that wait to be told of.
const FOUND_MAX: usize = 64;

/// What is looked for, and what was found.
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
    from: File,
    to: File,
    lines: Lines,
}

impl Pipes {
    /// Waits until all that was written so far is where it should be. Who writes later has nobody who reads.
    pub fn finish(&self) {
        for pipe in &self.0 {
            let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
            while is_readable(&pipe.from, 0) && pipe.pass_on() {}
        }
    }
}

/// Starts a program by `start` so that what it writes is looked at on its way.
///
/// # Errors
/// If there are no pipes to be had, or it cannot be started.
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

/// Puts a pipe where a standard descriptor was; what comes out goes to where that went.
fn tap(descriptor: RawFd, patterns: &[Pattern], pipes: &mut Pipes) -> Result<Tap> {
    let failed = std::io::Error::last_os_error;
    let mut ends = [0; 2];
    // SAFETY: the kernel fills two numbers; descriptors that it gave are ours.
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
    let watched = from.try_clone()?;
    let lines = Lines { patterns: patterns.to_vec(), line: Vec::new() };
    let pipe = Arc::new(Mutex::new(Pipe { from, to: before.try_clone()?.into(), lines }));
    pipes.0.push(pipe.clone());
    let thread = std::thread::Builder::new().name("output".to_owned());
    thread.spawn(move || pass_on(&watched, &pipe)).context("starting a thread")?;
    // SAFETY: two descriptors that are open.
    if unsafe { libc::dup2(writer.as_raw_fd(), descriptor) } < 0 {
        return Err(failed()).context("copying a descriptor");
    }
    Ok(Tap { descriptor, before })
}

/// Until nobody writes any more, or there is nobody to write to: the program hears of that by its next write.
fn pass_on(watched: &File, pipe: &Mutex<Pipe>) {
    privileges::run_like_others();
    loop {
        if is_readable(watched, -1) {
            let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
            // The recorder may have read it meanwhile, at the end.
            if is_readable(watched, 0) && !pipe.pass_on() {
                return;
            }
        }
    }
}

/// Whether something can be read, or the end is there, within so many milliseconds; -1: ever.
fn is_readable(file: &File, timeout_ms: i32) -> bool {
    let mut one = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor that is open; the kernel writes one number.
    unsafe { libc::poll(&raw mut one, 1, timeout_ms) > 0 }
}

impl Pipe {
    /// Passes on what is there; `false` at the end.
    fn pass_on(&mut self) -> bool {
        let mut part = [0; 16 << 10];
        match self.from.read(&mut part) {
            Ok(0) => false,
            Ok(count) => {
                let bytes = part.get(..count).unwrap_or_default();
                self.lines.take(bytes, lower::now());
                self.to.write_all(bytes).is_ok()
            }
            Err(error) => error.kind() == std::io::ErrorKind::Interrupted,
        }
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
}
