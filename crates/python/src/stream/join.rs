//! Joins of tables that are read in batches.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use arrow_array::new_empty_array;
use arrow_schema::{DataType, Field, Schema};
use koel::JoinKind;
use koel_arrow::external::Output;
use koel_arrow::{Column, Keys, NullEquality, can_be_equal, check_types, plain_type};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::plan::JoinPlan;
use super::reader::BatchReader;
use super::results::Results;
use super::table::{Picked, ReadAs, Table};
use super::work::Job;
use super::{check_names, devices_of, memory, names, schema_of};
use crate::error::{Failure, Result};
use crate::input::check_extensions;
use crate::join::kind;
use crate::run::detached;

/// Joins two tables that may be larger than memory. The result has the pairs of left and right
/// rows whose keys are equal, ordered by left row, then by right row.
///
/// The tables are read when the first batch of the result is requested. If the right table fits
/// in memory, left rows are joined as they are read; otherwise, both tables are partitioned by
/// key into temporary files, and joined one partition at a time. The result and its order are
/// the same in both cases.
///
/// Args:
///     left: a pyarrow Table or RecordBatchReader, a polars or pandas DataFrame, a DuckDB
///         relation, or any other object with `__arrow_c_stream__` or, for structs,
///         `__arrow_c_array__`.
///     right: the other table, preferably the smaller one.
///     on: the name of the key column in both tables, or a list of names.
///     how: "inner"; "left", which keeps all left rows; "right", which keeps all right rows, in
///         their order; "outer", which keeps all rows, with unmatched right rows last; "semi" and
///         "anti", which return the left rows with and without a match.
///     left_on: the names of the key columns in the left table, instead of `on`.
///     right_on: the names of the corresponding key columns in the right table.
///     columns: the names of the result columns to return; by default all left columns, then all
///         right columns except the keys. With "right" and "outer", the left key columns also
///         hold the keys of unmatched right rows; if the types of the keys differ, the right key
///         columns are included instead.
///     suffix: appended to the name of a right column if a left column has the same name.
///     nulls_equal: whether missing values (null) equal each other, as in `pandas.merge`; in
///         SQL and the command `koel join` they do not. NaN equals NaN.
///     memory_limit: approximate memory limit, in bytes or as text: "300MB", "4GB", "16GiB". Half
///         of it is for rows. The default is half of the device's memory, or less if the
///         process cannot allocate that much.
///     temp_dir: the folder for temporary files; by default the system's (environment variable
///         TMPDIR).
///     device: "auto" (a GPU, if there is one and the number of rows is large or unknown),
///         "cpu", "opencl:0", "opencl:NAME"; or several devices that share the work: names
///         separated by commas, or "gpus". The result is the same on all devices.
///
/// Returns:
///     A `koel.BatchReader`. Dictionary columns are decoded.
///
/// >>> import koel, pyarrow as pa
/// >>> people = pa.table({"name": ["Ada", "Max", "Eva"], "city": [20, None, 10]})
/// >>> cities = pa.table({"city": [10, 20], "name": ["Bern", "Oslo"]})
/// >>> koel.join_stream(people, cities, "city", "left", nulls_equal=False).to_pyarrow().to_pydict()
/// {'name': ['Ada', 'Max', 'Eva'], 'city': [20, None, 10], 'name_right': ['Oslo', None, 'Bern']}
/// >>> koel.join_stream(people, cities, "city", columns=["name", "name_right"]).to_pandas()
///   name name_right
/// 0  Ada       Oslo
/// 1  Eva       Bern
#[pyfunction]
#[pyo3(signature = (left, right, on=None, how="inner", *, left_on=None, right_on=None, columns=None, suffix="_right",
    nulls_equal=true, memory_limit=None, temp_dir=None, device="auto"))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn join_stream(
    py: Python<'_>,
    left: &Bound<'_, PyAny>,
    right: &Bound<'_, PyAny>,
    on: Option<&Bound<'_, PyAny>>,
    how: &str,
    left_on: Option<&Bound<'_, PyAny>>,
    right_on: Option<&Bound<'_, PyAny>>,
    columns: Option<&Bound<'_, PyAny>>,
    suffix: &str,
    nulls_equal: bool,
    memory_limit: Option<&Bound<'_, PyAny>>,
    temp_dir: Option<PathBuf>,
    device: &str,
) -> PyResult<BatchReader> {
    let (how, is_exchanged) = kind(how)?;
    let on = key_names(on, left_on, right_on)?;
    let limit = memory::limit(memory_limit, temp_dir)?;
    let requested = columns.map(|columns| names("columns", columns)).transpose()?;
    let nulls = if nulls_equal { NullEquality::NullEquals } else { NullEquality::NothingEquals };
    let (left, right) = (Table::of("left", left)?, Table::of("right", right)?);
    let rows = left.rows_or_max().max(right.rows_or_max());
    let place = |(own, other): &(String, String)| Ok((left.index_of(own)?, right.index_of(other)?));
    let on = on.iter().map(place).collect::<Result<Vec<_>>>()?;
    for &(own, other) in &on {
        check_extensions(left.schema().field(own), right.schema().field(other))?;
    }

    let join_columns = JoinColumns { left: &left, right: &right, on: &on, how, is_exchanged, suffix };
    let outs = chosen(join_columns.outs(), requested)?;
    let mut picks = [join_columns.keys(|key| key.0), join_columns.keys(|key| key.1)];
    let columns: Vec<Output> = outs.iter().map(|out| out.source.output(&on, is_exchanged, &mut picks)).collect();
    let place = |side: usize, at: usize| picks[side].iter().position(|pick| pick.0 == at).unwrap_or_default();
    let mut on: Vec<(usize, usize)> = on.iter().map(|&(own, other)| (place(0, own), place(1, other))).collect();
    let [left_picks, right_picks] = picks;
    let (mut left, mut right) = (Picked::new(left, left_picks), Picked::new(right, right_picks));
    check_keys(py, &left, &right, &on)?;
    if is_exchanged {
        std::mem::swap(&mut left, &mut right);
        on.iter_mut().for_each(|(own, other)| std::mem::swap(own, other));
    }
    let plan = JoinPlan { on, how, nulls, columns, limit };
    // Only computes the schema, which needs no device.
    let join = plan.join(&[], &|_| ()).schema(left.schema(), right.schema());
    let join = join.map_err(Failure::from)?;
    let named = |(field, out): (&std::sync::Arc<Field>, &ResultColumn)| field.as_ref().clone().with_name(&out.name);
    let schema = schema_of(join.fields().iter().zip(&outs).map(named).collect());
    let devices = devices_of(py, device, rows)?;
    let result = schema.clone();
    let limit = plan.limit.clone();
    let job: Job = Box::new(move |outlet| {
        let devices = devices.devices();
        let watch = |_| outlet.check_or_unwind();
        let mut results = Results::new(outlet, &result, &plan.limit);
        let join = plan.join(&devices, &watch);
        let found = join.run(left.batches(outlet), right.batches(outlet), |rows| results.push(&rows))?;
        results.flush()?;
        let sides = if is_exchanged { (found.right, found.left) } else { (found.left, found.right) };
        Ok(vec![
            ("left_rows", sides.0),
            ("right_rows", sides.1),
            ("rows", found.joined),
            ("spilled_bytes", found.spilled),
        ])
    });
    Ok(BatchReader::new(job, schema, &limit))
}

/// The names of the key columns: pairs of a left and a right column.
fn key_names(
    on: Option<&Bound<'_, PyAny>>,
    left_on: Option<&Bound<'_, PyAny>>,
    right_on: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<(String, String)>> {
    let pairs = match (on, left_on, right_on) {
        (Some(on), None, None) => names("on", on)?.into_iter().map(|name| (name.clone(), name)).collect(),
        (None, Some(left), Some(right)) => {
            let (left, right) = (names("left_on", left)?, names("right_on", right)?);
            if left.len() != right.len() {
                let text = format!(
                    "left_on has {} names, but right_on has {}: pass the same number of both",
                    left.len(),
                    right.len()
                );
                return Err(PyValueError::new_err(text));
            }
            left.into_iter().zip(right).collect()
        }
        _ => {
            return Err(PyTypeError::new_err(
                "cannot determine the key columns: pass either on, or left_on and right_on",
            ));
        }
    };
    Ok(pairs)
}

/// A column of the result.
pub(super) struct ResultColumn {
    pub(super) name: String,
    pub(super) source: Source,
}

/// The source of a column of the result. Positions are those in the input tables.
pub(super) enum Source {
    Left(usize),
    Right(usize),
    /// The key with this number, from whichever side has a row.
    Key(usize),
}

impl Source {
    /// The same with the position in `picks`, the columns to read. Adds the column to `picks` if necessary.
    fn output(&self, on: &[(usize, usize)], is_exchanged: bool, picks: &mut [Vec<(usize, ReadAs)>; 2]) -> Output {
        let mut pick = |side: usize, at: usize| {
            let picks = &mut picks[side];
            let place = picks.iter().position(|pick| pick.0 == at).unwrap_or(picks.len());
            if place == picks.len() {
                picks.push((at, ReadAs::Unchanged));
            }
            // A "right" join is computed as a left join with the tables exchanged.
            if (side == 0) == is_exchanged { Output::Right(place) } else { Output::Left(place) }
        };
        match *self {
            Source::Left(at) => pick(0, at),
            Source::Right(at) => pick(1, at),
            Source::Key(key) if is_exchanged => pick(1, on[key].1),
            Source::Key(key) => Output::Key(key),
        }
    }
}

struct JoinColumns<'a> {
    left: &'a Table,
    right: &'a Table,
    on: &'a [(usize, usize)],
    how: JoinKind,
    is_exchanged: bool,
    suffix: &'a str,
}

impl JoinColumns<'_> {
    /// The types of a key on both sides. A key of type null gets the type of the other side.
    fn types(&self, (own, other): (usize, usize)) -> (DataType, DataType) {
        let (own, other) = (self.left.type_of(own), self.right.type_of(other));
        match (own, other) {
            _ if can_be_equal(own, other) => (own.clone(), other.clone()),
            (DataType::Null, _) => (other.clone(), other.clone()),
            (_, DataType::Null) => (own.clone(), own.clone()),
            _ => (own.clone(), other.clone()),
        }
    }

    /// The distinct key columns of a side.
    fn keys(&self, side: impl Fn((usize, usize)) -> usize) -> Vec<(usize, ReadAs)> {
        let is_left = side((0, 1)) == 0;
        let mut picks: Vec<(usize, ReadAs)> = Vec::new();
        for &key in self.on {
            let (at, types) = (side(key), self.types(key));
            let (given, wanted) =
                if is_left { (self.left.type_of(at), types.0) } else { (self.right.type_of(at), types.1) };
            if picks.iter().all(|pick| pick.0 != at) {
                picks.push((at, if *given == wanted { ReadAs::Unchanged } else { ReadAs::Nulls(wanted) }));
            }
        }
        picks
    }

    /// All columns of the result.
    fn outs(&self) -> Vec<ResultColumn> {
        let keeps_right = self.is_exchanged || self.how == JoinKind::Full;
        let (own, others) = (self.left.schema().fields(), self.right.schema().fields());
        let has_one_type = |key: usize| {
            let (own, other) = self.types(self.on[key]);
            plain_type(&own) == plain_type(&other)
        };
        // Such a column has the key of the right row if there is no left row.
        let is_either = |key: &usize| keeps_right && has_one_type(*key);
        let mut outs: Vec<ResultColumn> = Vec::new();
        for (at, field) in own.iter().enumerate() {
            let key = self.on.iter().position(|on| on.0 == at).filter(is_either);
            outs.push(ResultColumn { name: field.name().clone(), source: key.map_or(Source::Left(at), Source::Key) });
        }
        for (at, field) in others.iter().enumerate().filter(|_| self.how.has_right()) {
            let key = self.on.iter().position(|on| on.1 == at);
            if key.is_some_and(|key| !keeps_right || is_either(&key)) {
                continue;
            }
            let suffix = if self.left.has(field.name()) { self.suffix } else { "" };
            outs.push(ResultColumn { name: format!("{}{suffix}", field.name()), source: Source::Right(at) });
        }
        outs
    }
}

/// The requested columns, in the requested order; by default all.
pub(super) fn chosen(outs: Vec<ResultColumn>, requested: Option<Vec<String>>) -> Result<Vec<ResultColumn>> {
    let names: Option<HashSet<&String>> = requested.as_ref().map(|requested| requested.iter().collect());
    let is_requested = |out: &&ResultColumn| names.as_ref().is_none_or(|names| names.contains(&out.name));
    // The suffix only distinguishes right columns from left ones.
    let mut sides = HashMap::new();
    let are_of_one_side = outs.iter().filter(is_requested).any(|out| {
        let is_left = matches!(out.source, Source::Left(_));
        sides.insert(out.name.as_str(), is_left) == Some(is_left)
    });
    let advice = if are_of_one_side {
        "rename one of them, or exclude both with columns=[..]"
    } else {
        "rename one of them, pass another suffix, or exclude both with columns=[..]"
    };
    check_names(outs.iter().filter(is_requested).map(|out| out.name.as_str()), advice)?;
    let Some(requested) = requested else { return Ok(outs) };
    check_names(requested.iter().map(String::as_str), "name each column once")?;
    let there: Vec<String> = outs.iter().map(|out| out.name.clone()).collect();
    let mut outs: HashMap<String, ResultColumn> = outs.into_iter().map(|out| (out.name.clone(), out)).collect();
    let missing = |column: &String| koel_arrow::Error::MissingColumn { column: column.clone(), there: there.clone() };
    requested.iter().map(|name| Ok(outs.remove(name).ok_or_else(|| missing(name))?)).collect()
}

/// Returns an error if the keys of the two sides cannot be compared.
fn check_keys(py: Python<'_>, left: &Picked, right: &Picked, on: &[(usize, usize)]) -> PyResult<()> {
    let keys = |of: &Schema, at: &dyn Fn(&(usize, usize)) -> usize| {
        let column = |key: &(usize, usize)| {
            let field = of.field(at(key));
            koel_arrow::check_key(field.name(), field.data_type())?;
            Ok(Column::new(field.name(), new_empty_array(field.data_type())))
        };
        on.iter().map(column).collect::<koel_arrow::Result<Vec<_>>>()
    };
    let lefts = keys(left.schema(), &|key| key.0).map_err(Failure::from)?;
    let rights = keys(right.schema(), &|key| key.1).map_err(Failure::from)?;
    detached(py, |_| Ok(check_types(&Keys::new(lefts)?, &Keys::new(rights)?)?))
}
