//! Equal units of text.
//!
//! ```text
//! pass      each batch -> its units and their numbers; units without text are kept at once
//! groups    the least number of each distinct text (GroupBy, which spills what exceeds the limit)
//! kept rows the units are also buffered, or written to a temporary file beyond a quarter of the limit, and joined with
//!           the groups by their texts
//! ```

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::LargeStringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use koel::{IdOrder, JoinKind};
use rayon::prelude::*;

use super::text::Texts;
use super::{Dedup, Duplicates, Normalize, Unit};
use crate::aggregate::Function;
use crate::encode::NullEquality;
use crate::error::{Error, Result};
use crate::external::{Batches, GroupBy, Join, Limit, Of, Output, Spooled};
use crate::group::NullKeys;
use crate::plain::plain_type;

/// The number of rows that a task splits into units.
const ROWS: usize = 1 << 8;
/// The columns of a table of units.
const TEXT: usize = 0;
const NUMBER: usize = 1;

/// The results of the first pass so far.
struct Pass {
    found: Duplicates,
    /// The units, if they are read a second time.
    spooled: Option<Spooled>,
}

impl Dedup<'_> {
    pub(super) fn exact<E: From<Error> + Send>(
        &self,
        schema: &SchemaRef,
        at: usize,
        table: impl Iterator<Item = std::result::Result<RecordBatch, E>>,
        with_kept_rows: bool,
    ) -> std::result::Result<Duplicates, E> {
        let units = self.schema_of_units(plain_type(schema.field(at).data_type()));
        // The units and the groups may each take a quarter of the limit.
        let limit = if with_kept_rows { self.limit.part(2) } else { self.limit.clone() };
        let spooled = |schema| with_kept_rows.then(|| Spooled::buffered(schema, &limit.part(2)));
        let spooled_units = spooled(&units);
        let pass = RefCell::new(Pass { found: Duplicates::default(), spooled: spooled_units });
        let batches = table.map(|batch| {
            let mut pass = pass.borrow_mut();
            let batch = self.units(&mut pass.found, &batch?, at, &units)?;
            pass.spooled.as_mut().map_or(Ok(()), |spooled| spooled.push(&batch))?;
            Ok::<_, E>(batch)
        });
        let least = [Of { function: Function::Min, column: Some(NUMBER), name: "first".into() }];
        let group_by = GroupBy {
            devices: self.devices,
            by: &[TEXT],
            aggregates: &least,
            order: IdOrder::FirstSeen,
            nulls: NullKeys::Drop,
            limit: &limit,
            watch: self.watch,
        };
        let groups_schema = group_by.schema(&units)?;
        let mut groups = spooled(&groups_schema);
        let grouped = group_by.run(Batches::new(Arc::clone(&units), batches), |batch| {
            let mut pass = pass.borrow_mut();
            let kept_rows = batch.column(1).as_primitive::<UInt64Type>().values();
            kept_rows.iter().for_each(|&first| pass.found.keep(first));
            groups.as_mut().map_or(Ok(()), |groups| Ok(groups.push(&batch)?))
        })?;
        let Pass { mut found, spooled } = pass.into_inner();
        found.duplicates = found.units - found.kept.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        found.spilled = grouped.spilled;
        if let (Some(units), Some(groups)) = (spooled, groups) {
            let (kept_rows, spilled) = self.kept_rows(&found, &units, &groups, &limit)?;
            found.kept_rows = Some(kept_rows);
            found.spilled += units.spilled() + groups.spilled() + spilled;
        }
        Ok(found)
    }

    fn schema_of_units(&self, text: DataType) -> SchemaRef {
        let text = if self.is_as_read() { text } else { DataType::LargeUtf8 };
        Arc::new(Schema::new(vec![Field::new("text", text, true), Field::new("number", DataType::UInt64, false)]))
    }

    /// Whether whole documents are compared without normalization.
    fn is_as_read(&self) -> bool {
        self.unit == Unit::Document && self.normalize.is_off()
    }

    /// The units of a batch with their numbers; units that are not compared are marked as kept.
    fn units(&self, found: &mut Duplicates, batch: &RecordBatch, at: usize, units: &SchemaRef) -> Result<RecordBatch> {
        let column = Texts::of(batch.column(at))?;
        let rows = column.rows();
        found.rows += rows.len() as u64;
        let first = found.units;
        if self.is_as_read() {
            found.units += rows.len() as u64;
            let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(first..found.units));
            (first..).zip(&rows).filter(|(_, text)| text.is_none()).for_each(|(number, _)| found.keep(number));
            return Ok(RecordBatch::try_new(Arc::clone(units), vec![Arc::clone(column.array()), numbers])?);
        }
        let (unit, normalize) = (self.unit, self.normalize);
        let chunks: Vec<Vec<Option<String>>> = rows.par_chunks(ROWS).map(|rows| keys(rows, unit, normalize)).collect();
        let mut numbers = Vec::new();
        let mut number = first;
        for key in chunks.iter().flatten() {
            match key {
                Some(_) => numbers.push(number),
                None => found.keep(number),
            }
            number += 1;
        }
        found.units = number;
        let mut keys = LargeStringBuilder::with_capacity(numbers.len(), 0);
        chunks.iter().flatten().flatten().for_each(|key| keys.append_value(key));
        Ok(RecordBatch::try_new(
            Arc::clone(units),
            vec![Arc::new(keys.finish()), Arc::new(UInt64Array::from(numbers))],
        )?)
    }

    /// For each row, the first row with the same text; and the number of bytes that were spilled.
    fn kept_rows(
        &self,
        found: &Duplicates,
        units: &Spooled,
        groups: &Spooled,
        limit: &Limit,
    ) -> Result<(Vec<u32>, u64)> {
        let most = u64::from(u32::MAX) - 1;
        if found.rows > most {
            let what = "rows of a table with clusters (deduplicate it in parts)";
            return Err(koel::Error::TooLarge { what, requested: found.rows, most }.into());
        }
        let rows: Range<u32> = 0..found.rows as u32;
        let mut kept_rows: Vec<u32> = rows.collect();
        let join = Join {
            devices: self.devices,
            on: &[(TEXT, TEXT)],
            how: JoinKind::Inner,
            nulls: NullEquality::NothingEquals,
            columns: &[Output::Left(NUMBER), Output::Right(1)],
            limit,
            watch: self.watch,
        };
        let joined = join.run(units.batches::<Error>(), groups.batches(), |pairs| {
            let [rows, first] = [0, 1].map(|column| pairs.column(column).as_primitive::<UInt64Type>().values());
            rows.iter().zip(first).for_each(|(&row, &first)| kept_rows[row as usize] = first as u32);
            Ok(())
        })?;
        Ok((kept_rows, joined.spilled))
    }
}

/// The text of each unit as it is compared; `None` for units that are always kept: nulls, and blank lines.
fn keys(rows: &[Option<&str>], unit: Unit, normalize: Normalize) -> Vec<Option<String>> {
    if unit == Unit::Document {
        return rows.iter().map(|text| text.map(|text| normalize.apply(text).into_owned())).collect();
    }
    let pieces = rows.iter().flatten().flat_map(|text| unit.split(text));
    let keys = pieces.map(|piece| Some(normalize.apply(piece.text)).filter(|key| !key.trim().is_empty()));
    keys.map(|key| key.map(Cow::into_owned)).collect()
}
