//! `koel.group_by` for CUDA arrays.
//!
//! ```text
//! one column of values, no NaN      one pass over keys and values (group::wide::group_by_on)
//! several columns, or a NaN         find the group of each row; then one pass per column, which skips NaN
//! first, last, nunique              find the group of each row; then rows_of_groups.rs
//! ```
//!
//! Values are aggregated as uint64, int64 or float64. Minima and maxima are converted back to the type of their column.

use koel::device::AnyBuffer;
use koel::group::wide::{aggregate_on, factorize_on, group_by_on};
use koel::group::{DeviceGroups, Number};
use koel::opencl::cuda::{Cuda, doubles_to_floats, floats_to_doubles, has_nan, nan_if_empty, resized, without_nan};
use koel::scheme::Key;
use koel::{Aggregate, Any, DeviceBuffer as _, Error, HashBackend as _, IdOrder, Runs};
use koel_arrow::Function;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

use super::argument::{GpuColumn, Placed, numbers};
use super::keys::{self, Imported, opencl_buffer, with_words};
use super::rows_of_groups::Rows;
use super::{Array, Dtype, Keys, mixed, on_gpu};
use crate::error::{Failure, Result};
use crate::group_by::{Request, items, request};
use crate::tables::Type;

const INT64: Dtype = Dtype::Integers(Type { bits: 64, is_signed: true });
const UINT64: Dtype = Dtype::Integers(Type { bits: 64, is_signed: false });
const FLOAT64: Dtype = Dtype::Floats(64);

/// A column of values, and the owner of its memory.
struct Given<'py> {
    object: Bound<'py, PyAny>,
    column: GpuColumn,
    of: Dtype,
    _owner: Bound<'py, PyAny>,
}

/// The input of a result: a column, or `None` for the number of rows.
type Source<'a> = Option<(&'a GpuColumn, Dtype)>;

/// A requested result: the index of its source, and the function.
type Wanted = (usize, Function);

/// Results and their names.
type Named = Vec<(String, Array)>;

/// Returns the key columns of the groups, and the results.
pub(crate) fn group_by(
    py: Python<'_>,
    keys: &Keys,
    aggregates: &Bound<'_, PyAny>,
    order: IdOrder,
    device: &str,
) -> PyResult<(Vec<Array>, Named)> {
    let (mut columns, mut names, mut wanted): (Vec<Given<'_>>, _, Vec<Wanted>) = (Vec::new(), Vec::new(), Vec::new());
    for (name, what) in items(aggregates)? {
        wanted.push(match request(&name, &what)? {
            Request::Rows => (0, Function::Count),
            Request::Of(object, function) => {
                let place = columns.iter().position(|column| column.object.is(&object)).unwrap_or(columns.len());
                if place == columns.len() {
                    columns.push(Given::of(&name, object, keys)?);
                } else if function == Function::Sum && !wanted.contains(&(1 + place, Function::Sum)) {
                    // The error message of a sum that overflows contains this name.
                    columns[place].column.name = name.clone();
                }
                (1 + place, function)
            }
        });
        names.push(name);
    }
    let of_columns = columns.iter().map(|given| Some((&given.column, given.of)));
    let sources: Vec<Source<'_>> = std::iter::once(None).chain(of_columns).collect();
    let mut arrays: Vec<&(dyn Placed + Sync)> = keys.placed().collect();
    let of_keys = arrays.len();
    arrays.extend(columns.iter().map(|given| &given.column as &(dyn Placed + Sync)));
    let mut found = on_gpu(py, device, &arrays, |cuda, device| {
        with_words!(cuda, keys, |words, K| {
            let grouping = Grouping { cuda, device, keys, words: &words, order };
            match grouping.in_one_pass(&sources, &wanted)? {
                Some(found) => Ok(found),
                None => grouping.by_row(&sources, &wanted),
            }
        })
    })?;
    let results = found.split_off(of_keys);
    Ok((found, names.into_iter().zip(results).collect()))
}

/// The aggregate of a function; `None` for the functions of rows_of_groups.rs.
fn aggregate(function: Function) -> Option<Aggregate> {
    match function {
        Function::Count => Some(Aggregate::Count),
        Function::Sum => Some(Aggregate::Sum),
        Function::Mean => Some(Aggregate::Mean),
        Function::Min => Some(Aggregate::Min),
        Function::Max => Some(Aggregate::Max),
        _ => None,
    }
}

impl<'py> Given<'py> {
    fn of(name: &str, object: Bound<'py, PyAny>, keys: &Keys) -> PyResult<Self> {
        let Some((column, of, owner)) = numbers(name, &object)? else { return Err(mixed(keys.name(), name)) };
        if column.len != keys.len() {
            let text = format!("{name} has {} rows and keys has {}: pass one value per key", column.len, keys.len());
            return Err(PyValueError::new_err(text));
        }
        Ok(Given { object, column, of, _owner: owner })
    }
}

/// Runs the body with the type in which values are aggregated.
macro_rules! with_number {
    ($of:expr, |$V:ident| $body:expr) => {
        match $of {
            Dtype::Floats(_) => {
                type $V = f64;
                $body
            }
            Dtype::Integers(of) if of.is_signed => {
                type $V = i64;
                $body
            }
            _ => {
                type $V = u64;
                $body
            }
        }
    };
}

struct Grouping<'a, K: Key> {
    cuda: &'a Cuda,
    device: &'a Any,
    keys: &'a Keys,
    words: &'a AnyBuffer<K>,
    order: IdOrder,
}

/// A column as 64-bit values, and the imported memory that they may be stored in.
pub(super) struct Loaded<'a> {
    pub(super) values: AnyBuffer<u64>,
    _memory: Option<Imported<'a>>,
}

impl<'a> Loaded<'a> {
    pub(super) fn of(cuda: &'a Cuda, column: &'a GpuColumn, of: Dtype) -> Result<Self> {
        let (memory, device) = (Imported::of(cuda, column)?, cuda.device());
        let values = match of {
            _ if of.bytes() == 8 => memory.values()?,
            Dtype::Integers(Type { is_signed, .. }) => {
                let (narrow, mut wide) = (memory.values::<u32>()?, device.unwritten(column.len)?);
                resized(device, opencl_buffer(&narrow)?, is_signed, &mut wide)?;
                AnyBuffer::OpenCl(wide)
            }
            _ => {
                let (narrow, mut wide) = (memory.values::<u32>()?, device.unwritten(column.len)?);
                floats_to_doubles(device, opencl_buffer(&narrow)?, &mut wide)?;
                AnyBuffer::OpenCl(wide)
            }
        };
        Ok(Loaded { values, _memory: Some(memory) })
    }
}

impl<K: Key> Grouping<'_, K>
where
    Any: Runs<K::Rows>,
{
    /// Returns the keys of the groups, then the results; `None` if there are several columns, a value is NaN, or a
    /// function needs the group of each row.
    fn in_one_pass(&self, sources: &[Source<'_>], wanted: &[Wanted]) -> Result<Option<Vec<Array>>> {
        let [_, columns @ ..] = sources else { return Ok(None) };
        let aggregates: Option<Vec<Aggregate>> = wanted.iter().map(|&(_, function)| aggregate(function)).collect();
        let Some(aggregates) = aggregates.filter(|_| columns.len() <= 1) else { return Ok(None) };
        let (source, of) = (columns.first().copied().flatten(), columns.first().map_or(UINT64, of_source));
        let loaded = self.load(source)?;
        if self.has_nan(&loaded, of)? {
            return Ok(None);
        }
        // Each row has a value, so the number of values is the number of rows.
        with_number!(of, |V| {
            let groups = group_by_on::<Any, K, V>(self.device, self.words, &loaded.values, &aggregates, self.order);
            let groups = groups.map_err(|error| self.failure(error, source, Ok))?;
            let mut found = self.keys.arrays(self.cuda, &groups.keys)?;
            for aggregate in aggregates {
                found.push(self.result(&groups, of, aggregate)?);
            }
            Ok(Some(found))
        })
    }

    /// Returns the keys of the groups, then the results, from the group of each row.
    fn by_row(&self, sources: &[Source<'_>], wanted: &[Wanted]) -> Result<Vec<Array>> {
        let (distinct, ids) = factorize_on::<Any, K>(self.device, self.words, self.order)?;
        let mut found = Vec::with_capacity(wanted.len());
        for (number, source) in sources.iter().enumerate() {
            let (mut aggregates, mut functions) = (Vec::new(), Vec::new());
            for (at, &(_, function)) in wanted.iter().enumerate().filter(|(_, wanted)| wanted.0 == number) {
                match aggregate(function) {
                    Some(aggregate) => aggregates.push((at, aggregate)),
                    None => functions.push((at, function)),
                }
            }
            if !aggregates.is_empty() {
                with_number!(of_source(source), |V| {
                    found.extend(self.of_rows::<V>(*source, &distinct, &ids, &aggregates)?);
                });
            }
            if let (Some(source), false) = (source, functions.is_empty()) {
                let rows = Rows { cuda: self.cuda, device: self.device, ids: &ids, groups: distinct.len() };
                found.extend(rows.results(*source, &functions)?);
            }
        }
        found.sort_unstable_by_key(|&(at, _)| at);
        let mut arrays = self.keys.arrays(self.cuda, &distinct)?;
        arrays.extend(found.into_iter().map(|(_, array)| array));
        Ok(arrays)
    }

    /// Returns the results of a source, each with its position in the request.
    fn of_rows<V: Number<Word = u64>>(
        &self,
        source: Source<'_>,
        distinct: &AnyBuffer<K>,
        ids: &AnyBuffer<u32>,
        wanted: &[(usize, Aggregate)],
    ) -> Result<Vec<(usize, Array)>> {
        let (loaded, of, opencl) = (self.load(source)?, of_source(&source), self.cuda.device());
        let mut aggregates: Vec<Aggregate> = wanted.iter().map(|&(_, aggregate)| aggregate).collect();
        let mut present = None;
        if self.has_nan(&loaded, of)? {
            let ids = without_nan(opencl, opencl_buffer(ids)?, opencl_buffer(&loaded.values)?)?;
            present = Some(AnyBuffer::OpenCl(ids));
            aggregates.push(Aggregate::Count);
        }
        let of_values = present.as_ref().unwrap_or(ids);
        let groups = aggregate_on::<Any, V>(self.device, of_values, distinct.len(), &loaded.values, &aggregates);
        let mut groups = groups.map_err(|error| {
            self.failure(error, source, |group| {
                let mut key = [K::default()];
                self.device.read(distinct, group as usize, &mut key)?;
                Ok(key[0].into())
            })
        })?;
        if present.is_some() {
            let counts = opencl_buffer(&groups.counts)?;
            for extremes in [&mut groups.mins, &mut groups.maxs] {
                if let AnyBuffer::OpenCl(extremes) = extremes
                    && !extremes.is_empty()
                {
                    nan_if_empty(opencl, counts, extremes)?;
                }
            }
        }
        wanted.iter().map(|&(at, aggregate)| Ok((at, self.result(&groups, of, aggregate)?))).collect()
    }

    fn load<'c>(&self, source: Source<'c>) -> Result<Loaded<'c>>
    where
        Self: 'c,
    {
        match source {
            Some((column, of)) => Loaded::of(self.cuda, column, of),
            None => Ok(Loaded { values: self.device.filled(0, 0)?, _memory: None }),
        }
    }

    fn has_nan(&self, loaded: &Loaded<'_>, of: Dtype) -> Result<bool> {
        Ok(matches!(of, Dtype::Floats(_)) && has_nan(self.cuda.device(), opencl_buffer(&loaded.values)?)?)
    }

    fn result<G: Key, V: Number<Word = u64>>(
        &self,
        groups: &DeviceGroups<Any, G, V>,
        of: Dtype,
        aggregate: Aggregate,
    ) -> Result<Array> {
        let of_sums = match of {
            Dtype::Floats(_) => FLOAT64,
            Dtype::Integers(of) if of.is_signed => INT64,
            _ => UINT64,
        };
        match aggregate {
            Aggregate::Count => keys::rows(self.cuda, &groups.counts),
            Aggregate::Sum => keys::copied(self.cuda, &groups.sums, of_sums),
            Aggregate::Mean => keys::copied(self.cuda, &groups.means, FLOAT64),
            Aggregate::Min => self.narrowed(&groups.mins, of),
            _ => self.narrowed(&groups.maxs, of),
        }
    }

    /// Converts 64-bit values to the type of their column.
    fn narrowed(&self, values: &AnyBuffer<u64>, of: Dtype) -> Result<Array> {
        if of.bytes() == 8 {
            return keys::copied(self.cuda, values, of);
        }
        let (device, from, memory) =
            (self.cuda.device(), opencl_buffer(values)?, self.cuda.allocate(values.len() * of.bytes())?);
        let mut to = memory.buffer::<u32>(from.len())?;
        match of {
            Dtype::Floats(_) => doubles_to_floats(device, from, &mut to)?,
            _ => resized(device, from, false, &mut to)?,
        }
        Ok(Array::new(memory, from.len(), of))
    }

    /// Converts an error of an aggregation. `word` returns the word of the key whose sum overflows.
    fn failure(&self, error: Error, source: Source<'_>, word: impl FnOnce(u64) -> Result<u64>) -> Failure {
        let (Error::SumTooLarge { key }, Some((column, of))) = (&error, source) else { return error.into() };
        match word(*key) {
            Ok(word) => {
                let (name, key, is_signed) =
                    (&column.name, self.keys.shown(word), matches!(of, Dtype::Integers(of) if of.is_signed));
                let of_sums = if is_signed { "int64" } else { "uint64" };
                PyOverflowError::new_err(format!(
                    "the sum of {name} for key {key} does not fit in {of_sums}: pass float64 if sums may be rounded"
                ))
                .into()
            }
            Err(error) => error,
        }
    }
}

/// The type of the values of a source; uint64 for the number of rows.
fn of_source(source: &Source<'_>) -> Dtype {
    source.map_or(UINT64, |(_, of)| of)
}
