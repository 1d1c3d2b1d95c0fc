//! A reader that counts: however broken the debug information is, the work on it is bounded by its size.

use std::borrow::Cow;
use std::cell::Cell;

use gimli::{EndianSlice, Error, LittleEndian, Reader, ReaderOffsetId, Result};

/// How many more reads are granted.
#[derive(Debug)]
pub struct Fuel(Cell<u64>);

impl Fuel {
    /// Allows `reads` reads.
    pub fn new(reads: u64) -> Fuel {
        Fuel(Cell::new(reads))
    }

    /// Consumes `reads`. An error if none are left.
    pub fn burn(&self, reads: u64) -> Result<()> {
        match self.0.get().checked_sub(reads) {
            Some(left) => {
                self.0.set(left);
                Ok(())
            }
            None => {
                self.0.set(0);
                Err(Error::UnexpectedEof(ReaderOffsetId(0)))
            }
        }
    }

    /// The reads are used up, so the results are final.
    pub fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

/// Bytes of a section, read at the cost of [`Fuel`].
#[derive(Clone, Copy, Debug)]
pub struct Metered<'a> {
    bytes: EndianSlice<'a, LittleEndian>,
    fuel: &'a Fuel,
}

impl<'a> Metered<'a> {
    /// Reads `bytes`.
    pub fn new(bytes: &'a [u8], fuel: &'a Fuel) -> Metered<'a> {
        Metered { bytes: EndianSlice::new(bytes, LittleEndian), fuel }
    }

    /// The bytes as text. Names longer than [`TEXT_BYTES_MAX`] are truncated.
    pub fn text(self) -> String {
        let bytes = self.bytes.slice();
        String::from_utf8_lossy(bytes.get(..TEXT_BYTES_MAX).unwrap_or(bytes)).into_owned()
    }
}

/// No name is longer.
const TEXT_BYTES_MAX: usize = 1 << 14;
/// Bytes that are searched or copied for the price of one read.
const BYTES_A_READ: usize = 64;

impl<'a> Reader for Metered<'a> {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    #[inline]
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn empty(&mut self) {
        self.bytes.empty();
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> Result<()> {
        self.bytes.truncate(len)
    }

    fn offset_from(&self, base: &Self) -> usize {
        let (here, there) = (self.bytes.slice().as_ptr() as usize, base.bytes.slice().as_ptr() as usize);
        here.saturating_sub(there)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        self.bytes.offset_id()
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.bytes.lookup_offset_id(id)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let found = Reader::find(&self.bytes, byte);
        self.fuel.burn((*found.as_ref().unwrap_or(&self.len()) / BYTES_A_READ + 1) as u64)?;
        found
    }

    #[inline]
    fn skip(&mut self, len: usize) -> Result<()> {
        self.fuel.burn(1)?;
        self.bytes.skip(len)
    }

    #[inline]
    fn split(&mut self, len: usize) -> Result<Self> {
        self.fuel.burn(1)?;
        Ok(Metered { bytes: self.bytes.split(len)?, fuel: self.fuel })
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        self.bytes.to_slice()
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        Reader::to_string(&self.bytes)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        Reader::to_string_lossy(&self.bytes)
    }

    #[inline]
    fn read_slice(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.fuel.burn((buffer.len() / BYTES_A_READ + 1) as u64)?;
        Reader::read_slice(&mut self.bytes, buffer)
    }

    #[inline]
    fn read_u8(&mut self) -> Result<u8> {
        self.fuel.burn(1)?;
        self.bytes.read_u8()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ends_with_the_fuel() {
        let fuel = Fuel::new(3);
        let mut reader = Metered::new(&[1, 2, 3, 4, 5, 6, 7, 8], &fuel);
        assert_eq!(reader.read_u8(), Ok(1));
        assert_eq!(reader.read_u16(), Ok(0x302));
        assert!(!fuel.is_spent());
        assert_eq!(reader.read_u8(), Ok(4));
        assert!(reader.read_u8().is_err() && fuel.is_spent());
    }
}
