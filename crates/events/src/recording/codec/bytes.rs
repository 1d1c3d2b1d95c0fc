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
        /// What was found.
        value: u64,
        /// Where.
        offset: usize,
    },
}

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Small either way: 0, -1, 1, -2 … → 0, 1, 2, 3 …; differences wrap.
pub fn put_difference(out: &mut Vec<u8>, to: u64, from: u64) {
    let difference = to.wrapping_sub(from) as i64;
    put_varint(out, ((difference << 1) ^ (difference >> 63)) as u64);
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
