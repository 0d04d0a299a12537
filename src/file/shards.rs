//! The parts of a sharded table's file around its tables: a header before them, and their lengths after them.
//!
//! ```text
//! offset 0       magic "koelshrd", version u32, shards u32 (P), seed u64, zeros to 64
//!        64      the shards' files, `koeltabl` or `koelmult`, each followed by zeros up to a multiple of 64
//!        then    P x u64: the bytes of each shard's file
//!        the end 32 bytes: BLAKE3( digest, the lengths )
//! ```
//!
//! This module reads only the header and the end, and checks the lengths against the length of the file. The caller
//! compares the checksum, which depends on the digest.

use std::io::{Read, Seek, SeekFrom};

use bytemuck::{Pod, Zeroable};

use super::kind::{FileKind, Magic};
use super::lists::{ALIGNED, SUM_BYTES};
use super::section::Section;
use crate::error::Result;
use crate::memory;

const VERSION: u32 = 1;
const HEADER_BYTES: u64 = 64;

/// The most shards of a table. Each is a separate table.
pub(crate) const MOST_SHARDS: usize = 4096;

/// The header of a sharded table's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ShardsHeader {
    magic: Magic,
    version: u32,
    pub(crate) shards: u32,
    pub(crate) seed: u64,
    zeros: [u64; 5],
}
const _: () = assert!(size_of::<ShardsHeader>() == HEADER_BYTES as usize);

impl ShardsHeader {
    pub(crate) fn new(shards: usize, seed: u64) -> ShardsHeader {
        ShardsHeader { magic: FileKind::Sharded.magic(), version: VERSION, shards: shards as u32, seed, zeros: [0; 5] }
    }

    /// Reads and validates the header.
    fn read(section: &mut Section<'_>, bytes: u64) -> Result<ShardsHeader> {
        if bytes < HEADER_BYTES {
            return Err(section.bad(format!("{bytes} bytes are too few for any table in shards")));
        }
        let mut start = [0; HEADER_BYTES as usize];
        section.file.read_exact(&mut start).map_err(|error| section.io(error))?;
        let header: ShardsHeader = bytemuck::pod_read_unaligned(&start);
        match FileKind::of(header.magic) {
            Some(FileKind::Sharded) => {}
            Some(_) => return Err(section.bad("it is not sharded: open it with the type that saved it")),
            None => return Err(section.bad("it does not begin with `koelshrd`")),
        }
        if header.version != VERSION {
            let version = header.version;
            return Err(section.bad(format!("it has format {version}, and this koel reads format {VERSION}")));
        }
        if !(1..=MOST_SHARDS as u32).contains(&header.shards) || header.zeros != [0; 5] {
            return Err(section.bad("its header is invalid for a sharded table"));
        }
        Ok(header)
    }
}

/// A file whose header and lengths have been read and agree with the file's own length.
pub(crate) struct Shards<'a> {
    pub(crate) section: Section<'a>,
    pub(crate) header: ShardsHeader,
    /// The length of each shard's file in bytes.
    lengths: Vec<u64>,
    sum: [u8; SUM_BYTES as usize],
}

impl<'a> Shards<'a> {
    /// Reads the header and the lengths of a whole file.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), or [`Error::BadFile`](crate::Error::BadFile) if this is not a file of a sharded
    /// table, or if the lengths do not match the file.
    pub(crate) fn open(mut section: Section<'a>) -> Result<Shards<'a>> {
        let bytes = section.file_bytes()?;
        let header = ShardsHeader::read(&mut section, bytes)?;
        let footer = 8 * u64::from(header.shards) + SUM_BYTES;
        let wrong = "its lengths contradict each other";
        let end = bytes.checked_sub(footer).filter(|&end| end >= HEADER_BYTES).ok_or_else(|| section.bad(wrong))?;
        let mut lengths: Vec<u64> = memory::zeroed(header.shards as usize)?;
        let mut sum = [0; SUM_BYTES as usize];
        let file = &mut section.file;
        let read = file.seek(SeekFrom::Start(end)).and_then(|_| {
            file.read_exact(bytemuck::cast_slice_mut(&mut lengths))?;
            file.read_exact(&mut sum)
        });
        read.map_err(|error| section.io(error))?;
        let rounded = |sum: u64, &length: &u64| sum.checked_add(length.checked_next_multiple_of(ALIGNED)?);
        if lengths.iter().try_fold(HEADER_BYTES, rounded) != Some(end) {
            return Err(section.bad(wrong));
        }
        Ok(Shards { section, header, lengths, sum })
    }

    /// The position and length of each shard's file.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u64, u64)> {
        self.lengths.iter().scan(HEADER_BYTES, |next, &length| {
            let base = *next;
            *next += length.next_multiple_of(ALIGNED);
            Some((base, length))
        })
    }

    /// The first shard's table, and the number of shards.
    pub(crate) fn into_first(mut self) -> (Section<'a>, u32) {
        let end = HEADER_BYTES + self.lengths[0];
        self.section.base = HEADER_BYTES;
        self.section.end = Some(end);
        (self.section, self.header.shards)
    }

    /// Returns an error for nonzero bytes between a shard of this length and the next one.
    pub(crate) fn check_gap(&mut self, base: u64, length: u64) -> Result<()> {
        let mut gap = [0; ALIGNED as usize];
        let gap = &mut gap[..gap_after(length)];
        let file = &mut self.section.file;
        let read = file.seek(SeekFrom::Start(base + length)).and_then(|_| file.read_exact(gap));
        read.map_err(|error| self.section.io(error))?;
        if gap.iter().any(|&byte| byte != 0) {
            return Err(self.section.bad("the bytes between its shards are not zero"));
        }
        Ok(())
    }

    /// Returns an error for a file whose checksum does not match its lengths and this digest.
    pub(crate) fn check_sum(&self, digest: &[u8]) -> Result<()> {
        if sum_of(digest, &self.lengths).as_bytes() != &self.sum {
            return Err(self.section.bad("its checksum is wrong: it was damaged after it was written"));
        }
        Ok(())
    }
}

/// The number of zeros after a shard's file of this length.
pub(crate) fn gap_after(length: u64) -> usize {
    (length.next_multiple_of(ALIGNED) - length) as usize
}

/// The checksum of a file whose table has this digest, and whose shards have these lengths.
pub(crate) fn sum_of(digest: &[u8], lengths: &[u64]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(digest);
    hasher.update(bytemuck::cast_slice(lengths));
    hasher.finalize()
}
