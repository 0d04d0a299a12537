//! Joins, group-bys and distinct rows of tables that are read in batches, within a memory limit: the bindings of
//! koel_arrow::external.
//!
//! ```text
//! table.rs             input tables: Arrow streams
//! memory.rs            memory limits, temporary folders
//! join.rs, groups.rs   join_stream, group_by_stream, unique_stream: check all arguments before any row is read
//! prepared.rs          koel.PreparedJoin: a right table that is indexed once
//! plan.rs              the checked arguments, for koel-arrow
//! work.rs              threads that compute a result while it is read
//! results.rs           combines rows into batches of moderate size
//! reader.rs            BatchReader, Batch: the results
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

/// The devices of a comma-separated list, for `rows` rows.
fn devices_of(py: Python<'_>, names: &str, rows: usize) -> PyResult<Several> {
    Ok(py.detach(|| crate::device::several(names, rows))?)
}

/// Reads an argument that is the name of a column, or a list of at least one name.
fn names(argument: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if let Ok(one) = given.extract::<String>() {
        return Ok(vec![one]);
    }
    let several = given.extract::<Vec<String>>().map_err(|_| {
        PyTypeError::new_err(format!("{argument} is {}: pass the name of a column, or a list of names", given))
    })?;
    if several.is_empty() {
        return Err(PyValueError::new_err(format!("{argument} has no names: pass at least one")));
    }
    Ok(several)
}

/// Returns an error with this advice if two names are equal.
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
