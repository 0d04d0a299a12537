//! One file for all shards, in the format of [`crate::file::Shards`].
//!
//! The digest of the table is a hash of the header and the digests of the shards; the placement of the shards is not
//! stored. Lengths follow the shards, so that a file can be written in one pass, for example into a pipe.
//!
//! A file may be damaged or hostile: `open` compares all lengths with that of the file before it reads a shard, checks
//! each shard like a table file, and checks that all shards have the same parameters and that each key is in its shard.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::Sharded;
use super::builder::some;
use super::devices::map_shards;
use super::reading::has_own_keys;
use crate::backend::Runs;
use crate::error::{Error, Result};
use crate::file::{ALIGNED, Section, Shards, ShardsHeader, gap_after, sum_of, write_whole};
use crate::scheme::shard::ShardOf;
use crate::scheme::{Plan as _, Scheme};
use crate::table::{Contents, Digest, HashTable};

/// The digest of a table whose shards have these digests.
pub(super) fn digest_of(which: &ShardOf, shards: &[Digest]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(bytemuck::bytes_of(&header(which)));
    shards.iter().for_each(|digest| _ = hasher.update(&digest.bytes()));
    hasher.finalize().into()
}

fn header(which: &ShardOf) -> ShardsHeader {
    ShardsHeader::new(which.shards, which.seed)
}

/// A file to which shards are written one after the other.
pub(super) struct Writing<'a> {
    file: &'a mut File,
    path: &'a Path,
    which: &'a ShardOf,
    digests: Vec<Digest>,
    lengths: Vec<u64>,
}

impl<'a> Writing<'a> {
    pub(super) fn begin(file: &'a mut File, path: &'a Path, which: &'a ShardOf) -> Result<Self> {
        let mut writing = Writing { file, path, which, digests: Vec::new(), lengths: Vec::new() };
        writing.put(bytemuck::bytes_of(&header(which)))?;
        Ok(writing)
    }

    /// Writes the next shard from a table.
    pub(super) fn table<B: Runs<S>, S: Scheme>(&mut self, table: &HashTable<B, S>) -> Result<()> {
        self.shard(&|file, path| table.write_to(file, path, table.contents()))
    }

    /// Writes the next shard with `write`, which returns its digest and the number of bytes written.
    pub(super) fn shard(&mut self, write: &dyn Fn(&mut File, &Path) -> Result<(Digest, u64)>) -> Result<()> {
        let (digest, bytes) = write(self.file, self.path)?;
        self.put(&[0; ALIGNED as usize][..gap_after(bytes)])?;
        self.digests.push(digest);
        self.lengths.push(bytes);
        Ok(())
    }

    /// Writes the part after the shards, and returns the digest.
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
    /// Writes all shards to one file, which any number and kind of devices can open; returns the
    /// [`digest`](Self::digest). An existing file is replaced after everything is written.
    ///
    /// Cost: every shard's image is copied to the host, hashed and written, one after the other.
    ///
    /// # Errors
    /// [`Error::Io`] or what a device reports.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Digest> {
        let path = path.as_ref();
        write_whole(path, &mut |file| {
            let mut writing = Writing::begin(file, path, &self.which)?;
            self.tables.iter().try_for_each(|table| writing.table(table))?;
            writing.end()
        })
    }

    /// Opens a file, checks everything in it, and assigns the shards to these devices in turn.
    ///
    /// Cost: the file is read once into host memory, one shard at a time, hashed, audited and uploaded; the keys of
    /// each shard are read back.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if there are no devices; [`Error::Io`]; [`Error::BadFile`] if the file is not a
    /// sharded table of this scheme, or is damaged; [`Error::OutOfMemory`] or what a device reports.
    pub fn open(devices: &[B], path: impl AsRef<Path>) -> Result<Self> {
        Self::open_by(devices, path.as_ref(), &|device, part| HashTable::open_with_digest(device, part, Contents::Map))
    }

    /// [`open`](Self::open), where `open` opens one shard.
    pub(super) fn open_by(
        devices: &[B],
        path: &Path,
        open: &dyn Fn(&B, Section<'_>) -> Result<(HashTable<B, S>, Digest)>,
    ) -> Result<Self> {
        let (which, tables) = all_shards(devices, path, open, |table| table)?;
        Ok(Sharded { which, devices: devices.len(), tables })
    }
}

/// Opens each shard of a file with `open`, shard i on device i mod the number of devices, and checks everything in the
/// file; `keys` returns the table of a shard's keys.
pub(super) fn all_shards<B: Runs<S>, S: Scheme, T: Send + Sync>(
    devices: &[B],
    path: &Path,
    open: &dyn Fn(&B, Section<'_>) -> Result<(T, Digest)>,
    keys: fn(&T) -> &HashTable<B, S>,
) -> Result<(ShardOf, Vec<T>)> {
    let devices = some(devices)?;
    let mut file = Shards::open(Section::whole(path)?)?;
    let mut all = Vec::<T>::new();
    let (which, _) = each_shard(&mut file, &mut |place, part| {
        let (shard, digest) = open(&devices[place.shard % devices.len()], part)
            .map_err(|error| of_shard(place.file, place.shard, error))?;
        let table = keys(&shard);
        place.check(table.plan().seed(), all.first().is_none_or(|first| table.has_parameters_of(keys(first))))?;
        all.push(shard);
        Ok(digest)
    })?;
    map_shards(devices.len(), all.len(), &|shard| has_own_keys(&which, shard, keys(&all[shard])))
        .map_err(|error| damaged(&file.section, error))?;
    Ok((which, all))
}

/// Converts a report of damage to an error of the file.
pub(super) fn damaged(section: &Section<'_>, error: Error) -> Error {
    match error {
        Error::Damaged(violation) => section.bad(violation.to_string()),
        other => other,
    }
}

/// The position of a shard in a file.
pub(super) struct Place<'a> {
    pub(super) file: &'a Section<'a>,
    pub(super) which: &'a ShardOf,
    pub(super) shard: usize,
}

impl Place<'_> {
    /// Returns an error if the seed is not the file's, or, unless `is_alike`, because parameters or settings differ
    /// from those of shard 0.
    pub(super) fn check(&self, seed: u64, is_alike: bool) -> Result<()> {
        let shard = self.shard;
        if seed != self.which.seed {
            return Err(self.file.bad(format!("shard {shard} has another seed than the table")));
        }
        if !is_alike {
            return Err(self.file.bad(format!("shard {shard} has other parameters or settings than shard 0")));
        }
        Ok(())
    }
}

/// Calls `open` with each shard's part of the file, checks the rest of the file, and returns the digests that `open`
/// returned. This function has no type parameters, so that it is compiled once.
pub(super) fn each_shard(
    file: &mut Shards<'_>,
    open: &mut dyn FnMut(Place<'_>, Section<'_>) -> Result<Digest>,
) -> Result<(ShardOf, Vec<Digest>)> {
    let which = ShardOf::new(file.header.shards as usize, file.header.seed)?;
    let places: Vec<_> = file.places().collect();
    let mut digests = Vec::with_capacity(places.len());
    for (shard, (base, length)) in places.into_iter().enumerate() {
        let part = file.section.part(base, length)?;
        digests.push(open(Place { file: &file.section, which: &which, shard }, part)?);
        file.check_gap(base, length)?;
    }
    file.check_sum(&digest_of(&which, &digests).bytes())?;
    Ok((which, digests))
}

/// Adds the number of the shard to an error of opening it, if its part of the file is bad.
pub(super) fn of_shard(section: &Section<'_>, shard: usize, error: Error) -> Error {
    match error {
        Error::BadFile { reason, .. } => section.bad(format!("shard {shard}: {reason}")),
        other => other,
    }
}
