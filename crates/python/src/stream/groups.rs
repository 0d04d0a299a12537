//! Group-bys and distinct rows of tables that are read in batches.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, SchemaRef};
use koel::{Any, Cpu, IdOrder};
use koel_arrow::external::{Grouped, Of, result_type};
use koel_arrow::{Function, NullKeys};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::plan::GroupPlan;
use super::reader::BatchReader;
use super::results::Results;
use super::table::{Picked, ReadAs, Table};
use super::work::{Counts, Job};
use super::{check_names, devices_of, memory, names, schema_of};
use crate::error::Result;
use crate::group_by::{FUNCTIONS, check_order_of, function, items};
use crate::input::check_order;
use crate::run::detached;

/// Groups a table that may be larger than memory by key, and aggregates each group. The result
/// has one row per group.
///
/// The table is read when the first batch of the result is requested. A table that does not fit
/// in memory is partitioned by key into temporary files, and grouped one partition at a time.
/// The result and its order are the same in both cases.
///
/// Args:
///     table: a pyarrow Table or RecordBatchReader, a polars or pandas DataFrame, a DuckDB
///         relation, or any other object with `__arrow_c_stream__` or, for structs,
///         `__arrow_c_array__`.
///     by: the name of the key column, or a list of names.
///     aggregates: a dict from the name of each result to its column and function: {"total":
///         ("price", "sum")}. The functions are "sum", "min", "max", "mean" or "avg", "count"
///         (non-missing values), "nunique" or "count_distinct" (distinct non-missing values),
///         "first" and "last" (the value of a group's first and last row, missing or not). For
///         the number of rows, pass "size" without a column.
///     sort: whether to sort the groups by key; otherwise, they are in order of first occurrence.
///     dropna: whether to drop rows with a missing key (null); NaN is not missing. The command
///         `koel groupby` keeps such rows.
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
///     A `koel.BatchReader` of the key columns and the results. Missing values are ignored,
///     except by "first" and "last". If a group has only missing values, "count" and "nunique"
///     are 0, and other results are null. Sums are int64, uint64, float64 or decimal. Sums of
///     floats have the same bits in every run, on every device, and with any number of threads
///     and any memory limit.
///
/// >>> import koel, pyarrow as pa
/// >>> sales = pa.table({"city": ["Oslo", "Bern", "Oslo"], "price": [0.5, 1.0, 2.0]})
/// >>> groups = koel.group_by_stream(sales, "city", {"total": ("price", "sum"), "rows": "size"}, memory_limit="1GB")
/// >>> groups.to_pyarrow().to_pydict()
/// {'city': ['Oslo', 'Bern'], 'total': [2.5, 1.0], 'rows': [2, 1]}
#[pyfunction]
#[pyo3(signature = (table, by, aggregates, *, sort=false, dropna=true, memory_limit=None, temp_dir=None, device="auto"))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn group_by_stream(
    py: Python<'_>,
    table: &Bound<'_, PyAny>,
    by: &Bound<'_, PyAny>,
    aggregates: &Bound<'_, PyAny>,
    sort: bool,
    dropna: bool,
    memory_limit: Option<&Bound<'_, PyAny>>,
    temp_dir: Option<PathBuf>,
    device: &str,
) -> PyResult<BatchReader> {
    let by = names("by", by)?;
    let wanted = wanted(aggregates)?;
    check_names(by.iter().chain(wanted.iter().map(|of| &of.0)).map(String::as_str), "rename one of them")?;
    let limit = memory::limit(memory_limit, temp_dir)?;
    let table = Table::of("table", table)?;
    let mut picks = Picks::default();
    let by =
        by.iter().map(|name| Ok(picks.add(table.index_of(name)?, ReadAs::Unchanged))).collect::<Result<Vec<_>>>()?;
    let aggregate = |(name, of): &Wanted| {
        let Some((column, function)) = of else {
            return Ok(Of { function: Function::Count, column: None, name: name.clone() });
        };
        let at = table.index_of(column)?;
        let is_added = matches!(function, Function::Sum | Function::Mean);
        let read_as =
            if is_added && *table.type_of(at) == DataType::Boolean { ReadAs::Numbers } else { ReadAs::Unchanged };
        Ok(Of { function: *function, column: Some(picks.add(at, read_as)), name: name.clone() })
    };
    let aggregates = wanted.iter().map(aggregate).collect::<Result<Vec<_>>>()?;
    let nulls = if dropna { NullKeys::Drop } else { NullKeys::Group };
    let plan = GroupPlan { by, aggregates, order: order(sort), nulls, limit };
    let table = Picked::new(table, picks.columns);
    let groups = checked(py, &plan, &table)?;
    // Key columns keep the metadata of the table's fields, such as an extension type.
    let key = |&at: &usize| plain(table.schema().field(at));
    // So do results that are values of a column, if they have its type.
    let result = |(of, aggregate): (&Arc<Field>, &Of)| match (aggregate.function, aggregate.column) {
        (Function::Min | Function::Max | Function::First | Function::Last, Some(at))
            if table.schema().field(at).data_type() == of.data_type() =>
        {
            of.as_ref().clone().with_metadata(table.schema().field(at).metadata().clone())
        }
        _ => of.as_ref().clone(),
    };
    let results = groups.fields()[plan.by.len()..].iter().zip(&plan.aggregates).map(result);
    let schema = schema_of(plan.by.iter().map(key).chain(results).collect());
    let columns = (0..schema.fields().len()).collect();
    Grouping { plan, table, columns, counted: "groups" }.reader(py, schema, device)
}

/// Returns the distinct rows of a table that may be larger than memory, or the first row of each
/// key.
///
/// The table is read when the first batch of the result is requested. A table that does not fit
/// in memory is partitioned by key into temporary files. The result and its order are the same
/// in both cases.
///
/// Args:
///     table: a pyarrow Table or RecordBatchReader, a polars or pandas DataFrame, a DuckDB
///         relation, or any other object with `__arrow_c_stream__` or, for structs,
///         `__arrow_c_array__`.
///     on: the name of the key column, or a list of names; by default all columns. Missing
///         values equal each other.
///     sort: whether to sort the rows by key; otherwise, they are in the order of the table.
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
///     A `koel.BatchReader` with the columns of the table.
///
/// >>> import koel, pyarrow as pa
/// >>> visits = pa.table({"city": ["Oslo", "Bern", "Oslo"], "year": [2024, 2020, 2022]})
/// >>> koel.unique_stream(visits, "city").to_pyarrow().to_pydict()
/// {'city': ['Oslo', 'Bern'], 'year': [2024, 2020]}
#[pyfunction]
#[pyo3(signature = (table, on=None, *, sort=false, memory_limit=None, temp_dir=None, device="auto"))]
pub(crate) fn unique_stream(
    py: Python<'_>,
    table: &Bound<'_, PyAny>,
    on: Option<&Bound<'_, PyAny>>,
    sort: bool,
    memory_limit: Option<&Bound<'_, PyAny>>,
    temp_dir: Option<PathBuf>,
    device: &str,
) -> PyResult<BatchReader> {
    let on = on.map(|on| names("on", on)).transpose()?;
    let limit = memory::limit(memory_limit, temp_dir)?;
    let table = Table::of("table", table)?;
    let count = table.schema().fields().len();
    if count == 0 {
        return Err(PyValueError::new_err("table has no columns: pass at least one"));
    }
    let by = match on {
        Some(on) => {
            check_names(on.iter().map(String::as_str), "name each column once")?;
            on.iter().map(|name| table.index_of(name)).collect::<Result<Vec<_>>>()?
        }
        None => (0..count).collect(),
    };
    // All columns have the values of the first row of each key.
    let keys: HashSet<usize> = by.iter().copied().collect();
    let others: Vec<usize> = (0..count).filter(|at| !keys.contains(at)).collect();
    let first =
        |&at: &usize| Of { function: Function::First, column: Some(at), name: table.schema().field(at).name().clone() };
    let aggregates: Vec<Of> = others.iter().map(first).collect();
    let mut columns = vec![0; count];
    by.iter().chain(&others).zip(0..).for_each(|(&at, found)| columns[at] = found);
    let schema = schema_of(table.schema().fields().iter().map(|field| plain(field)).collect());
    let plan = GroupPlan { by, aggregates, order: order(sort), nulls: NullKeys::Group, limit };
    let table = Picked::new(table, (0..count).map(|at| (at, ReadAs::Unchanged)).collect());
    checked(py, &plan, &table)?;
    Grouping { plan, table, columns, counted: "keys" }.reader(py, schema, device)
}

/// The name of a result, and its column and function; `None` for "size".
type Wanted = (String, Option<(String, Function)>);

fn wanted(aggregates: &Bound<'_, PyAny>) -> PyResult<Vec<Wanted>> {
    let of = |(name, what): (String, Bound<'_, PyAny>)| {
        let of = what.extract::<(String, String)>().ok().and_then(|(column, of)| Some((column, function(&of)?)));
        if of.is_none() && !what.extract::<String>().is_ok_and(|text| text == "size") {
            return Err(PyValueError::new_err(format!(
                "aggregate {name:?} is {}: pass (\"column\", \"sum\") or \"size\"; functions are {FUNCTIONS}",
                what.repr()?
            )));
        }
        Ok((name, of))
    };
    items(aggregates)?.into_iter().map(of).collect()
}

/// The columns to read, each once.
#[derive(Default)]
struct Picks {
    columns: Vec<(usize, ReadAs)>,
    positions: HashMap<(usize, ReadAs), usize>,
}

impl Picks {
    /// The position of a column among those to read. Adds it if necessary.
    fn add(&mut self, at: usize, read_as: ReadAs) -> usize {
        *self.positions.entry((at, read_as)).or_insert_with_key(|pick| {
            self.columns.push(pick.clone());
            self.columns.len() - 1
        })
    }
}

fn order(sort: bool) -> IdOrder {
    if sort { IdOrder::Ascending } else { IdOrder::FirstSeen }
}

/// The field of a result column whose values are those of `field`.
fn plain(field: &Field) -> Field {
    field.clone().with_data_type(result_type(field.data_type())).with_nullable(true)
}

/// The schema of the groups. Returns an error if the columns cannot be grouped or aggregated.
fn checked(py: Python<'_>, plan: &GroupPlan, table: &Picked) -> PyResult<SchemaRef> {
    let schema = table.schema();
    for &at in plan.by.iter().filter(|_| plan.order == IdOrder::Ascending) {
        check_order(schema.field(at), "sort=False")?;
    }
    for of in &plan.aggregates {
        of.column.map_or(Ok(()), |at| check_order_of(of.function, schema.field(at)))?;
    }
    detached(py, |_| Ok(plan.group_by(&[Any::Cpu(Cpu::new())], &|_| ()).schema(schema)?))
}

struct Grouping {
    plan: GroupPlan,
    table: Picked,
    /// The position in the groups of each column of the result.
    columns: Vec<usize>,
    /// The name of the number of groups in `BatchReader.stats`.
    counted: &'static str,
}

impl Grouping {
    fn reader(self, py: Python<'_>, schema: SchemaRef, device: &str) -> PyResult<BatchReader> {
        let (devices, result) = (devices_of(py, device, self.table.rows_or_max())?, Arc::clone(&schema));
        let limit = self.plan.limit.clone();
        let job: Job = Box::new(move |outlet| {
            let devices = devices.devices();
            let Grouping { plan, table, columns, counted } = self;
            let watch = |_| outlet.check_or_unwind();
            let mut results = Results::new(outlet, &result, &plan.limit);
            let put = |groups: RecordBatch| results.push(&groups.project(&columns).map_err(koel_arrow::Error::from)?);
            let found = plan.group_by(&devices, &watch).run(table.batches(outlet), put)?;
            results.flush()?;
            Ok(counts(&found, counted))
        });
        Ok(BatchReader::new(job, schema, &limit))
    }
}

fn counts(found: &Grouped, counted: &'static str) -> Counts {
    vec![("rows", found.rows), (counted, found.groups), ("spilled_bytes", found.spilled)]
}
