//! File format: a list of event types with their lengths, then big-endian events. A block event names the
//! capability of the events in it.

use crate::readers::ReadError;

/// Begins the file, and its list of kinds.
pub(super) const MAGIC: &[u8] = b"hdrbhetb";
/// Begins one kind.
const KIND: u32 = u32::from_be_bytes(*b"etb\0");
/// Ends one kind.
const KIND_END: u32 = u32::from_be_bytes(*b"ete\0");
/// Ends the list of kinds.
const KINDS_END: u32 = u32::from_be_bytes(*b"hete");
/// Ends the header.
const HEADER_END: u32 = u32::from_be_bytes(*b"hdre");
/// Begins the events.
const EVENTS: u32 = u32::from_be_bytes(*b"datb");
/// Ends them.
const EVENTS_END: u16 = u16::MAX;
/// Type of the event that names the capability of the following events.
const BLOCK: u16 = 18;
/// The capability of a block that is of none.
const NO_CAPABILITY: u16 = u16::MAX;
/// More capabilities than this are no machine's.
const CAPABILITIES_MAX: u16 = 8192;

/// A cursor over big-endian numbers. Reading past the end returns `None`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a>(pub &'a [u8]);

impl<'a> Body<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn skip(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_be_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// A text up to a zero, or the end.
    pub fn string(&mut self) -> String {
        let (text, rest) = match self.0.iter().position(|byte| *byte == 0) {
            Some(end) => (self.0.get(..end), self.0.get(end + 1..)),
            None => (Some(self.0), None),
        };
        self.0 = rest.unwrap_or_default();
        String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
    }

    /// The rest, as a text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.0).trim_end_matches('\0').to_owned()
    }
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedEvent<'a> {
    pub id: u16,
    /// Since the program's start (ns).
    pub at: u64,
    pub capability: Option<u16>,
    pub body: &'a [u8],
}

/// Lengths of events by type. `None` for types of variable length.
type Kinds = std::collections::HashMap<u16, Option<u16>>;

/// All events in the order of the file, and whether it is cut.
///
/// # Errors
/// The header is broken, or there is no event.
pub(super) fn events(bytes: &[u8]) -> Result<(Vec<LoggedEvent<'_>>, bool), ReadError> {
    let mut rest = Body(bytes);
    let offset = |rest: &Body| (bytes.len() - rest.0.len()) as u64;
    let kinds = kinds(&mut rest)
        .ok_or_else(|| ReadError::Broken { what: "its list of events", offset: offset(&rest) })?;
    let mut all = Vec::new();
    let mut capability = None;
    let cut = loop {
        let Some(id) = rest.u16() else { break true };
        if id == EVENTS_END {
            break false;
        }
        let Some((at, body)) = event(id, &kinds, &mut rest) else { break true };
        if id != BLOCK {
            all.push(LoggedEvent { id, at, capability, body });
            continue;
        }
        let mut block = Body(body);
        let number = block.u32().and_then(|_| block.u64()).and_then(|_| block.u16());
        capability = number.filter(|number| *number != NO_CAPABILITY && *number < CAPABILITIES_MAX);
    };
    if all.is_empty() { Err(ReadError::Empty) } else { Ok((all, cut)) }
}

fn event<'a>(id: u16, kinds: &Kinds, rest: &mut Body<'a>) -> Option<(u64, &'a [u8])> {
    let at = rest.u64()?;
    let length = match kinds.get(&id)? {
        Some(length) => *length,
        None => rest.u16()?,
    };
    Some((at, rest.skip(length.into())?))
}

fn kinds(rest: &mut Body) -> Option<Kinds> {
    rest.skip(MAGIC.len())?;
    let mut kinds = Kinds::new();
    loop {
        match rest.u32()? {
            KIND => {
                let (id, length) = (rest.u16()?, rest.u16()?);
                for _ in 0..2 {
                    // Description of the type, and extensions of the format.
                    let length = rest.u32()?;
                    rest.skip(length.try_into().ok()?)?;
                }
                (rest.u32()? == KIND_END).then_some(())?;
                kinds.insert(id, (length != u16::MAX).then_some(length));
            }
            KINDS_END => break,
            _ => return None,
        }
    }
    (rest.u32()? == HEADER_END && rest.u32()? == EVENTS).then_some(kinds)
}
