//! Multivalue tables as files: `save`, `open`.
//!
//! ```text
//! offset 0     magic "koelmult", version u32, 0 u32, keys K u64, pairs P u64, zeros up to 64
//!        64    starts: K + 1 numbers of 32 bits
//!        ..    values: P numbers of 32 bits
//!        ..    32 bytes: BLAKE3 of all before them
//!        ..    zeros up to a multiple of 64
//!        base  the table of the keys: a table file (`table/file.rs`), to the end
//! ```
//!
//! As with table files, nothing is allocated before the file was seen to be long enough for it, and a right checksum
//! says nothing about sense: what was read is audited too.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::MultiTable;
use super::digest::{HEADER_BYTES, Header, MAGIC, VERSION, joined};
use crate::backend::Runs;
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::file::write_whole;
use crate::memory;
use crate::scheme::Scheme;
use crate::table::{Contents, Digest, HashTable, regular::Part};
use crate::threads;

const SUM_BYTES: u64 = 32;
/// What the table's place in the file is a multiple of.
const ALIGNED: u64 = 64;

impl<B: Runs<S>, S: Scheme> MultiTable<B, S> {
    /// Writes the table to a file, and returns its digest. Files are replaced as by [`HashTable::save`].
    ///
    /// Cost: all of it is read from the device in pieces of 8 MiB. Equal canonical tables give equal files, whatever
    /// device they were built on.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, MultiTable};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("table.koel");
    /// let table = MultiTable::builder(Cuckoo::default()).build(&Cpu::new(), &[1, 1], &[3, 4])?;
    /// let digest = table.save(&path)?;
    /// let again: MultiTable<Cpu> = MultiTable::open(&Cpu::new(), &path)?;
    /// assert_eq!(again.digest()?, digest);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`], or what the device reports. A file that had the name before is then untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Digest> {
        let path = path.as_ref();
        let io = |source| Error::Io { path: path.into(), source };
        write_whole(path, |file| {
            let mut written = 0;
            let sum = self.sum(|bytes| {
                written += bytes.len() as u64;
                file.write_all(bytes).map_err(io)
            })?;
            file.write_all(&sum).map_err(io)?;
            written += SUM_BYTES;
            let gap = written.next_multiple_of(ALIGNED) - written;
            file.write_all(&[0; ALIGNED as usize][..gap as usize]).map_err(io)?;
            Ok(joined(sum, self.table.write_to(file, path, Contents::Multi)?))
        })
    }

    /// Opens a file, checks everything in it, and puts the table on a device.
    ///
    /// Cost: the file is read once into this machine's memory, hashed and audited, and uploaded.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::BadFile`] for a file that is no multivalue table of this scheme, is damaged, or
    /// contradicts itself; [`Error::OutOfMemory`] or what the device reports.
    pub fn open(backend: &B, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::open_with(backend, path, |part| HashTable::open_part(backend, part, Contents::Multi))
    }

    /// Reads and checks all but the table, which `open_table` is given.
    fn open_with(
        backend: &B,
        path: &Path,
        open_table: impl FnOnce(Part<'_>) -> Result<HashTable<B, S>>,
    ) -> Result<Self> {
        let bad = |reason: &str| Error::BadFile { path: path.into(), reason: reason.into() };
        threads::ready()?;
        let mut source = Source::open(Part::whole(path)?)?;
        let (starts, values) = (source.column(source.starts)?, source.column(source.values)?);
        if !source.is_sound()? {
            return Err(bad("its checksum is wrong: it was damaged after it was written"));
        }
        let table = open_table(source.table())?;
        let pairs = values.len();
        let table = MultiTable { table, starts: backend.upload(&starts)?, values: backend.upload(&values)?, pairs };
        table.check_runs(&starts)?.map_err(|violation| bad(&violation.to_string()))?;
        Ok(table)
    }
}

impl<S: Scheme> MultiTable<Cpu, S>
where
    Cpu: Runs<S>,
{
    /// Opens a file whose table of the keys stays where it is; see [`HashTable::open_mapped`]. Starts and values are read
    /// and checked, and with them which key has which run, by a pass over the table.
    ///
    /// # Safety
    /// That of [`HashTable::open_mapped`]: nobody writes to the file.
    ///
    /// # Errors
    /// As [`open`](Self::open), but the checksum of the table of the keys is not looked at.
    #[expect(unsafe_code, reason = "nobody here can know who else writes to a file")]
    pub unsafe fn open_mapped(backend: &Cpu, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // SAFETY: the caller's promise.
        Self::open_with(backend, path, |part| unsafe { HashTable::open_mapped_part(backend, part, Contents::Multi) })
    }
}

/// The table in a file: behind the lists of values if it begins as a multivalue table, or else all of it.
///
/// # Errors
/// [`Error::Io`], or [`Error::BadFile`] if it begins as a multivalue table and is none.
pub(crate) fn table_part(path: &Path) -> Result<Part<'_>> {
    let io = |source| Error::Io { path: path.into(), source };
    let mut magic = Vec::new();
    let mut part = Part::whole(path)?;
    (&mut part.file).take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(io)?;
    part.file.rewind().map_err(io)?;
    if magic != MAGIC { Ok(part) } else { Source::open(part).map(Source::table) }
}

/// A file whose header has been read, and that is long enough for what the header speaks of.
struct Source<'a> {
    path: &'a Path,
    file: File,
    /// Of all that was read.
    hasher: blake3::Hasher,
    starts: usize,
    values: usize,
    base: u64,
}

impl<'a> Source<'a> {
    fn open(Part { path, mut file, .. }: Part<'a>) -> Result<Source<'a>> {
        let io = |source| Error::Io { path: path.into(), source };
        let bad = |reason: String| Error::BadFile { path: path.into(), reason };
        let length = file.metadata().map_err(io)?.len();
        if length < HEADER_BYTES as u64 {
            return Err(bad(format!("{length} bytes are too few for any multivalue table")));
        }
        let mut start = [0; HEADER_BYTES];
        file.read_exact(&mut start).map_err(io)?;
        let header: Header = bytemuck::pod_read_unaligned(&start);
        let Header { magic, version, keys, pairs, .. } = header;
        if magic != MAGIC {
            return Err(bad("it does not begin with `koelmult`: it is no multivalue table".into()));
        }
        if version != VERSION {
            return Err(bad(format!("it has format {version}; this koel reads format {VERSION}: build it again")));
        }
        let sizes = keys <= pairs && (keys > 0 || pairs == 0) && pairs <= u32::MAX.into();
        if !sizes || header != Header::new(keys, pairs) {
            return Err(bad(format!("{keys} keys and {pairs} pairs make no multivalue table")));
        }
        // Small numbers now: no sum of them overflows.
        let base = (HEADER_BYTES as u64 + 4 * (keys + 1 + pairs) + SUM_BYTES).next_multiple_of(ALIGNED);
        let here = |words: u64| usize::try_from(words).map_err(|_| bad("it is too large for this machine".into()));
        let (starts, values) = (here(keys + 1)?, here(pairs)?);
        if length < base {
            return Err(bad(format!("its header speaks of {pairs} pairs, which {length} bytes do not hold")));
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&start);
        Ok(Source { path, file, hasher, starts, values, base })
    }

    /// The table of the keys, behind all that is read here.
    fn table(self) -> Part<'a> {
        Part { path: self.path, file: self.file, base: self.base }
    }

    /// The next so many numbers.
    fn column(&mut self, len: usize) -> Result<Vec<u32>> {
        let mut column = memory::zeroed(len)?;
        let bytes = bytemuck::cast_slice_mut(&mut column);
        self.file.read_exact(bytes).map_err(|error| self.io(error))?;
        self.hasher.update_rayon(bytes);
        Ok(column)
    }

    /// Whether the checksum, which stands behind the columns, is that of all before it, and zeros lead up to the table.
    fn is_sound(&mut self) -> Result<bool> {
        let at = self.file.stream_position().map_err(|error| self.io(error))?;
        let mut rest = vec![0; self.base.saturating_sub(at) as usize];
        self.file.read_exact(&mut rest).map_err(|error| self.io(error))?;
        let (sum, zeros) = rest.split_at(rest.len().min(SUM_BYTES as usize));
        Ok(sum == self.hasher.finalize().as_bytes() && zeros.iter().all(|&zero| zero == 0))
    }

    fn io(&self, source: std::io::Error) -> Error {
        Error::Io { path: self.path.into(), source }
    }
}
