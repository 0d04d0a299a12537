//! The tables of one scheme on one data set, as traits without type parameters.
//!
//! The checks (check.rs) use only these traits and are compiled once. For each scheme, only one call of each
//! operation is compiled.

use std::time::{Duration, Instant};

use koel::backend::{HashBackend as _, Runs, Word as _};
use koel::scheme::Plan as _;
use koel::table::TableBuilder;
use koel::{Digest, Duplicates, HashTable, Scheme};

use super::data::DataSet;
use super::reference::{self, Reference};
use super::{Device, Run};
use crate::answers;
use crate::failure::{Failure, Result};
use crate::number::Word;

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
    fn build<'a>(&'a self, device: &Device) -> koel::Result<Box<dyn Table + 'a>>;
    /// Builds the same table from rows with duplicate keys: half of the keys occur twice, and one of them in a quarter
    /// of all rows. The rule selects the values of the data set.
    fn build_with_duplicates<'a>(&'a self, device: &Device, rule: Duplicates) -> koel::Result<Box<dyn Table + 'a>>;
}

/// A table on one device.
pub(super) trait Table {
    fn restarts(&self) -> u32;
    fn audit(&self) -> koel::Result<()>;
    fn digest(&self) -> koel::Result<Digest>;
    /// Looks up every query of the data set. Returns the duration, and whether all answers are right.
    fn answers(&self) -> koel::Result<(Duration, std::result::Result<(), String>)>;
    /// Compares the image with that of the reference, if there is one, bit for bit.
    fn compare(&self) -> Option<koel::Result<std::result::Result<(), String>>>;
    fn moved_to<'a>(&'a self, device: &Device) -> koel::Result<Box<dyn Table + 'a>>;
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

    fn build<'a>(&'a self, device: &Device) -> koel::Result<Box<dyn Table + 'a>> {
        let table = self.builder.build(device, &self.data.keys, &self.data.values)?;
        Ok(Box::new(Made { of: self, table }))
    }

    fn build_with_duplicates<'a>(&'a self, device: &Device, rule: Duplicates) -> koel::Result<Box<dyn Table + 'a>> {
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
}

/// A table, and the data that it was built from.
struct Made<'a, S: Scheme>
where
    Device: Runs<S>,
{
    of: &'a Tables<'a, S>,
    table: HashTable<Device, S>,
}

impl<S: Scheme<Key: Word, Value: Word>> Table for Made<'_, S>
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

    fn answers(&self) -> koel::Result<(Duration, std::result::Result<(), String>)> {
        let data = self.of.data;
        let (mut values, mut found) = answers::poisoned(data.queries.len());
        let start = Instant::now();
        self.table.get_into(&data.queries, &mut values, &mut found)?;
        let time = start.elapsed();
        Ok((time, answers::check(&data.queries, &values, &found, |i| data.answer(i))))
    }

    fn compare(&self) -> Option<koel::Result<std::result::Result<(), String>>> {
        let reference = self.of.reference.as_ref()?;
        let image = self.table.backend().download(self.table.image());
        Some(image.map(|image| reference.compare(self.table.plan(), &image)))
    }

    fn moved_to<'a>(&'a self, device: &Device) -> koel::Result<Box<dyn Table + 'a>> {
        Ok(Box::new(Made { of: self.of, table: self.table.to_backend(device)? }))
    }
}
