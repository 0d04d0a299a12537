//! Rare cases of tables of named columns: columns without values, dictionaries that cannot be merged, the text of all
//! types, closed pipes, and options that would have no effect.

use std::fs::File;
use std::process::Stdio;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_buffer::{IntervalMonthDayNano, i256};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema};

use crate::folder::{Folder, array, devices, stderr};

/// Writes batches as an Arrow file.
fn arrow(folder: &Folder, name: &str, fields: Vec<Field>, batches: Vec<Vec<ArrayRef>>) {
    let schema = Arc::new(Schema::new(fields));
    let mut writer = FileWriter::try_new(File::create(folder.path(name)).unwrap(), &schema).unwrap();
    for columns in batches {
        writer.write(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn columns_without_values_match_any_type() {
    let folder = Folder::new();
    folder.file("a.csv", "k,x\n1,a\n,b\n");
    folder.file("none.csv", "k,y\n");
    folder.file("null.csv", "k,y\n,c\n");
    for device in devices() {
        let ok = |arguments: &str| folder.ok(&format!("{arguments} --device {device}"));
        assert_eq!(ok("isin a.csv none.csv --on k"), "k,x,isin\n1,a,false\n,b,false\n");
        assert_eq!(ok("isin a.csv null.csv --on k --nulls-equal --columns x,isin"), "x,isin\na,false\nb,true\n");
        assert_eq!(ok("join a.csv none.csv --on k --how full"), "k,x,y\n1,a,\n,b,\n");
        assert_eq!(ok("join none.csv a.csv --on k --how right"), "k,y,x\n1,,a\n,,b\n");
        assert_eq!(ok("join null.csv a.csv --on k --how full"), "k,y,x\n,c,\n1,,a\n,,b\n");
        assert_eq!(ok("join null.csv none.csv --on k=y --how full"), "k,y,k_right\n,c,\n");
    }
    // The key column of the result has the type of the side that has values.
    folder.ok("join null.csv a.csv --on k --how full -o j.arrow");
    let reader = FileReader::try_new(File::open(folder.path("j.arrow")).unwrap(), None).unwrap();
    assert_eq!(*reader.schema().field(0).data_type(), DataType::Int64);
}

#[test]
fn types_from_files_are_kept_without_values() {
    let folder = Folder::new();
    let of = |name: &str, column: ArrayRef| {
        arrow(&folder, name, vec![Field::new("k", column.data_type().clone(), true)], vec![vec![column]]);
    };
    of("none.arrow", Arc::new(Int64Array::from(Vec::<i64>::new())));
    of("text.arrow", Arc::new(StringArray::from(vec!["a"])));
    of("null.arrow", Arc::new(NullArray::new(2)));
    folder.refused("join none.arrow text.arrow --on k", "left key `k` is Int64 and right key `k` is Utf8");
    assert_eq!(folder.ok("join null.arrow text.arrow --on k --how full"), "k\n\n\na\n");
    folder.file("v.csv", "k,v,w\n1,,x\n2,,y\n");
    assert_eq!(folder.ok("groupby v.csv --by k --agg sum:v,mean:v"), "k,v_sum,v_mean\n1,,\n2,,\n");
    folder.refused("groupby v.csv --by k --agg sum:w", "(here by --types w=int64, w=decimal(p,s) or w=float64");
    folder.file("big.csv", "k,v\n1,9223372036854775807\n1,1\n");
    folder.refused("groupby big.csv --by k --agg sum:v", "(here by --types v=decimal(38,s), or v=float64)");
    assert_eq!(
        folder.ok("groupby big.csv --by k --agg sum:v --types v=decimal(38,0)"),
        "k,v_sum\n1,9223372036854775808\n"
    );
}

#[test]
fn buffers_of_dropped_rows_are_not_written() {
    let folder = Folder::new();
    let texts: Vec<String> = (0..50_000).map(|i| format!("a text of more than twelve bytes, number {i}")).collect();
    let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(&texts));
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..50_000).map(|i| i % 3)));
    let inner = StructArray::from(vec![(Arc::new(Field::new("t", DataType::Utf8View, false)), views.clone())]);
    let field = |name: &str, of: &ArrayRef| Field::new(name, of.data_type().clone(), true);
    let columns: Vec<ArrayRef> = vec![keys, views, Arc::new(inner)];
    let fields = ["k", "t", "s"].iter().zip(&columns).map(|(name, column)| field(name, column)).collect();
    arrow(&folder, "a.arrow", fields, vec![columns]);
    for format in ["arrow", "arrows"] {
        folder.ok(&format!("unique a.arrow --on k --columns k,t,s -o u.{format}"));
        let bytes = folder.bytes(&format!("u.{format}"));
        assert!(bytes.len() < 10_000, "{format}: {} bytes", bytes.len());
        let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(has("number 2") && !has("number 77"), "{format}");
    }
}

#[test]
fn errors_for_mismatched_types_name_an_option() {
    let folder = Folder::new();
    folder.file("text.csv", "k,x\n007,a\n8,b\n");
    folder.file("whole.csv", "k,y\n7,c\n8,d\n");
    folder.ok("convert whole.csv whole.arrow");
    let of = "left key `k` is Utf8 and right key `k` is Int64: give --types k=";
    let advice = format!("{of}int64, or --types k=utf8 to compare them as text");
    folder.refused("join text.csv whole.csv --on k", &advice);
    folder.refused("join text.csv whole.arrow --on k", &advice);
    folder.file("flags.csv", "b,z\ntrue,e\n");
    folder.refused("join flags.csv text.csv --on b=x", "give --types x=bool, or --types b=utf8 to compare");
    folder.file("half.csv", "k,z\n1.5,e\n");
    folder.refused("join whole.csv half.csv --on k", "give --types k=float64 (which rounds whole numbers beyond 2^53)");
    assert_eq!(folder.ok("join text.csv whole.csv --on k --types k=utf8"), "k,x,y\n8,b,d\n");
    assert_eq!(folder.ok("join text.csv whole.arrow --on k --types k=utf8"), "k,x,y\n8,b,d\n");
    assert_eq!(folder.ok("join text.csv whole.arrow --on k --types k=int64"), "k,x,y\n7,a,c\n8,b,d\n");
    folder.ok("convert text.csv text.arrow");
    folder.refused("join text.arrow whole.arrow --on k", "give --types k=int64, or --types k=utf8");
    for memory in ["", " --memory 64Mi"] {
        let join = format!("join text.arrow whole.arrow --on k{memory} --types k=");
        assert_eq!(folder.ok(&format!("{join}utf8")), "k,x,y\n8,b,d\n");
        assert_eq!(folder.ok(&format!("{join}int64")), "k,x,y\n7,a,c\n8,b,d\n");
        folder.refused(&format!("{join}date32"), "` is not of the type date32");
    }
    folder.refused("groupby text.arrow --by k --agg sum:x", "(here by --types x=int64");
    assert_eq!(folder.ok("groupby text.arrow --by x --agg sum:k --types k=int64"), "x,k_sum\na,7\nb,8\n");
    folder.refused("convert text.arrow - --types y=int64", "there is no column y");
}

#[test]
fn keys_of_different_types_are_compared_by_value() {
    let folder = Folder::new();
    let of = |name: &str, column: ArrayRef| {
        let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..column.len() as i64));
        let fields = vec![Field::new("k", column.data_type().clone(), true), Field::new(name, DataType::Int64, true)];
        arrow(&folder, &format!("{name}.arrow"), fields, vec![vec![column, rows]]);
    };
    let decimal = |values: Vec<i128>, scale| -> ArrayRef {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(12, scale).unwrap())
    };
    of("ms", Arc::new(TimestampMillisecondArray::from(vec![Some(1_500), Some(2_000), None])));
    of("us", Arc::new(TimestampMicrosecondArray::from(vec![2_000_000, 1_500_001, 1_500_000])));
    of("s1", decimal(vec![15, 20], 1));
    of("s3", decimal(vec![1_500, 2_001, 2_000], 3));
    let nothing = DictionaryArray::<Int8Type>::new(vec![None, None].into(), Arc::new(NullArray::new(0)));
    of("nothing", Arc::new(nothing));
    of("text", dictionary(0..2));
    for memory in ["", " --memory 64Mi"] {
        let join = |left, right, rest| {
            folder.ok(&format!("join {left}.arrow {right}.arrow --on k --columns {left},{right}{rest}{memory}"))
        };
        assert_eq!(join("ms", "us", " --how left"), "ms,us\n0,2\n1,0\n2,\n");
        assert_eq!(join("us", "ms", " --how full"), "us,ms\n0,1\n1,\n2,0\n,2\n");
        assert_eq!(join("s1", "s3", ""), "s1,s3\n0,0\n1,2\n");
        assert_eq!(join("s3", "s1", " --how left"), "s3,s1\n0,0\n1,\n2,1\n");
        assert_eq!(join("nothing", "text", " --how left"), "nothing,text\n0,\n1,\n");
        assert_eq!(join("text", "nothing", " --how left"), "text,nothing\n0,\n1,\n");
    }
    assert_eq!(folder.ok("isin us.arrow ms.arrow --on k --columns us,isin"), "us,isin\n0,true\n1,false\n2,true\n");
}

#[test]
fn the_sum_of_booleans_counts_those_that_are_true() {
    let folder = Folder::new();
    folder.file("a.csv", "k,b\n1,true\n1,true\n2,\n3,false\n1,false\n");
    for memory in ["", " --memory 64Mi"] {
        let groups = folder.ok(&format!("groupby a.csv --by k --agg sum:b,mean:b,max:b{memory}"));
        assert_eq!(groups, "k,b_sum,b_mean,b_max\n1,2,0.6666666666666666,true\n2,,,\n3,0,0.0,false\n");
    }
}

/// These numbers as text, in a dictionary array with 8-bit keys.
fn dictionary(numbers: std::ops::Range<i32>) -> ArrayRef {
    let texts: Vec<_> = numbers.map(|i| i.to_string()).collect();
    Arc::new(texts.iter().map(|text| Some(text.as_str())).collect::<DictionaryArray<Int8Type>>())
}

#[test]
fn dictionaries_that_cannot_be_merged_are_joined_as_text() {
    let folder = Folder::new();
    let field = || Field::new("k", dictionary(0..1).data_type().clone(), true);
    arrow(&folder, "a.arrow", vec![field()], vec![vec![dictionary(0..100)]]);
    arrow(&folder, "b.arrow", vec![field()], vec![vec![dictionary(50..150)]]);
    let all: String = (0..150).map(|i| format!("{i}\n")).collect();
    for format in ["arrow", "csv", "arrows"] {
        folder.ok(&format!("join a.arrow b.arrow --on k --how full -o j.{format}"));
        assert_eq!(folder.ok(&format!("convert j.{format} -")), format!("k\n{all}"), "{format}");
    }
    // A column from one side only keeps its dictionary.
    folder.ok("join a.arrow b.arrow --on k --how left -o left.arrow");
    let reader = FileReader::try_new(File::open(folder.path("left.arrow")).unwrap(), None).unwrap();
    assert_eq!(reader.schema().field(0).data_type(), dictionary(0..1).data_type());

    // A stream whose batches have different dictionaries.
    let schema = Arc::new(Schema::new(vec![field()]));
    let file = File::create(folder.path("two.arrows")).unwrap();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(file, &schema).unwrap();
    for numbers in [0..100, 100..200] {
        writer.write(&RecordBatch::try_new(schema.clone(), vec![dictionary(numbers)]).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let both: String = (0..200).map(|i| format!("{i}\n")).collect();
    assert_eq!(folder.ok("unique two.arrows --on k"), format!("k\n{both}"));
    folder.ok("unique two.arrows --on k -o u.arrow");
    assert_eq!(folder.ok("convert u.arrow -"), format!("k\n{both}"));
}

/// An Arrow file has one dictionary per column, even if batches of the result contain only nulls.
#[test]
fn columns_of_dictionaries_remain_dictionaries_in_every_join() {
    const ROWS: i64 = 150_000;
    let folder = Folder::new();
    let numbers = |range: std::ops::Range<i64>| -> ArrayRef { Arc::new(Int64Array::from_iter_values(range)) };
    let names = |rows: i64| -> ArrayRef {
        let names = ["red", "green", "blue"];
        Arc::new((0..rows).map(|row| names.get(row as usize % 4).copied()).collect::<DictionaryArray<Int8Type>>())
    };
    let field = |name: &str, of: &ArrayRef| Field::new(name, of.data_type().clone(), true);
    for (file, keys) in [("all.arrow", numbers(0..ROWS)), ("last.arrow", numbers(ROWS - 1000..2 * ROWS - 1000))] {
        let name = names(ROWS);
        arrow(&folder, file, vec![field("k", &keys), field("name", &name)], vec![vec![keys, name]]);
    }
    for how in ["left", "right", "full"] {
        for format in ["arrow", "arrows", "parquet"] {
            folder.ok(&format!("join all.arrow last.arrow --on k --how {how} -o j.{format}"));
            folder.ok(&format!("join all.arrow last.arrow --on k --how {how} --memory 64Mi -o limited.{format}"));
            let values = folder.ok(&format!("convert j.{format} -"));
            assert!(values == folder.ok(&format!("convert limited.{format} -")), "{how} {format}");
            let rows = if how == "full" { 2 * ROWS - 1000 } else { ROWS };
            assert_eq!(values.lines().count() as i64, rows + 1);
        }
        let schema = FileReader::try_new(File::open(folder.path("j.arrow")).unwrap(), None).unwrap().schema();
        assert!(schema.fields()[1..].iter().all(|field| matches!(field.data_type(), DataType::Dictionary(..))));
    }
}

#[test]
fn ids_of_dictionaries_need_no_temporary_files() {
    const ROWS: i32 = 200_000;
    let folder = Folder::new();
    let names: Vec<String> = (0..ROWS).map(|row| format!("name {}", row % 100_000)).collect();
    let names: ArrayRef = Arc::new(
        names.iter().map(|name| Some(name.as_str())).collect::<DictionaryArray<arrow_array::types::Int32Type>>(),
    );
    arrow(&folder, "a.arrow", vec![Field::new("k", names.data_type().clone(), true)], vec![vec![names]]);
    let summary = folder.json("unique a.arrow --on k --inverse i.csv -o u.arrow --json");
    assert_eq!(summary["spilled_bytes"], 0);
    folder.ok("unique a.arrow --on k -o alone.arrow");
    assert!(std::fs::read(folder.path("u.arrow")).unwrap() == std::fs::read(folder.path("alone.arrow")).unwrap());
    let ids = folder.text("i.csv");
    assert!(ids.lines().skip(1).enumerate().all(|(row, id)| id == (row % 100_000).to_string()));
}

#[test]
fn values_in_dictionaries_are_aggregated() {
    let folder = Folder::new();
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..3000).map(|row| row % 3)));
    let numbers = Int64Array::from_iter_values([7, 5, 9]);
    let of_row = Int8Array::from_iter_values((0..3000).map(|row| (row % 3) as i8));
    let numbers: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::new(of_row, Arc::new(numbers)));
    let fields = vec![Field::new("k", DataType::Int64, false), Field::new("n", numbers.data_type().clone(), true)];
    arrow(&folder, "a.arrow", fields, vec![vec![keys, numbers]]);
    for memory in ["", " --memory 64Mi"] {
        let groups = folder.ok(&format!("groupby a.arrow --by k --agg min:n,max:n,sum:n,first:n{memory}"));
        assert_eq!(groups, "k,n_min,n_max,n_sum,n_first\n0,7,7,7000,7\n1,5,5,5000,5\n2,9,9,9000,9\n", "{memory}");
    }
    // Lists whose dictionaries have too many values to be merged.
    let list = |numbers: std::ops::Range<i32>| -> ArrayRef {
        let names = dictionary(numbers);
        let item = Arc::new(Field::new("item", names.data_type().clone(), true));
        let offsets = arrow_buffer::OffsetBuffer::from_lengths(std::iter::repeat_n(1, names.len()));
        Arc::new(ListArray::new(item, offsets, names, None))
    };
    let of = list(0..1).data_type().clone();
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false), Field::new("l", of, true)]));
    let file = File::create(folder.path("lists.arrows")).unwrap();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(file, &schema).unwrap();
    for numbers in [0..100, 100..200] {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.clone().map(i64::from)));
        writer.write(&RecordBatch::try_new(schema.clone(), vec![keys, list(numbers)]).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    folder.ok("groupby lists.arrows --by k --agg rows=count,first:l -o l.parquet");
    assert_eq!(folder.ok("convert l.parquet - --columns k").lines().count(), 201);
    folder.refused("groupby lists.arrows --by k --agg sum:l", "column `l`");
}

#[test]
fn every_plain_type_is_written_as_text_and_field_metadata_is_kept() {
    let folder = Folder::new();
    let decimal = Decimal256Array::from(vec![i256::from_i128(-12_345)]).with_precision_and_scale(50, 3).unwrap();
    let columns: Vec<(&str, ArrayRef, &str)> = vec![
        ("k", Arc::new(Int64Array::from(vec![1])), "1"),
        ("t", Arc::new(Time64MicrosecondArray::from(vec![3_600_000_001])), "01:00:00.000001"),
        ("d", Arc::new(decimal), "-12.345"),
        ("s", Arc::new(Decimal32Array::from(vec![5]).with_precision_and_scale(5, 2).unwrap()), "0.05"),
        ("b", Arc::new(BinaryArray::from(vec![&b"\x00\xffa"[..]])), "00ff61"),
        ("e", Arc::new(BinaryArray::from(vec![&b""[..]])), "\"\""),
        ("l", Arc::new(DurationMillisecondArray::from(vec![-1_500])), "PT-1.500S"),
        ("i", Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(14, 3, 0)])), "P14M3D"),
        ("h", Arc::new(arrow_array::Float16Array::from_iter_values([half(1.5)])), "1.5"),
    ];
    let said = [("ARROW:extension:name".to_owned(), "koel.test".to_owned())];
    let field = |(name, column, _): &(&str, ArrayRef, &str)| {
        Field::new(*name, column.data_type().clone(), false).with_metadata(said.clone().into())
    };
    let fields: Vec<_> = columns.iter().map(field).collect();
    arrow(&folder, "a.arrow", fields, vec![columns.iter().map(|(_, column, _)| column.clone()).collect()]);
    let header = columns.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(",");
    let row = columns.iter().map(|(.., text)| *text).collect::<Vec<_>>().join(",");
    assert_eq!(folder.ok("convert a.arrow -"), format!("{header}\n{row}\n"));
    for command in ["join a.arrow a.arrow --on k --how left", "groupby a.arrow --by k,t,i", "unique a.arrow --on d,k"] {
        folder.ok(&format!("{command} -o o.arrow"));
        let schema = FileReader::try_new(File::open(folder.path("o.arrow")).unwrap(), None).unwrap().schema();
        let kept = |field: &Field| field.metadata().get("ARROW:extension:name").is_some_and(|of| of == "koel.test");
        let fields = schema.fields().iter().filter(|field| field.name() != "count");
        assert!(fields.clone().count() > 1 && fields.clone().all(|field| kept(field)), "{command}: {schema}");
    }
}

fn half(value: f32) -> <arrow_array::types::Float16Type as ArrowPrimitiveType>::Native {
    <arrow_array::types::Float16Type as ArrowPrimitiveType>::Native::from_f32(value)
}

#[test]
fn ids_are_written_even_if_stdout_is_closed() {
    let folder = Folder::new();
    folder.file("a.csv", format!("k\n{}", (0..300_000).map(|i| format!("{i}\n")).collect::<String>()));
    let mut child = folder
        .command("unique a.csv --on k --inverse ids.csv")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(folder.text("ids.csv").lines().count(), 300_001);
    // If one of two output files cannot be written, the other one is not replaced.
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/dev/full", folder.path("full.csv")).unwrap();
        folder.file("old.csv", "old");
        folder.refused("unique a.csv --on k --inverse old.csv -o full.csv", "full.csv");
        assert_eq!(folder.text("old.csv"), "old");
    }
}

#[test]
fn hostile_sizes_are_refused_or_read_within_memory() {
    let folder = Folder::new();
    folder.file("wide.csv", format!("{}\n", (0..65_537).map(|i| format!("c{i}")).collect::<Vec<_>>().join(",")));
    folder.refused("unique wide.csv --on c7", "more than 65536 fields");
    let mut nothing = array("|u0", "(4611686018427387904,)", &[]);
    let at = nothing.windows(3).position(|bytes| bytes == b"|u0").unwrap();
    nothing[at + 1] = b'S';
    folder.file("nothing.npy", nothing);
    folder.refused("unique nothing.npy --on column_1", "its rows have no bytes");
}

#[test]
fn options_without_effect_and_duplicate_names_are_refused() {
    let folder = Folder::new();
    folder.file("a.csv", "k,k_right,isin\n1,2,3\n");
    folder.file("b.csv", "k,isin\n1,5\n");
    folder.all_refused(&[
        (
            "join a.csv b.csv --delimiter ;",
            "--delimiter is for tables of named columns: name the key by --key, or by --on",
        ),
        ("join a.csv b.csv --types k=utf8", "--types is for tables of named columns"),
        ("join a.csv b.csv --nulls-equal", "--nulls-equal is for tables of named columns"),
        ("groupby a.csv --drop-nulls", "name those of the key by --by"),
        ("groupby a.csv --delimiter ;", "--delimiter is for tables"),
        ("unique a.csv --drop-nulls", "--drop-nulls is for tables"),
        ("isin a.csv b.csv --on k", "has a column `isin` already: give the additional column another name by --name"),
        ("isin a.csv b.csv --on k,k", "--on names column `k` twice"),
        ("isin a.csv b.csv --on z", "there is no column z"),
        ("unique a.csv --on k --columns k,count --counts", "two columns of the result would be called `count`"),
        ("join a.csv b.csv --on isin --how right", "two columns of the result would be called `k_right`"),
        (
            "join a.csv b.csv --on isin --how right --columns k_right",
            "two columns of the result would be called `k_right`",
        ),
    ]);
    assert_eq!(folder.ok("isin a.csv b.csv --on k --name there"), "k,k_right,isin,there\n1,2,3,true\n");
    folder.refused("isin a.csv b.csv --on k --columns k,isin", "has a column `isin` already");
    // Columns that are not selected may share a name.
    assert_eq!(folder.ok("join a.csv b.csv --on isin --how right --columns k"), "k\n\n");
    // Right keys, whose type may differ, would be called `k_right`, which is also the name of a left column.
    assert_eq!(folder.ok("join a.csv b.csv --on k --how full --columns k_right,k"), "k_right,k\n2,1\n");
    folder.file("c.tsv", "k\tx\n1\ta,b\n");
    folder.ok("convert c.tsv d.tsv.zst");
    assert_eq!(folder.ok("convert d.tsv.zst -"), "k,x\n1,\"a,b\"\n");
}
