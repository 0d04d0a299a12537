//! Saving and opening multivalue tables. `file/lists.rs` describes the layout.
//!
//! As for table files, memory is allocated only after a check that the file is long enough for its contents. A correct
//! checksum does not prove that the contents are valid, so they are audited as well.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::MultiTable;
use super::digest::joined;
use crate::backend::Runs;
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::file::{ALIGNED, Lists, SUM_BYTES, Section, gap_after, write_whole};
use crate::memory;
use crate::scheme::{Scheme, Value};
use crate::table::{Contents, Digest, HashTable};
use crate::threads;

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> MultiTable<B, S, V> {
    /// Writes the table to a file, and returns its digest. Files are replaced as by [`HashTable::save`].
    ///
    /// Cost: everything is read from the device in pieces of 8 MiB. Equal canonical tables have equal files, on
    /// whichever device they were built.
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
    /// [`Error::Io`], or what the device reports. An existing file with this name is unchanged in that case.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Digest> {
        let path = path.as_ref();
        write_whole(path, &mut |file| Ok(self.write_to(file, path)?.0))
    }

    /// Appends the table to the file. `path` is used in error messages. Returns the digest and the number of bytes
    /// written.
    pub(crate) fn write_to(&self, file: &mut File, path: &Path) -> Result<(Digest, u64)> {
        let io = |source| Error::Io { path: path.into(), source };
        let mut written = 0;
        let sum = self.sum(|bytes| {
            written += bytes.len() as u64;
            file.write_all(bytes).map_err(io)
        })?;
        file.write_all(&sum).map_err(io)?;
        written += SUM_BYTES;
        let gap = gap_after(written);
        file.write_all(&[0; ALIGNED as usize][..gap]).map_err(io)?;
        let (digest, of_table) = self.table.write_to(file, path, Contents::Multi)?;
        Ok((joined(sum, digest), written + gap as u64 + of_table))
    }

    /// Opens a file, checks all of it, and copies the table to a device.
    ///
    /// Cost: the file is read once into host memory, hashed, audited and uploaded.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::BadFile`] for a file that is not a multivalue table of this scheme and type of values,
    /// is damaged, or contradicts itself; [`Error::OutOfMemory`] or what the device reports.
    pub fn open(backend: &B, path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::open_with_digest(backend, Section::whole(path.as_ref())?)?.0)
    }

    /// As [`open`](Self::open), for a section of a file. Also returns the digest.
    pub(crate) fn open_with_digest(backend: &B, section: Section<'_>) -> Result<(Self, Digest)> {
        let (table, sum, of_table) =
            Self::open_with(backend, section, |part| HashTable::open_with_digest(backend, part, Contents::Multi))?;
        Ok((table, joined(sum, of_table)))
    }

    /// Reads and checks everything except the table of keys, whose section is passed to `open_table`. Returns the
    /// table, the checksum of the rest, and the second result of `open_table`.
    fn open_with<T>(
        backend: &B,
        section: Section<'_>,
        open_table: impl FnOnce(Section<'_>) -> Result<(HashTable<B, S>, T)>,
    ) -> Result<(Self, [u8; SUM_BYTES as usize], T)> {
        let path = section.path;
        let bad = |reason: &str| Error::BadFile { path: path.into(), reason: reason.into() };
        threads::ready()?;
        let mut source = Source::open(section)?;
        source.lists.check_values::<V>()?;
        let starts: Vec<u32> = source.column(source.lists.starts)?;
        let gap: Vec<u8> = source.column(source.lists.header.gap().len())?;
        let values: Vec<V> = source.column(source.lists.values)?;
        let Some(sum) = source.sound_sum()? else {
            return Err(bad("its checksum is wrong: it was damaged after it was written"));
        };
        if gap.iter().any(|&byte| byte != 0) {
            return Err(bad("the bytes between its columns are not zero"));
        }
        let (table, said) = open_table(source.lists.into_table())?;
        let pairs = values.len();
        let table = MultiTable { table, starts: backend.upload(&starts)?, values: backend.upload(&values)?, pairs };
        table.check_runs(&starts)?.map_err(|violation| bad(&violation.to_string()))?;
        Ok((table, sum, said))
    }
}

impl<S: Scheme<Value = u32>, V: Value> MultiTable<Cpu, S, V>
where
    Cpu: Runs<S>,
{
    /// Opens a file without reading its table of keys into memory; see [`HashTable::open_mapped`]. Starts and values
    /// are read and checked, and a pass over the table checks the assignment of runs to keys.
    ///
    /// # Safety
    /// As [`HashTable::open_mapped`]: no one may write to the file.
    ///
    /// # Errors
    /// As [`open`](Self::open), but the checksum of the table of keys is not verified.
    #[expect(unsafe_code, reason = "other processes may write to the file")]
    pub unsafe fn open_mapped(backend: &Cpu, path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: the caller guarantees that no one writes to the file.
        let opened = Self::open_with(backend, Section::whole(path.as_ref())?, |section| unsafe {
            Ok((HashTable::open_mapped_part(backend, section, Contents::Multi)?, ()))
        });
        Ok(opened?.0)
    }
}

/// The lists of a file, which are read one after the other.
struct Source<'a> {
    lists: Lists<'a>,
    /// The hash of everything read so far.
    hasher: blake3::Hasher,
}

impl<'a> Source<'a> {
    fn open(section: Section<'a>) -> Result<Source<'a>> {
        let lists = Lists::open(section)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(bytemuck::bytes_of(&lists.header));
        Ok(Source { lists, hasher })
    }

    /// Reads a column of `len` elements.
    fn column<T: bytemuck::Pod>(&mut self, len: usize) -> Result<Vec<T>> {
        let mut column = memory::zeroed(len)?;
        let bytes = bytemuck::cast_slice_mut::<T, u8>(&mut column);
        let read = self.lists.section.file.read_exact(bytes);
        read.map_err(|error| self.lists.section.io(error))?;
        self.hasher.update_rayon(bytes);
        Ok(column)
    }

    /// Reads the checksum after the columns. `None` if it does not match, or if the padding before the table is not
    /// zero.
    fn sound_sum(&mut self) -> Result<Option<[u8; SUM_BYTES as usize]>> {
        let base = self.lists.base;
        let Section { file, .. } = &mut self.lists.section;
        let read = file.stream_position().and_then(|at| {
            let mut rest = vec![0; base.saturating_sub(at) as usize];
            file.read_exact(&mut rest).map(|()| rest)
        });
        let rest = read.map_err(|error| self.lists.section.io(error))?;
        let (sum, zeros) = rest.split_at(rest.len().min(SUM_BYTES as usize));
        let expected = *self.hasher.finalize().as_bytes();
        Ok((sum == expected && zeros.iter().all(|&zero| zero == 0)).then_some(expected))
    }
}
