//! The file format of prepared joins.
//!
//! ```text
//! offset 0     magic "koelside", version u32, zeros up to 64
//!        64    the schema, then the blocks of rows (blocks.rs), each followed by zeros up to a multiple of 64
//!        ..    the index: a file of `koel::JoinIndex`, followed by zeros up to a multiple of 64
//!        ..    for each block, its offset, bytes and rows, as u64; for each key, the number of its column, as u64
//! end - 128    the tail: counts, parameters, BLAKE3 of all bytes before the index, and the digest
//! ```
//!
//! The digest is the BLAKE3 hash of the rest of the tail, the numbers before the tail, and the digest of the index. It
//! covers all bytes, but the file can still be written in one pass.
//!
//! All lengths are compared with the length of the file before anything is read or allocated.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow_buffer::Buffer;
use arrow_schema::FieldRef;
use bytemuck::{Pod, Zeroable};
use bytes::Bytes;
use koel::cpu::Memory;
use koel::file::WholeFile;
use koel::{Any, Digest};
use rayon::prelude::*;

use super::blocks::{ROWS, block, read_block, read_schema, schema_message};
use super::hashed::{Hashed, Parameters, SavedIndex};
use super::{PreparedJoin, keys_of};
use crate::encode::NullEquality;
use crate::error::{Error, Result};
use crate::join::RightKeys;
use crate::keys::Column;

const MAGIC: [u8; 8] = *b"koelside";
/// The version of the format. It changes whenever the bytes do.
const VERSION: u32 = 1;
const ALIGNED: u64 = 64;
/// The number of blocks that are encoded at the same time by all threads.
const AT_ONCE: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Head {
    magic: [u8; 8],
    version: u32,
    zeros: [u32; 13],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Tail {
    schema_bytes: u64,
    blocks: u64,
    keys: u64,
    rows: u64,
    index_at: u64,
    index_bytes: u64,
    seed: u64,
    /// 1 if nulls are equal, otherwise 0.
    nulls: u32,
    /// The number of bits of the hashes.
    bits: u32,
    payload: [u8; 32],
    digest: [u8; 32],
}

/// The position of a block in the file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Place {
    offset: u64,
    bytes: u64,
    rows: u64,
}

const HEAD: u64 = size_of::<Head>() as u64;
const TAIL: u64 = size_of::<Tail>() as u64;
const _: () = assert!(HEAD == ALIGNED && TAIL == 128);

impl Head {
    fn new() -> Head {
        Head { magic: MAGIC, version: VERSION, zeros: [0; 13] }
    }
}

impl Tail {
    /// The digest of a file with this tail. The length of the index is not hashed, because it follows from the index.
    fn digest_of(&self, directory: &[u8], index: Digest) -> Digest {
        let hashed = Tail { index_bytes: 0, digest: [0; 32], ..*self };
        let mut hasher = blake3::Hasher::new();
        hasher.update(bytemuck::bytes_of(&hashed));
        hasher.update(directory).update(&index.bytes());
        hasher.finalize().into()
    }
}

/// Writes the part of a file before the index.
struct Payload<'a> {
    sink: &'a mut dyn FnMut(&[u8]) -> Result<()>,
    hasher: blake3::Hasher,
    end: u64,
}

impl Payload<'_> {
    /// Writes bytes, followed by zeros up to a multiple of 64.
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let zeros = &[0; ALIGNED as usize][..gap(bytes.len() as u64) as usize];
        for bytes in [bytes, zeros] {
            self.hasher.update(bytes);
            (self.sink)(bytes)?;
            self.end += bytes.len() as u64;
        }
        Ok(())
    }
}

/// The number of zeros that follow `bytes` bytes.
fn gap(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNED) - bytes
}

/// Zeroed words, into which a part of a file is read. The file states their number, so the allocation may fail.
fn zeroed<T: Zeroable + Clone>(words: usize) -> Result<Vec<T>> {
    let mut zeroed = Vec::new();
    zeroed.try_reserve_exact(words).map_err(|_| koel::Error::OutOfMemory {
        device: "this machine".into(),
        bytes: (words as u64).saturating_mul(size_of::<T>() as u64),
    })?;
    zeroed.resize(words, T::zeroed());
    Ok(zeroed)
}

impl PreparedJoin {
    /// The digest of the rows, the key columns and the parameters, as in the file. It is equal on every device.
    ///
    /// Cost: as [`save`](Self::save), but nothing is written; a second call returns the same digest at once.
    ///
    /// # Errors
    /// [`Error::NotOneArray`], or what koel reports.
    pub fn digest(&self) -> Result<Digest> {
        if let Some(&digest) = self.digest.get() {
            return Ok(digest);
        }
        let (tail, directory) = self.write_payload(&mut |_| Ok(()))?;
        let digest = tail.digest_of(&directory, self.saved()?.digest()?);
        Ok(*self.digest.get_or_init(|| digest))
    }

    /// Writes the rows and the index to a file, and returns the digest. An existing file is replaced after the new one
    /// is complete.
    ///
    /// Cost: the rows are copied, a few blocks at a time, hashed and written; the index is read from the device.
    ///
    /// # Errors
    /// [`koel::Error::Io`], or what the device reports. An existing file with this name is unchanged in that case.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Digest> {
        let path = path.as_ref();
        let io = |source| Error::from(koel::Error::Io { path: path.into(), source });
        let (whole, mut file) = WholeFile::create(path).map_err(io)?;
        let (mut tail, directory) = self.write_payload(&mut |bytes| file.write_all(bytes).map_err(io))?;
        let (of_index, bytes) = self.saved()?.write_to(&mut file, path)?;
        file.write_all(&[0; ALIGNED as usize][..gap(bytes) as usize]).map_err(io)?;
        let digest = tail.digest_of(&directory, of_index);
        (tail.index_bytes, tail.digest) = (bytes, digest.bytes());
        file.write_all(&directory).and_then(|()| file.write_all(bytemuck::bytes_of(&tail))).map_err(io)?;
        drop(file);
        whole.finish().map_err(io)?;
        Ok(*self.digest.get_or_init(|| digest))
    }

    /// Writes the part before the index. Returns the tail as far as it is known, and the numbers before it.
    fn write_payload(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<(Tail, Vec<u8>)> {
        let mut payload = Payload { sink, hasher: blake3::Hasher::new(), end: 0 };
        payload.put(bytemuck::bytes_of(&Head::new()))?;
        let schema = schema_message(&self.schema)?;
        payload.put(&schema)?;
        let starts: Vec<usize> = (0..self.len()).step_by(ROWS).collect();
        let rows_at = |start: usize| ROWS.min(self.len() - start);
        let mut places = Vec::with_capacity(starts.len());
        for some in starts.chunks(AT_ONCE) {
            let encoded = some.par_iter().map(|&start| block(&self.schema, &self.columns, start, rows_at(start)));
            for (bytes, &start) in encoded.collect::<Result<Vec<_>>>()?.iter().zip(some) {
                places.push(Place { offset: payload.end, bytes: bytes.len() as u64, rows: rows_at(start) as u64 });
                payload.put(bytes)?;
            }
        }
        let keys: Vec<u64> = self.on.iter().map(|&at| at as u64).collect();
        let tail = Tail {
            schema_bytes: schema.len() as u64,
            blocks: places.len() as u64,
            keys: keys.len() as u64,
            rows: self.len() as u64,
            index_at: payload.end,
            index_bytes: 0,
            seed: self.parameters.seed,
            nulls: u32::from(self.parameters.nulls == NullEquality::NullEquals),
            bits: self.parameters.bits,
            payload: *payload.hasher.finalize().as_bytes(),
            digest: [0; 32],
        };
        Ok((tail, [bytemuck::cast_slice(&places), bytemuck::cast_slice(&keys)].concat()))
    }

    fn saved(&self) -> Result<&SavedIndex> {
        self.index.saved().ok_or_else(|| koel::Error::WrongIndex.into())
    }

    /// Opens a file, checks all of it, and copies the index to a device. The rows are read into memory.
    ///
    /// # Errors
    /// [`koel::Error::Io`]; [`koel::Error::BadFile`] for a file that is not a prepared join, is damaged, or was written
    /// by another version; [`koel::Error::OutOfMemory`] or what the device reports.
    pub fn open(device: &Any, path: impl AsRef<Path>) -> Result<Self> {
        let mut stored = Stored::open(path.as_ref())?;
        let bytes = stored.read()?;
        if blake3::Hasher::new().update_rayon(&bytes).finalize() != stored.tail.payload {
            return Err(stored.bad("its checksum is wrong: it was damaged after it was written"));
        }
        stored.prepared(device, bytes)
    }

    /// Opens a file whose rows remain in it: the operating system loads the rows that joins access, and processes share
    /// them. The index is read and checked.
    ///
    /// Lengths, offsets and text are checked, but not the checksum of the rows. Use [`open`](Self::open) if the file
    /// may be damaged.
    ///
    /// # Safety
    /// Until the value, and all columns and results that share its memory, are dropped, no process may write to the
    /// file or truncate it. Replacing it with [`save`](Self::save) is allowed, because that creates a new file.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[expect(unsafe_code, reason = "other processes may write to the file")]
    pub unsafe fn open_mapped(device: &Any, path: impl AsRef<Path>) -> Result<Self> {
        let stored = Stored::open(path.as_ref())?;
        let words = stored.here(stored.tail.index_at / size_of::<u64>() as u64)?;
        // SAFETY: the caller guarantees that no process changes the file.
        let map = unsafe { Memory::map_file(&stored.file, 0, words)? };
        stored.prepared(device, Buffer::from(Bytes::from_owner(Mapped(map))))
    }
}

/// Mapped words of a file, as bytes.
struct Mapped(Memory<u64>);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(self.0.words())
    }
}

/// A file whose lengths were checked.
struct Stored<'a> {
    path: &'a Path,
    file: File,
    tail: Tail,
    /// The numbers before the tail.
    directory: Vec<u64>,
}

impl<'a> Stored<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let io = |source| Error::from(koel::Error::Io { path: path.into(), source });
        let bad = |reason: &str| Error::from(koel::Error::BadFile { path: path.into(), reason: reason.into() });
        let mut file = koel::file::open(path)?;
        let length = file.metadata().map_err(io)?.len();
        let mut head = Head::zeroed();
        let begin = length.min(HEAD) as usize;
        file.read_exact(&mut bytemuck::bytes_of_mut(&mut head)[..begin]).map_err(io)?;
        if head.magic != MAGIC {
            return Err(bad(
                "it does not begin with `koelside`: it is not the prepared side of a join, which PreparedJoin::save and `koel build --columns` write",
            ));
        }
        if head.version != VERSION {
            let reads = format!("it has format {}; this koel reads format {VERSION}: build it again", head.version);
            return Err(bad(&reads));
        }
        let cut = || bad("it was cut short, or its lengths contradict each other: build it again");
        if head != Head::new() || length < HEAD + TAIL {
            return Err(cut());
        }
        let mut tail = Tail::zeroed();
        let at = file.seek(SeekFrom::Start(length - TAIL));
        at.and_then(|_| file.read_exact(bytemuck::bytes_of_mut(&mut tail))).map_err(io)?;
        let directory_bytes = directory_bytes(&tail, length).ok_or_else(cut)?;
        if tail.nulls > 1 || !(1..=u64::BITS).contains(&tail.bits) || tail.keys == 0 {
            return Err(cut());
        }
        let words = usize::try_from(directory_bytes / 8).map_err(|_| bad("it is too large for this machine"))?;
        let (mut zeros, mut directory) = ([0; ALIGNED as usize], zeroed::<u64>(words)?);
        let zeros = &mut zeros[..gap(tail.index_bytes) as usize];
        let at = file.seek(SeekFrom::Start(tail.index_at + tail.index_bytes));
        let read = at.and_then(|_| file.read_exact(zeros));
        read.and_then(|()| file.read_exact(bytemuck::cast_slice_mut(&mut directory))).map_err(io)?;
        let is_zero = zeros.iter().all(|&zero| zero == 0);
        let stored = Stored { path, file, tail, directory };
        if !is_zero || !stored.are_in_order() {
            return Err(cut());
        }
        Ok(stored)
    }

    fn bad(&self, reason: impl Into<String>) -> Error {
        koel::Error::BadFile { path: self.path.into(), reason: reason.into() }.into()
    }

    fn io(&self, source: std::io::Error) -> Error {
        koel::Error::Io { path: self.path.into(), source }.into()
    }

    fn here(&self, count: u64) -> Result<usize> {
        usize::try_from(count).map_err(|_| self.bad("it is too large for this machine"))
    }

    fn places(&self) -> &[Place] {
        bytemuck::cast_slice(&self.directory[..3 * self.tail.blocks as usize])
    }

    fn keys(&self) -> &[u64] {
        &self.directory[3 * self.tail.blocks as usize..]
    }

    /// Whether the blocks follow one another up to the index, and contain all rows.
    fn are_in_order(&self) -> bool {
        let mut end = Some(HEAD + self.tail.schema_bytes.next_multiple_of(ALIGNED));
        let mut rows = Some(0_u64);
        for place in self.places() {
            end = end.filter(|&end| end == place.offset && place.bytes <= self.tail.index_at);
            end = end.and_then(|end| end.checked_add(place.bytes.next_multiple_of(ALIGNED)));
            rows = rows.and_then(|rows| rows.checked_add(place.rows));
        }
        end == Some(self.tail.index_at) && rows == Some(self.tail.rows)
    }

    /// Reads the part before the index.
    fn read(&mut self) -> Result<Buffer> {
        let length = self.here(self.tail.index_at)?;
        let mut words = zeroed::<u128>(length / size_of::<u128>())?;
        let read = self.file.seek(SeekFrom::Start(0));
        let read = read.and_then(|_| self.file.read_exact(bytemuck::cast_slice_mut(&mut words)));
        read.map_err(|error| self.io(error))?;
        Ok(Buffer::from_vec(words))
    }

    /// Creates the prepared join; `bytes` is the part of the file before the index.
    fn prepared(self, device: &Any, bytes: Buffer) -> Result<PreparedJoin> {
        let damaged = |reason: String| self.bad(format!("it is damaged ({reason}): build it again"));
        let message = bytes.slice_with_length(HEAD as usize, self.here(self.tail.schema_bytes)?);
        let schema = read_schema(&message).map_err(damaged)?;
        let blocks = self.places().par_iter().map(|place| {
            let block = bytes.slice_with_length(place.offset as usize, place.bytes as usize);
            read_block(message.clone(), block, place.rows)
        });
        let batches = blocks.collect::<std::result::Result<Vec<_>, _>>().map_err(damaged)?;
        let column = |(at, field): (usize, &FieldRef)| {
            let chunks = batches.iter().map(|batch| Arc::clone(batch.column(at))).collect();
            Column::of_chunks(field.name(), field.data_type(), chunks)
        };
        let columns = schema.fields().iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        let on: Vec<usize> = self.keys().iter().map(|&at| at as usize).collect();
        if on.iter().any(|&at| at >= columns.len()) {
            return Err(damaged("a key is a column that does not exist".into()));
        }
        let keys = keys_of(&columns, &on)?;
        let Tail { index_at, index_bytes, seed, bits, .. } = self.tail;
        let (index, of_index) = SavedIndex::open_in(device, &self.file, self.path, index_at, index_bytes)?;
        let digest = self.tail.digest_of(bytemuck::cast_slice(&self.directory), of_index);
        if digest.bytes() != self.tail.digest || index.len() != keys.len() {
            return Err(self.bad("its checksum is wrong: it was damaged after it was written"));
        }
        let nulls = if self.tail.nulls == 1 { NullEquality::NullEquals } else { NullEquality::NothingEquals };
        let parameters = Parameters { nulls, seed, bits };
        let hashed = Hashed::of(&keys, parameters, &index)?;
        let index = RightKeys::of_hashes(keys, hashed, index);
        Ok(PreparedJoin { schema, columns, on, parameters, index, digest: OnceLock::from(digest) })
    }
}

/// The number of bytes between the index and the tail in a file of this length; `None` if the parts do not fill the
/// file.
fn directory_bytes(tail: &Tail, length: u64) -> Option<u64> {
    let of_blocks = tail.blocks.checked_mul(size_of::<Place>() as u64)?;
    let directory = of_blocks.checked_add(tail.keys.checked_mul(8)?)?;
    let schema_end = HEAD.checked_add(tail.schema_bytes.checked_next_multiple_of(ALIGNED)?)?;
    let index_end = tail.index_at.checked_add(tail.index_bytes.checked_next_multiple_of(ALIGNED)?)?;
    let end = index_end.checked_add(directory)?.checked_add(TAIL)?;
    (schema_end <= tail.index_at && tail.index_at.is_multiple_of(ALIGNED) && end == length).then_some(directory)
}
