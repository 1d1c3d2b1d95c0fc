//! Names of the files and sockets that threads wait for (a lock, the disk, a response). The BPF programs note
//! the object at a wait. The names are read about once per second.

use holdup_capture::bpf::Session;
use holdup_capture::lower;
use holdup_decode::calls::{CallDecoder, CallMap};
use holdup_events::{Event, Timestamp};

/// The kernel programs' maps (`bpf/file_names.h`, `bpf/socket_names.h`).
const FILES: &str = "waited_files";
const SOCKETS: &str = "waited_sockets";
/// Maximum number of names. Connections may come and go all the time: the first ones are named, the rest is
/// reported as unknown.
const NAMES_MAX: usize = 16_384;
const EVERY_NS: u64 = 1_000_000_000;

/// Reads them.
#[derive(Default)]
pub struct WaitedNames {
    decoder: CallDecoder,
    next_ns: u64,
}

impl WaitedNames {
    /// Reads the names if a read is due. `sink` receives new ones.
    pub fn step(&mut self, session: &Session, sink: &mut dyn FnMut(Event)) {
        let now_ns = lower::now().0;
        if now_ns >= self.next_ns {
            self.next_ns = now_ns + EVERY_NS;
            self.read(session, Timestamp(now_ns), sink);
        }
    }

    /// Reads the names now. An object whose name cannot be read is reported by its number.
    pub fn read(&mut self, session: &Session, now: Timestamp, sink: &mut dyn FnMut(Event)) {
        let decoder = &mut self.decoder;
        let sockets = (decoder.named() < NAMES_MAX).then_some(SOCKETS);
        for map in std::iter::once(FILES).chain(sockets) {
            let _ = session.calls(map, &mut |key, values| decoder.take(CallMap::Names, key, values));
        }
        decoder.emit((now, now), sink);
    }
}
