//! Numbers of rows without names as columns of Arrow, and back.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field};
use koel_arrow::external::Batches;

use super::super::columns::{batch, schema_of};
use super::Stop;
use crate::failure::Result;
use crate::input::Spooled;
use crate::number::{Number, Type};
use crate::tables::read::rows::{column, type_of};

/// What accompanies the keys.
pub(super) enum Payload {
    Nothing,
    Values,
    /// Numbers of rows, from 0.
    Rows,
}

/// Rows as the columns `key` and, if requested, `value`; keys are numbers of this type, which all of them fit.
pub(super) fn batches<'a>(rows: &'a Spooled, keys: Type, payload: Payload) -> Result<Batches<'a, Stop>> {
    let values = match payload {
        Payload::Nothing => None,
        Payload::Values => Some(rows.types().1),
        Payload::Rows => Some(Type::U64),
    };
    let of_values = values.map(|values| Field::new("value", type_of(values), false));
    let schema = schema_of([Field::new("key", type_of(keys), false)].into_iter().chain(of_values).collect());
    let (of_table, mut next) = (Arc::clone(&schema), 0);
    let blocks = rows.blocks()?.map(move |block| -> std::result::Result<RecordBatch, Stop> {
        let (of_keys, of_values) = block?;
        let (first, rows) = (next, of_keys.len());
        next += rows as u64;
        let mut columns = vec![column(of_keys.into_kind(keys)?)?];
        match payload {
            Payload::Nothing => {}
            Payload::Values => columns.push(column(of_values)?),
            Payload::Rows => columns.push(Arc::new(UInt64Array::from_iter_values(first..next))),
        }
        Ok(batch(&schema, columns, rows)?)
    });
    Ok(Batches::new(of_table, blocks))
}

/// The numbers of a column; `None` for nulls.
pub(super) fn numbers(column: &ArrayRef) -> Vec<Option<Number>> {
    fn of<T: ArrowPrimitiveType<Native: Copy>>(
        column: &ArrayRef,
        number: fn(T::Native) -> Number,
    ) -> Vec<Option<Number>> {
        column.as_primitive::<T>().iter().map(|value| value.map(number)).collect()
    }
    match column.data_type() {
        DataType::UInt32 => of::<UInt32Type>(column, Number::from),
        DataType::Int32 => of::<Int32Type>(column, Number::from),
        DataType::Int64 => of::<Int64Type>(column, Number::from),
        DataType::Float64 => of::<Float64Type>(column, |value| value.to_bits().into()),
        _ => of::<UInt64Type>(column, Number::from),
    }
}
