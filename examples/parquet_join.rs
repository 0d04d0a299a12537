//! Joins two Parquet files by a column of each, and writes the rows of both as Parquet.
//!
//! ```sh
//! cargo run --release -p koel-examples -- parquet-join orders.parquet items.parquet o_orderkey l_orderkey out.parquet
//! cargo run --release -p koel-examples -- parquet-join       # on two small generated files
//! ```

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema, SchemaRef};
use koel_arrow::{Column, JoinKind, Keys, NullEquality, RightKeys};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Rows of the result that are in memory at a time.
const PIECE: usize = 1 << 20;

/// Join two Parquet files by a column of each
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Two Parquet files, the key column of each, and the file to write [default: two small generated files]
    #[arg(num_args = 5, value_names = ["LEFT", "RIGHT", "LEFT_KEY", "RIGHT_KEY", "OUTPUT"])]
    input: Vec<String>,
}

pub(crate) fn run(args: Args) -> Result<(), Box<dyn Error>> {
    if let [left, right, left_key, right_key, output] = &args.input[..] {
        let rows = join(left.as_ref(), right.as_ref(), left_key, right_key, output.as_ref())?;
        println!("{output}: {rows} rows");
        return Ok(());
    }
    if !args.input.is_empty() {
        return Err("give LEFT RIGHT LEFT_KEY RIGHT_KEY OUTPUT, or nothing".into());
    }
    let folder = tempfile::tempdir()?;
    let [people, cities, output] = ["people", "cities", "both"].map(|name| folder.path().join(name));
    write(&people, &[("name", text(&["Ada", "Max", "Eva"])), ("lives_in", numbers(&[20, 30, 10]))])?;
    write(&cities, &[("id", numbers(&[10, 20])), ("city", text(&["Bern", "Oslo"]))])?;
    let rows = join(&people, &cities, "lives_in", "id", &output)?;
    let (_, batches) = read(&output)?;
    println!("{rows} rows");
    for batch in &batches {
        println!("{batch:?}");
    }
    Ok(())
}

/// Writes the inner join and returns its number of rows. Only [`PIECE`] rows of the result are in memory at a time.
fn join(left: &Path, right: &Path, left_key: &str, right_key: &str, output: &Path) -> Result<u64, Box<dyn Error>> {
    let (left_schema, left) = read(left)?;
    let (right_schema, right) = read(right)?;
    // The best device, or the CPU. The rows are the same on each.
    let device = koel::auto().backend;
    let left_keys = Keys::of_batches(&left_schema, &left, &[left_key])?;
    let right_keys = Keys::of_batches(&right_schema, &right, &[right_key])?;
    let index = RightKeys::new(&device, &right_keys, NullEquality::NothingEquals)?;

    let columns = |schema: &SchemaRef, batches: &[RecordBatch]| {
        let names = schema.fields().iter().map(|field| field.name());
        names.map(|name| Column::of_batches(schema, batches, name)).collect::<koel_arrow::Result<Vec<_>>>()
    };
    let (left_columns, right_columns) = (columns(&left_schema, &left)?, columns(&right_schema, &right)?);
    let fields: Vec<Field> =
        left_schema.fields().iter().chain(right_schema.fields()).map(|field| field.as_ref().clone()).collect();
    let schema = Arc::new(Schema::new(fields));
    let mut writer = ArrowWriter::try_new(File::create(output)?, schema.clone(), None)?;
    let mut total = 0;
    index.join_pieces(
        &left_keys,
        JoinKind::Inner,
        PIECE,
        |rows| {
            total = rows;
            Ok::<(), Box<dyn Error>>(())
        },
        |rows| {
            let left = left_columns.iter().map(|column| column.take(&rows.left));
            let right = right_columns.iter().map(|column| column.take(rows.right.as_ref().expect("an inner join")));
            let arrays = left.chain(right).collect::<koel_arrow::Result<Vec<_>>>()?;
            writer.write(&RecordBatch::try_new(schema.clone(), arrays)?)?;
            Ok(())
        },
    )?;
    writer.close()?;
    Ok(total)
}

/// All batches of a Parquet file.
fn read(path: &Path) -> Result<(SchemaRef, Vec<RecordBatch>), Box<dyn Error>> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
    let schema = builder.schema().clone();
    Ok((schema, builder.build()?.collect::<Result<_, _>>()?))
}

/// A small file.
fn write(path: &PathBuf, columns: &[(&str, ArrayRef)]) -> Result<(), Box<dyn Error>> {
    let batch = RecordBatch::try_from_iter(columns.iter().map(|(name, column)| (*name, column.clone())))?;
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(())
}

fn text(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn numbers(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}
