//! `koel.PreparedJoin`: the indexed right table of joins. It can be saved, memory-mapped, and joined with any number of
//! left tables.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{RecordBatch, new_empty_array};
use arrow_schema::{Field, SchemaRef};
use koel_arrow::external::Output;
use koel_arrow::{Column, Keys, NullEquality, PreparedOptions, check_types};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::join::{ResultColumn, Source, chosen};
use super::plan::JoinPlan;
use super::reader::BatchReader;
use super::results::Results;
use super::table::{Picked, ReadAs, Table};
use super::work::Job;
use super::{check_names, memory, names, schema_of};
use crate::device::{check_after_fork, device as device_of, shown};
use crate::error::{Failure, Result};
use crate::input::check_extensions;
use crate::join::kind;
use crate::memory::{bytes, check_rows};
use crate::output::not_pickled;
use crate::run::{detached, detached_on};

/// The right table of joins, with an index of its key columns. It is built once and joined with
/// any number of left tables. It can be saved to a file, which several processes can map. For a
/// single join, use `koel.join_stream`; for the row numbers of integer keys, use `koel.Index`.
///
/// Args:
///     table: a pyarrow Table or RecordBatchReader, a polars or pandas DataFrame, a DuckDB
///         relation, or any other object with `__arrow_c_stream__` or, for structs,
///         `__arrow_c_array__`. All rows are read immediately, and kept in memory.
///     on: the name of the key column, or a list of names.
///     columns: the names of the other columns to keep; by default all.
///     nulls_equal: whether missing values (null) equal each other, as in `pandas.merge`; in
///         SQL and the command `koel join` they do not. NaN equals NaN.
///     seed: the seed of the hash functions.
///     device: "auto" (a GPU, if there is one and there are many rows), "cpu", "opencl:0",
///         "opencl:NAME".
///
/// >>> import koel, pyarrow as pa
/// >>> cities = koel.PreparedJoin(pa.table({"city": [10, 20], "name": ["Bern", "Oslo"]}), "city")
/// >>> people = pa.table({"person": ["Ada", "Max", "Eva"], "city": [20, 30, 10]})
/// >>> cities.join_stream(people, "left").to_pyarrow().to_pydict()
/// {'person': ['Ada', 'Max', 'Eva'], 'city': [20, 30, 10], 'name': ['Oslo', None, 'Bern']}
#[pyclass(frozen, module = "koel")]
pub(crate) struct PreparedJoin {
    side: Arc<koel_arrow::PreparedJoin>,
    device: String,
}

#[pymethods]
impl PreparedJoin {
    #[new]
    #[pyo3(signature = (table, on, *, columns=None, nulls_equal=true, seed=0, device="auto"))]
    fn new(
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        on: &Bound<'_, PyAny>,
        columns: Option<&Bound<'_, PyAny>>,
        nulls_equal: bool,
        seed: u64,
        device: &str,
    ) -> PyResult<Self> {
        let on = names("on", on)?;
        check_names(on.iter().map(String::as_str), "name each key once")?;
        let table = Table::of("table", table)?;
        let keys = on.iter().map(|name| table.index_of(name)).collect::<Result<Vec<_>>>()?;
        let places = match columns {
            None => (0..table.schema().fields().len()).collect(),
            Some(columns) => {
                let others = names("columns", columns)?;
                check_names(others.iter().map(String::as_str), "name each column once")?;
                let others = others.iter().map(|name| table.index_of(name)).collect::<Result<Vec<_>>>()?;
                let others = others.into_iter().filter(|place| !keys.contains(place));
                keys.iter().copied().chain(others).collect::<Vec<_>>()
            }
        };
        let nulls = if nulls_equal { NullEquality::NullEquals } else { NullEquality::NothingEquals };
        let picked = Picked::new(table, places.into_iter().map(|place| (place, ReadAs::Unchanged)).collect());
        let schema = Arc::clone(picked.schema());
        let batches = py.detach(|| picked.read())?;
        let open = || {
            let rows = batches.iter().map(RecordBatch::num_rows).sum();
            check_rows(rows, batches.iter().map(|batch| bytes(batch.columns())).sum())?;
            device_of(device, rows)
        };
        let (side, device) = detached_on(py, open, |device, _| {
            let options = PreparedOptions { nulls, seed };
            let side = koel_arrow::PreparedJoin::build(&device, &schema, batches.clone(), &on, options)?;
            Ok((Arc::new(side), shown(&device)))
        })?;
        Ok(PreparedJoin { side, device })
    }

    /// Opens a file written by `save` or by `koel build --columns`.
    ///
    /// Args:
    ///     path: the file.
    ///     mapped: whether to memory-map the rows, so that they are loaded when joins need them,
    ///         and processes share them. Mapped rows are not checked for damage, and no program
    ///         may write to the file or truncate it while it is open; `save` may replace it. By
    ///         default, all rows are read and checked. The index is always read and checked.
    ///     device: as in the constructor; "auto" is a GPU if there is one.
    ///
    /// Raises:
    ///     koel.FileError: if the file is damaged, has another version, or is not a prepared join.
    ///
    /// >>> import koel, os, pyarrow as pa, tempfile
    /// >>> cities = koel.PreparedJoin(pa.table({"city": [10, 20], "name": ["Bern", "Oslo"]}), "city")
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     path = os.path.join(folder, "cities.koel")
    /// ...     digest = cities.save(path)
    /// ...     koel.PreparedJoin.open(path, mapped=True).digest() == digest
    /// True
    #[staticmethod]
    #[pyo3(signature = (path, *, mapped=false, device="auto"))]
    fn open(py: Python<'_>, path: PathBuf, mapped: bool, device: &str) -> PyResult<Self> {
        detached_on(
            py,
            || device_of(device, usize::MAX),
            |device, _| {
                let side = match mapped {
                    false => koel_arrow::PreparedJoin::open(&device, &path)?,
                    // SAFETY: the caller requested it, and the docstring says that no program may write to the file.
                    #[expect(unsafe_code, reason = "other programs may write to the file")]
                    true => unsafe { koel_arrow::PreparedJoin::open_mapped(&device, &path)? },
                };
                Ok(PreparedJoin { side: Arc::new(side), device: shown(&device) })
            },
        )
    }

    /// Joins a left table, which may be larger than memory, with this one. The result has the
    /// pairs of left and right rows whose keys are equal, ordered by left row, then by right row,
    /// as in `koel.join_stream`.
    ///
    /// The left table is read when the first batch of the result is requested. Several threads
    /// can join at the same time.
    ///
    /// Args:
    ///     left: the left table, as for `koel.join_stream`.
    ///     how: "inner"; "left", which keeps all left rows; "semi" and "anti", which return the
    ///         left rows with and without a match. For "right" and "outer", use
    ///         `koel.join_stream`.
    ///     left_on: the names of the left key columns, in the order of `key_names`; by default
    ///         `key_names`.
    ///     columns: the names of the result columns to return; by default all left columns, then
    ///         all right columns except the keys.
    ///     suffix: appended to the name of a right column if a left column has the same name.
    ///
    /// Returns:
    ///     A `koel.BatchReader`. Dictionary columns are decoded.
    ///
    /// >>> import koel, pyarrow as pa
    /// >>> cities = koel.PreparedJoin(pa.table({"city": [10, 20], "name": ["Bern", "Oslo"]}), "city")
    /// >>> people = pa.table({"name": ["Ada", "Max"], "lives": [20, 10]})
    /// >>> cities.join_stream(people, left_on="lives").to_pyarrow().to_pydict()
    /// {'name': ['Ada', 'Max'], 'lives': [20, 10], 'name_right': ['Oslo', 'Bern']}
    #[pyo3(signature = (left, how="inner", *, left_on=None, columns=None, suffix="_right"))]
    fn join_stream(
        &self,
        py: Python<'_>,
        left: &Bound<'_, PyAny>,
        how: &str,
        left_on: Option<&Bound<'_, PyAny>>,
        columns: Option<&Bound<'_, PyAny>>,
        suffix: &str,
    ) -> PyResult<BatchReader> {
        let (kind, is_exchanged) = kind(how)?;
        if is_exchanged || kind.keeps_right() {
            let text =
                format!("a prepared join does not support how={how:?}: use koel.join_stream(left, table, how={how:?})");
            return Err(PyValueError::new_err(text));
        }
        check_after_fork(&self.device)?;
        let limit = memory::limit(None, None)?;
        let right_on = self.key_names();
        let left_on = left_on.map_or_else(|| Ok(right_on.clone()), |left_on| names("left_on", left_on))?;
        if left_on.len() != right_on.len() {
            let (count, keys) = (left_on.len(), right_on.join(", "));
            let text = format!("left_on has {count} names, but the key columns are {keys}: pass one name for each");
            return Err(PyValueError::new_err(text));
        }
        let requested = columns.map(|columns| names("columns", columns)).transpose()?;
        let left = Table::of("left", left)?;
        let on = left_on.iter().map(|name| left.index_of(name)).collect::<Result<Vec<_>>>()?;
        let outs = chosen(outs(&left, &self.side, kind.has_right(), suffix), requested)?;

        // The distinct left columns that are keys or in the result.
        let mut places = on.clone();
        places.extend(outs.iter().filter_map(|out| if let Source::Left(at) = out.source { Some(at) } else { None }));
        places.sort_unstable();
        places.dedup();
        let place = |at: usize| places.partition_point(|&place| place < at);
        let picked = Picked::new(left, places.iter().map(|&place| (place, ReadAs::Unchanged)).collect());
        let columns = outs.iter().map(|out| match out.source {
            Source::Left(at) => Output::Left(place(at)),
            Source::Right(at) | Source::Key(at) => Output::Right(at),
        });
        let columns = columns.collect();
        let on: Vec<(usize, usize)> = on.into_iter().map(place).zip(self.side.on().iter().copied()).collect();
        check_keys(py, picked.schema(), &left_on, &on, &self.side)?;
        let plan = JoinPlan { on, how: kind, nulls: self.side.nulls(), columns, limit };
        let schema = plan.join(&[], &|_| ()).schema(picked.schema(), self.side.schema()).map_err(Failure::from)?;
        let named = |(field, out): (&Arc<Field>, &ResultColumn)| field.as_ref().clone().with_name(&out.name);
        let schema = schema_of(schema.fields().iter().zip(&outs).map(named).collect());

        let (side, result, limit) = (Arc::clone(&self.side), Arc::clone(&schema), plan.limit.clone());
        let job: Job = Box::new(move |outlet| {
            let mut results = Results::new(outlet, &result, &plan.limit);
            let watch = |_| outlet.check_or_unwind();
            let join = plan.join(&[], &watch);
            let found = join.run_prepared(picked.batches(outlet), &side, |rows| results.push(&rows))?;
            results.flush()?;
            Ok(vec![
                ("left_rows", found.left),
                ("right_rows", found.right),
                ("rows", found.joined),
                ("spilled_bytes", found.spilled),
            ])
        });
        Ok(BatchReader::new(job, schema, &limit))
    }

    /// Writes the rows and the index to a file, and returns the digest. An existing file is
    /// replaced atomically.
    ///
    /// >>> import koel, os, pyarrow as pa, tempfile
    /// >>> cities = koel.PreparedJoin(pa.table({"city": [10, 20], "name": ["Bern", "Oslo"]}), "city")
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     cities.save(os.path.join(folder, "cities.koel")) == cities.digest()
    /// True
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<String> {
        check_after_fork(&self.device)?;
        detached(py, |_| Ok(self.side.save(&path)?.to_string()))
    }

    /// Returns a checksum of the rows, the key columns, `nulls_equal` and the seed. It is the same
    /// on every device.
    ///
    /// >>> import koel, pyarrow as pa
    /// >>> table = pa.table({"city": [10, 20], "name": ["Bern", "Oslo"]})
    /// >>> koel.PreparedJoin(table, "city").digest() == koel.PreparedJoin(table, "city", device="cpu").digest()
    /// True
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        check_after_fork(&self.device)?;
        detached(py, |_| Ok(self.side.digest()?.to_string()))
    }

    /// The device of the index: "cpu", "opencl:0", ..
    #[getter]
    fn device(&self) -> &str {
        &self.device
    }

    /// The names of the key columns.
    #[getter]
    fn key_names(&self) -> Vec<String> {
        self.side.on().iter().map(|&at| self.side.schema().field(at).name().clone()).collect()
    }

    /// The names of all columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.side.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Whether missing values equal each other.
    #[getter]
    fn nulls_equal(&self) -> bool {
        self.side.nulls() == NullEquality::NullEquals
    }

    fn __len__(&self) -> usize {
        self.side.len()
    }

    /// Raises an error that names the methods to use instead.
    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("PreparedJoin"))
    }

    fn __repr__(&self) -> String {
        let keys = self.key_names().join(", ");
        format!("<koel.PreparedJoin of {} rows on {keys}, {}>", self.side.len(), self.device)
    }
}

/// All columns of the result: the left columns, then the right columns except the keys.
fn outs(left: &Table, side: &koel_arrow::PreparedJoin, has_right: bool, suffix: &str) -> Vec<ResultColumn> {
    let own = left.schema().fields();
    let mut outs: Vec<ResultColumn> = own
        .iter()
        .enumerate()
        .map(|(at, field)| ResultColumn { name: field.name().clone(), source: Source::Left(at) })
        .collect();
    let others = side.schema().fields().iter().enumerate();
    outs.extend(others.filter(|(at, _)| has_right && !side.on().contains(at)).map(|(at, field)| {
        let is_taken = left.has(field.name());
        ResultColumn {
            name: format!("{}{}", field.name(), if is_taken { suffix } else { "" }),
            source: Source::Right(at),
        }
    }));
    outs
}

/// Returns an error if the keys of the two sides cannot be compared.
fn check_keys(
    py: Python<'_>,
    left: &SchemaRef,
    names: &[String],
    on: &[(usize, usize)],
    side: &koel_arrow::PreparedJoin,
) -> PyResult<()> {
    let column = |(name, &(own, _)): (&String, &(usize, usize))| {
        let of = left.field(own).data_type();
        koel_arrow::check_key(name, of)?;
        Ok(Column::new(name, new_empty_array(of)))
    };
    let columns = names.iter().zip(on).map(column).collect::<koel_arrow::Result<Vec<_>>>().map_err(Failure::from)?;
    for &(own, other) in on {
        check_extensions(left.field(own), side.schema().field(other))?;
    }
    detached(py, |_| Ok(check_types(&Keys::new(columns)?, side.keys())?))
}
