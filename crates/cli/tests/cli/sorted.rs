//! Parquet files that are sorted by key: `join` and `isin` write the same bytes as for tables without statistics.
#![cfg(feature = "parquet")]

use std::fs::File;
use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Float64Type, Int32Type, TimestampMicrosecondType, TimestampMillisecondType, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType, Int64Array, PrimitiveArray, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::folder::Folder;

/// A table of keys, row numbers in a column called `side`, and texts.
fn table(side: &str, keys: ArrayRef) -> RecordBatch {
    let row: Int64Array = (0..keys.len() as i64).collect();
    let text: StringArray = (0..keys.len()).map(|row| (row % 7 > 0).then(|| format!("text {}", row % 1000))).collect();
    let columns: [(&str, ArrayRef); 3] = [("k", keys), (side, Arc::new(row)), ("t", Arc::new(text))];
    let columns = columns.map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

/// Writes a table in row groups of this number of rows.
fn write(folder: &Folder, name: &str, table: &RecordBatch, rows: usize) {
    let file = File::create(folder.path(name)).expect("the temporary folder is usable");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows)).build();
    let mut writer = ArrowWriter::try_new(file, table.schema(), Some(properties)).expect("Parquet has this schema");
    writer.write(table).and_then(|()| writer.close()).expect("the temporary folder is usable");
}

/// Writes left.parquet and right.parquet, and the same tables as left.arrow and right.arrow.
fn write_both(folder: &Folder, [left, right]: [ArrayRef; 2], rows: [usize; 2]) {
    for (side, keys, rows) in [("left", left, rows[0]), ("right", right, rows[1])] {
        write(folder, &format!("{side}.parquet"), &table(side, keys), rows);
        folder.ok(&format!("convert {side}.parquet {side}.arrow"));
    }
}

/// Joins left.parquet with this right table, and compares the result with that of a format without statistics.
fn check(folder: &Folder, right: &str, options: &str) {
    let join = |tables: &str, output: &str| {
        folder.json(&format!("join {tables} --on k --device cpu --threads 2 --json {options} -o {output}.parquet"))
    };
    let plain = join("left.arrow right.arrow", "plain");
    let summary = join(&format!("left.parquet {right}"), "windows");
    assert!(folder.bytes("windows.parquet") == folder.bytes("plain.parquet"), "{options}");
    for name in ["left_rows", "right_rows", "rows"] {
        assert_eq!(summary[name], plain[name], "{options}");
    }
}

#[test]
fn sorted_tables_give_the_bytes_of_other_tables() {
    let folder = Folder::new();
    let left: Int64Array = (0..30_000).map(|i| (i % 9 > 0).then_some(i / 2 * 3)).collect();
    // Right rows without a match are before and after the others.
    let right: Int64Array = (0..70_000).map(|i| (i % 8 > 0).then_some(i - 9_000)).collect();
    write_both(&folder, [Arc::new(left), Arc::new(right)], [700, 1100]);
    for how in ["inner", "left", "right", "semi", "anti"] {
        check(&folder, "right.parquet", &format!("--how {how}"));
    }
    check(&folder, "right.parquet", "--how semi --nulls-equal");
    check(&folder, "right.parquet", "--columns k,left --memory 64Mi");
}

#[test]
fn isin_of_sorted_tables_gives_the_bytes_of_other_tables() {
    let folder = Folder::new();
    let keys = |rows: i64, width: i64| Arc::new((0..rows).map(|i| i / 3 * width).collect::<Int64Array>()) as ArrayRef;
    write_both(&folder, [keys(20_000, 3), keys(30_000, 2)], [600, 900]);
    let summary = |format: &str| {
        let (left, right) = (format!("left.{format}"), format!("right.{format}"));
        let columns = "--columns isin,t,left --device cpu --threads 2 --json";
        folder.json(&format!("isin {left} {right} --on k {columns} -o {format}.parquet"))
    };
    let (windows, plain) = (summary("parquet"), summary("arrow"));
    assert!(folder.bytes("parquet.parquet") == folder.bytes("arrow.parquet"));
    assert!(windows["there"].as_u64() > Some(5000));
    for name in ["rows", "there", "keys_rows"] {
        assert_eq!(windows[name], plain[name]);
    }
}

#[test]
fn several_sorted_files_are_one_sorted_table() {
    let folder = Folder::new();
    let keys = |rows: i64| Arc::new((0..rows).map(|i| i / 3).collect::<Int64Array>()) as ArrayRef;
    write_both(&folder, [keys(20_000), keys(30_000)], [600, 900]);
    let right = table("right", keys(30_000));
    for (part, start, rows) in [(1, 0, 11_000), (2, 11_000, 100), (3, 11_100, 18_900)] {
        write(&folder, &format!("part-{part}.parquet"), &right.slice(start, rows), 900);
    }
    check(&folder, "part-*.parquet", "--how inner");
    check(&folder, "part-*.parquet", "--how anti");
}

/// Joins tables with keys of a type.
fn check_type<T: ArrowPrimitiveType>(key: impl Fn(i32) -> T::Native) {
    let folder = Folder::new();
    let keys = |count: i32| Arc::new(PrimitiveArray::<T>::from_iter_values((0..count).map(&key))) as ArrayRef;
    write_both(&folder, [keys(20_000), keys(15_000)], [600, 700]);
    check(&folder, "right.parquet", "--how left");
}

#[test]
fn keys_may_be_integers_dates_and_timestamps() {
    check_type::<UInt32Type>(|i| (i as u32) << 17);
    check_type::<UInt64Type>(|i| (i as u64) << 49 | 1);
    check_type::<Date32Type>(|i| i - 3000);
    check_type::<TimestampMillisecondType>(|i| i64::from(i) * 999 - 5_000_000);
    check_type::<TimestampMicrosecondType>(|i| i64::from(i) * 999_999 - 5_000_000);
    // Types whose statistics are not used, and keys that are not ascending.
    check_type::<Float64Type>(|i| f64::from(i) / 7.0);
    check_type::<Int32Type>(|i| (i * 7919) % 20_011);
}

/// Replaces a key by a smaller one in the footer of a file, so that statistics are wrong.
fn spoil(folder: &Folder, name: &str, key: i64, by: i64) {
    let mut bytes = folder.bytes(name);
    let end = bytes.len() - 8;
    let length = u32::from_le_bytes(bytes[end..end + 4].try_into().expect("four bytes"));
    let mut replaced = 0;
    for place in end - length as usize..end - 8 {
        if bytes[place..place + 8] == key.to_le_bytes() {
            bytes[place..place + 8].copy_from_slice(&by.to_le_bytes());
            replaced += 1;
        }
    }
    assert!(replaced > 0);
    folder.file(name, bytes);
}

#[test]
fn wrong_statistics_are_refused() {
    let folder = Folder::new();
    write(&folder, "right.parquet", &table("right", Arc::new((0..40_000).collect::<Int64Array>())), 1000);
    folder.file("wrong.parquet", folder.bytes("right.parquet"));
    spoil(&folder, "wrong.parquet", 25_999, 25_990);
    let message = "right key `k` has values outside the minimum and maximum in the metadata of the file";
    let left = "left key `k` has values outside the minimum and maximum in the metadata of the file";
    folder.all_refused(&[
        ("join wrong.parquet right.parquet --on k -o out.csv --device cpu --threads 2", left),
        ("join right.parquet wrong.parquet --on k -o out.csv --device cpu --threads 2", message),
        ("isin right.parquet wrong.parquet --on k -o out.csv --device cpu --threads 2", message),
    ]);
    assert!(!folder.path("out.csv").exists());
    // The advice of the message.
    folder.ok("convert wrong.parquet again.parquet");
    let rows = folder.ok("join right.parquet again.parquet --on k --columns k --device cpu -q");
    assert_eq!(rows.lines().count(), 40_001);
}
