//! A thread that keeps the right to open perf events after the recorder has given up its rights.
//!
//! Perf events at functions of programs need CAP_SYS_ADMIN on every kernel, and with `kernel.perf_event_paranoid` at 3 (Debian's and
//! Ubuntu's default) all perf events need it. The thread answers requests of this process alone and reads no foreign bytes: it does
//! nothing but `perf_event_open`.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use crate::perf_ring::{self, Attr};
use crate::privileges;

/// A perf event to be opened.
struct Request {
    attr: Attr,
    /// `config1` becomes its address.
    path: Option<CString>,
    pid: i32,
    cpu: i32,
    answer: SyncSender<io::Result<OwnedFd>>,
}

/// Opens perf events in the thread that may. The thread ends when this is dropped.
pub struct EventOpener(Sender<Request>);

impl EventOpener {
    /// Starts the thread with the calling thread's current privileges. `None` without CAP_SYS_ADMIN, or if no
    /// thread can be started. Call it before [`privileges::drop_unneeded`].
    pub fn start() -> Option<EventOpener> {
        if !privileges::may_open_any_event() {
            return None;
        }
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new().name("event opener".to_owned());
        thread.spawn(move || serve(&receiver)).ok().map(|_| EventOpener(sender))
    }

    /// Opens `attr` for task `pid` (0: the opening thread, -1: all) on `cpu` (-1: any).
    ///
    /// # Errors
    /// Those of `perf_event_open`, and `EPERM` if the thread has ended.
    pub fn open(&self, attr: &Attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
        self.ask((attr, None), pid, cpu)
    }

    /// The same for an event whose `config1` is the address of a path.
    ///
    /// # Errors
    /// As those of [`EventOpener::open`].
    pub fn open_at_path(&self, attr: &Attr, path: CString, pid: i32) -> io::Result<OwnedFd> {
        self.ask((attr, Some(path)), pid, -1)
    }

    fn ask(&self, (attr, path): (&Attr, Option<CString>), pid: i32, cpu: i32) -> io::Result<OwnedFd> {
        let (answer, answers) = sync_channel(1);
        let ended = || io::Error::from_raw_os_error(libc::EPERM);
        self.0.send(Request { attr: attr.clone(), path, pid, cpu, answer }).map_err(|_| ended())?;
        answers.recv().map_err(|_| ended())?
    }
}

fn serve(requests: &Receiver<Request>) {
    // The recorder waits for each answer while its rings fill.
    privileges::raise_priority();
    if privileges::keep_for_events().is_err() {
        return;
    }
    while let Ok(Request { mut attr, path, pid, cpu, answer }) = requests.recv() {
        if let Some(path) = &path {
            attr.config1 = path.as_ptr() as u64;
        }
        // An error means that the recorder no longer waits for the event.
        let _ = answer.send(perf_ring::open(&attr, pid, cpu));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_ring::{SW_CPU_CLOCK, TYPE_SOFTWARE};

    #[test]
    fn events_are_opened_after_the_rights_are_given_up() {
        std::thread::spawn(|| {
            let Some(opener) = EventOpener::start() else {
                return println!("skipped: no CAP_SYS_ADMIN");
            };
            privileges::drop_all().unwrap();
            let clock = Attr::new(TYPE_SOFTWARE, SW_CPU_CLOCK);
            opener.open(&clock, -1, 0).expect("an event of a whole CPU");
            let refused = opener.open(&Attr::new(u32::MAX, 0), -1, 0).expect_err("no such type");
            assert_eq!(refused.raw_os_error(), Some(libc::ENOENT));
        })
        .join()
        .unwrap();
    }
}
