//! One file for all shards, as [`crate::file::Shards`] has it.
//!
//! Header and shards' digests make the table's digest; where shards lay when it was saved is not told. Lengths stand behind
//! the shards, so that a file is written from front to end, into a pipe too.
//!
//! A file may be damaged or hostile: `open` compares all lengths with the file's before it reads a shard, opens shards as
//! table files are opened, and looks whether all are made alike and each key is in its shard.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::Sharded;
use super::builder::some;
use super::which::Which;
use crate::backend::Runs;
use crate::error::{Error, Result};
use crate::file::{ALIGNED, Section, Shards, ShardsHeader, gap_after, sum_of, write_whole};
use crate::scheme::{Plan as _, Scheme};
use crate::table::{Contents, Digest, HashTable};

/// The digest of a table whose shards have these.
fn digest_of(which: &Which, shards: &[Digest]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(bytemuck::bytes_of(&header(which)));
    shards.iter().for_each(|digest| _ = hasher.update(&digest.bytes()));
    hasher.finalize().into()
}

fn header(which: &Which) -> ShardsHeader {
    ShardsHeader::new(which.shards, which.seed)
}

/// A file that is being written, shard after shard.
pub(super) struct Writing<'a> {
    file: &'a mut File,
    path: &'a Path,
    which: &'a Which,
    digests: Vec<Digest>,
    lengths: Vec<u64>,
}

impl<'a> Writing<'a> {
    pub(super) fn begin(file: &'a mut File, path: &'a Path, which: &'a Which) -> Result<Self> {
        let mut writing = Writing { file, path, which, digests: Vec::new(), lengths: Vec::new() };
        writing.put(bytemuck::bytes_of(&header(which)))?;
        Ok(writing)
    }

    /// The next shard.
    pub(super) fn shard<B: Runs<S>, S: Scheme>(&mut self, table: &HashTable<B, S>) -> Result<()> {
        let (digest, bytes) = table.write_to(self.file, self.path, Contents::Map)?;
        self.put(&[0; ALIGNED as usize][..gap_after(bytes)])?;
        self.digests.push(digest);
        self.lengths.push(bytes);
        Ok(())
    }

    /// What stands behind all of them.
    pub(super) fn end(mut self) -> Result<Digest> {
        let digest = digest_of(self.which, &self.digests);
        let lengths = std::mem::take(&mut self.lengths);
        self.put(bytemuck::cast_slice(&lengths))?;
        self.put(sum_of(&digest.bytes(), &lengths).as_bytes())?;
        Ok(digest)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|source| Error::Io { path: self.path.into(), source })
    }
}

impl<B: Runs<S>, S: Scheme> Sharded<B, S> {
    /// The digest of a table whose shards have these.
    pub(super) fn digest_of(&self, shards: &[Digest]) -> Digest {
        digest_of(&self.which, shards)
    }

    /// Writes all shards to one file, which another number of devices can open, and another kind of them; what it returns
    /// is the [`digest`](Self::digest). An old file is replaced when all is written.
    ///
    /// Cost: every shard's image is read to this machine, hashed and written, one after the other.
    ///
    /// # Errors
    /// [`Error::Io`] or what a device reports.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Digest> {
        let path = path.as_ref();
        write_whole(path, |file| {
            let mut writing = Writing::begin(file, path, &self.which)?;
            self.tables.iter().try_for_each(|table| writing.shard(table))?;
            writing.end()
        })
    }

    /// Opens a file, checks everything in it, and puts the shards on these devices in turn.
    ///
    /// Cost: the file is read once into this machine's memory, shard by shard, hashed, audited and uploaded; and the keys of
    /// each shard are read back.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] for no device; [`Error::Io`]; [`Error::BadFile`] for a file that is no table in shards of
    /// this scheme, or is damaged; [`Error::OutOfMemory`] or what a device reports.
    pub fn open(devices: &[B], path: impl AsRef<Path>) -> Result<Self> {
        let devices = some(devices)?;
        let mut file = Shards::open(Section::whole(path.as_ref())?)?;
        let which = Which::new(file.header.shards as usize, file.header.seed)?;
        let (mut tables, mut digests) = (Vec::<HashTable<B, S>>::new(), Vec::new());
        let places: Vec<_> = file.places().collect();
        for (shard, (base, length)) in places.into_iter().enumerate() {
            let device = &devices[shard % devices.len()];
            let opened = HashTable::open_with_digest(device, file.section.part(base, length)?, Contents::Map);
            let (table, digest) = opened.map_err(|error| match error {
                Error::BadFile { reason, .. } => file.section.bad(format!("shard {shard}: {reason}")),
                other => other,
            })?;
            if table.plan().seed() != which.seed {
                return Err(file.section.bad(format!("shard {shard} has another seed than the table")));
            }
            if tables.first().is_some_and(|first| !table.is_made_as(first)) {
                return Err(file.section.bad(format!("shard {shard} has other parameters or settings than shard 0")));
            }
            file.check_gap(base, length)?;
            digests.push(digest);
            tables.push(table);
        }
        let table = Sharded { which, devices: devices.len(), tables };
        file.check_sum(&table.digest_of(&digests).bytes())?;
        table.of_each(|shard, table_of| table.has_own_keys(shard, table_of)).map_err(|error| match error {
            Error::Damaged(violation) => file.section.bad(violation.to_string()),
            other => other,
        })?;
        Ok(table)
    }
}
