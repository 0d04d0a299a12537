//! The part of a multivalue table's file before its table: a header, and two lists whose lengths it contains.
//!
//! ```text
//! offset 0     magic "koelmult", version u32, values u32, keys K u64, pairs P u64, zeros up to 64
//!        64    starts: K + 1 numbers of 32 bits
//!        ..    version 2: zeros up to a multiple of 8
//!        ..    values: P numbers of 32 bits (version 1, values 0) or of 64 (version 2, values 1)
//!        ..    32 bytes: BLAKE3 of all before them
//!        ..    zeros up to a multiple of 64
//!        base  the table of the keys: a table file (`table/file.rs`), to the end
//! ```
//!
//! This module reads only the header, and checks that the file is long enough for the lists.

use std::io::{Read, Seek, SeekFrom};

use bytemuck::{Pod, Zeroable};

use super::kind::{FileKind, Magic};
use super::section::Section;
use crate::error::Result;
use crate::scheme::Value;

/// The version of files with values of 32 bits. Any change of the layout before the table changes it.
const VERSION: u32 = 1;
/// The version of files with values of 64 bits, so that older versions of koel refuse them.
const WIDE_VERSION: u32 = 2;
pub(crate) const SUM_BYTES: u64 = 32;
/// The alignment of the table in the file.
pub(crate) const ALIGNED: u64 = 64;

/// The header of a multivalue table's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ListsHeader {
    magic: Magic,
    version: u32,
    /// The type of the values: 0 = u32, 1 = u64.
    value: u32,
    /// The number of distinct keys, one less than the number of starts.
    keys: u64,
    /// The number of pairs, and of values.
    pairs: u64,
    zeros: [u64; 4],
}

const HEADER_BYTES: usize = size_of::<ListsHeader>();
const _: () = assert!(HEADER_BYTES == 64);

impl ListsHeader {
    pub(crate) fn new<V: Value>(keys: u64, pairs: u64) -> ListsHeader {
        ListsHeader::of(V::BITS == u64::BITS, keys, pairs)
    }

    fn of(wide: bool, keys: u64, pairs: u64) -> ListsHeader {
        let (version, value) = if wide { (WIDE_VERSION, 1) } else { (VERSION, 0) };
        ListsHeader { magic: FileKind::Multi.magic(), version, value, keys, pairs, zeros: [0; 4] }
    }

    fn is_wide(&self) -> bool {
        self.version == WIDE_VERSION
    }

    /// Bits of a value.
    pub(crate) fn value_bits(&self) -> u32 {
        if self.is_wide() { u64::BITS } else { u32::BITS }
    }

    /// The zeros between starts and values.
    pub(crate) fn gap(&self) -> &'static [u8] {
        let odd = self.is_wide() && self.keys.is_multiple_of(2);
        if odd { &[0; 4] } else { &[] }
    }
}

/// A file whose header has been read; its next bytes are the starts.
pub(crate) struct Lists<'a> {
    pub(crate) section: Section<'a>,
    pub(crate) header: ListsHeader,
    /// The number of starts.
    pub(crate) starts: usize,
    /// The number of values.
    pub(crate) values: usize,
    /// The position of the table in the file.
    pub(crate) base: u64,
}

impl<'a> Lists<'a> {
    /// Reads the header of a section.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), or [`Error::BadFile`](crate::Error::BadFile) if this is not a file of a
    /// multivalue table, or is too short for its lists.
    pub(crate) fn open(mut section: Section<'a>) -> Result<Lists<'a>> {
        let length = section.bytes()?;
        if length < HEADER_BYTES as u64 {
            return Err(section.bad(format!("{length} bytes are too few for any multivalue table")));
        }
        let mut start = [0; HEADER_BYTES];
        let from = SeekFrom::Start(section.base);
        let read = section.file.seek(from).and_then(|_| section.file.read_exact(&mut start));
        read.map_err(|error| section.io(error))?;
        let header: ListsHeader = bytemuck::pod_read_unaligned(&start);
        let ListsHeader { magic, version, keys, pairs, .. } = header;
        if FileKind::of(magic) != Some(FileKind::Multi) {
            return Err(section.bad("it does not begin with `koelmult`: it is not a multivalue table"));
        }
        if ![VERSION, WIDE_VERSION].contains(&version) {
            let reads = format!("this koel reads formats {VERSION} and {WIDE_VERSION}: build it again");
            return Err(section.bad(format!("it has format {version}; {reads}")));
        }
        let sizes = keys <= pairs && (keys > 0 || pairs == 0) && pairs <= u32::MAX.into();
        if !sizes || header != ListsHeader::of(header.is_wide(), keys, pairs) {
            return Err(section.bad(format!("{keys} keys and {pairs} pairs make no multivalue table")));
        }
        // The numbers are bounded by now, so their sum does not overflow.
        let columns = 4 * (keys + 1) + header.gap().len() as u64 + u64::from(header.value_bits() / 8) * pairs;
        let base = (HEADER_BYTES as u64 + columns + SUM_BYTES).next_multiple_of(ALIGNED);
        let here = |words: u64| usize::try_from(words).map_err(|_| section.bad("it is too large for this machine"));
        let (starts, values) = (here(keys + 1)?, here(pairs)?);
        if length < base {
            return Err(section.bad(format!(
                "the file is truncated: its header promises {pairs} pairs, but it has only {length} bytes"
            )));
        }
        let base = section.base + base;
        Ok(Lists { section, header, starts, values, base })
    }

    /// Returns an error for values of another type than `V`.
    ///
    /// # Errors
    /// [`Error::BadFile`](crate::Error::BadFile).
    pub(crate) fn check_values<V: Value>(&self) -> Result<()> {
        match self.header.value_bits() {
            bits if bits == V::BITS => Ok(()),
            bits => Err(self.section.bad(format!("its values are u{bits}, but u{} values were requested", V::BITS))),
        }
    }

    /// The table of the keys, after the lists.
    pub(crate) fn into_table(self) -> Section<'a> {
        Section { base: self.base, ..self.section }
    }
}
