//! The file: packets of the Common Trace Format, each of one domain, and the events in them.

use super::backtraces::Check;
use super::locations::text;
use crate::imported::Bytes;
use crate::readers::ReadError;

/// A packet begins with it.
pub(super) const MAGIC: u32 = 0xc1fc_1fc1;
/// The newest version that is read.
const VERSION_MAX: u16 = 3;
/// Low bits of a moment that stand with each event.
const MOMENT_BITS: u32 = 25;

/// Codes of events.
mod code {
    pub const INFO: u32 = 0;
    pub const LOCATION: u32 = 1;
    pub const ALLOCATED: u32 = 2;
    pub const PROMOTED: u32 = 3;
    pub const COLLECTED: u32 = 4;
    /// And a length of 1 to 16 words.
    pub const SHORT: u32 = 100;
}

/// Header of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// First and last moment (µs since 1970).
    pub moments: (u64, u64),
    pub pid: u64,
    pub domain: u16,
    /// Number of the first object that is allocated in it.
    pub first_object: u64,
    pub check: Check,
    version: u16,
}

/// A packet: its header and its events.
pub(super) struct Packet<'a> {
    pub header: Header,
    pub events: Bytes<'a>,
    /// The packet is truncated.
    pub is_cut: bool,
}

/// The next packet. `None` if not even its first words are complete.
pub(super) fn next<'a>(file: &mut Bytes<'a>, whole: u64) -> Result<Option<Packet<'a>>, ReadError> {
    let offset = whole - file.0.len() as u64;
    let mut rest = *file;
    let (Some(magic), Some(bits)) = (rest.u32(), rest.u32()) else { return Ok(None) };
    if magic != MAGIC {
        return Err(ReadError::Broken { what: "no packet of memtrace begins here", offset });
    }
    // The program may have been killed while it wrote the last one.
    let packet = file.take(u64::from(bits / 8).min(file.0.len() as u64)).unwrap_or_default();
    let is_cut = packet.len() < bits as usize / 8;
    let mut events = Bytes(packet);
    events.take(8);
    let header =
        header(&mut events).ok_or(ReadError::Broken { what: "a packet is shorter than its head", offset })?;
    if header.version > VERSION_MAX {
        return Err(ReadError::Unsupported {
            what: format!("version {} of memtrace's format", header.version),
            remedy: "holdup reads up to version 3: trace with an older memtrace",
        });
    }
    Ok(Some(Packet { header, events, is_cut }))
}

fn header(bytes: &mut Bytes<'_>) -> Option<Header> {
    let moments = (bytes.u64()?, bytes.u64()?);
    let _flush = bytes.u32()?;
    let version = bytes.u16()?;
    let pid = bytes.u64()?;
    let domain = if version >= 3 { bytes.u16()? } else { 0 };
    let check = Check::read(bytes)?;
    let first_object = bytes.u64()?;
    let _end = bytes.u64()?;
    Some(Header { moments, pid, domain, first_object, check, version })
}

/// An event of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Said {
    /// About the program: [`Info`] follows.
    Info,
    /// A place follows.
    Location,
    /// An object of `words` words, without the header word. Its backtrace follows: the number of places
    /// shared with the previous backtrace, and codewords.
    Allocated { words: u64, outside: bool, shared: u64, codewords: u16 },
    /// An object was moved out of the minor heap: that many before the next one.
    Promoted,
    /// An object was freed. Its number is that of the next object, minus 1 and minus `before`.
    Collected { before: u64 },
}

/// The next event, and when (µs since 1970).
pub(super) fn event(header: &Header, bytes: &mut Bytes<'_>) -> Option<(u64, Said)> {
    let word = bytes.u32()?;
    let mask = (1u64 << MOMENT_BITS) - 1;
    let (low, first) = (u64::from(word) & mask, header.moments.0);
    let wrapped = if low < first & mask { mask + 1 } else { 0 };
    let at = (first & !mask).checked_add(low + wrapped).filter(|at| *at <= header.moments.1)?;
    let said = match word >> MOMENT_BITS {
        code::INFO => Said::Info,
        code::LOCATION => Said::Location,
        code::ALLOCATED => {
            let words = number(bytes)?;
            let _drawn = number(bytes)?;
            let outside = bytes.u8()? == 2;
            Said::Allocated { words, outside, shared: number(bytes)?, codewords: bytes.u16()? }
        }
        code::PROMOTED => {
            number(bytes)?;
            Said::Promoted
        }
        code::COLLECTED => Said::Collected { before: number(bytes)? },
        code @ 101..=116 => {
            let words = u64::from(code - code::SHORT);
            Said::Allocated { words, outside: false, shared: number(bytes)?, codewords: bytes.u8()?.into() }
        }
        _ => return None,
    };
    Some((at, said))
}

/// A number of 1, 3, 5 or 9 bytes. Negative numbers become large.
fn number(bytes: &mut Bytes<'_>) -> Option<u64> {
    Some(match bytes.u8()? {
        253 => bytes.u16()?.into(),
        254 => i64::from(bytes.u32()?.cast_signed()).cast_unsigned(),
        255 => bytes.u64()?,
        small => small.into(),
    })
}

/// About the program.
#[derive(Clone, Debug)]
pub(super) struct Info {
    /// Sampling probability of each word.
    pub rate: f64,
    pub word_bits: u8,
    pub program: String,
    pub host: String,
    pub context: String,
}

impl Info {
    /// The rest of its event.
    pub fn read(header: &Header, bytes: &mut Bytes<'_>) -> Option<Info> {
        let (rate, word_bits) = (f64::from_bits(bytes.u64()?), bytes.u8()?);
        let (program, host) = (text(bytes)?, text(bytes)?);
        let _parameters = text(bytes)?;
        let _pid = bytes.u64()?;
        let context = if header.version >= 2 { text(bytes)? } else { String::new() };
        Some(Info { rate, word_bits, program, host, context })
    }
}
