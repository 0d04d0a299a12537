//! INT96 in files: the unit of its timestamps, in lists, with a time zone, and in several files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::add_encoded_arrow_schema_to_metadata;
use ::parquet::data_type::{Int96, Int96Type};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, TimestampNanosecondType};
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use super::Source;
use super::tests::check;
use crate::failure::Result;
use crate::tables::TableReading;

const DAY: i64 = 86_400_000_000;

/// Writes a file of one column: days since 1970-01-01 and nanoseconds, one row group per slice. `hint` is the type that
/// the Arrow schema of the file states.
fn write(path: &Path, field: &str, hint: Option<DataType>, groups: &[&[(i64, u64)]]) {
    let schema = parse_message_type(&format!("message m {{ {field} }}")).expect("a schema");
    let file = File::create(path).expect("memory");
    let mut properties = WriterProperties::builder().build();
    if let Some(hint) = hint {
        add_encoded_arrow_schema_to_metadata(&Schema::new(vec![Field::new("t", hint, true)]), &mut properties);
    }
    let mut writer = SerializedFileWriter::new(file, schema.into(), Arc::new(properties)).expect("memory");
    for values in groups {
        let of = |&(day, nanos): &(i64, u64)| {
            let mut value = Int96::new();
            value.set_data(nanos as u32, (nanos >> 32) as u32, (day + 2_440_588) as u32);
            value
        };
        let values: Vec<_> = values.iter().map(of).collect();
        // A leading null, or one list of all values.
        let (definitions, repetitions) = match field.contains("repeated") {
            false => ([&[0][..], &vec![1; values.len()]].concat(), None),
            true => (vec![1; values.len()], Some([&[0][..], &vec![1; values.len() - 1]].concat())),
        };
        let mut group = writer.next_row_group().expect("memory");
        let mut column = group.next_column().expect("memory").expect("a column");
        let typed = column.typed::<Int96Type>();
        typed.write_batch(&values, Some(&definitions), repetitions.as_deref()).expect("memory");
        column.close().expect("memory");
        group.close().expect("memory");
    }
    writer.close().expect("memory");
}

/// INT96 is read as nanoseconds, as microseconds, or not at all, depending on the values. Nulls and lists do not
/// matter.
#[test]
fn old_timestamps_have_the_unit_that_holds_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    let write = |field: &str, groups: &[&[(i64, u64)]]| write(&path, field, None, groups);
    let unit = || {
        check(&path, None, &TableReading::default());
        let source = Source::open(&path, &TableReading::default()).unwrap_or_else(|failure| panic!("{failure}"));
        let table = source.read(None).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(source.schema(None).ok().flatten().as_ref(), Some(&table.schema));
        table
    };
    write("optional int96 t;", &[&[(0, 1)], &[(-1, 999)]]);
    let table = unit();
    let nanos = table.batches[0].column(0).as_primitive::<TimestampNanosecondType>();
    assert_eq!(nanos.iter().collect::<Vec<_>>(), [None, Some(1)]);
    // 9999-12-31 and 0001-01-01 are only in the second row group.
    write("optional int96 t;", &[&[(0, 7_200_000_000_000)], &[(2_932_896, 0), (-719_162, 1000)]]);
    let table = unit();
    let micros: Vec<_> = table
        .batches
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<TimestampMicrosecondType>().iter())
        .collect();
    let expected = [None, Some(7_200_000_000), None, Some(2_932_896 * DAY), Some(-719_162 * DAY + 1)];
    assert_eq!(micros, expected);
    write("repeated int96 t;", &[&[(2_932_896, 0), (0, 1000)]]);
    let table = unit();
    let DataType::List(field) = table.schema.field(0).data_type() else { panic!("{}", table.schema) };
    assert_eq!(*field.data_type(), DataType::Timestamp(TimeUnit::Microsecond, None));
    let values = table.batches[0].column(0).as_list::<i32>().values().clone();
    assert_eq!(values.as_primitive::<TimestampMicrosecondType>().values(), &[2_932_896 * DAY, 1]);
    for (groups, part) in [
        (
            &[&[(0, 1)][..], &[(2_932_896, 0)]][..],
            "column t: it has INT96 timestamps outside the years 1677 to 2262 with",
        ),
        (&[&[(200_000_000, 0)]], "that no type holds"),
    ] {
        write("optional int96 t;", groups);
        let source = Source::open(&path, &TableReading::default()).unwrap_or_else(|failure| panic!("{failure}"));
        let errors = [source.schema(None).err(), source.read(None).err(), source.stream(None).err()];
        for error in errors {
            let error = error.map(|failure| failure.to_string());
            assert!(error.as_ref().is_some_and(|error| error.contains(part)), "{part}: {error:?}");
        }
        // No error if the column is not wanted.
        assert!(source.read(Some(&[])).is_ok());
    }
}

#[test]
fn time_zones_of_old_timestamps_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    let zone = |unit| DataType::Timestamp(unit, Some("Europe/Berlin".into()));
    for (day, unit) in [(2_932_896, TimeUnit::Microsecond), (1, TimeUnit::Nanosecond)] {
        write(&path, "optional int96 t;", Some(zone(TimeUnit::Nanosecond)), &[&[(day, 1000)]]);
        check(&path, None, &TableReading::default());
        let source = Source::open(&path, &TableReading::default()).unwrap_or_else(|failure| panic!("{failure}"));
        let table = source.read(None).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(*table.schema.field(0).data_type(), zone(unit));
        let column = table.batches[0].column(0);
        let value = match unit {
            TimeUnit::Microsecond => column.as_primitive::<TimestampMicrosecondType>().value(1),
            _ => column.as_primitive::<TimestampNanosecondType>().value(1) / 1000,
        };
        assert_eq!(value, day * DAY + 1);
    }
}

/// One file is read in nanoseconds and one in microseconds; nested columns with two units are refused.
#[test]
fn old_timestamps_of_several_files_have_the_unit_that_holds_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["near.parquet", "far.parquet"].map(|name| folder.path().join(name));
    let micros = |paths: &[PathBuf]| {
        let source = Source::open_all(paths, &TableReading::default())?;
        let table = source.read(None)?;
        assert_eq!(source.schema(None)?.as_ref(), Some(&table.schema));
        let values =
            |batch: &RecordBatch| batch.column(0).as_primitive::<TimestampMicrosecondType>().iter().collect::<Vec<_>>();
        Result::Ok(table.batches.iter().flat_map(values).collect::<Vec<_>>())
    };
    let zone = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    for hint in [None, Some(zone)] {
        write(&paths[0], "optional int96 t;", hint.clone(), &[&[(-1, 5000)]]);
        write(&paths[1], "optional int96 t;", hint, &[&[(2_932_896, 7000)]]);
        let (near, far) = ([None, Some(5 - DAY)], [None, Some(2_932_896 * DAY + 7)]);
        assert_eq!(micros(&paths).ok(), Some([near, far].concat()));
        let turned = [paths[1].clone(), paths[0].clone()];
        assert_eq!(micros(&turned).ok(), Some([far, near].concat()));
    }
    write(&paths[1], "optional int96 t;", None, &[&[(2_932_896, 0)]]);
    for (field, part) in [
        ("optional int96 t;", "near.parquet: column `t` has INT96 timestamps with parts of a microsecond"),
        ("repeated int96 t;", "need the same types"),
    ] {
        write(&paths[0], field, None, &[&[(0, 1)]]);
        let error = micros(&paths).err().map(|failure| failure.to_string());
        assert!(error.as_ref().is_some_and(|error| error.contains(part)), "{error:?}");
        // The advice of the first error: read the files separately.
        let alone = |path| Source::open(path, &TableReading::default()).and_then(|source| source.read(None));
        assert!(paths.iter().all(|path| alone(path).is_ok()));
    }
}
