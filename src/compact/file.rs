//! Compacting tables as files. Only the table of key -> id is stored; the list is restored from its pairs.

use std::path::Path;

use super::{CompactingTable, reading};
use crate::backend::Runs;
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::file::Section;
use crate::scheme::Scheme;
use crate::table::{Contents, Digest, HashTable};

impl<B: Runs<S>, S: Scheme<Value = u32>> CompactingTable<B, S> {
    /// Writes the table to a file, and returns its digest; as [`HashTable::save`].
    ///
    /// ```
    /// use koel::{CompactingTable, Cpu, Cuckoo};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("ids.koel");
    /// let table = CompactingTable::builder(Cuckoo::default()).build(&Cpu::new(), &[30, 10, 30])?;
    /// let digest = table.save(&path)?;
    /// let again: CompactingTable<Cpu> = CompactingTable::open(&Cpu::new(), &path)?;
    /// assert_eq!((again.digest()?, again.unique()?), (digest, vec![30, 10]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`], or what the device reports. An existing file with this name is unchanged in that case.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Digest> {
        self.table.save(path)
    }

    /// Opens a file, checks all of it, and copies the table to a device.
    ///
    /// Cost: that of [`HashTable::open`], and a pass that writes each key to the position of its id.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::BadFile`] for a file that is not a compacting table of this scheme, or is damaged, or
    /// has values that are not the ids 0, 1, ..; [`Error::OutOfMemory`] or what the device reports.
    pub fn open(backend: &B, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::of_file(HashTable::open_part(backend, Section::whole(path)?, Contents::Compact)?, path)
    }

    fn of_file(table: HashTable<B, S>, path: &Path) -> Result<Self> {
        let unique = reading::list_of(&table).map_err(|error| match error {
            Error::Damaged(violation) => Error::BadFile { path: path.into(), reason: violation.to_string() },
            other => other,
        })?;
        Ok(CompactingTable { table, unique })
    }
}

impl<S: Scheme<Value = u32>> CompactingTable<Cpu, S>
where
    Cpu: Runs<S>,
{
    /// Opens a file without reading its table into memory; see [`HashTable::open_mapped`]. The list of keys, with 4
    /// bytes per key, is restored in memory by a pass over the whole table.
    ///
    /// # Safety
    /// As [`HashTable::open_mapped`]: no one may write to the file.
    ///
    /// # Errors
    /// As [`open`](Self::open), but the checksum is not verified.
    #[expect(unsafe_code, reason = "other processes may write to the file")]
    pub unsafe fn open_mapped(backend: &Cpu, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // SAFETY: the caller guarantees that no one writes to the file.
        Self::of_file(unsafe { HashTable::open_mapped_part(backend, Section::whole(path)?, Contents::Compact)? }, path)
    }
}
