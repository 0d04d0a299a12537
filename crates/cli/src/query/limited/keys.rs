//! `koel unique --memory` of keys alone: numbers, and k-mers of sequences.
//!
//! Keys are in a temporary file until it is known of which type they are, and then a column of that type.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field};
use koel::IdOrder;
use koel::device::Any;
use koel_arrow::external::{Batches, GroupBy, Limit, Of};
use koel_arrow::{Function, NullKeys};
use serde_json::json;

use super::super::columns::{batch, schema_of};
use super::Stop;
use super::watched::Watched;
use crate::failure::{Failure, Result, Verdict};
use crate::input::{Inputs, ReadOptions, Spooled, Want};
use crate::number::{Number, Numbers, Type};
use crate::options;
use crate::output::{Column, RowOptions, Rows};
use crate::progress::Progress;
use crate::text;

/// What is wanted of keys.
pub(crate) struct Keys<'a> {
    pub(crate) counts: bool,
    pub(crate) min_count: u32,
    pub(crate) order: IdOrder,
    pub(crate) output: &'a RowOptions,
    pub(crate) devices: &'a [Any],
    pub(crate) limit: &'a Limit,
    /// The limit that is told.
    pub(crate) memory: Option<u64>,
    /// Letters of keys, if they are k-mers.
    pub(crate) k: Option<u32>,
}

impl Keys<'_> {
    pub(crate) fn run(&self, inputs: Inputs<'_>, reading: &ReadOptions, progress: Progress) -> Result<Verdict> {
        let start = Instant::now();
        let rows = Spooled::read(inputs, reading, Want::Keys)?;
        let (kind, count) = (rows.types().0, rows.len());
        let read_seconds = start.elapsed().as_secs_f64();
        progress.say(format!("finding the distinct keys of {}", text::counted(count, "row")));
        let start = Instant::now();
        let schema = schema_of(vec![Field::new("key", type_of(kind), false)]);
        let of_table = Arc::clone(&schema);
        let blocks = rows.blocks()?.map(move |block| -> std::result::Result<RecordBatch, Stop> {
            let keys = column(block?.0)?;
            let rows = keys.len();
            Ok(batch(&schema, vec![keys], rows)?)
        });
        let counted = [Of { function: Function::Count, column: None, name: "count".into() }];
        let is_counted = self.counts || self.min_count > 1;
        let watched = Watched::new(progress, self.output, "finding keys of");
        let group_by = GroupBy {
            devices: self.devices,
            by: &[0],
            aggregates: if is_counted { &counted } else { &[] },
            order: self.order,
            nulls: NullKeys::Group,
            limit: self.limit,
            watch: &|stage| watched.tell(stage),
        };
        let columns = [Column::Of("key", self.output.shown(kind, self.k)), Column::of("count", Type::U32)];
        let mut rows = Rows::open(self.output.output.as_deref(), &columns[..1 + usize::from(self.counts)])?;
        let mut distinct = 0;
        let found = group_by.run(Batches::new(of_table, blocks), |groups| {
            watched.rows_come();
            let counts = is_counted.then(|| groups.column(1).as_primitive::<Int64Type>().values());
            for (row, key) in numbers(groups.column(0)).into_iter().enumerate() {
                let count = counts.map_or(0, |counts| counts[row]);
                if counts.is_some() && count < self.min_count.into() {
                    continue;
                }
                distinct += 1;
                match self.counts {
                    true => rows.write(&[key, count.into()])?,
                    false => rows.write(&[key])?,
                }
            }
            Ok::<_, Stop>(())
        });
        let found = found.map_err(|stop| stop.told(Failure::from))?;
        rows.finish()?;
        drop(watched);
        let sentence = format!("{} of {}", text::counted(distinct, "key"), text::counted(count, "row"));
        self.output.summarize(&sentence, || {
            json!({
                "rows": count, "keys": distinct, "ids": self.order.name(), "min_count": self.min_count,
                "device": options::ids(self.devices), "memory": self.memory, "spilled_bytes": found.spilled,
                "seconds": { "read": read_seconds, "unique": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }
}

/// Arrow's type of such numbers. Keys are no doubles.
fn type_of(kind: Type) -> DataType {
    match kind {
        Type::U32 => DataType::UInt32,
        Type::I32 => DataType::Int32,
        Type::I64 => DataType::Int64,
        Type::U64 | Type::F64 => DataType::UInt64,
    }
}

fn column(keys: Numbers) -> Result<ArrayRef> {
    Ok(match keys.kind() {
        Type::U32 => Arc::new(UInt32Array::from(keys.into_values::<u32>()?)),
        Type::I32 => Arc::new(Int32Array::from(bytemuck::cast_vec::<u32, i32>(keys.into_values()?))),
        Type::I64 => Arc::new(Int64Array::from(bytemuck::cast_vec::<u64, i64>(keys.into_values()?))),
        Type::U64 | Type::F64 => Arc::new(UInt64Array::from(keys.into_values::<u64>()?)),
    })
}

fn numbers(keys: &ArrayRef) -> Vec<Number> {
    match keys.data_type() {
        DataType::UInt32 => keys.as_primitive::<UInt32Type>().values().iter().map(|&key| key.into()).collect(),
        DataType::Int32 => keys.as_primitive::<Int32Type>().values().iter().map(|&key| key.into()).collect(),
        DataType::Int64 => keys.as_primitive::<Int64Type>().values().iter().map(|&key| key.into()).collect(),
        _ => keys.as_primitive::<UInt64Type>().values().iter().map(|&key| key.into()).collect(),
    }
}
