//! Files, digests and audits of join indices, and copies on other devices.
//!
//! The file is that of a multivalue table of row numbers, and can be opened as one too. It opens as an index only if
//! its values are row numbers: each of 0, 1, .. occurs once, and those of a key ascend.

use std::fs::File;
use std::path::Path;

use super::{JoinIndex, NO_ROW};
use crate::backend::Runs;
use crate::error::{Error, Result};
use crate::file::Section;
use crate::memory;
use crate::multi::MultiTable;
use crate::scheme::{Audit, Scheme, Violation};
use crate::table::{Digest, Stats};

impl<B: Runs<S>, S: Scheme<Value = u32>> JoinIndex<B, S> {
    /// Copies the index to another device; nothing is rebuilt.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or [`Error::Device`] of either device.
    pub fn to_backend<C: Runs<S>>(&self, other: &C) -> Result<JoinIndex<C, S>> {
        Ok(JoinIndex { rows: self.rows.to_backend(other)? })
    }

    /// The digest of the multivalue table of the row numbers: if canonical digests are equal, the right columns are
    /// equal.
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest(&self) -> Result<Digest> {
        self.rows.digest()
    }

    /// Checks the table of the keys and their runs, and that the runs contain each row once.
    ///
    /// Cost: the whole index is copied to the host.
    ///
    /// # Errors
    /// [`Error::Damaged`] with a violation, or what the device reports.
    pub fn audit(&self) -> Result<Audit> {
        let audit = self.rows.audit()?;
        check_rows(&self.rows)??;
        let mut spare = [0];
        self.backend().read(self.rows.values_on(), self.len(), &mut spare)?;
        if spare != [NO_ROW] {
            return Err(
                Violation::Contradiction { reason: "the entry for a missing row is the number of a row" }.into()
            );
        }
        Ok(audit)
    }

    /// Statistics of the table of the keys; see [`HashTable::stats`](crate::HashTable::stats).
    ///
    /// # Errors
    /// What the device reports.
    pub fn stats(&self) -> Result<Stats> {
        self.rows.stats()
    }

    /// Writes the index to a file, and returns its digest; see [`MultiTable::save`].
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, JoinIndex, JoinKind};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("index.koel");
    /// let index = JoinIndex::builder(Cuckoo::default()).build(&Cpu::new(), &[30, 10, 30])?;
    /// let digest = index.save(&path)?;
    /// let again: JoinIndex<Cpu> = JoinIndex::open(&Cpu::new(), &path)?;
    /// assert_eq!(again.digest()?, digest);
    /// assert_eq!(again.join(&[30], JoinKind::Inner)?.collect()?.right, [0, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`], or what the device reports. An existing file of that name is then unchanged.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Digest> {
        self.rows.save(path)
    }

    /// Opens a file, checks everything in it, and moves the index to a device.
    ///
    /// Cost: as [`MultiTable::open`], and a pass over the row numbers.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::BadFile`] if the file is not a multivalue table of this scheme, is damaged, contradicts
    /// itself, or has values that are not row numbers; [`Error::OutOfMemory`] or what the device reports.
    pub fn open(backend: &B, path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::open_section(backend, Section::whole(path.as_ref())?)?.0)
    }

    fn open_section(backend: &B, section: Section<'_>) -> Result<(Self, Digest)> {
        let path = section.path;
        let (rows, digest) = MultiTable::open_with_digest(backend, section)?;
        let bad = |violation: Violation| Error::BadFile { path: path.into(), reason: violation.to_string() };
        check_rows(&rows)?.map_err(bad)?;
        Ok((JoinIndex::of_rows(rows)?, digest))
    }

    /// Appends the index to a file that has other contents too, at a multiple of 64 bytes. Returns the digest and the
    /// number of bytes. `path` is for messages.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    #[doc(hidden)]
    pub fn write_to(&self, file: &mut File, path: &Path) -> Result<(Digest, u64)> {
        self.rows.write_to(file, path)
    }

    /// Opens the index in these bytes of a file, and returns its digest. `path` is for messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[doc(hidden)]
    pub fn open_in(backend: &B, file: &File, path: &Path, base: u64, bytes: u64) -> Result<(Self, Digest)> {
        Self::open_section(backend, Section::of(file, path)?.part(base, bytes)?)
    }
}

/// Checks that the values are row numbers. The runs must have been checked.
fn check_rows<B: Runs<S>, S: Scheme<Value = u32>>(
    rows: &MultiTable<B, S>,
) -> Result<std::result::Result<(), Violation>> {
    let (starts, values) = (rows.starts()?, rows.values()?);
    let mut there: Vec<u8> = memory::zeroed(rows.len())?;
    let ascend = starts.windows(2).all(|run| {
        let run = values.get(run[0] as usize..run[1] as usize).unwrap_or(&[]);
        run.windows(2).all(|two| two[0] < two[1])
    });
    let once = values[..rows.len()].iter().all(|&row| {
        let place = there.get_mut(row as usize);
        place.is_some_and(|place| std::mem::replace(place, 1) == 0)
    });
    if ascend && once {
        return Ok(Ok(()));
    }
    let reason = "its values are not the numbers of rows: it is a multivalue table, and no index of a join";
    Ok(Err(Violation::Contradiction { reason }))
}
