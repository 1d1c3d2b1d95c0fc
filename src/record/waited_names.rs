//! What the files and sockets are called that threads wait for (a lock, the disk, an answer): the kernel programs note it at a wait, it
//! is read about once a second.

use holdup_capture::bpf::Session;
use holdup_capture::lower;
use holdup_decode::calls::{CallDecoder, CallMap};
use holdup_events::{Event, Timestamp};

/// The kernel programs' maps (`bpf/file_names.h`, `bpf/socket_names.h`).
const FILES: &str = "waited_files";
const SOCKETS: &str = "waited_sockets";
/// Connections may come and go all the time: those first are named, and what others were waited for is told as not known.
const NAMES_MAX: usize = 16_384;
const EVERY_NS: u64 = 1_000_000_000;

/// Reads them.
#[derive(Default)]
pub struct WaitedNames {
    decoder: CallDecoder,
    next_ns: u64,
}

impl WaitedNames {
    /// Reads them if it is time to. `sink` gets what is new.
    pub fn step(&mut self, session: &Session, sink: &mut dyn FnMut(Event)) {
        let now_ns = lower::now().0;
        if now_ns >= self.next_ns {
            self.next_ns = now_ns + EVERY_NS;
            self.read(session, Timestamp(now_ns), sink);
        }
    }

    /// Reads them, whenever it was done last. What could not be read is told by its number, as ever.
    pub fn read(&mut self, session: &Session, now: Timestamp, sink: &mut dyn FnMut(Event)) {
        let decoder = &mut self.decoder;
        let sockets = (decoder.named() < NAMES_MAX).then_some(SOCKETS);
        for map in std::iter::once(FILES).chain(sockets) {
            let _ = session.calls(map, &mut |key, values| decoder.take(CallMap::Names, key, values));
        }
        decoder.tell((now, now), sink);
    }
}
