//! Varints and strings.

/// Bytes that are no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The bytes end within an event.
    #[error("the bytes end within an event, at offset {0}")]
    Short(usize),
    /// A tag, code or length that does not exist.
    #[error("no such {what} as {value}, at offset {offset}")]
    Unknown {
        /// Of what.
        what: &'static str,
        /// The value found.
        value: u64,
        /// Where.
        offset: usize,
    },
}

/// The end of a buffer, with room in which no byte has to ask for more: a switch or a wakeup is shorter.
pub struct Short<'a> {
    /// Up to eight are written at once.
    bytes: &'a mut [u8; SHORT + 8],
    length: u8,
}

/// Maximum length of a short event (bytes, a power of two). A switch has at most 125.
const SHORT: usize = 128;

impl Short<'_> {
    /// Appends what `put` writes.
    #[inline]
    pub fn append(out: &mut Vec<u8>, put: impl FnOnce(&mut Short<'_>)) {
        let before = out.len();
        out.resize(before + SHORT + 8, 0);
        let Some(bytes) = out.last_chunk_mut() else { return };
        let mut short = Short { bytes, length: 0 };
        put(&mut short);
        let length = usize::from(short.length);
        out.truncate(before + length);
    }

    /// Position of the next byte. The modulo makes a bounds check unnecessary.
    #[inline]
    fn at(&self) -> usize {
        debug_assert!(usize::from(self.length) < SHORT, "longer than anything short is");
        usize::from(self.length) % SHORT
    }

    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.bytes[self.at()] = byte;
        self.length += 1;
    }

    /// The same bytes as [`put_varint`]. Lengths are random where times are: up to four bytes no branch asks for them.
    #[inline]
    pub fn varint(&mut self, mut value: u64) {
        while value >= 1 << 28 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        let value = value as u32;
        let spread =
            value & 0x7f | (value & 0x7f << 7) << 1 | (value & 0x7f << 14) << 2 | (value & 0x7f << 21) << 3;
        let bytes = (u32::BITS + 6 - (value | 1).leading_zeros()) / 7;
        let go_on = 0x0080_8080 & ((1u32 << (8 * (bytes - 1))) - 1);
        let at = self.at();
        self.bytes[at..at + 4].copy_from_slice(&(spread | go_on).to_le_bytes());
        self.length += bytes as u8;
    }

    /// The same as [`put_difference`].
    #[inline]
    pub fn difference(&mut self, to: u64, from: u64) {
        self.varint(zigzag(to, from));
    }

    /// Eight bytes, as they are.
    #[inline]
    pub fn word(&mut self, word: u64) {
        let at = self.at();
        self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        self.length += 8;
    }
}

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps small differences of either sign to small numbers: 0, -1, 1, -2 … → 0, 1, 2, 3 …. Differences wrap.
#[inline]
fn zigzag(to: u64, from: u64) -> u64 {
    let difference = to.wrapping_sub(from) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

pub fn put_difference(out: &mut Vec<u8>, to: u64, from: u64) {
    put_varint(out, zigzag(to, from));
}

pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Reads what `put_*` wrote.
pub struct Input<'a> {
    bytes: &'a [u8],
    pub offset: usize,
}

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes, offset: 0 }
    }

    /// At the same offset of other bytes.
    pub fn over<'b>(self, bytes: &'b [u8]) -> Input<'b> {
        Input { bytes, offset: self.offset }
    }

    pub fn is_empty(&self) -> bool {
        self.offset >= self.bytes.len()
    }

    pub fn byte(&mut self) -> Result<u8, CodecError> {
        let byte = self.bytes.get(self.offset).ok_or(CodecError::Short(self.offset))?;
        self.offset += 1;
        Ok(*byte)
    }

    pub fn varint(&mut self) -> Result<u64, CodecError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(CodecError::Unknown { what: "varint", value, offset: self.offset })
    }

    /// Eight bytes: of numbers that are random.
    pub fn word(&mut self) -> Result<u64, CodecError> {
        let word = self.bytes.get(self.offset..).and_then(|rest| rest.first_chunk());
        let word = word.ok_or(CodecError::Short(self.offset))?;
        self.offset += word.len();
        Ok(u64::from_le_bytes(*word))
    }

    pub fn difference(&mut self, from: u64) -> Result<u64, CodecError> {
        let zigzag = self.varint()?;
        let difference = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        Ok(from.wrapping_add(difference as u64))
    }

    pub fn u32(&mut self) -> Result<u32, CodecError> {
        Ok(self.varint()? as u32)
    }

    pub fn i32(&mut self) -> Result<i32, CodecError> {
        Ok(self.difference(0)? as i32)
    }

    pub fn text(&mut self) -> Result<&'a [u8], CodecError> {
        let length = self.varint()?;
        let end = usize::try_from(length).ok().and_then(|length| self.offset.checked_add(length));
        let text =
            end.and_then(|end| self.bytes.get(self.offset..end)).ok_or(CodecError::Short(self.offset))?;
        self.offset += text.len();
        Ok(text)
    }

    pub fn string(&mut self) -> Result<String, CodecError> {
        Ok(String::from_utf8_lossy(self.text()?).into_owned())
    }

    pub fn unknown(&self, what: &'static str, value: impl Into<u64>) -> CodecError {
        CodecError::Unknown { what, value: value.into(), offset: self.offset }
    }
}
