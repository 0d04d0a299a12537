//! Finding and removing duplicate texts.

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
use crate::input::{GivenKeys, Nan, adopt_type};
use crate::output::{ArrowColumn, array};
use crate::run::{Stop, detached_on};

/// Rows per batch.
const ROWS: usize = 1 << 14;

/// Finds duplicate texts, equal or similar, or removes duplicate lines and paragraphs from
/// texts.
///
/// The first text of a group of duplicates is kept. The result is the same on every device,
/// thread count and run. Missing texts are not duplicates.
///
/// Args:
///     texts: a column of text: a NumPy array, an Arrow column, a list; or a table with `on`.
///     on: the name of the text column, for a table.
///     by: "document", "paragraph" (separated by blank lines) or "line".
///     normalize: differences to ignore: one name or a sequence of "case", "whitespace",
///         "punctuation" (and symbols), "nfc" (how characters are composed).
///     near: whether similar documents are duplicates too: those whose shingles have a Jaccard
///         similarity of at least `threshold`, as estimated by MinHash. Duplicates of a
///         duplicate are duplicates too. The next five parameters require near=True.
///     ngram: the number of words per shingle; 5 by default.
///     num_perm: the number of MinHash permutations, which is the length of a signature; 128 by
///         default.
///     threshold: the minimum similarity of duplicates; 0.8 by default.
///     bands: the number of bands per signature; documents are compared if they agree in a
///         whole band. By default the best number for the threshold, as in datasketch.
///     seed: the seed of the hashes; 0 by default.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// Returns:
///     For documents, an int64 array: for each row, the row that is kept instead of it, which
///     is the row itself unless it is a duplicate. For paragraphs and lines, a `koel.Column` of
///     the texts without the paragraphs or lines that occurred earlier in any text, and without
///     the line ends after them. A text without remaining content is empty.
///
/// >>> import koel
/// >>> koel.dedup(["fig", "plum", "FIG"], normalize="case")
/// array([0, 1, 0])
/// >>> koel.dedup(["menu\nfig", "menu\nplum"], by="line").to_pylist()
/// ['menu\nfig', 'plum']
#[pyfunction]
#[pyo3(signature = (texts, on=None, *, by="document", normalize=None, near=false, ngram=None, num_perm=None,
    threshold=None, bands=None, seed=None, device="auto"))]
#[expect(clippy::too_many_arguments, reason = "these are Python keyword arguments")]
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
        .ok_or_else(|| PyValueError::new_err(format!("by is {by:?}: pass \"document\", \"paragraph\" or \"line\"")))?;
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
            Unit::Document => format!("{name} applies only to similar documents: pass near=True too"),
            _ => format!("{name} applies only to whole documents, and by is {by:?}: omit it"),
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
    // NumPy reads an empty list as floats.
    if let (None, [one]) = (on, &mut given.columns[..])
        && !matches!(plain_type(one.column.data_type()), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    {
        adopt_type(&mut one.column, &DataType::LargeUtf8)?;
    }
    let columns: Vec<&Column> = given.columns.iter().map(|given| &given.column).collect();
    let column = match (on, &columns[..]) {
        (None, [column]) => *column,
        (None, _) => return Err(PyValueError::new_err("texts is a table: pass the name of its text column as on")),
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

/// Computes the result for a column.
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

/// Parses `normalize`.
fn steps(given: Option<&Bound<'_, PyAny>>) -> PyResult<Normalize> {
    let Some(given) = given else { return Ok(Normalize::default()) };
    let names = match given.extract::<String>() {
        Ok(name) => vec![name],
        Err(_) => given.extract::<Vec<String>>().map_err(|_| {
            PyTypeError::new_err(format!(
                "normalize is not a name or a sequence of names: pass some of {}",
                Normalize::NAMES.join(", ")
            ))
        })?,
    };
    names.iter().try_fold(Normalize::default(), |all, name| {
        let wrong = || format!("normalize contains {name:?}: pass some of {}", Normalize::NAMES.join(", "));
        all.with(name).ok_or_else(|| PyValueError::new_err(wrong()))
    })
}
