//! Sums, counts and means by two columns of a Parquet file, or of a few generated rows if no file is given.
//!
//! ```sh
//! cargo run --release -p koel-examples -- group-by lineitem.parquet l_returnflag,l_linestatus l_quantity
//! cargo run --release -p koel-examples -- group-by
//! ```

use std::error::Error;
use std::fs::File;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use koel_arrow::{Aggregation, Column, Function, IdOrder, Keys, NullKeys, group_by};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Sum, count and average a column of a Parquet file by other columns
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A Parquet file, its key columns, comma-separated, and a column of numbers [default: a few generated rows]
    #[arg(num_args = 3, value_names = ["FILE", "KEY,..", "VALUE"])]
    input: Vec<String>,
}

pub(crate) fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let (batches, keys, value) = match &args.input[..] {
        [] => (vec![sales()?], "city,paid".to_owned(), "price".to_owned()),
        [file, keys, value] => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file)?)?.build()?;
            (reader.collect::<Result<_, _>>()?, keys.clone(), value.clone())
        }
        _ => return Err("give FILE KEY,.. VALUE, or nothing".into()),
    };
    let Some(schema) = batches.first().map(RecordBatch::schema) else {
        return Err("the file has no rows".into());
    };
    let names: Vec<&str> = keys.split(',').collect();
    let keys = Keys::of_batches(&schema, &batches, &names)?;
    let value = Column::of_batches(&schema, &batches, &value)?;
    let wanted = [
        Aggregation::rows(),
        Aggregation::new(Function::Sum, value.clone()),
        Aggregation::new(Function::Mean, value).named("mean"),
    ];
    // The best device, or the CPU: the groups, their order and the bits of the sums are the same on each.
    let groups = group_by(&koel::auto().backend, &keys, &wanted, IdOrder::Ascending, NullKeys::Group)?;
    println!("{} groups of {} rows", groups.num_rows(), keys.len());
    println!("{groups:?}");
    Ok(())
}

/// Generates a few rows.
fn sales() -> Result<RecordBatch, Box<dyn Error>> {
    let city: ArrayRef = Arc::new(StringArray::from(vec![Some("Oslo"), Some("Bern"), None, Some("Oslo")]));
    let paid: ArrayRef = Arc::new(StringArray::from(vec!["card", "cash", "cash", "card"]));
    let price: ArrayRef = Arc::new(Float64Array::from(vec![Some(2.5), Some(4.0), None, Some(1.5)]));
    Ok(RecordBatch::try_from_iter([("city", city), ("paid", paid), ("price", price)])?)
}
