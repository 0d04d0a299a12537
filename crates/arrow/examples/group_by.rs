//! Sums, counts and means by two columns of a Parquet file; of rows that it makes itself if none is named.
//!
//! ```sh
//! cargo run --release -p koel-arrow --example group_by -- lineitem.parquet l_returnflag,l_linestatus l_quantity
//! cargo run --release -p koel-arrow --example group_by
//! ```

use std::error::Error;
use std::fs::File;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use koel_arrow::{Aggregation, Column, Function, IdOrder, Keys, NullKeys, group_by};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (batches, keys, value) = match &arguments[..] {
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
    // The best device that there is, or the CPU: the groups, their order and the bits of the sums are the same.
    let groups = group_by(&koel::auto().backend, &keys, &wanted, IdOrder::Ascending, NullKeys::Group)?;
    println!("{} groups of {} rows", groups.num_rows(), keys.len());
    println!("{groups:?}");
    Ok(())
}

/// Some rows.
fn sales() -> Result<RecordBatch, Box<dyn Error>> {
    let city: ArrayRef = Arc::new(StringArray::from(vec![Some("Oslo"), Some("Bern"), None, Some("Oslo")]));
    let paid: ArrayRef = Arc::new(StringArray::from(vec!["card", "cash", "cash", "card"]));
    let price: ArrayRef = Arc::new(Float64Array::from(vec![Some(2.5), Some(4.0), None, Some(1.5)]));
    Ok(RecordBatch::try_from_iter([("city", city), ("paid", paid), ("price", price)])?)
}
