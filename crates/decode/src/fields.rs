//! Little-endian fields, front to back.

/// The hexadecimal number that follows `word` in a text, 0 if none.
pub fn number_after(text: &str, word: &str) -> u64 {
    let Some((_, rest)) = text.split_once(word) else { return 0 };
    let digits: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

/// The unread bytes.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Takes `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    /// Up to a zero byte, which goes too.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Some(text)
    }

    /// Reads the number of entries of `width` bytes (eight bytes). `None` if fewer entries follow.
    pub fn length(&mut self, width: usize) -> Option<usize> {
        let count = usize::try_from(self.u64()?).ok()?;
        (count.checked_mul(width)? <= self.0.len()).then_some(count)
    }
}
