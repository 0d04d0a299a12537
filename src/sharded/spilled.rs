//! Builds of more rows than fit in memory: rows are spilled to a temporary file, and each shard is built from it.
//!
//! ```text
//! push     partitions rows by shard, and appends them to the file; keeps the position of each shard's rows
//! save     reads the rows of one shard per device, builds their tables, and writes them to the result
//! ```
//!
//! The result equals the file of [`Sharded::save`](super::Sharded::save) after [`ShardedBuilder::build`] of all rows,
//! byte for byte. The rows of a shard keep their order, so rules for duplicates have the same effect.
//!
//! The temporary file has no name, so it is deleted however the process ends. Memory contains the pushed rows twice,
//! and later the rows and the tables of the shards that are being built.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::ShardedBuilder;
use super::builder::{Columns, some};
use super::devices::{is_of_contents, on_devices};
use super::file::Writing;
use super::host_partition::Partitioned;
use crate::backend::{Runs, Word};
use crate::error::{Error, Result};
use crate::file::write_whole;
use crate::memory;
use crate::scheme::Scheme;
use crate::scheme::shard::ShardOf;
use crate::table::{Digest, HashTable};

/// Rows that are partitioned at a time.
const ROWS: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };

/// A build of a table in shards that exceeds memory; created by [`ShardedBuilder::spilled`].
pub struct SpilledBuild<S: Scheme> {
    builder: ShardedBuilder<S>,
    which: ShardOf,
    spill: Spill,
    /// The position of the rows of each shard.
    shards: Vec<Vec<Piece>>,
    rows: u64,
}

/// Adjacent rows of one shard in the temporary file.
struct Piece {
    keys: u64,
    values: u64,
    rows: usize,
}

/// A temporary file and its length.
struct Spill {
    file: File,
    folder: PathBuf,
    end: u64,
}

impl Spill {
    fn new(folder: &Path) -> Result<Spill> {
        let failed = |source| Error::Spill { folder: folder.into(), source };
        Ok(Spill { file: tempfile::tempfile_in(folder).map_err(failed)?, folder: folder.into(), end: 0 })
    }

    /// Appends a column, and returns its position.
    fn write<T: Word>(&mut self, column: &[T]) -> Result<u64> {
        let (start, bytes) = (self.end, bytemuck::cast_slice(column));
        let written = self.file.seek(SeekFrom::Start(start)).and_then(|_| self.file.write_all(bytes));
        written.map_err(|error| self.failed(error))?;
        self.end += bytes.len() as u64;
        Ok(start)
    }

    fn read<T: Word>(&mut self, start: u64, column: &mut [T]) -> Result<()> {
        let bytes = bytemuck::cast_slice_mut(column);
        let read = self.file.seek(SeekFrom::Start(start)).and_then(|_| self.file.read_exact(bytes));
        read.map_err(|error| self.failed(error))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Spill { folder: self.folder.clone(), source }
    }
}

impl<S: Scheme> ShardedBuilder<S> {
    /// Starts a build of rows that do not fit in memory. Creates the temporary file in `folder`, for example in
    /// [`std::env::temp_dir`].
    ///
    /// ```
    /// use koel::{Bucketized, Cpu, Sharded};
    /// let folder = std::env::temp_dir().join(format!("koel-doc-spilled-{}", std::process::id()));
    /// let builder = Sharded::builder(Bucketized::canonical(8), 16);
    /// let mut build = builder.spilled(std::env::temp_dir())?;
    /// for piece in 0..10 {
    ///     let keys: Vec<u32> = (0..1000).map(|i| 1000 * piece + i).collect();
    ///     build.push(&keys, &keys)?;
    /// }
    /// let digest = build.save(&[Cpu::new()], &folder)?;
    /// assert_eq!(Sharded::<Cpu, Bucketized>::open(&[Cpu::new()], &folder)?.digest()?, digest);
    /// # std::fs::remove_file(folder).ok();
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if the number of shards is invalid; [`Error::Spill`].
    pub fn spilled(&self, folder: impl AsRef<Path>) -> Result<SpilledBuild<S>> {
        let which = self.which()?;
        let shards = (0..self.shards).map(|_| Vec::new()).collect();
        Ok(SpilledBuild { builder: self.clone(), which, spill: Spill::new(folder.as_ref())?, shards, rows: 0 })
    }
}

impl<S: Scheme> SpilledBuild<S> {
    /// The number of rows that were pushed.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// Whether no rows were pushed.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The number of bytes in the temporary file.
    pub fn spilled_bytes(&self) -> u64 {
        self.spill.end
    }

    /// Appends the pairs `keys[i]` with `values[i]`.
    ///
    /// Cost: the host partitions the rows and writes keys and values once.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::OutOfMemory`]; [`Error::Spill`], after which some of the rows may have been
    /// added.
    pub fn push(&mut self, keys: &[S::Key], values: &[S::Value]) -> Result<()> {
        Error::check_length("values", values.len(), keys.len())?;
        for (keys, values) in keys.chunks(ROWS).zip(values.chunks(ROWS)) {
            let partitioned = Partitioned::of(&self.which, keys)?;
            let (mut of_keys, mut of_values) = (memory::reserved(keys.len())?, memory::reserved(keys.len())?);
            for shard in 0..self.which.shards {
                partitioned.append(shard, keys, &mut of_keys)?;
                partitioned.append(shard, values, &mut of_values)?;
            }
            let (mut keys, mut values) = (self.spill.write(&of_keys)?, self.spill.write(&of_values)?);
            for (shard, pieces) in self.shards.iter_mut().enumerate() {
                let rows = partitioned.len(shard);
                if rows > 0 {
                    memory::reserve(pieces, 1)?;
                    pieces.push(Piece { keys, values, rows });
                }
                keys += (rows * size_of::<S::Key>()) as u64;
                values += (rows * size_of::<S::Value>()) as u64;
            }
            self.rows += of_keys.len() as u64;
        }
        Ok(())
    }

    /// Builds the table, with its shards assigned to these devices in turn, and writes it to a file for
    /// [`Sharded::open`](super::Sharded::open).
    ///
    /// Cost: each row is read once; memory holds one shard per device at a time.
    ///
    /// # Errors
    /// As [`ShardedBuilder::build`] and [`Sharded::save`](super::Sharded::save); [`Error::Spill`]. On an error, an
    /// existing file is unchanged.
    pub fn save<B: Runs<S>>(self, devices: &[B], path: impl AsRef<Path>) -> Result<Digest> {
        self.save_watched(devices, path, |_, _| {})
    }

    /// As [`save`](Self::save), and calls `watch` after each shard with its number and the number of shards.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub fn save_watched<B: Runs<S>>(
        self,
        devices: &[B],
        path: impl AsRef<Path>,
        mut watch: impl FnMut(usize, &HashTable<B, S>),
    ) -> Result<Digest> {
        let (path, devices) = (path.as_ref(), some(devices)?);
        let SpilledBuild { builder, which, mut spill, shards: pieces, .. } = self;
        let builder = builder.of_shard();
        write_whole(path, &mut |file| {
            let mut writing = Writing::begin(file, path, &which)?;
            // The smallest duplicate key is reported, whatever the number of shards, so all shards are built.
            let (mut least, mut first): (Option<u64>, Option<Error>) = (None, None);
            for start in (0..which.shards).step_by(devices.len()) {
                let shards = start..which.shards.min(start + devices.len());
                let columns =
                    shards.clone().map(|shard| columns::<S>(&mut spill, &pieces[shard])).collect::<Result<_>>()?;
                let built = on_devices(devices.len(), columns, &|at, Columns { keys, values }| {
                    builder.build(&devices[at], &keys, &values)
                });
                match built {
                    Err(Error::DuplicateKey { key }) => least = Some(least.map_or(key, |least| least.min(key))),
                    Err(error) if is_of_contents(&error) => first = first.or(Some(error)),
                    _ if least.is_some() || first.is_some() => drop(built?),
                    built => {
                        for (shard, table) in shards.zip(built?) {
                            writing.table(&table)?;
                            watch(shard, &table);
                        }
                    }
                }
            }
            match least.map(|key| Error::DuplicateKey { key }).or(first) {
                Some(error) => Err(error),
                None => writing.end(),
            }
        })
    }
}

/// The rows of a shard.
fn columns<S: Scheme>(spill: &mut Spill, pieces: &[Piece]) -> Result<Columns<S::Key, S::Value>> {
    let rows = pieces.iter().map(|piece| piece.rows).sum();
    let mut columns = Columns { keys: memory::zeroed(rows)?, values: memory::zeroed(rows)? };
    let (mut keys, mut values) = (&mut columns.keys[..], &mut columns.values[..]);
    for piece in pieces {
        spill.read(piece.keys, keys.split_off_mut(..piece.rows).unwrap_or_default())?;
        spill.read(piece.values, values.split_off_mut(..piece.rows).unwrap_or_default())?;
    }
    Ok(columns)
}

impl<S: Scheme> std::fmt::Debug for SpilledBuild<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("SpilledBuild");
        shown.field("rows", &self.rows).field("shards", &self.which.shards).field("spilled_bytes", &self.spill.end);
        shown.finish_non_exhaustive()
    }
}
