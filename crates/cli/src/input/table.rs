//! Columns of a table as keys and values: `--key NAME --value NAME`. Without names, the first one or two columns of
//! `.npy` files.
//!
//! ```text
//! integers of up to 64 bits        unchanged, of the column's type; in text, of the narrowest type that holds all
//! dates, times, timestamps         as stored in the file: signed days or fractions of a second
//! floats                           values only, as doubles
//! two key columns of 32 bits       the first one is the upper half of a 64-bit key
//! ```

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, RecordBatch, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::filter::filter_record_batch;
use koel_arrow::Column;

use super::{Feed, Name, Named, ReadOptions, Want};
use crate::failure::{Failure, Result};
use crate::number::{Number, Type, Words};
use crate::options::names;
use crate::tables::read::{Source, wanted};
use crate::text;

/// Reads the columns that `options` name into a sink.
pub(super) fn read(source: &Source, options: &ReadOptions, want: Want, feed: &mut Feed<'_>) -> Result<()> {
    let name = source.name();
    let (keys, value) = columns(source, options, want)?;
    let mut wanted = keys.clone();
    // The key column may also be the value column.
    wanted.extend(value.clone().filter(|value| !keys.contains(value)));
    // `.npy` is streamed: otherwise the array would be in memory in addition to its numbers, and take as much space.
    let (schema, batches): (_, Box<dyn Iterator<Item = Result<RecordBatch>>>) = if options.spool || source.is_npy() {
        let stream = source.stream(Some(&wanted))?;
        (Arc::clone(stream.schema()), Box::new(stream))
    } else {
        let table = source.read(Some(&wanted))?;
        (table.schema, Box::new(table.batches.into_iter().map(Ok)))
    };
    let at_value = value.and_then(|value| wanted.iter().position(|wanted| *wanted == value));
    let columns = Columns { file: name, schema: &schema, is_text: source.is_text(), keys: keys.len(), at_value };
    let key_type = match keys.len() {
        1 => columns.whole(0)?,
        2 => columns.halves()?,
        _ => return Err(Failure::Input("--key takes one column, or two of 32 bits".into())),
    };
    let value_type = match at_value {
        None => Some(Type::U32),
        Some(at) => columns.value(at, options)?,
    };
    feed.begin(name, Named::of(options, Named { keys: key_type, values: value_type, kmers: None }))?;
    let mut row = 0;
    for batch in batches {
        let batch = batch?;
        columns.read(&batch, row, options, want, feed)?;
        row += batch.num_rows();
    }
    Ok(())
}

/// The names of the key columns, and of the value column if one is requested and exists.
fn columns(source: &Source, options: &ReadOptions, want: Want) -> Result<(Vec<String>, Option<String>)> {
    let (name, there) = (source.name(), source.columns());
    let value = |value: Option<&str>| value.filter(|_| want == Want::Pairs).map(str::to_owned);
    match (names::all(options.key.as_ref()), &there[..]) {
        (Some(keys), _) => {
            options.of_tables(options.spool).check(&[source])?;
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

/// The key columns, and the value column if there is one.
struct Columns<'a> {
    file: &'a Name,
    schema: &'a SchemaRef,
    is_text: bool,
    /// The first `keys` columns are the key.
    keys: usize,
    at_value: Option<usize>,
}

impl Columns<'_> {
    /// Reads a batch whose first row has this number, up to the first invalid row.
    fn read(
        &self,
        batch: &RecordBatch,
        first: usize,
        options: &ReadOptions,
        want: Want,
        feed: &mut Feed<'_>,
    ) -> Result<()> {
        let union = |all: Option<NullBuffer>, column: &ArrayRef| {
            NullBuffer::union(all.as_ref(), column.logical_nulls().as_ref())
        };
        let there = batch.columns().iter().fold(None, union).filter(|there| there.null_count() > 0);
        if let Some(there) = there.as_ref().filter(|_| !options.skip_nulls) {
            let row = (0..there.len()).take_while(|&row| there.is_valid(row)).count();
            self.read(&batch.slice(0, row), first, options, want, feed)?;
            let is_null = |column: &ArrayRef| column.logical_nulls().is_some_and(|nulls| nulls.is_null(row));
            let column = batch.columns().iter().position(is_null).map_or("", |at| self.schema.field(at).name());
            let advice = "drop rows with nulls by --skip-nulls";
            return Err(self
                .file
                .fail(format!("row {}, column {column}: a null is not a number: {advice}", first + row)));
        }
        let batch = match &there {
            None => batch.clone(),
            Some(there) => filter_record_batch(batch, &BooleanArray::new(there.inner().clone(), None))
                .map_err(koel_arrow::Error::from)?,
        };
        let mut numbers = batch.columns().iter().map(numbers_of).collect::<Result<Vec<_>>>()?;
        let (values, of_value) = match self.at_value {
            None => {
                let values = match &there {
                    None => feed.missing_values(0..batch.num_rows(), want),
                    Some(there) => feed.missing_values(there.valid_indices(), want),
                };
                (values.map_err(|reason| self.file.fail(reason))?, "number")
            }
            // Integers are converted to doubles if the type of the values is f64.
            Some(at) if feed.has_doubles() && !is_float(batch.column(at).data_type()) => {
                (numbers[at].iter().map(|number| Type::F64.of_whole(number)).collect(), "value")
            }
            // A column may be both key and value.
            Some(at) if at < self.keys => (numbers[at].clone(), "value"),
            Some(at) => (std::mem::take(&mut numbers[at]), "value"),
        };
        let half = |of: Number| u64::from(of as u32);
        let keys: Words = match &numbers[..self.keys] {
            [upper, lower] => upper.iter().zip(lower.iter()).map(|(u, l)| (half(u) << 32 | half(l)).into()).collect(),
            _ => numbers.swap_remove(0),
        };
        // Rows keep the numbers that they have in the file, even if some are dropped.
        feed.rows += there.as_ref().map_or(0, |there| there.null_count() as u64);
        if feed.admit_all(&keys, &values) {
            return feed.push(keys, values);
        }
        let wrong = keys.iter().zip(values.iter()).enumerate().find_map(|(i, (key, value))| {
            let admitted = feed.admit_key(key).map_err(|why| ("key", why));
            let admitted = admitted.and_then(|()| feed.admit_value(value).map_err(|why| (of_value, why)));
            Some((i, admitted.err()?))
        });
        let Some((i, (what, why))) = wrong else { return feed.push(keys, values) };
        feed.push(keys.truncated(i), values.truncated(i))?;
        let row = first + there.and_then(|there| there.valid_indices().nth(i)).unwrap_or(i);
        Err(self.file.fail(format!("row {row}, the {what}: {why}")))
    }

    fn refused(&self, at: usize, advice: &str) -> Failure {
        let field = self.schema.field(at);
        self.file.fail(format!("column {} is of type {}: {advice}", field.name(), field.data_type()))
    }

    /// The type of a key of one column. In text, the type is derived from the numbers as they are read.
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

    /// The type of a key of two halves.
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

/// The type of the numbers of a column; `None` if it does not contain numbers.
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

fn is_float(data_type: &DataType) -> bool {
    type_of(data_type) == Some(Type::F64)
}

/// The numbers of a column whose type has some.
fn numbers_of(column: &ArrayRef) -> Result<Words> {
    fn of<T: ArrowPrimitiveType>(array: &ArrayRef, number: impl Fn(T::Native) -> Number) -> Words {
        array.as_primitive::<T>().values().iter().map(|&value| number(value)).collect()
    }
    use DataType::*;
    let plain = Column::new("", Arc::clone(column)).plain()?;
    let array = plain.chunks()[0].to_data().into_builder();
    // Dates and times are stored as integers.
    let array = match plain.data_type() {
        Date32 | Time32(_) => array.data_type(Int32).build(),
        Date64 | Time64(_) | Timestamp(..) | Duration(_) => array.data_type(Int64).build(),
        _ => array.build(),
    };
    let array = &make_array(array.map_err(koel_arrow::Error::from)?);
    let double = |value: f64| Number::from(value.to_bits());
    Ok(match array.data_type() {
        Boolean => array.as_boolean().values().iter().map(Number::from).collect(),
        Int8 => of::<Int8Type>(array, Number::from),
        Int16 => of::<Int16Type>(array, Number::from),
        Int32 => of::<Int32Type>(array, Number::from),
        Int64 => of::<Int64Type>(array, Number::from),
        UInt8 => of::<UInt8Type>(array, Number::from),
        UInt16 => of::<UInt16Type>(array, Number::from),
        UInt32 => of::<UInt32Type>(array, Number::from),
        UInt64 => of::<UInt64Type>(array, Number::from),
        Float16 => of::<Float16Type>(array, |value| double(value.to_f64())),
        Float32 => of::<Float32Type>(array, |value| double(value.into())),
        Float64 => of::<Float64Type>(array, double),
        // Columns of other types are refused.
        _ => Words::default(),
    })
}
