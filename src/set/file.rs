//! The bytes of a set: digest, audit, files.

use std::path::Path;

use super::HashSet;
use crate::backend::Runs;
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::file::Section;
use crate::scheme::{Audit, Scheme};
use crate::table::{Contents, Digest, HashTable, Stats};

impl<B: Runs<S>, S: Scheme> HashSet<B, S> {
    /// The digest of the set's table. Sets with equal digests are equal.
    ///
    /// For canonical schemes it is a function of scheme, parameters, seed, number of slots and keys, unless the set has
    /// tombstones. Cost: as [`HashTable::digest`].
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashSet};
    /// let build = |keys: &[u32]| HashSet::builder(CuckooSet::default()).build(&Cpu::new(), keys);
    /// assert_eq!(build(&[2, 1, 2])?.digest()?, build(&[1, 2])?.digest()?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest(&self) -> Result<Digest> {
        self.table.digest()
    }

    /// Checks every invariant of the table; see [`HashTable::audit`].
    ///
    /// # Errors
    /// [`Error::Damaged`] with the first violation, or what the device reports.
    pub fn audit(&self) -> Result<Audit> {
        self.table.audit()
    }

    /// Statistics of the table; see [`HashTable::stats`].
    ///
    /// # Errors
    /// What the device reports.
    pub fn stats(&self) -> Result<Stats> {
        self.table.stats()
    }

    /// Writes the set to a file, and returns its digest; as [`HashTable::save`].
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashSet};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("set.koel");
    /// let set = HashSet::builder(CuckooSet::default()).build(&Cpu::new(), &[3, 1, 3])?;
    /// let digest = set.save(&path)?;
    /// let again: HashSet<Cpu> = HashSet::open(&Cpu::new(), &path)?;
    /// assert_eq!(again.digest()?, digest);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`], or what the device reports. An existing file with this name is unchanged in that case.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Digest> {
        self.table.save(path)
    }

    /// Opens a file, checks all of it, and copies the set to a device.
    ///
    /// Cost: as [`HashTable::open`]; for schemes that store values, also a pass over the slots that checks that all
    /// values are 0.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::BadFile`] for a file that is not a set of this scheme, is damaged, or contradicts
    /// itself; [`Error::OutOfMemory`] or what the device reports.
    pub fn open(backend: &B, path: impl AsRef<Path>) -> Result<Self> {
        Ok(HashSet { table: open_with_digest(backend, Section::whole(path.as_ref())?)?.0 })
    }
}

/// Opens the table of a set in a section of a file, and returns it with its digest.
pub(crate) fn open_with_digest<B: Runs<S>, S: Scheme>(
    backend: &B,
    section: Section<'_>,
) -> Result<(HashTable<B, S>, Digest)> {
    let path = section.path;
    let (table, digest) = HashTable::open_with_digest(backend, section, Contents::Set)?;
    // With other values, equal sets would have different digests.
    if table.has_values() && backend.greatest(&table.pairs_on()?.1)? != S::Value::default() {
        return Err(Error::BadFile {
            path: path.into(),
            reason: "it claims to be a set, but its keys have \
                                                                values"
                .into(),
        });
    }
    Ok((table, digest))
}

impl<S: Scheme> HashSet<Cpu, S>
where
    Cpu: Runs<S>,
{
    /// Opens a file without reading it into memory; see [`HashTable::open_mapped`]. That all values are 0 is not
    /// checked.
    ///
    /// # Safety
    /// As [`HashTable::open_mapped`]: no one may write to the file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::BadFile`] for a file whose header is not that of a set of this scheme.
    #[expect(unsafe_code, reason = "other processes may write to the file")]
    pub unsafe fn open_mapped(backend: &Cpu, path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: the caller guarantees that no one writes to the file.
        let table = unsafe { HashTable::open_mapped_part(backend, Section::whole(path.as_ref())?, Contents::Set)? };
        Ok(HashSet { table })
    }
}
