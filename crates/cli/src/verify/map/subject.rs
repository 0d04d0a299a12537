//! The tables of one scheme on one data set, as traits without type parameters.
//!
//! The checks (check.rs, shards.rs) use only these traits and are compiled once. For each scheme, only one call of each
//! operation is compiled.

use std::path::Path;
use std::time::{Duration, Instant};

use koel::backend::{HashBackend as _, Runs, Word as _};
use koel::scheme::Plan as _;
use koel::table::TableBuilder;
use koel::{Digest, Duplicates, HashTable, Scheme, Sharded, ShardedBuilder, ShardedFile};

use super::data::DataSet;
use super::reference::{self, Reference};
use super::{Device, Run};
use crate::answers;
use crate::failure::{Failure, Result};
use crate::number::Word;

/// The number of chunks of rows that fit in the memory limit together.
const CHUNKS: u64 = 32;

/// The tables of one scheme on one data set.
pub(super) trait Subject {
    fn name(&self) -> &'static str;
    fn host_built(&self) -> bool;
    /// The most pairs for which the sequential reference is built.
    fn most_pairs(&self) -> usize;
    /// Builds the sequential reference. Returns the duration, and the number of failed attempts.
    fn build_reference(&mut self) -> Result<(Duration, u32)>;
    /// Checks the invariants and all answers of the reference.
    fn check_reference(&self) -> std::result::Result<(), String>;
    fn build<'a>(&'a self, device: &Device) -> koel::Result<Box<dyn Plain + 'a>>;
    /// Builds the same table from rows with duplicate keys: half of the keys occur twice, and one of them in a quarter
    /// of all rows. The rule selects the values of the data set.
    fn build_with_duplicates<'a>(&'a self, device: &Device, rule: Duplicates) -> koel::Result<Box<dyn Plain + 'a>>;
    fn build_shards<'a>(&'a self, devices: &[Device], shards: usize) -> koel::Result<Box<dyn Built + 'a>>;
    /// Builds a sharded table with a temporary file in `folder`, and saves it at `path`.
    fn save_spilled(
        &self,
        devices: &[Device],
        shards: usize,
        memory: u64,
        folder: &Path,
        path: &Path,
    ) -> koel::Result<Digest>;
    /// Opens that file; each lookup reads the shards.
    fn open_file<'a>(&'a self, devices: &[Device], path: &Path) -> koel::Result<Box<dyn Queried + 'a>>;
}

/// A table that can be queried.
pub(super) trait Queried {
    fn pairs(&self) -> u64;
    /// Looks up every query of the data set. Returns the duration, and whether all answers are right.
    fn answers(&self) -> koel::Result<(Duration, std::result::Result<(), String>)>;
}

/// A table that was built, sharded or not.
pub(super) trait Built: Queried {
    fn restarts(&self) -> u32;
    fn audit(&self) -> koel::Result<()>;
    fn digest(&self) -> koel::Result<Digest>;
}

/// A table on one device.
pub(super) trait Plain: Built {
    /// Compares the image with that of the reference, if there is one, bit for bit.
    fn compare(&self) -> Option<koel::Result<std::result::Result<(), String>>>;
    fn moved_to<'a>(&'a self, device: &Device) -> koel::Result<Box<dyn Queried + 'a>>;
}

/// [`Subject`] of a scheme.
pub(super) struct Tables<'a, S: Scheme> {
    data: &'a DataSet<S::Key, S::Value>,
    run: &'a Run<'a>,
    scheme: S,
    builder: TableBuilder<S>,
    reference: Option<Reference<S>>,
}

impl<'a, S: Scheme<Key: Word, Value: Word>> Tables<'a, S> {
    pub(super) fn new(data: &'a DataSet<S::Key, S::Value>, run: &'a Run<'a>, scheme: S) -> Self {
        let builder = run.size.apply(HashTable::builder(scheme.clone()).seed(run.seed));
        Tables { data, run, scheme, builder, reference: None }
    }

    fn sharded(&self, shards: usize) -> ShardedBuilder<S> {
        self.run.size.apply(Sharded::builder(self.scheme.clone(), shards).seed(self.run.seed))
    }

    fn answers(
        &self,
        get_into: impl FnOnce(&[S::Key], &mut [S::Value], &mut [u32]) -> koel::Result<()>,
    ) -> koel::Result<(Duration, std::result::Result<(), String>)> {
        let queries = &self.data.queries;
        let (mut values, mut found) = answers::poisoned(queries.len());
        let start = Instant::now();
        get_into(queries, &mut values, &mut found)?;
        let time = start.elapsed();
        Ok((time, answers::check(queries, &values, &found, |i| self.data.answer(i))))
    }
}

impl<S: Scheme<Key: Word, Value: Word>> Subject for Tables<'_, S>
where
    Device: Runs<S>,
{
    fn name(&self) -> &'static str {
        self.scheme.name()
    }

    fn host_built(&self) -> bool {
        self.scheme.host_built()
    }

    fn most_pairs(&self) -> usize {
        reference::most_pairs(&self.scheme)
    }

    fn build_reference(&mut self) -> Result<(Duration, u32)> {
        let slots = self.run.size.slots(&self.scheme, self.data.keys.len() as u64)?;
        let start = Instant::now();
        // The reference does not use a device, so if it cannot be built, no table with these options can be.
        let built = Reference::build(&self.scheme, slots, self.run.seed, self.data).map_err(Failure::Input)?;
        let time = start.elapsed();
        Ok((time, self.reference.insert(built).plan.attempt()))
    }

    fn check_reference(&self) -> std::result::Result<(), String> {
        self.reference.as_ref().map_or(Ok(()), |reference| reference.check(self.data))
    }

    fn build<'a>(&'a self, device: &Device) -> koel::Result<Box<dyn Plain + 'a>> {
        let table = self.builder.build(device, &self.data.keys, &self.data.values)?;
        Ok(Box::new(Made { of: self, table }))
    }

    fn build_with_duplicates<'a>(&'a self, device: &Device, rule: Duplicates) -> koel::Result<Box<dyn Plain + 'a>> {
        let DataSet { keys, values, .. } = self.data;
        let heavy = keys.iter().take(1).cycle().take(keys.len() / 2);
        let duplicates = keys.iter().step_by(2).chain(heavy).copied();
        let greatest = S::Value::low(values.iter().fold(0, |all, &value| all | value.into()));
        let (mut rows, mut of_rows) = (keys.clone(), values.clone());
        rows.extend(duplicates);
        of_rows.resize_with(rows.len(), || greatest);
        if rule == Duplicates::KeepLast {
            rows.rotate_left(keys.len());
            of_rows.rotate_left(keys.len());
        }
        let table = self.builder.clone().duplicates(rule).build(device, &rows, &of_rows)?;
        Ok(Box::new(Made { of: self, table }))
    }

    fn build_shards<'a>(&'a self, devices: &[Device], shards: usize) -> koel::Result<Box<dyn Built + 'a>> {
        let table = self.sharded(shards).build(devices, &self.data.keys, &self.data.values)?;
        Ok(Box::new(Made { of: self, table }))
    }

    fn save_spilled(
        &self,
        devices: &[Device],
        shards: usize,
        memory: u64,
        folder: &Path,
        path: &Path,
    ) -> koel::Result<Digest> {
        let row = (size_of::<S::Key>() + size_of::<S::Value>()) as u64;
        let rows = (memory / CHUNKS / row).clamp(1, 1 << 20) as usize;
        let mut build = self.sharded(shards).spilled(folder)?;
        for (keys, values) in self.data.keys.chunks(rows).zip(self.data.values.chunks(rows)) {
            build.push(keys, values)?;
        }
        build.save(devices, path)
    }

    fn open_file<'a>(&'a self, devices: &[Device], path: &Path) -> koel::Result<Box<dyn Queried + 'a>> {
        Ok(Box::new(Made { of: self, table: ShardedFile::<_, S>::open(devices, path)? }))
    }
}

/// A table, and the data that it was built from.
struct Made<'a, S: Scheme, T> {
    of: &'a Tables<'a, S>,
    table: T,
}

/// Implements [`Queried`] for all kinds of tables.
macro_rules! queried {
    ($($table:ty),*) => {$(
        impl<S: Scheme<Key: Word, Value: Word>> Queried for Made<'_, S, $table>
        where
            Device: Runs<S>,
        {
            fn pairs(&self) -> u64 {
                self.table.len() as u64
            }

            fn answers(&self) -> koel::Result<(Duration, std::result::Result<(), String>)> {
                self.of.answers(|queries, values, found| self.table.get_into(queries, values, found))
            }
        }
    )*};
}
queried!(HashTable<Device, S>, Sharded<Device, S>, ShardedFile<Device, S>);

macro_rules! built {
    ($($table:ty),*) => {$(
        impl<S: Scheme<Key: Word, Value: Word>> Built for Made<'_, S, $table>
        where
            Device: Runs<S>,
        {
            fn restarts(&self) -> u32 {
                self.table.restarts()
            }

            fn audit(&self) -> koel::Result<()> {
                self.table.audit().map(drop)
            }

            fn digest(&self) -> koel::Result<Digest> {
                self.table.digest()
            }
        }
    )*};
}
built!(HashTable<Device, S>, Sharded<Device, S>);

impl<S: Scheme<Key: Word, Value: Word>> Plain for Made<'_, S, HashTable<Device, S>>
where
    Device: Runs<S>,
{
    fn compare(&self) -> Option<koel::Result<std::result::Result<(), String>>> {
        let reference = self.of.reference.as_ref()?;
        let image = self.table.backend().download(self.table.image());
        Some(image.map(|image| reference.compare(self.table.plan(), &image)))
    }

    fn moved_to<'a>(&'a self, device: &Device) -> koel::Result<Box<dyn Queried + 'a>> {
        Ok(Box::new(Made { of: self.of, table: self.table.to_backend(device)? }))
    }
}
