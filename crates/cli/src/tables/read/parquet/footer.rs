//! Detects encrypted columns in the footer. The decoder ignores this information: columns may be encrypted even if the
//! footer is not.

use std::io;

use super::Data;

/// The field of the file's metadata that names the algorithm.
const ENCRYPTION_ALGORITHM: i64 = 8;
/// The maximum nesting of structs.
const DEPTH: usize = 16;

/// Whether some columns of a file are encrypted, as far as its footer can be read.
pub(super) fn has_encrypted_columns(data: &Data) -> bool {
    let footer = || -> io::Result<Option<bool>> {
        let Some(end) = data.length().checked_sub(8) else { return Ok(None) };
        let length = data.range(end, 4)?;
        let length = length.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let Some(start) = end.checked_sub(length.into()) else { return Ok(None) };
        Ok(Thrift(&data.range(start, length as usize)?).has_field(ENCRYPTION_ALGORITHM))
    };
    matches!(footer(), Ok(Some(true)))
}

/// Bytes of Thrift's compact protocol.
struct Thrift<'a>(&'a [u8]);

impl Thrift<'_> {
    /// Whether the struct at the start of the bytes has a field with this number.
    fn has_field(&mut self, wanted: i64) -> Option<bool> {
        let mut field = 0;
        while let Some(kind) = self.field(&mut field)? {
            if field == wanted {
                return Some(true);
            }
            self.skip(kind, DEPTH)?;
        }
        Some(false)
    }

    /// The type and the number of the next field; `None` inside at the end of the struct.
    fn field(&mut self, number: &mut i64) -> Option<Option<u8>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        *number = match head >> 4 {
            0 => {
                let zigzag = self.varint()?;
                (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
            }
            delta => number.checked_add(delta.into())?,
        };
        Some(Some(head & 15))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            // The type of a boolean field includes its value.
            1 | 2 => Some(()),
            3 => self.bytes(1),
            4..=6 => self.varint().map(drop),
            7 => self.bytes(8),
            8 => {
                let length = self.varint()?;
                self.bytes(usize::try_from(length).ok()?)
            }
            9 | 10 => {
                let head = self.byte()?;
                let length = if head >> 4 == 15 { self.varint()? } else { (head >> 4).into() };
                let of = if matches!(head & 15, 1 | 2) { 3 } else { head & 15 };
                (0..length).try_for_each(|_| self.skip(of, depth.checked_sub(1)?))
            }
            12 => {
                let (mut field, depth) = (0, depth.checked_sub(1)?);
                while let Some(kind) = self.field(&mut field)? {
                    self.skip(kind, depth)?;
                }
                Some(())
            }
            // Metadata do not contain maps.
            _ => None,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn bytes(&mut self, length: usize) -> Option<()> {
        self.0 = self.0.get(length..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(number);
            }
        }
        None
    }
}
