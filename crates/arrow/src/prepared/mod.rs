//! The right side of joins, prepared once: rows and an index of their keys, which can be saved, mapped and shared.
//!
//! ```text
//! build    keep the rows; index hashes of their keys (hashed.rs)
//! save     rows in blocks of Arrow IPC, then the index, in one file (file.rs)
//! open     read and check the file, on any device;   open_mapped: the rows remain in the file
//! probe    as RightKeys: hashes of left keys, compared with the first right row that has the same hash
//! ```
//!
//! The file, and so the digest, is a function of the rows, the key columns and the options. It does not depend on the
//! batches, the device or the number of threads.

mod blocks;
mod file;
mod hashed;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::{Arc, OnceLock};

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use koel::{Any, Digest};
use rayon::prelude::*;

use crate::encode::NullEquality;
use crate::error::{Error, Result};
use crate::external::batch_of;
use crate::external::flat::{flattened, result_type};
use crate::join::{Index, RightKeys};
use crate::keys::{Column, Keys};

use hashed::Parameters;
pub(crate) use hashed::{Hashed, SavedIndex};

/// The options of a [`PreparedJoin`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PreparedOptions {
    /// Whether nulls are equal.
    pub nulls: NullEquality,
    /// The seed of the hashes of keys. No result of a join depends on it, but digests do.
    pub seed: u64,
}

/// The right side of joins, with an index of its key columns. It can be saved to a file, and shared by threads and
/// queries through an [`Arc`].
///
/// Joins return the same rows as [`join`](fn@crate::join), in the same order. Columns have the types of
/// [`result_type`](crate::external::result_type): dictionaries are replaced by their values.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Int64Array, RecordBatch, StringArray, record_batch};
/// use koel_arrow::{JoinKind, Keys, PreparedJoin, PreparedOptions};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("cities.koel");
///
/// let cities = record_batch!(("city", Int64, [10, 20]), ("name", Utf8, ["Bern", "Oslo"]))?;
/// let device = koel::auto().backend;
/// let prepared = PreparedJoin::build(&device, &cities.schema(), vec![cities], &["city"], PreparedOptions::default())?;
/// let digest = prepared.save(&path)?;
///
/// let opened = PreparedJoin::open(&device, &path)?;
/// assert_eq!(opened.digest()?, digest);
/// let left = Keys::of_arrays(&[Arc::new(Int64Array::from(vec![20, 30, 10]))])?;
/// let rows = opened.index().join(&left, JoinKind::Inner)?;
/// assert_eq!(rows.left.values(), &[0, 2]);
/// let names = opened.take(&rows.right.expect("right rows"), &[1])?;
/// assert_eq!(names.column(0).as_ref(), &StringArray::from(vec!["Oslo", "Bern"]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PreparedJoin {
    schema: SchemaRef,
    columns: Vec<Column>,
    /// The positions of the key columns.
    on: Vec<usize>,
    parameters: Parameters,
    index: RightKeys,
    digest: OnceLock<Digest>,
}

impl PreparedJoin {
    /// Prepares the rows of batches of one schema. `on` has the names of the key columns.
    ///
    /// Cost: a hash of each key, an index of the hashes, and a comparison of each key that is a duplicate. Memory: the
    /// rows are shared with the batches, except for dictionaries; 8 bytes per row during the build, and the index.
    ///
    /// # Errors
    /// Those of [`Keys::of_batches`] and [`RightKeys::new`];
    /// [`Error::HashCollisions`](crate::Error::HashCollisions) for keys that were chosen to collide.
    pub fn build<S: AsRef<str>>(
        device: &Any,
        schema: &SchemaRef,
        batches: Vec<RecordBatch>,
        on: &[S],
        options: PreparedOptions,
    ) -> Result<Self> {
        Self::with_hashes(device, schema, batches, on, options, u64::BITS)
    }

    /// As [`build`](Self::build), with hashes of `bits` bits.
    fn with_hashes<S: AsRef<str>>(
        device: &Any,
        schema: &SchemaRef,
        batches: Vec<RecordBatch>,
        on: &[S],
        options: PreparedOptions,
        bits: u32,
    ) -> Result<Self> {
        let on = on.iter().map(|name| place(schema, name.as_ref())).collect::<Result<Vec<_>>>()?;
        let column = |at: usize| {
            let field = schema.field(at);
            let chunks = batches.iter().map(|batch| flattened(batch.column(at))).collect::<Result<_>>()?;
            Column::of_chunks(field.name(), &result_type(field.data_type()), chunks)
        };
        if batches.iter().any(|batch| batch.num_columns() != schema.fields().len()) {
            let what = "a batch has another number of columns than the schema";
            return Err(ArrowError::SchemaError(what.into()).into());
        }
        for field in schema.fields() {
            if has_dictionaries(&result_type(field.data_type())) {
                return Err(Error::UnsupportedValue {
                    function: "a prepared join",
                    column: field.name().clone(),
                    found: field.data_type().clone(),
                    advice: "cast it to a type without dictionaries",
                });
            }
        }
        let columns = (0..schema.fields().len()).into_par_iter().map(column).collect::<Result<Vec<_>>>()?;
        let keys = keys_of(&columns, &on)?;
        let parameters = Parameters { nulls: options.nulls, seed: options.seed, bits };
        let (hashed, index) = Hashed::build(device, &keys, parameters)?;
        let fields = schema.fields().iter().map(|field| {
            let of = result_type(field.data_type());
            Arc::new(field.as_ref().clone().with_data_type(of))
        });
        Ok(PreparedJoin {
            schema: Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())),
            columns,
            on,
            parameters: hashed.parameters,
            index: RightKeys::of_hashes(keys, hashed, index),
            digest: OnceLock::new(),
        })
    }

    /// The schema of the rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The positions of the key columns in the schema.
    pub fn on(&self) -> &[usize] {
        &self.on
    }

    /// Whether nulls are equal.
    pub fn nulls(&self) -> NullEquality {
        self.parameters.nulls
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index of the keys, for joins with any number of left keys.
    pub fn index(&self) -> &RightKeys {
        &self.index
    }

    /// The key columns.
    pub fn keys(&self) -> &Keys {
        &self.index.keys
    }

    /// The device of the index.
    pub fn device(&self) -> &Any {
        match &self.index.index {
            Index::Narrow(index) => index.backend(),
            Index::Wide(index) => index.backend(),
        }
    }

    /// Returns the first row with each of these keys, or [`NO_ROW`](koel::NO_ROW), for semi, anti and mark joins.
    ///
    /// # Errors
    /// As [`RightKeys::join`].
    pub fn first_rows(&self, left: &Keys) -> Result<Vec<u32>> {
        self.index.first_rows(left)
    }

    /// The same rows and keys, with an index on another device. The digest is the same.
    ///
    /// Cost: as [`build`](Self::build); the rows are shared.
    ///
    /// # Errors
    /// What koel reports.
    pub fn on_device(&self, device: &Any) -> Result<Self> {
        let (hashed, index) = Hashed::build(device, self.keys(), self.parameters)?;
        Ok(PreparedJoin {
            schema: Arc::clone(&self.schema),
            columns: self.columns.clone(),
            on: self.on.clone(),
            parameters: hashed.parameters,
            index: RightKeys::of_hashes(self.keys().clone(), hashed, index),
            digest: self.digest.clone(),
        })
    }

    /// Returns an error if the columns, the key columns or the equality of nulls differ from these. This checks a side
    /// that was prepared elsewhere.
    ///
    /// # Errors
    /// [`Error::OtherSide`](crate::Error::OtherSide), which names the difference.
    pub fn check(&self, schema: &Schema, on: &[usize], nulls: NullEquality) -> Result<()> {
        let columns = |schema: &Schema| {
            let column = |field: &Arc<Field>| format!("{} {}", field.name(), field.data_type());
            schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
        };
        let keys =
            |on: &[usize]| on.iter().map(|&at| self.schema.field(at).name().as_str()).collect::<Vec<_>>().join(", ");
        let differ = |what, there: String, wanted: String| Err(Error::OtherSide { what, there, wanted });
        let (own, wanted) = (columns(&self.schema), columns(schema));
        if own != wanted {
            return differ("columns", own, wanted);
        }
        if self.on != on {
            return differ("keys", keys(&self.on), keys(on));
        }
        if self.nulls() != nulls {
            let shown = |nulls| match nulls {
                NullEquality::NullEquals => "equal".to_owned(),
                NullEquality::NothingEquals => "not equal".to_owned(),
            };
            return differ("nulls", shown(self.nulls()), shown(nulls));
        }
        Ok(())
    }

    /// The columns, for example to gather rows of one of them with [`take`](Column::take).
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Rows of the columns at these positions; null if a number is null.
    ///
    /// # Errors
    /// As [`Column::take`]; [`Error::Arrow`](crate::Error::Arrow) if there is no such column.
    pub fn take(&self, rows: &UInt32Array, columns: &[usize]) -> Result<RecordBatch> {
        let schema = self.schema.project(columns)?;
        let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let taken = columns.par_iter().map(|&at| self.columns[at].take(rows)).collect::<Result<_>>()?;
        batch_of(&schema, taken, rows.len())
    }
}

/// Whether a type contains dictionaries, at any depth.
fn has_dictionaries(of: &DataType) -> bool {
    use DataType::*;
    match of {
        Dictionary(..) => true,
        List(of) | LargeList(of) | ListView(of) | LargeListView(of) | FixedSizeList(of, _) | Map(of, _) => {
            has_dictionaries(of.data_type())
        }
        RunEndEncoded(_, of) => has_dictionaries(of.data_type()),
        Struct(fields) => fields.iter().any(|field| has_dictionaries(field.data_type())),
        Union(fields, _) => fields.iter().any(|(_, field)| has_dictionaries(field.data_type())),
        _ => false,
    }
}

/// The position of the column of this name.
fn place(schema: &Schema, name: &str) -> Result<usize> {
    // Returns the error if the column is missing or ambiguous.
    Column::of_batches(schema, &[], name)?;
    Ok(schema.index_of(name)?)
}

/// The key columns, selected from all columns.
fn keys_of(columns: &[Column], on: &[usize]) -> Result<Keys> {
    Keys::new(on.iter().map(|&at| columns[at].clone()).collect())
}

impl std::fmt::Debug for PreparedJoin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("PreparedJoin");
        shown.field("schema", &self.schema).field("on", &self.on).field("rows", &self.len()).finish_non_exhaustive()
    }
}
