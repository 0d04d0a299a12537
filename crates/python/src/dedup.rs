//! Duplicate texts.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use koel_arrow::dedup::{Dedup, Near, Normalize, Unit};
use koel_arrow::external::Limit;
use koel_arrow::{Column, Error, mapped, plain_type};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::device::for_columns;
use crate::error::{Failure, Result};
use crate::input::{GivenKeys, Nan, follow};
use crate::output::{ArrowColumn, array};
use crate::run::{Stop, detached_on};

/// Rows that are compared at a time.
const ROWS: usize = 1 << 14;

/// Finds duplicate texts, equal or similar, or removes duplicate lines and paragraphs from
/// texts.
///
/// Of duplicates the first one is kept. The result is the same on every device, thread count
/// and run. Missing texts are not duplicates.
///
/// Args:
///     texts: a column of text: a NumPy array, an Arrow column, a list; or a table with `on`.
///     on: the name of the column of text, for a table.
///     by: "document", "paragraph" (separated by blank lines) or "line".
///     normalize: what comparisons ignore: a name or a sequence of "case", "whitespace",
///         "punctuation" (and symbols), "nfc" (how characters are composed).
///     near: whether similar documents are duplicates too: those with a Jaccard similarity of
///         shingles of `threshold`, estimated by the equal words of signatures. Duplicates of
///         duplicates are duplicates. The next five parameters need near=True.
///     ngram: the words of a shingle; 5 by default.
///     num_perm: the words of a signature, as the permutations of MinHash; 128 by default.
///     threshold: the least similarity of duplicates; 0.8 by default.
///     bands: the bands of a signature; documents are compared if all words of a band are
///         equal. By default the best number for the threshold, as in datasketch.
///     seed: of the hashes; 0 by default.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// Returns:
///     For documents, an int64 array: for each row the row that is kept in its place, which is
///     the row itself unless it is a duplicate. For paragraphs and lines, a `koel.Column` of
///     the texts without those that occurred before, in any text, and without the line ends
///     after them; a text of which nothing is left is empty.
///
/// >>> import koel
/// >>> koel.dedup(["fig", "plum", "FIG"], normalize="case")
/// array([0, 1, 0])
/// >>> koel.dedup(["menu\nfig", "menu\nplum"], by="line").to_pylist()
/// ['menu\nfig', 'plum']
#[pyfunction]
#[pyo3(signature = (texts, on=None, *, by="document", normalize=None, near=false, ngram=None, num_perm=None,
    threshold=None, bands=None, seed=None, device="auto"))]
#[expect(clippy::too_many_arguments, reason = "they are the keyword arguments of Python")]
pub(crate) fn dedup<'py>(
    texts: &Bound<'py, PyAny>,
    on: Option<&str>,
    by: &str,
    normalize: Option<&Bound<'py, PyAny>>,
    near: bool,
    ngram: Option<usize>,
    num_perm: Option<usize>,
    threshold: Option<f64>,
    bands: Option<usize>,
    seed: Option<u64>,
    device: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = texts.py();
    let unit = Unit::ALL
        .into_iter()
        .find(|unit| unit.name() == by)
        .ok_or_else(|| PyValueError::new_err(format!("by is {by:?}: give \"document\", \"paragraph\" or \"line\"")))?;
    let normalize = steps(normalize)?;
    let of_near = [
        ("ngram", ngram.is_some()),
        ("num_perm", num_perm.is_some()),
        ("threshold", threshold.is_some()),
        ("bands", bands.is_some()),
        ("seed", seed.is_some()),
    ];
    if let Some((name, _)) = of_near.into_iter().find(|&(_, is_given)| is_given && !near) {
        let text = match unit {
            Unit::Document => format!("{name} is for similar documents: give near=True too"),
            _ => format!("{name} is for whole documents, and by is {by:?}: omit it"),
        };
        return Err(PyValueError::new_err(text));
    }
    let usual = Near::default();
    let near = near.then_some(Near {
        ngram: ngram.unwrap_or(usual.ngram),
        num_perm: num_perm.unwrap_or(usual.num_perm),
        threshold: threshold.unwrap_or(usual.threshold),
        bands,
        seed: seed.unwrap_or(usual.seed),
    });
    let mut given = GivenKeys::of("texts", texts, Nan::Missing)?;
    // An empty list has floats to NumPy.
    if let (None, [one]) = (on, &mut given.columns[..])
        && !matches!(plain_type(one.column.data_type()), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    {
        follow(&mut one.column, &DataType::LargeUtf8)?;
    }
    let columns: Vec<&Column> = given.columns.iter().map(|given| &given.column).collect();
    let column = match (on, &columns[..]) {
        (None, [column]) => *column,
        (None, _) => return Err(PyValueError::new_err("texts is a table: name its column of text by on")),
        (Some(on), _) => *columns.iter().find(|column| column.name() == on).ok_or_else(|| {
            let there = columns.iter().map(|column| column.name().to_owned()).collect();
            PyErr::from(Failure::from(Error::MissingColumn { column: on.into(), there }))
        })?,
    };
    let open = || for_columns(device, [column]);
    let found = detached_on(py, open, |device, stop| {
        let limit = Limit::new(u64::MAX);
        let (devices, column_name) = ([device], column.name());
        let dedup =
            Dedup { devices: &devices, column: column_name, unit, near, normalize, limit: &limit, watch: &|_| () };
        found(&dedup, column, stop)
    })?;
    match found {
        Found::Rows(kept_rows) => Ok(array(py, kept_rows)),
        Found::Texts(texts) => Ok(Bound::new(py, ArrowColumn::named(column.name(), texts))?.into_any()),
    }
}

enum Found {
    Rows(Vec<i64>),
    Texts(ArrayRef),
}

/// The result for a column.
fn found(dedup: &Dedup<'_>, column: &Column, stop: &Stop) -> Result<Found> {
    let schema = Arc::new(Schema::new(vec![Field::new(dedup.column, column.data_type().clone(), true)]));
    let starts = |chunk: &ArrayRef| (0..chunk.len()).step_by(ROWS);
    let slices = column
        .chunks()
        .iter()
        .flat_map(|chunk| starts(chunk).map(move |start| chunk.slice(start, ROWS.min(chunk.len() - start))));
    let batches = slices.map(|slice| {
        stop.check()?;
        Ok::<_, Failure>(RecordBatch::try_new(Arc::clone(&schema), vec![slice]).map_err(Error::from)?)
    });
    let found = dedup.find(&schema, batches.clone(), dedup.unit == Unit::Document)?;
    if let Some(kept_rows) = found.kept_rows() {
        return Ok(Found::Rows(mapped(kept_rows, i64::from)));
    }
    let mut filter = dedup.filter(&found);
    let texts = batches.map(|batch| Ok::<_, Failure>(filter.texts(&batch?)?)).collect::<Result<Vec<_>>>()?;
    let schema = dedup.schema(&schema)?;
    let texts = Column::of_chunks(column.name(), schema.field(0).data_type(), texts)?.one_piece()?;
    Ok(Found::Texts(Arc::clone(&texts.chunks()[0])))
}

/// What comparisons ignore.
fn steps(given: Option<&Bound<'_, PyAny>>) -> PyResult<Normalize> {
    let Some(given) = given else { return Ok(Normalize::default()) };
    let names = match given.extract::<String>() {
        Ok(name) => vec![name],
        Err(_) => given.extract::<Vec<String>>().map_err(|_| {
            PyTypeError::new_err(format!("normalize: give a name or a sequence of {}", Normalize::NAMES.join(", ")))
        })?,
    };
    names.iter().try_fold(Normalize::default(), |all, name| {
        let wrong = || format!("normalize has {name:?}: give some of {}", Normalize::NAMES.join(", "));
        all.with(name).ok_or_else(|| PyValueError::new_err(wrong()))
    })
}
