//! Where the kernel programs find which functions an interpreter runs (`bpf/interpreters.h`), by process.

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};

use super::messages;
use crate::error::CaptureError;

/// The maps of one session. Usable from another thread than the session's.
pub struct InterpreterTables {
    layouts: MapHandle,
    known: MapHandle,
}

impl InterpreterTables {
    pub(super) fn open(object: &Object) -> Result<InterpreterTables, CaptureError> {
        let map = |is_it: &dyn Fn(&str) -> bool| {
            let found = object.maps().find(|map| is_it(&map.name().to_string_lossy()));
            let found =
                found.ok_or_else(|| CaptureError::Refused { reason: "no map of interpreters".to_owned() })?;
            MapHandle::try_from(&found).map_err(|error| refused(&error))
        };
        Ok(InterpreterTables {
            layouts: map(&|name| name == "interpreters")?,
            known: map(&|name| name.ends_with(".data.interpreters"))?,
        })
    }

    /// Tells where the interpreter of a process has what: `struct interpreter_layout`.
    pub fn set(&self, tgid: u32, layout: &[u8]) -> Result<(), CaptureError> {
        self.layouts.update(&tgid.to_ne_bytes(), layout, MapFlags::ANY).map_err(|error| refused(&error))?;
        // From now on stacks look there.
        let one = 1u32.to_ne_bytes();
        self.known.update(&0u32.to_ne_bytes(), &one, MapFlags::ANY).map_err(|error| refused(&error))
    }

    /// The process is gone, or runs another program.
    pub fn forget(&self, tgid: u32) {
        // It may never have been told.
        let _ = self.layouts.delete(&tgid.to_ne_bytes());
    }
}

fn refused(error: &libbpf_rs::Error) -> CaptureError {
    CaptureError::Refused { reason: messages::reason(error) }
}
