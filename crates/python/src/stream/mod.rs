//! Joins, groups and distinct rows of tables in batches, within a memory limit: the bindings of koel_arrow::external.
//!
//! ```text
//! table.rs     what callers give: Arrow streams           memory.rs   limits, temporary files
//! join.rs, groups.rs   the arguments, checked before a row is read
//! prepared.rs  koel.PreparedJoin: a right table that is indexed once
//! plan.rs      the same, for koel-arrow                   results.rs  batches of a good size
//! work.rs      threads that work while their result is read
//! reader.rs    BatchReader, Batch: what callers get
//! ```

mod groups;
mod join;
mod memory;
mod plan;
mod prepared;
mod reader;
mod results;
mod table;
mod work;

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::device::Several;

pub(crate) use groups::{group_by_stream, unique_stream};
pub(crate) use join::join_stream;
pub(crate) use prepared::PreparedJoin;
pub(crate) use reader::{Batch, BatchReader};
pub(crate) use work::end_streams;

/// Devices for this many rows.
fn devices_of(py: Python<'_>, names: &str, rows: usize) -> PyResult<Several> {
    Ok(py.detach(|| crate::device::several(names, rows))?)
}

/// One name, or several; at least one.
fn names(argument: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if let Ok(one) = given.extract::<String>() {
        return Ok(vec![one]);
    }
    let several = given.extract::<Vec<String>>().map_err(|_| {
        PyTypeError::new_err(format!("{argument} is {}: give the name of a column, or a list of names", given))
    })?;
    if several.is_empty() {
        return Err(PyValueError::new_err(format!("{argument} has no names: give one at least")));
    }
    Ok(several)
}

/// Refuses a name that two columns of a result have.
fn check_names<'a>(names: impl IntoIterator<Item = &'a str>, advice: &str) -> PyResult<()> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(twice) => {
            Err(PyValueError::new_err(format!("two columns are called `{}`: {advice}", koel_arrow::shown_name(twice))))
        }
    }
}

fn schema_of(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}
