//! Codes of texts: 1, 2, .. in order of first occurrence; 0 is null.
//!
//! ```text
//! up to 12 bytes   length and bytes in one number of 128 bits, which is compared as a number
//! longer           length and hash in a number of 128 bits, and the bytes themselves
//! ```
//!
//! If a column has more than [`MOST`] different texts, the caller must use another algorithm.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ByteView, GenericByteArray, GenericByteViewArray, LargeBinaryArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{ByteArrayType, ByteViewType, DataType};
use datafusion::error::Result;

use super::hash::Hash;

/// The maximum number of texts of a column. A table of this size fits in the inner caches.
pub(super) const MOST: usize = 1 << 12;
/// The number of bytes that a view stores inline.
const SHORT: usize = 12;

/// The texts of a column.
pub(super) struct Texts {
    /// Length and bytes, or length and hash, of each code from 1 on.
    keys: Vec<u128>,
    /// The bytes of long texts.
    long: Vec<Box<[u8]>>,
    /// Codes; 0 is free. A power of two, at least half of them free.
    places: Vec<u32>,
    hash: Hash,
}

impl Texts {
    pub(super) fn new() -> Self {
        Texts { keys: Vec::new(), long: Vec::new(), places: vec![0; 64], hash: Hash::new() }
    }

    /// Whether a type is supported.
    pub(super) fn takes(of: &DataType) -> bool {
        use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
        matches!(of, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
    }

    /// The number of texts.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The memory in bytes.
    pub(super) fn size(&self) -> usize {
        let long: usize = self.long.iter().map(|text| text.len()).sum();
        self.keys.capacity() * size_of::<u128>() + self.places.len() * 4 + self.long.capacity() * 16 + long
    }

    /// Writes the code of each row to `codes`, replacing its contents; returns false if there are too many texts.
    pub(super) fn code(&mut self, column: &ArrayRef, codes: &mut Vec<u64>) -> bool {
        codes.clear();
        codes.reserve(column.len());
        match column.data_type() {
            DataType::Utf8 => self.of_bytes(column.as_string::<i32>(), codes),
            DataType::LargeUtf8 => self.of_bytes(column.as_string::<i64>(), codes),
            DataType::Binary => self.of_bytes(column.as_binary::<i32>(), codes),
            DataType::LargeBinary => self.of_bytes(column.as_binary::<i64>(), codes),
            DataType::Utf8View => self.of_views(column.as_string_view(), codes),
            DataType::BinaryView => self.of_views(column.as_binary_view(), codes),
            _ => false,
        }
    }

    /// The texts in the order of their codes, as a column of type `of`.
    pub(super) fn values(&self, of: &DataType) -> Result<ArrayRef> {
        let short: Vec<[u8; 16]> = self.keys.iter().map(|key| key.to_le_bytes()).collect();
        let text = |(i, key): (usize, &u128)| match *key as u32 as usize {
            length @ 0..=SHORT => &short[i][4..4 + length],
            _ => &self.long[i][..],
        };
        let bytes = LargeBinaryArray::from_iter_values(self.keys.iter().enumerate().map(text));
        match of {
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Ok(cast(&bytes, of)?),
            _ => Ok(cast(&cast(&bytes, &DataType::LargeUtf8)?, of)?),
        }
    }

    fn of_bytes<T: ByteArrayType>(&mut self, column: &GenericByteArray<T>, codes: &mut Vec<u64>) -> bool
    where
        T::Native: AsRef<[u8]>,
    {
        let mut known = true;
        codes.extend(column.iter().map(|text| match text {
            Some(text) => self.of_text(text.as_ref(), &mut known),
            None => 0,
        }));
        known
    }

    fn of_views<T: ByteViewType + ?Sized>(&mut self, column: &GenericByteViewArray<T>, codes: &mut Vec<u64>) -> bool
    where
        T::Native: AsRef<[u8]>,
    {
        let (mut known, nulls) = (true, column.nulls().filter(|nulls| nulls.null_count() > 0));
        codes.extend(column.views().iter().enumerate().map(|(row, &view)| {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                return 0;
            }
            match ByteView::from(view).length as usize <= SHORT {
                // The bytes after those of a short text are 0.
                true => self.of_key(view, None, &mut known),
                false => self.of_text(column.value(row).as_ref(), &mut known),
            }
        }));
        known
    }

    fn of_text(&mut self, text: &[u8], known: &mut bool) -> u64 {
        if text.len() > SHORT {
            let key = u128::from(self.hash.of_bytes(text)) << 64 | text.len() as u128;
            return self.of_key(key, Some(text), known);
        }
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
        bytes[4..4 + text.len()].copy_from_slice(text);
        self.of_key(u128::from_le_bytes(bytes), None, known)
    }

    #[inline]
    fn of_key(&mut self, key: u128, long: Option<&[u8]>, known: &mut bool) -> u64 {
        let mask = self.places.len() - 1;
        let mut at = self.hash_of(key) as usize & mask;
        loop {
            let code = self.places[at];
            if code == 0 {
                return self.add(key, long, at, known);
            }
            let index = code as usize - 1;
            if self.keys[index] == key && long.is_none_or(|text| *self.long[index] == *text) {
                return code.into();
            }
            at = (at + 1) & mask;
        }
    }

    /// The key of a long text contains its hash.
    #[inline]
    fn hash_of(&self, key: u128) -> u64 {
        let high = (key >> 64) as u64;
        if key as u32 as usize > SHORT { high } else { self.hash.of(key as u64, high) }
    }

    #[cold]
    fn add(&mut self, key: u128, long: Option<&[u8]>, at: usize, known: &mut bool) -> u64 {
        if self.keys.len() == MOST {
            *known = false;
            return 0;
        }
        self.keys.push(key);
        self.long.push(long.unwrap_or_default().into());
        let code = self.keys.len();
        self.places[at] = code as u32;
        if code * 2 > self.places.len() {
            self.places = vec![0; self.places.len() * 4];
            let mask = self.places.len() - 1;
            for (&key, code) in self.keys.iter().zip(1..) {
                let mut at = self.hash_of(key) as usize & mask;
                while self.places[at] != 0 {
                    at = (at + 1) & mask;
                }
                self.places[at] = code;
            }
        }
        code as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{BinaryArray, LargeStringArray, StringArray, StringViewArray, UInt32Array};
    use datafusion::arrow::compute::take;

    use super::*;

    #[test]
    fn texts_of_each_layout_have_codes_by_first_appearance() {
        let all = vec![
            Some("a"),
            Some(""),
            None,
            Some("a\0"),
            Some("twelve bytes"),
            Some("thirteen byte"),
            Some("a"),
            Some("thirteen byte"),
        ];
        let bytes: Vec<Option<&[u8]>> = all.iter().map(|text| text.map(str::as_bytes)).collect();
        let columns: [ArrayRef; 4] = [
            Arc::new(StringArray::from(all.clone())),
            Arc::new(LargeStringArray::from(all.clone())),
            Arc::new(StringViewArray::from(all.clone())),
            Arc::new(BinaryArray::from(bytes)),
        ];
        let mut shared = Texts::new();
        for column in columns {
            let (mut texts, mut codes) = (Texts::new(), vec![9]);
            assert!(texts.code(&column, &mut codes) && texts.len() == 5);
            assert_eq!(codes, [1, 2, 0, 3, 4, 5, 1, 5]);
            let values = texts.values(column.data_type()).expect("texts");
            let rows: UInt32Array =
                [Some(0), Some(1), None, Some(2), Some(3), Some(4), Some(0), Some(4)].into_iter().collect();
            assert_eq!(&take(&values, &rows, None).expect("rows"), &column);
            assert!(shared.code(&column, &mut codes) && shared.len() == 5);
            assert_eq!(codes, [1, 2, 0, 3, 4, 5, 1, 5]);
        }
    }

    #[test]
    fn too_many_are_reported() {
        let column = |texts: usize| -> ArrayRef {
            Arc::new((0..texts).map(|i| Some(format!("the long text number {i}"))).collect::<StringViewArray>())
        };
        let (mut texts, mut codes) = (Texts::new(), vec![]);
        assert!(texts.code(&column(MOST), &mut codes));
        assert_eq!(codes, (1..=MOST as u64).collect::<Vec<_>>());
        assert!(!texts.code(&column(MOST + 1), &mut codes));
    }
}
