//! `koel unique --inverse`: the id of each row's key, by a join of the table with its groups.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use koel::JoinKind;
use koel::device::Any;
use koel_arrow::external::{Join, Limit, Output, Spooled};
use koel_arrow::{NullEquality, NullKeys};

use super::columns::{batch, places, schema_of};
use super::inputs::{Rows, Stop};
use super::results::Watched;
use crate::failure::{Failure, Result};
use crate::tables::write::{Flushed, Place};

/// How ids are computed.
pub(super) struct Inverse<'a> {
    pub(super) devices: &'a [Any],
    /// The key columns.
    pub(super) by: &'a [String],
    pub(super) nulls: NullKeys,
    pub(super) limit: &'a Limit,
    pub(super) watched: &'a Watched<'a>,
}

/// Groups that are read twice, with their ids as the last column.
pub(super) struct NumberedGroups {
    schema: SchemaRef,
    groups: Spooled,
    len: u64,
}

impl NumberedGroups {
    /// No groups yet, with columns of this schema. They are in a temporary file if `is_in_file`.
    pub(super) fn new(schema: &Schema, limit: &Limit, is_in_file: bool) -> Self {
        let ids = Field::new("", DataType::UInt64, false);
        let schema = schema_of(schema.fields().iter().map(|field| field.as_ref().clone()).chain([ids]).collect());
        let groups = if is_in_file { Spooled::new(&schema, limit) } else { Spooled::buffered(&schema, limit) };
        NumberedGroups { groups, schema, len: 0 }
    }

    pub(super) fn push(&mut self, groups: RecordBatch) -> koel_arrow::Result<()> {
        let first = self.len;
        self.len += groups.num_rows() as u64;
        let ids: UInt64Array = (first..self.len).collect::<Vec<_>>().into();
        let columns = [groups.columns(), &[Arc::new(ids)]].concat();
        self.groups.push(&batch(&self.schema, columns, groups.num_rows())?)
    }

    /// The bytes in a temporary file.
    pub(super) fn spilled(&self) -> u64 {
        self.groups.spilled()
    }

    pub(super) fn read(&self) -> impl Iterator<Item = koel_arrow::Result<RecordBatch>> + '_ {
        self.groups.read()
    }
}

impl Inverse<'_> {
    /// Writes the id of each row's key; null for rows that were dropped. The first columns of the groups are the keys.
    pub(super) fn write(&self, path: &Path, rows: Rows<'_>, groups: &mut NumberedGroups) -> Result<Flushed> {
        let NumberedGroups { schema, groups, len } = groups;
        let on: Vec<(usize, usize)> = places(rows.schema(), self.by)?.into_iter().zip(0..).collect();
        let drops = self.nulls == NullKeys::Drop;
        let nulls = if drops { NullEquality::NothingEquals } else { NullEquality::NullEquals };
        let (columns, watch) = ([Output::Right(schema.fields().len() - 1)], |stage| self.watched.show(stage));
        let (devices, limit, how) = (self.devices, self.limit, JoinKind::Left);
        let join = Join { devices, on: &on, how, nulls, columns: &columns, limit, watch: &watch };
        // Ids of 32 bits, if they fit.
        let of_ids = if *len <= u32::MAX.into() { DataType::UInt32 } else { DataType::UInt64 };
        let ids = schema_of(vec![Field::new("id", of_ids.clone(), drops)]);
        let mut results = self.watched.results_in(Place::File(path), &ids, limit)?;
        let written = join.run(rows.into_batches(limit), groups.batches(), |rows: RecordBatch| {
            let narrow = rows.column(0).as_primitive::<UInt64Type>();
            let column: Arc<dyn Array> = match of_ids {
                DataType::UInt32 => Arc::new(narrow.unary::<_, UInt32Type>(|id| id as u32)),
                _ => Arc::clone(rows.column(0)),
            };
            Ok::<_, Stop>(results.write(&batch(&ids, vec![column], rows.num_rows())?)?)
        });
        written.map_err(|stop| stop.into_failure(Failure::from))?;
        results.flush()
    }
}
