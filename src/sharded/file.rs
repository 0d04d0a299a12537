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
use super::reading::has_own_keys;
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
        let mut tables = Vec::<HashTable<B, S>>::new();
        let (which, _) = each_shard(&mut file, devices, |table, section| {
            if tables.first().is_some_and(|first| !table.is_made_as(first)) {
                return Err(section.bad(strange(tables.len())));
            }
            tables.push(table);
            Ok(())
        })?;
        let table = Sharded { which, devices: devices.len(), tables };
        table.of_each(|shard, of| has_own_keys(&table.which, shard, of)).map_err(|error| match error {
            Error::Damaged(violation) => file.section.bad(violation.to_string()),
            other => other,
        })?;
        Ok(table)
    }
}

/// What is said of a shard that does not go with the first one.
pub(super) fn strange(shard: usize) -> String {
    format!("shard {shard} has other parameters or settings than shard 0")
}

/// Opens each shard on one of these devices, checks it and all that stands around it, and hands it on; the digest of all.
pub(super) fn each_shard<B: Runs<S>, S: Scheme>(
    file: &mut Shards<'_>,
    devices: &[B],
    mut take: impl FnMut(HashTable<B, S>, &Section<'_>) -> Result<()>,
) -> Result<(Which, Digest)> {
    let which = Which::new(file.header.shards as usize, file.header.seed)?;
    let places: Vec<_> = file.places().collect();
    let mut digests = Vec::with_capacity(places.len());
    for (shard, (base, length)) in places.into_iter().enumerate() {
        let device = &devices[shard % devices.len()];
        let (table, digest) = shard_of(&file.section, device, shard, (base, length), which.seed)?;
        file.check_gap(base, length)?;
        digests.push(digest);
        take(table, &file.section)?;
    }
    let digest = digest_of(&which, &digests);
    file.check_sum(&digest.bytes())?;
    Ok((which, digest))
}

/// One shard of a file, whose table file begins at a place and has a length.
pub(super) fn shard_of<B: Runs<S>, S: Scheme>(
    section: &Section<'_>,
    device: &B,
    shard: usize,
    (base, length): (u64, u64),
    seed: u64,
) -> Result<(HashTable<B, S>, Digest)> {
    let opened = HashTable::open_with_digest(device, section.part(base, length)?, Contents::Map);
    let (table, digest) = opened.map_err(|error| match error {
        Error::BadFile { reason, .. } => section.bad(format!("shard {shard}: {reason}")),
        other => other,
    })?;
    match table.plan().seed() == seed {
        true => Ok((table, digest)),
        false => Err(section.bad(format!("shard {shard} has another seed than the table"))),
    }
}
