//! Prepared joins return the results of `join`, whatever the device, the batches and the file.

use std::fs;
use std::path::Path;

use arrow_array::{
    Array, ArrayRef, Int64Array, StringArray, StringViewArray, StructArray, new_empty_array, record_batch,
};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::Field;
use koel::JoinKind;

use super::*;
use crate::error::Error;
use crate::join::join;
use crate::probe::FirstKeys;
use crate::tests::devices;

/// Compares all joins with those of `join`, before and after the rows were saved.
pub(crate) fn check(device: &Any, left: &Keys, right: &Keys, nulls: NullEquality, what: &str) {
    let columns = right.columns();
    let fields = columns.iter().enumerate().map(|(at, of)| Field::new(at.to_string(), of.data_type().clone(), true));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = |piece: usize| {
        let columns = columns.iter().map(|column| Arc::clone(&column.chunks()[piece]));
        RecordBatch::try_new(Arc::clone(&schema), columns.collect()).expect(what)
    };
    let batches = (0..columns[0].chunks().len()).map(batch).collect();
    let on: Vec<String> = (0..columns.len()).map(|at| at.to_string()).collect();
    let options = PreparedOptions { nulls, seed: 7 };
    let prepared = PreparedJoin::build(device, &schema, batches, &on, options).expect(what);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let digest = prepared.save(file.path()).expect(what);
    let opened = PreparedJoin::open(device, file.path()).expect(what);
    assert_eq!([prepared.digest().expect(what), opened.digest().expect(what)], [digest; 2], "{what}");
    let first = FirstKeys::new(device, right, nulls).and_then(|keys| keys.find(left)).expect(what);
    for prepared in [&prepared, &opened] {
        assert_eq!(prepared.first_rows(left).expect(what), first, "{what}");
    }
    for how in JoinKind::ALL {
        let expected = join(device, left, right, how, nulls).expect(what);
        for prepared in [&prepared, &opened] {
            assert_eq!(prepared.index().join(left, how).expect(what), expected, "{what}, {how}");
        }
    }
}

/// A table with duplicate keys, nulls, text and a struct, in batches of `rows_of_batch` rows.
fn table(rows: usize, rows_of_batch: usize, under_nulls: i64) -> Vec<RecordBatch> {
    let batch = |start: usize| {
        let rows = start..rows.min(start + rows_of_batch);
        let is_there = |row: usize| !row.is_multiple_of(7);
        let nulls = || NullBuffer::from_iter(rows.clone().map(is_there));
        let number = |row: usize| if is_there(row) { (row * row % 1009) as i64 } else { under_nulls };
        let numbers: ScalarBuffer<i64> = rows.clone().map(number).collect();
        let texts = rows.clone().map(|row| is_there(row + 1).then(|| format!("text number {}", row % 500)));
        let texts: StringArray = texts.collect();
        let views: StringViewArray = texts.iter().collect();
        let numbers: ArrayRef = Arc::new(Int64Array::new(numbers, Some(nulls())));
        let field = Field::new("number", numbers.data_type().clone(), true);
        let structs = StructArray::new(vec![field].into(), vec![Arc::clone(&numbers)], Some(nulls()));
        let columns: [(&str, ArrayRef, bool); 4] = [
            ("number", numbers, true),
            ("text", Arc::new(texts), true),
            ("view", Arc::new(views), true),
            ("struct", Arc::new(structs), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
    };
    (0..rows).step_by(rows_of_batch).map(batch).collect()
}

fn prepared(device: &Any, batches: Vec<RecordBatch>, on: &[&str]) -> PreparedJoin {
    let options = PreparedOptions::default();
    PreparedJoin::build(device, &batches[0].schema(), batches, on, options).expect("prepared")
}

fn left(rows: usize) -> Keys {
    let numbers: ArrayRef =
        Arc::new((0..rows).map(|row| (row % 11 > 0).then_some((row % 1500) as i64)).collect::<Int64Array>());
    let texts: ArrayRef =
        Arc::new((0..rows).map(|row| Some(format!("text number {}", row % 700))).collect::<StringArray>());
    Keys::of_arrays(&[numbers, texts]).expect("keys")
}

#[test]
fn files_depend_on_the_rows_alone() {
    let rows = 2 * blocks::ROWS + 1234;
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = Vec::new();
    for device in devices() {
        for (rows_of_batch, under_nulls) in [(rows, 0), (10_007, 5), (70_000, -1)] {
            let prepared = prepared(&device, table(rows, rows_of_batch, under_nulls), &["number", "text"]);
            let path = folder.path().join(files.len().to_string());
            assert_eq!(prepared.save(&path).expect("saved"), prepared.digest().expect("a digest"));
            files.push(path);
        }
    }
    let first = fs::read(&files[0]).expect("a file");
    assert!(files.iter().all(|file| fs::read(file).expect("a file") == first));
    let cpu = &devices()[0];
    let opened = PreparedJoin::open(cpu, &files[0]).expect("opened");
    for device in devices() {
        let (left, moved) = (left(5_000), opened.on_device(&device).expect("an index"));
        let rows = |of: &PreparedJoin| of.index().join(&left, JoinKind::Full).expect("rows");
        assert_eq!(rows(&moved), rows(&opened));
        let file = folder.path().join("moved");
        moved.save(&file).expect("saved");
        assert!(fs::read(&file).expect("a file") == first);
    }
    let again = folder.path().join("again");
    opened.save(&again).expect("saved");
    assert!(fs::read(&again).expect("a file") == first);
    // Digests differ if keys, rows or seeds do.
    let digest = |rows, on: &[&str]| prepared(cpu, table(rows, 1 << 20, 0), on).digest().expect("a digest");
    let options = PreparedOptions { seed: 1, ..PreparedOptions::default() };
    let batches = table(100, 100, 0);
    let other = PreparedJoin::build(cpu, &batches[0].schema(), batches, &["text"], options).expect("prepared");
    let all = [digest(100, &["text"]), digest(100, &["number"]), digest(99, &["text"]), other.digest().expect("one")];
    assert!((0..4).all(|i| !all[..i].contains(&all[i])), "{all:?}");
}

#[test]
#[expect(unsafe_code, reason = "what is tested")]
fn threads_share_one_index_and_mapped_rows() {
    let rows = blocks::ROWS + 77;
    let batches = table(rows, 9_000, 3);
    let right = Keys::of_batches(&batches[0].schema(), &batches, &["number", "text"]).expect("keys");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let (device, left) = (&devices()[0], left(5_000));
    prepared(device, batches.clone(), &["number", "text"]).save(file.path()).expect("saved");
    for device in devices() {
        // SAFETY: no one writes to the file, which is in a folder of temporary files.
        let mapped = unsafe { PreparedJoin::open_mapped(&device, file.path()) }.expect("mapped");
        let shared = Arc::new(mapped);
        std::thread::scope(|scope| {
            for how in JoinKind::ALL {
                let (shared, left, right, device) = (Arc::clone(&shared), &left, &right, &device);
                scope.spawn(move || {
                    let expected = join(device, left, right, how, shared.nulls()).expect("rows");
                    assert_eq!(shared.index().join(left, how).expect("rows"), expected, "{how}");
                });
            }
        });
        let numbers = UInt32Array::from(vec![Some(70), None, Some(rows as u32 - 1)]);
        let found = shared.take(&numbers, &[3, 0, 2]).expect("rows");
        for (at, name) in ["struct", "number", "view"].iter().enumerate() {
            let column = Column::of_batches(&batches[0].schema(), &batches, name).expect("a column");
            assert_eq!(found.column(at), &column.take(&numbers).expect("rows"), "{name}");
        }
    }
}

#[test]
fn seeds_under_which_keys_collide_are_skipped() {
    let batch =
        record_batch!(("k", Int64, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 3, 3])).expect("a batch");
    let device = &devices()[0];
    let with_seed = |bits, seed| {
        let (schema, options) = (batch.schema(), PreparedOptions { seed, ..PreparedOptions::default() });
        PreparedJoin::with_hashes(device, &schema, vec![batch.clone()], &["k"], options, bits)
    };
    let with_bits = |bits| with_seed(bits, 0);
    let right = Keys::of_arrays(&[Arc::clone(batch.column(0))]).expect("keys");
    // Hashes of left keys collide as well: 50 keys share 64 hashes.
    let left: ArrayRef = Arc::new((-20..30).collect::<Int64Array>());
    let left = Keys::of_arrays(&[left]).expect("keys");
    let expected = join(device, &left, &right, JoinKind::Full, NullEquality::default()).expect("rows");
    let mut seeds = Vec::new();
    for bits in 6..12 {
        let prepared = with_bits(bits).expect("a seed");
        assert_eq!(prepared.index().join(&left, JoinKind::Full).expect("rows"), expected, "{bits} bits");
        seeds.push(prepared.parameters.seed);
    }
    assert!(seeds.iter().any(|&seed| seed > 0), "{seeds:?}");
    assert!(matches!(with_bits(3), Err(Error::HashCollisions { first: 0, last: 31 })));
    // With 5 bits, most of the seeds lead to equal hashes, and a build tries 32 of them.
    let (built, refused): (Vec<_>, Vec<_>) = (0..64).map(|i| with_seed(5, 32 * i)).partition(Result::is_ok);
    assert!(!built.is_empty(), "another seed works");
    let error = refused[0].as_ref().expect_err("equal hashes").to_string();
    assert!(error.contains("give another seed"), "{error}");
}

fn bad_file(path: &Path) -> String {
    match PreparedJoin::open(&devices()[0], path) {
        Err(Error::Koel(koel::Error::BadFile { reason, .. })) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
#[expect(unsafe_code, reason = "what is tested")]
fn damaged_files_are_refused() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path();
    let device = &devices()[0];
    prepared(device, table(9, 9, 0), &["number", "text"]).save(path).expect("saved");
    let sound = fs::read(path).expect("a file");
    PreparedJoin::open(device, path).expect("it is sound");
    let (left, mut mapped_rows) = (left(50), 0);
    for byte in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[byte] ^= 1 << (byte % 8);
        fs::write(path, damaged).expect("written");
        assert!(!bad_file(path).is_empty(), "byte {byte}");
        // The checksum of mapped rows is not verified: joins may return other rows, but nothing panics.
        // SAFETY: no one writes to the file while it is mapped.
        if let Ok(mapped) = unsafe { PreparedJoin::open_mapped(device, path) } {
            // The damage may have changed types.
            let rows = mapped.index().join(&left, JoinKind::Left);
            mapped_rows += rows.map_or(0, |rows| {
                mapped.take(&rows.right.expect("right rows"), &[0, 1, 2]).map_or(0, |rows| rows.num_rows())
            });
        }
    }
    assert!(mapped_rows > 0);
    for length in 0..sound.len() {
        fs::write(path, &sound[..length]).expect("written");
        assert!(!bad_file(path).is_empty(), "{length} bytes");
    }
    let longer = [&sound[..], &[0; 64]].concat();
    fs::write(path, longer).expect("written");
    assert!(bad_file(path).contains("build it again"));
    let mut newer = sound.clone();
    newer[8] = 2;
    fs::write(path, newer).expect("written");
    assert!(bad_file(path).contains("it has format 2; this koel reads format 1"));
    fs::write(path, b"key,value\n1,2\n").expect("written");
    assert!(bad_file(path).contains("not the prepared side of a join"));
}

#[test]
fn columns_that_do_not_exist_or_match_are_errors() {
    let device = &devices()[0];
    let batches = table(10, 4, 0);
    let schema = batches[0].schema();
    let build = |on: &[&str]| PreparedJoin::build(device, &schema, batches.clone(), on, PreparedOptions::default());
    assert!(matches!(build(&["no"]), Err(Error::MissingColumn { .. })));
    assert!(matches!(build(&[]), Err(Error::KeyCount { .. })));
    let prepared = build(&["text"]).expect("prepared");
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let error = prepared.index().join(&Keys::of_arrays(&[numbers]).expect("keys"), JoinKind::Inner);
    assert!(matches!(error, Err(Error::TypeMismatch { .. })));
    let check = |schema: &Schema, on: &[usize], nulls| match prepared.check(schema, on, nulls) {
        Ok(()) => String::new(),
        Err(error) => error.to_string(),
    };
    let (own, others) = (NullEquality::NothingEquals, schema.project(&[0, 1]).expect("columns"));
    assert_eq!(check(&schema, &[1], own), "");
    assert!(check(&others, &[1], own).contains("other columns: number Int64, text Utf8, view Utf8View"));
    assert!(check(&schema, &[0], own).contains("other keys: text; the join needs number: prepare it again"));
    build(&["number"]).expect("prepared again").check(&schema, &[0], own).expect("the keys of the join");
    assert!(check(&schema, &[1], NullEquality::NullEquals).contains("other nulls: not equal; the join needs equal"));
    let lists = |of: &DataType| {
        let items = new_empty_array(&DataType::ListView(Field::new("item", of.clone(), true).into()));
        let batch = RecordBatch::try_from_iter([("k", Arc::clone(batches[0].column(0)).slice(0, 0)), ("lists", items)]);
        let batch = batch.expect("a batch");
        PreparedJoin::build(device, &batch.schema(), vec![batch], &["k"], PreparedOptions::default())
    };
    let texts = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
    let error = lists(&texts).expect_err("a dictionary in lists").to_string();
    assert!(error.contains("cast it to a type without dictionaries"), "{error}");
    lists(&DataType::Utf8).expect("no dictionary");
    let empty = PreparedJoin::build(device, &schema, vec![], &["text"], PreparedOptions::default()).expect("no rows");
    let file = tempfile::NamedTempFile::new().expect("a file");
    empty.save(file.path()).expect("saved");
    let empty = PreparedJoin::open(device, file.path()).expect("opened");
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let rows = empty.index().join(&Keys::of_arrays(&[texts]).expect("keys"), JoinKind::Left).expect("rows");
    assert_eq!((empty.len(), rows.left.len(), rows.right.expect("right rows").null_count()), (0, 1, 1));
}
