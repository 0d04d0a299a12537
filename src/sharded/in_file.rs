//! Lookups in a table whose shards remain in its file: memory holds one shard per device at a time.
//!
//! ```text
//! open     reads the file once, one shard at a time, and checks everything in it
//! get      partitions the queries; reads the shards that have queries, one per device at a time, looks up the queries, drops
//!          the shards, and gathers the answers
//! ```
//!
//! Each call reads the file, so pass as many queries at a time as fit. The file stays open, so replacing the file of
//! that name has no effect; overwriting its contents is an error, which the checksum of each shard detects.

use std::fmt;
use std::path::{Path, PathBuf};

use super::builder::some;
use super::devices::on_devices;
use super::file::{self, damaged, digest_of, each_shard};
use super::host_partition::{MOST_ROWS, Partitioned};
use super::reading::{answer, flags, has_own_keys, of_shard, options};
use crate::backend::{Runs, bitmap_words};
use crate::error::{Error, Result};
use crate::file::{Section, Shards};
use crate::memory;
use crate::scheme::shard::ShardOf;
use crate::scheme::{Key, Plan as _, Scheme, Value};
use crate::table::{Contents, Digest, HashTable};

/// A table in shards that remain in its file.
///
/// ```
/// use koel::{Bucketized, Cpu, Sharded, ShardedFile};
/// let path = std::env::temp_dir().join(format!("koel-doc-resting-{}", std::process::id()));
/// let (keys, values): (Vec<u32>, Vec<u32>) = (0..1000).map(|i| (7 * i, i)).unzip();
/// Sharded::builder(Bucketized::canonical(8), 4).build(&[Cpu::new()], &keys, &values)?.save(&path)?;
/// let file = ShardedFile::<Cpu, Bucketized>::open(&[Cpu::new()], &path)?;
/// assert_eq!((file.len(), file.get(&[70, 71])?), (1000, vec![Some(10), None]));
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), koel::Error>(())
/// ```
pub struct ShardedFile<B: Runs<S>, S: Scheme> {
    path: PathBuf,
    file: std::fs::File,
    which: ShardOf,
    /// The position and length of each shard's part of the file.
    places: Vec<(u64, u64)>,
    digests: Vec<Digest>,
    devices: Vec<B>,
    len: u64,
    scheme: std::marker::PhantomData<fn() -> S>,
}

impl<B: Runs<S>, S: Scheme> ShardedFile<B, S> {
    /// Opens a file that [`Sharded::save`](super::Sharded::save) wrote, and checks everything in it.
    ///
    /// Cost: that of [`Sharded::open`](super::Sharded::open); memory holds at most two shards.
    ///
    /// # Errors
    /// As [`Sharded::open`](super::Sharded::open).
    pub fn open(devices: &[B], path: impl AsRef<Path>) -> Result<Self> {
        let (path, devices) = (path.as_ref(), some(devices)?.to_vec());
        let mut file = Shards::open(Section::whole(path)?)?;
        let places: Vec<_> = file.places().collect();
        let (mut first, mut len) = (None::<HashTable<B, S>>, 0);
        let (which, digests) = each_shard(&mut file, &mut |place, part| {
            let (table, digest) = HashTable::open_with_digest(&devices[0], part, Contents::Map)
                .map_err(|error| file::of_shard(place.file, place.shard, error))?;
            place.check(table.plan().seed(), first.as_ref().is_none_or(|first| table.has_parameters_of(first)))?;
            has_own_keys(place.which, place.shard, &table).map_err(|error| damaged(place.file, error))?;
            len += table.len() as u64;
            first.get_or_insert(table);
            Ok(digest)
        })?;
        let (path, file) = (path.into(), file.section.file);
        Ok(ShardedFile { path, file, which, places, digests, devices, len, scheme: std::marker::PhantomData })
    }

    /// The number of pairs.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of shards.
    pub fn shards(&self) -> usize {
        self.places.len()
    }

    /// The digest of the table, equal to [`Sharded::digest`](super::Sharded::digest).
    pub fn digest(&self) -> Digest {
        digest_of(&self.which, &self.digests)
    }

    /// Returns the value of each query, in the order of the queries.
    ///
    /// Cost: the shards that have queries are read from the file, checked and moved to a device; for few queries, this
    /// is the whole cost.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::BadFile`] if the file was overwritten after it was opened; [`Error::OutOfMemory`] or
    /// what a device reports.
    pub fn get(&self, queries: &[S::Key]) -> Result<Vec<Option<S::Value>>> {
        let (mut values, mut found) = (memory::zeroed(queries.len())?, memory::zeroed(bitmap_words(queries.len()))?);
        self.get_into(queries, &mut values, &mut found)?;
        options(&values, &found)
    }

    /// As [`get`](Self::get), but writes to slices: `values[i]` is the value or 0, and bit `i % 32` of `found[i / 32]`
    /// is set for a hit.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless `values` is as long as `queries` and `found` has one bit for each, rounded up
    /// to whole words; otherwise as [`get`](Self::get).
    pub fn get_into(&self, queries: &[S::Key], values: &mut [S::Value], found: &mut [u32]) -> Result<()> {
        let look_up = |partitioned: &Partitioned, queries: &[S::Key], parts: Vec<Part<'_, S::Value>>| {
            let mut parts = parts.into_iter();
            loop {
                // A file has one read position, so shards are read one after the other. `zip` takes a device first,
                // because it drops an element that it took from its first iterator when the second one ends.
                let some = self.devices.iter().zip(parts.by_ref());
                let some = some.map(|(device, (shard, part))| Ok((self.table(device, shard)?, shard, part)));
                let some = some.collect::<Result<Vec<_>>>()?;
                if some.is_empty() {
                    return Ok(());
                }
                on_devices(self.devices.len(), some, &|_,
                                                       (table, shard, (words, hits)): (
                    _,
                    _,
                    (&mut [S::Value], &mut [u8]),
                )| {
                    answer(&table, &of_shard(partitioned, shard, queries)?, words, hits)
                })?;
            }
        };
        answered(&self.which, &look_up, queries, values, found)
    }

    /// Returns whether each query is in the table, in the order of the queries; cost and errors as [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, queries: &[S::Key]) -> Result<Vec<bool>> {
        let (mut values, mut found) = (memory::zeroed(queries.len())?, memory::zeroed(bitmap_words(queries.len()))?);
        self.get_into(queries, &mut values, &mut found)?;
        flags(queries.len(), &found)
    }

    fn table(&self, device: &B, shard: usize) -> Result<HashTable<B, S>> {
        let file = self.file.try_clone().map_err(|source| Error::Io { path: self.path.clone(), source })?;
        let section = Section { path: &self.path, file, base: 0, end: None };
        let (base, length) = self.places[shard];
        let opened = HashTable::open_with_digest(device, section.part(base, length)?, Contents::Map);
        let (table, digest) = opened.map_err(|error| file::of_shard(&section, shard, error))?;
        // A shard that replaced this one may be valid too, so the digest is compared.
        match digest == self.digests[shard] {
            true => Ok(table),
            false => Err(section.bad(format!("shard {shard} was written over after it was opened"))),
        }
    }
}

/// A shard that has queries, and the destination of its answers: values, and a byte for each query that is 1 for a hit.
pub(super) type Part<'a, V> = (usize, (&'a mut [V], &'a mut [u8]));

/// Answers queries with `look_up`, which receives some of the queries, partitioned by shard, and the destinations of
/// the answers of each shard with queries.
pub(super) fn answered<K: Key, V: Value>(
    which: &ShardOf,
    look_up: &dyn Fn(&Partitioned, &[K], Vec<Part<'_, V>>) -> Result<()>,
    queries: &[K],
    values: &mut [V],
    found: &mut [u32],
) -> Result<()> {
    Error::check_length("values", values.len(), queries.len())?;
    Error::check_length("found", found.len(), bitmap_words(queries.len()))?;
    let columns = values.chunks_mut(MOST_ROWS).zip(found.chunks_mut(MOST_ROWS / 32));
    for (queries, (values, found)) in queries.chunks(MOST_ROWS).zip(columns) {
        let partitioned = Partitioned::of(which, queries)?;
        let (mut words, mut hits) = (memory::zeroed(queries.len())?, memory::zeroed(queries.len())?);
        let parts = partitioned.cut(&mut words).into_iter().zip(partitioned.cut(&mut hits)).enumerate();
        look_up(&partitioned, queries, parts.filter(|&(shard, _)| partitioned.len(shard) > 0).collect())?;
        partitioned.scatter_answers(&words, &hits, values, found);
    }
    Ok(())
}

impl<B: Runs<S>, S: Scheme> fmt::Debug for ShardedFile<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ShardedFile");
        shown.field("path", &self.path).field("len", &self.len).field("shards", &self.places.len());
        shown.field("devices", &self.devices.len()).finish_non_exhaustive()
    }
}
