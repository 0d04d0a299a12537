//! Columns of a table as keys and values: `--key NAME --value NAME`. Without names, the first one or two columns of `.npy`.
//!
//! ```text
//! whole numbers of up to 64 bits    themselves, of the column's type; of text the narrowest type that holds all
//! dates, times, moments             what the file has: days, or parts of a second, with a sign
//! floats                            values alone, as doubles
//! two key columns of 32 bits        the first one is the upper half of a key of 64 bits
//! ```

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch};
use arrow_schema::{DataType, SchemaRef, TimeUnit};
use koel_arrow::Column;

use super::{Batch, Name, Named, ReadOptions, Want};
use crate::failure::{Failure, Result};
use crate::number::{Number, Type};
use crate::options::names;
use crate::tables::TableReading;
use crate::tables::read::{Source, wanted};
use crate::text;

/// Rows whose numbers are in memory at a time: few, so that they stay in a cache.
const PIECE: usize = 1 << 12;

/// Reads the columns that `options` name into a sink.
pub(super) fn read(source: &Source, options: &ReadOptions, want: Want, sink: &mut Batch<'_>) -> Result<()> {
    let name = source.name();
    let (keys, value) = columns(source, options, want)?;
    let mut wanted = keys.clone();
    // A column may be both.
    wanted.extend(value.clone().filter(|value| !keys.contains(value)));
    // Arrays are as large as the numbers that are kept.
    let (schema, batches): (_, Box<dyn Iterator<Item = Result<RecordBatch>>>) = if options.spool || source.is_npy() {
        let stream = source.stream(Some(&wanted))?;
        (Arc::clone(stream.schema()), Box::new(stream))
    } else {
        let table = source.read(Some(&wanted))?;
        (table.schema, Box::new(table.batches.into_iter().map(Ok)))
    };
    let at_value = value.and_then(|value| wanted.iter().position(|wanted| *wanted == value));
    let names = Names { file: name, schema: &schema, is_text: source.is_text() };
    let key_type = match keys.len() {
        1 => names.whole(0)?,
        2 => names.halves()?,
        _ => return Err(Failure::Input("--key takes one column, or two of 32 bits".into())),
    };
    let value_type = match at_value {
        None => Some(Type::U32),
        Some(at) => names.value(at, options)?,
    };
    sink.begin(name, Named::of(options, Named { keys: key_type, values: value_type, kmers: None }))?;
    let mut row = 0_u64;
    for batch in batches {
        let batch = batch?;
        let plain = |column: &ArrayRef| Ok(Column::new("", column.clone()).plain()?.chunks()[0].clone());
        let columns = batch.columns().iter().map(plain).collect::<koel_arrow::Result<Vec<ArrayRef>>>()?;
        let nulls: Vec<_> = columns.iter().map(|column| column.logical_nulls()).collect();
        let mut numbers: Vec<Vec<Number>> = Vec::new();
        for i in 0..batch.num_rows() {
            if i % PIECE == 0 {
                let length = PIECE.min(batch.num_rows() - i);
                numbers = columns.iter().map(|column| numbers_of(&column.slice(i, length))).collect();
            }
            let number = |column: &Vec<Number>| column[i % PIECE];
            if let Some(null) = nulls.iter().position(|nulls| nulls.as_ref().is_some_and(|nulls| nulls.is_null(i))) {
                if !options.skip_nulls {
                    let column = schema.field(null).name();
                    let advice = "drop rows with nulls by --skip-nulls";
                    return Err(name.fail(format!("row {row}, column {column}: a null is not a number: {advice}")));
                }
                sink.rows += 1;
                row += 1;
                continue;
            }
            let bad = |what: &str, why: String| name.fail(format!("row {row}, the {what}: {why}"));
            let key = match keys.len() {
                1 => number(&numbers[0]),
                _ => Number::from(u64::from(number(&numbers[0]) as u32) << 32 | u64::from(number(&numbers[1]) as u32)),
            };
            let key = sink.admit_key(key).map_err(|why| bad("key", why))?;
            let value = match at_value {
                // `begin` has seen to it that values are doubles then.
                Some(at) if value_type == Some(Type::F64) => number(&numbers[at]),
                Some(at) => sink.admit_value(number(&numbers[at])).map_err(|why| bad("value", why))?,
                None if want == Want::Pairs => sink.row_number().map_err(|why| bad("number", why))?,
                None => 0,
            };
            sink.push(key, value)?;
            row += 1;
        }
    }
    Ok(())
}

/// The names of the columns of the key, and of the value if one is requested and there.
fn columns(source: &Source, options: &ReadOptions, want: Want) -> Result<(Vec<String>, Option<String>)> {
    let (name, there) = (source.name(), source.columns());
    let value = |value: Option<&str>| value.filter(|_| want == Want::Pairs).map(str::to_owned);
    match (names::all(options.key.as_ref()), &there[..]) {
        (Some(keys), _) => {
            let reading = TableReading { header: options.header, text: options.text.clone(), spool: options.spool };
            reading.check(&[source])?;
            Ok((keys, value(options.value.as_deref())))
        }
        (None, [key, rest @ ..]) if source.is_npy() && (rest.len() < 2 || want == Want::Keys) => {
            Ok((vec![(*key).to_owned()], value(rest.first().copied())))
        }
        (None, _) if source.is_npy() => {
            let (count, there) = (there.len(), wanted::listed(&there));
            let other = options.names_key.map_or(String::new(), |key| format!(", or the columns of the key by {key}"));
            Err(name.fail(format!("there are {count} columns, {there}: name two by --key and --value{other}")))
        }
        (None, _) => {
            let (format, there) = (source.format(), there.join(", "));
            Err(name.fail(format!("this is {format}: name the column of the key by --key: there are {there}")))
        }
    }
}

/// Columns, and what is said of them.
struct Names<'a> {
    file: &'a Name,
    schema: &'a SchemaRef,
    is_text: bool,
}

impl Names<'_> {
    fn refused(&self, at: usize, advice: &str) -> Failure {
        let field = self.schema.field(at);
        self.file.fail(format!("column {} is of type {}: {advice}", field.name(), field.data_type()))
    }

    /// The type of a key; of text that of its numbers is found as they come.
    fn whole(&self, at: usize) -> Result<Option<Type>> {
        match type_of(self.schema.field(at).data_type()) {
            None | Some(Type::F64) => Err(self.refused(
                at,
                "keys are whole numbers. `koel unique --on` numbers keys of any type, and `koel join --on` joins by them",
            )),
            Some(_) if self.is_text => Ok(None),
            kind => Ok(kind),
        }
    }

    /// The type of keys of two halves.
    fn halves(&self) -> Result<Option<Type>> {
        for at in 0..2 {
            self.whole(at)?;
            if type_of(self.schema.field(at).data_type()).is_some_and(|kind| kind.bits() > u32::BITS) {
                let column = text::name(self.schema.field(at).name());
                let advice = format!("two columns make a key where each has 32 bits: give --types {column}=uint32");
                return Err(self.refused(at, &advice));
            }
        }
        Ok(Some(Type::U64))
    }

    fn value(&self, at: usize, options: &ReadOptions) -> Result<Option<Type>> {
        match (type_of(self.schema.field(at).data_type()), options.values) {
            (None, _) => Err(self.refused(at, "values are numbers")),
            (Some(Type::F64), _) if !options.doubles => {
                Err(self.refused(at, "values of tables are integers: save them as int64, in a smaller unit if needed"))
            }
            (Some(Type::F64), Some(named)) if named != Type::F64 => {
                Err(self.refused(at, "--values is an integer type: omit it to read values as doubles"))
            }
            (Some(Type::F64), _) => Ok(Some(Type::F64)),
            _ if self.is_text => Ok(None),
            (kind, _) => Ok(kind),
        }
    }
}

/// What the numbers of a column are; none of a column that has no numbers.
fn type_of(data_type: &DataType) -> Option<Type> {
    use DataType::*;
    Some(match koel_arrow::plain_type(data_type) {
        Int8 | Int16 | Int32 | Date32 | Time32(_) => Type::I32,
        UInt8 | UInt16 | UInt32 | Boolean => Type::U32,
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => Type::I64,
        UInt64 => Type::U64,
        Float16 | Float32 | Float64 => Type::F64,
        _ => return None,
    })
}

/// The numbers of a column, of a type that has some; what stands under a null is any.
fn numbers_of(array: &ArrayRef) -> Vec<Number> {
    fn of<T: ArrowPrimitiveType>(array: &ArrayRef, number: impl Fn(T::Native) -> Number) -> Vec<Number> {
        array
            .as_primitive_opt::<T>()
            .map_or(Vec::new(), |array| array.values().iter().map(|&value| number(value)).collect())
    }
    let double = |value: f64| Number::from(value.to_bits());
    match array.data_type() {
        DataType::Boolean => array.as_boolean().values().iter().map(Number::from).collect(),
        DataType::Int8 => of::<Int8Type>(array, Number::from),
        DataType::Int16 => of::<Int16Type>(array, Number::from),
        DataType::Int32 => of::<Int32Type>(array, Number::from),
        DataType::Int64 => of::<Int64Type>(array, Number::from),
        DataType::UInt8 => of::<UInt8Type>(array, Number::from),
        DataType::UInt16 => of::<UInt16Type>(array, Number::from),
        DataType::UInt32 => of::<UInt32Type>(array, Number::from),
        DataType::UInt64 => of::<UInt64Type>(array, Number::from),
        DataType::Date32 => of::<Date32Type>(array, Number::from),
        DataType::Date64 => of::<Date64Type>(array, Number::from),
        DataType::Time32(TimeUnit::Second) => of::<Time32SecondType>(array, Number::from),
        DataType::Time32(_) => of::<Time32MillisecondType>(array, Number::from),
        DataType::Time64(TimeUnit::Microsecond) => of::<Time64MicrosecondType>(array, Number::from),
        DataType::Time64(_) => of::<Time64NanosecondType>(array, Number::from),
        DataType::Timestamp(TimeUnit::Second, _) => of::<TimestampSecondType>(array, Number::from),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of::<TimestampMillisecondType>(array, Number::from),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of::<TimestampMicrosecondType>(array, Number::from),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of::<TimestampNanosecondType>(array, Number::from),
        DataType::Duration(TimeUnit::Second) => of::<DurationSecondType>(array, Number::from),
        DataType::Duration(TimeUnit::Millisecond) => of::<DurationMillisecondType>(array, Number::from),
        DataType::Duration(TimeUnit::Microsecond) => of::<DurationMicrosecondType>(array, Number::from),
        DataType::Duration(TimeUnit::Nanosecond) => of::<DurationNanosecondType>(array, Number::from),
        DataType::Float16 => of::<Float16Type>(array, |value| double(value.to_f64())),
        DataType::Float32 => of::<Float32Type>(array, |value| double(value.into())),
        DataType::Float64 => of::<Float64Type>(array, double),
        _ => Vec::new(),
    }
}
