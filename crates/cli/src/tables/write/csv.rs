//! CSV and TSV. A null is an empty field.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};

use super::packed::{Output, Packing};
use super::{Unwritten, cells, lines};
use crate::text;

/// Whether Parquet files can be written and support columns of this type.
#[cfg(feature = "parquet")]
fn fits_parquet(of: &DataType) -> bool {
    super::parquet::misfit(of).is_none()
}

#[cfg(not(feature = "parquet"))]
fn fits_parquet(_: &DataType) -> bool {
    false
}

/// Returns a writer that writes the names of the columns, and then rows.
pub(super) fn writer(
    output: Output,
    schema: &SchemaRef,
    delimiter: u8,
    packing: Packing,
    memory: u64,
) -> Result<lines::Writer, Unwritten> {
    if let Some(field) = schema.fields().iter().find(|field| !cells::is_writable(field.data_type())) {
        return Err(Unwritten::Because(format!(
            "column {} is of type {}, which cannot be written as CSV: write {}, or remove the column",
            text::name(field.name()),
            field.data_type(),
            if fits_parquet(field.data_type()) { ".parquet or .arrow" } else { ".arrow" }
        )));
    }
    let mut names = Vec::new();
    for (i, field) in schema.fields().iter().enumerate() {
        names.extend((i > 0).then_some(delimiter));
        cells::text(field.name(), delimiter, &mut names);
    }
    names.push(b'\n');
    lines::Writer::new(output, schema, packing, memory, names, move |rows, out| format(rows, delimiter, out))
}

fn format(rows: &RecordBatch, delimiter: u8, out: &mut Vec<u8>) -> Result<(), Unwritten> {
    let columns = rows.columns().iter().map(|array| cells::column(array, delimiter));
    // Other types were refused when the schema was checked.
    let columns = columns.collect::<Option<Vec<_>>>();
    let columns = columns.ok_or_else(|| Unwritten::Because("a batch is of another schema than the output".into()))?;
    for row in 0..rows.num_rows() {
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                out.push(delimiter);
            }
            if column.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                column.cells.put(row, out);
            }
        }
        out.push(b'\n');
    }
    Ok(())
}
