//! The user's terminal: taken for a screen and always restored. Output of others to it is held back until
//! then.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write, stdout};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};

/// Whether the terminal is taken.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal, until it is dropped.
pub struct Terminal(pub ratatui::Terminal<CrosstermBackend<io::Stdout>>);

impl Terminal {
    /// Takes it.
    pub fn take() -> Result<Terminal> {
        give_back_on_panic();
        enable_raw_mode().context("the terminal")?;
        TAKEN.store(true, Ordering::Relaxed);
        let terminal = execute!(stdout(), EnterAlternateScreen, cursor::Hide)
            .and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(stdout())));
        terminal.map(Terminal).inspect_err(|_| give_back()).context("the terminal")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        // Errors of a closed terminal are ignored.
        let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// A panic in any thread is printed after the terminal is restored.
fn give_back_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
    });
}

/// A standard descriptor that leads elsewhere until this is dropped.
struct Led {
    descriptor: RawFd,
    before: OwnedFd,
}

impl Led {
    fn to(file: &File, descriptor: RawFd) -> Result<Led> {
        // SAFETY: descriptors that are open, and one that the kernel gave us.
        unsafe {
            let before = libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3);
            if before < 0 || libc::dup2(file.as_raw_fd(), descriptor) < 0 {
                return Err(io::Error::last_os_error()).context("copying a descriptor");
            }
            Ok(Led { descriptor, before: OwnedFd::from_raw_fd(before) })
        }
    }
}

impl Drop for Led {
    fn drop(&mut self) {
        // SAFETY: two descriptors that are open.
        unsafe { libc::dup2(self.before.as_raw_fd(), self.descriptor) };
    }
}

/// Runs `start` with an empty standard input, so that the started process does not read keys meant for the
/// screen.
pub fn without_input<T>(start: impl FnOnce() -> Result<T>) -> Result<T> {
    let led = match io::stdin().is_terminal() {
        true => Some(Led::to(&File::open("/dev/null").context("/dev/null")?, libc::STDIN_FILENO)?),
        false => None,
    };
    let started = start();
    drop(led);
    started
}

/// A standard descriptor that leads to a file without a name while the terminal is a screen's.
pub struct HeldBack {
    led: Option<Led>,
    file: File,
    shown: u64,
}

impl HeldBack {
    /// Holds back all later output to `descriptor`. `None` unless it leads to a terminal.
    pub fn begin(descriptor: RawFd) -> Result<Option<HeldBack>> {
        // SAFETY: asks the kernel about a number.
        if unsafe { libc::isatty(descriptor) } == 0 {
            return Ok(None);
        }
        let file = nameless()?;
        Ok(Some(HeldBack { led: Some(Led::to(&file, descriptor)?), file, shown: 0 }))
    }

    /// Returns the output since the last call.
    pub fn fresh(&mut self) -> String {
        // Its writer shares no place in the file with this one: it appends.
        let mut bytes = Vec::new();
        let read = self.reader().and_then(|mut file| {
            file.seek(SeekFrom::Start(self.shown))?;
            file.read_to_end(&mut bytes)
        });
        self.shown += read.unwrap_or(0) as u64;
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Restores the descriptor. Processes started before continue to write to the file.
    pub fn end(&mut self) {
        self.led = None;
    }

    /// Writes all that was held back to the terminal.
    pub fn show(&mut self, to: &mut dyn Write) {
        self.end();
        if let Ok(mut file) = self.reader() {
            // Errors of a closed terminal are ignored.
            let _ = file.rewind().and_then(|()| io::copy(&mut file, to));
        }
    }

    /// The same file, with a place of its own in it.
    fn reader(&self) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

/// Creates a file without a name, which is freed with its last descriptor. Writes append.
fn nameless() -> Result<File> {
    let directory = std::env::temp_dir();
    let path = std::ffi::CString::new(directory.to_string_lossy().as_bytes()).context("TMPDIR")?;
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_APPEND | libc::O_CLOEXEC;
    // SAFETY: the path ends with 0, and the descriptor comes from the kernel.
    let file = unsafe {
        let descriptor = libc::open(path.as_ptr(), flags, 0o600);
        if descriptor < 0 {
            return Err(io::Error::last_os_error())
                .with_context(|| format!("making a file in {}", directory.display()));
        }
        File::from_raw_fd(descriptor)
    };
    Ok(file)
}

/// Whether the terminal has been closed. Reads from it would return end-of-file forever.
pub fn is_closed() -> bool {
    let mut input = libc::pollfd { fd: libc::STDIN_FILENO, events: 0, revents: 0 };
    // SAFETY: one structure, which lives until the call is over.
    let answered = unsafe { libc::poll(&raw mut input, 1, 0) };
    answered > 0 && input.revents & (libc::POLLHUP | libc::POLLERR) != 0
}

/// Standard input and output are a terminal's.
pub fn is_there() -> bool {
    stdout().is_terminal() && io::stdin().is_terminal()
}
