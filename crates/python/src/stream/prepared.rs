//! `koel.PreparedJoin`: a table as the right side of joins, which can be saved, mapped and joined with any number of
//! left tables.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{RecordBatch, new_empty_array};
use arrow_schema::{Field, SchemaRef};
use koel_arrow::external::Output;
use koel_arrow::{Column, Keys, NullEquality, PreparedOptions, check_types};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::join::{From, Out, chosen};
use super::plan::JoinPlan;
use super::reader::BatchReader;
use super::results::Results;
use super::table::{As, Picked, Table};
use super::work::Job;
use super::{check_names, memory, names, schema_of};
use crate::device::{check_after_fork, device as device_of, shown};
use crate::error::{Failure, Result};
use crate::input::check_extensions;
use crate::join::kind;
use crate::memory::{bytes, check_rows};
use crate::output::not_pickled;
use crate::run::{detached, detached_on};

/// A table as the right side of joins: its rows, and an index of its key columns. It is
/// prepared once, joined with any number of left tables, and saved to a file, which processes
/// can map. For a single join, use `koel.join_stream`; for row numbers of integer keys,
/// `koel.Index`.
///
/// Args:
///     table: a pyarrow Table or RecordBatchReader, a DataFrame of polars or pandas, a DuckDB
///         relation, or any other object with `__arrow_c_stream__` or, for structs,
///         `__arrow_c_array__`. Its rows are read at once, and remain in memory.
///     on: the name of the key column, or a list of names.
///     columns: the names of the other columns to keep; by default all.
///     nulls_equal: whether missing values (null) equal each other, as in `pandas.merge`; in
///         SQL and the command `koel join` they do not. NaN equals NaN.
///     seed: of the hash functions.
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
        let keys = on.iter().map(|name| table.place(name)).collect::<Result<Vec<_>>>()?;
        let places = match columns {
            None => (0..table.schema().fields().len()).collect(),
            Some(columns) => {
                let others = names("columns", columns)?;
                check_names(others.iter().map(String::as_str), "name each once")?;
                let others = others.iter().map(|name| table.place(name)).collect::<Result<Vec<_>>>()?;
                let others = others.into_iter().filter(|place| !keys.contains(place));
                keys.iter().copied().chain(others).collect::<Vec<_>>()
            }
        };
        let nulls = if nulls_equal { NullEquality::NullEquals } else { NullEquality::NothingEquals };
        let picked = Picked::new(table, places.into_iter().map(|place| (place, As::Itself)).collect());
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

    /// Opens a file of `save` or of `koel build --columns`.
    ///
    /// Args:
    ///     path: the file.
    ///     mapped: whether the rows remain in the file, where processes share them, and are
    ///         loaded as joins need them. They are then not checked for damage, and no program
    ///         may write to the file or truncate it while it is open; `save` may replace it.
    ///         Otherwise all rows are read and checked. The index is read and checked in either
    ///         case.
    ///     device: as for a new one; "auto" is a GPU, if there is one.
    ///
    /// Raises:
    ///     koel.FileError: if the file is damaged, of another version, or not a prepared join.
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
                    // SAFETY: the caller chose it, and the documentation says that no program may write to the file.
                    #[expect(unsafe_code, reason = "other programs may write to the file")]
                    true => unsafe { koel_arrow::PreparedJoin::open_mapped(&device, &path)? },
                };
                Ok(PreparedJoin { side: Arc::new(side), device: shown(&device) })
            },
        )
    }

    /// Joins a left table, which may be larger than memory: rows of both sides whose keys are
    /// equal, in the order of left rows, then of right rows, as `koel.join_stream` returns
    /// them.
    ///
    /// Reading begins with the first batch of the result. Several joins may run at once, in
    /// threads.
    ///
    /// Args:
    ///     left: the left table, as for `koel.join_stream`.
    ///     how: "inner"; "left", which keeps all left rows; "semi" and "anti", the left rows
    ///         with and without a partner. For "right" and "outer", use `koel.join_stream`.
    ///     left_on: the names of the left key columns, in the order of the right ones; by
    ///         default their names.
    ///     columns: the columns of the result, by their names there; by default those of the
    ///         left table, then those of the right table without the keys.
    ///     suffix: appended to the name of a right column if a left column has the same name.
    ///
    /// Returns:
    ///     A `koel.BatchReader`. Dictionary columns are returned as their values.
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
            let text = format!("a prepared join has no {how:?}: use koel.join_stream(left, table, how={how:?})");
            return Err(PyValueError::new_err(text));
        }
        check_after_fork(&self.device)?;
        let limit = memory::limit(None, None)?;
        let right_on = self.key_names();
        let left_on = left_on.map_or_else(|| Ok(right_on.clone()), |left_on| names("left_on", left_on))?;
        if left_on.len() != right_on.len() {
            let (count, keys) = (left_on.len(), right_on.join(", "));
            let text = format!("left_on has {count} names, and the keys are {keys}: name one column for each");
            return Err(PyValueError::new_err(text));
        }
        let requested = columns.map(|columns| names("columns", columns)).transpose()?;
        let left = Table::of("left", left)?;
        let on = left_on.iter().map(|name| left.place(name)).collect::<Result<Vec<_>>>()?;
        let outs = chosen(outs(&left, &self.side, kind.has_right(), suffix), requested)?;

        // The left columns that are needed, each once.
        let mut places = on.clone();
        places.extend(outs.iter().filter_map(|out| if let From::Left(at) = out.from { Some(at) } else { None }));
        places.sort_unstable();
        places.dedup();
        let place = |at: usize| places.partition_point(|&place| place < at);
        let picked = Picked::new(left, places.iter().map(|&place| (place, As::Itself)).collect());
        let columns = outs.iter().map(|out| match out.from {
            From::Left(at) => Output::Left(place(at)),
            From::Right(at) | From::Key(at) => Output::Right(at),
        });
        let columns = columns.collect();
        let on: Vec<(usize, usize)> = on.into_iter().map(place).zip(self.side.on().iter().copied()).collect();
        check_keys(py, picked.schema(), &left_on, &on, &self.side)?;
        let plan = JoinPlan { on, how: kind, nulls: self.side.nulls(), columns, limit };
        let schema = plan.join(&[], &|_| ()).schema(picked.schema(), self.side.schema()).map_err(Failure::from)?;
        let named = |(field, out): (&Arc<Field>, &Out)| field.as_ref().clone().with_name(&out.name);
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

    /// Writes the rows and the index to a file, which is replaced as a whole or not at all.
    /// Returns the digest.
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

    /// A checksum of the rows, the key columns, `nulls_equal` and the seed. It is the same on
    /// every device.
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

    /// Refuses, with the methods to use instead.
    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("PreparedJoin"))
    }

    fn __repr__(&self) -> String {
        let keys = self.key_names().join(", ");
        format!("<koel.PreparedJoin of {} rows on {keys}, {}>", self.side.len(), self.device)
    }
}

/// All columns of the result: those of the left table, then those of the right one without the keys.
fn outs(left: &Table, side: &koel_arrow::PreparedJoin, has_right: bool, suffix: &str) -> Vec<Out> {
    let own = left.schema().fields();
    let mut outs: Vec<Out> =
        own.iter().enumerate().map(|(at, field)| Out { name: field.name().clone(), from: From::Left(at) }).collect();
    let others = side.schema().fields().iter().enumerate();
    outs.extend(others.filter(|(at, _)| has_right && !side.on().contains(at)).map(|(at, field)| {
        let is_taken = own.iter().any(|left| left.name() == field.name());
        Out { name: format!("{}{}", field.name(), if is_taken { suffix } else { "" }), from: From::Right(at) }
    }));
    outs
}

/// Refuses keys that cannot be compared, before any row is read.
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
