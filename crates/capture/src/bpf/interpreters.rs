//! Where the kernel programs find which functions an interpreter runs (`bpf/interpreters.h`, `bpf/hotspot.h`), by process.

use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};

use super::messages;
use crate::error::CaptureError;

/// The maps of one session. Usable from another thread than the session's.
pub struct InterpreterTables {
    lists: MapHandle,
    frames: MapHandle,
    known: MapHandle,
    /// `INTERPRETERS_WITH_LISTS`, `INTERPRETERS_OF_FRAMES`, if set.
    kinds: AtomicU32,
}

/// `INTERPRETERS_WITH_LISTS`.
const WITH_LISTS: u32 = 1;
/// `INTERPRETERS_OF_FRAMES`.
const OF_FRAMES: u32 = 2;

impl InterpreterTables {
    pub(super) fn open(object: &Object) -> Result<InterpreterTables, CaptureError> {
        let map = |is_it: &dyn Fn(&str) -> bool| {
            let found = object.maps().find(|map| is_it(&map.name().to_string_lossy()));
            let found =
                found.ok_or_else(|| CaptureError::Refused { reason: "no map of interpreters".to_owned() })?;
            MapHandle::try_from(&found).map_err(|error| refused(&error))
        };
        Ok(InterpreterTables {
            lists: map(&|name| name == "interpreters")?,
            frames: map(&|name| name == "hotspots")?,
            known: map(&|name| name.ends_with(".data.interpreters"))?,
            kinds: AtomicU32::new(0),
        })
    }

    /// Sets where the interpreter of a process keeps the current functions of each thread: `struct
    /// interpreter_layout`.
    pub fn set_lists(&self, tgid: u32, layout: &[u8]) -> Result<(), CaptureError> {
        self.set(&self.lists, WITH_LISTS, (tgid, layout))
    }

    /// Sets the layout of interpreter frames and of compiled code's frames in a process: `struct hotspot`.
    pub fn set_frames(&self, tgid: u32, layout: &[u8]) -> Result<(), CaptureError> {
        self.set(&self.frames, OF_FRAMES, (tgid, layout))
    }

    fn set(&self, map: &MapHandle, kind: u32, (tgid, layout): (u32, &[u8])) -> Result<(), CaptureError> {
        map.update(&tgid.to_ne_bytes(), layout, MapFlags::ANY).map_err(|error| refused(&error))?;
        // From now on stacks look there.
        let kinds = self.kinds.fetch_or(kind, Ordering::Relaxed) | kind;
        let (key, kinds) = (0u32.to_ne_bytes(), kinds.to_ne_bytes());
        self.known.update(&key, &kinds, MapFlags::ANY).map_err(|error| refused(&error))
    }

    /// Drops a process that has exited or runs another program.
    pub fn forget(&self, tgid: u32) {
        // The maps may lack the process.
        for map in [&self.lists, &self.frames] {
            let _ = map.delete(&tgid.to_ne_bytes());
        }
    }
}

fn refused(error: &libbpf_rs::Error) -> CaptureError {
    CaptureError::Refused { reason: messages::reason(error) }
}
