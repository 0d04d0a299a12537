//! Peak memory of the process under `--memory`: at most the limit plus 60 MB, for all column types and formats.
//!
//! With `KOEL_TEST_FULL`, `peaks_of_` prints the table of shapes, formats and limits in docs/performance/limited.md:
//! `KOEL_TEST_FULL=1 cargo test --release -p koel-cli --test cli -- peaks_of_ --nocapture`.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::types::Int32Type;
use arrow_array::*;

use crate::folder::{Folder, full};

/// A table with a column `k` of distinct numbers, and other columns.
struct Shape {
    name: &'static str,
    /// The approximate number of bytes per row.
    row: usize,
    columns: fn(std::ops::Range<usize>) -> Vec<ArrayRef>,
}

/// Pseudo-random numbers.
fn random(i: usize) -> usize {
    (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d_1ce4_e5b9) as usize >> 8
}

fn text(i: usize, length: usize) -> String {
    let word = |i: usize| format!("{:014x}", random(i));
    let mut text = String::with_capacity(length + 14);
    (0..).map(|at| word(i + at * 7919)).take_while(|_| length > 0).find(|word| {
        text.push_str(word);
        text.len() >= length
    });
    text.truncate(length);
    text
}

fn numbers(rows: std::ops::Range<usize>, of: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.map(|row| random(row * 1009 + of) as i64)))
}

fn texts(rows: std::ops::Range<usize>, length: fn(usize) -> usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.map(|row| text(row, length(row)))))
}

fn dictionary(rows: std::ops::Range<usize>, values: usize, length: usize) -> ArrayRef {
    let keys = Int32Array::from_iter_values(rows.map(|row| (random(row) % values) as i32));
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..values).map(|i| text(i, length))));
    Arc::new(DictionaryArray::<Int32Type>::new(keys, values))
}

fn lists(rows: std::ops::Range<usize>, length: usize) -> ArrayRef {
    let mut lists = ListBuilder::new(Int64Builder::new());
    for row in rows {
        lists.append_value((0..random(row) % (2 * length)).map(|i| Some(random(row + i) as i64)));
    }
    Arc::new(lists.finish())
}

fn structs(columns: Vec<ArrayRef>) -> ArrayRef {
    let named = columns.into_iter().enumerate().map(|(i, column)| (format!("f{i}"), column));
    let named: Vec<_> = named.map(|(name, column)| (Arc::new(field(&name, &column)), column)).collect();
    Arc::new(StructArray::from(named))
}

fn field(name: &str, column: &ArrayRef) -> arrow_schema::Field {
    arrow_schema::Field::new(name, column.data_type().clone(), true)
}

const SHAPES: [Shape; 15] = [
    Shape { name: "a number", row: 16, columns: |rows| vec![numbers(rows, 1)] },
    Shape { name: "15 numbers", row: 128, columns: |rows| (0..15).map(|of| numbers(rows.clone(), of)).collect() },
    Shape { name: "200 numbers", row: 1_608, columns: |rows| (0..200).map(|of| numbers(rows.clone(), of)).collect() },
    Shape { name: "400 numbers", row: 3_208, columns: |rows| (0..400).map(|of| numbers(rows.clone(), of)).collect() },
    Shape {
        name: "300 short texts",
        row: 4_208,
        columns: |rows| (0..300).map(|_| texts(rows.clone(), |row| row % 20)).collect(),
    },
    Shape { name: "texts of 100 bytes", row: 112, columns: |rows| vec![texts(rows, |_| 100)] },
    Shape { name: "texts of 10 kB", row: 10_012, columns: |rows| vec![texts(rows, |_| 10_000)] },
    Shape { name: "texts of 1 MB", row: 1 << 20, columns: |rows| vec![texts(rows, |_| 1 << 20)] },
    Shape {
        name: "one text of 1 MB in 10,000",
        row: 140,
        columns: |rows| vec![texts(rows, |row| if row % 10_000 == 77 { 1 << 20 } else { 24 })],
    },
    Shape { name: "a dictionary of short texts", row: 50, columns: |rows| vec![dictionary(rows, 1000, 38)] },
    Shape { name: "a dictionary of texts of 1 MB", row: 1 << 20, columns: |rows| vec![dictionary(rows, 20, 1 << 20)] },
    Shape { name: "lists of 50 numbers", row: 412, columns: |rows| vec![lists(rows, 50)] },
    Shape { name: "lists of 50,000 numbers", row: 400_012, columns: |rows| vec![lists(rows, 50_000)] },
    Shape {
        name: "structs of texts and lists",
        row: 250,
        columns: |rows| vec![structs(vec![numbers(rows.clone(), 1), texts(rows.clone(), |_| 100), lists(rows, 15)])],
    },
    Shape {
        name: "bits and decimals with nulls",
        row: 26,
        columns: |rows| {
            let there = |row: usize| !random(row).is_multiple_of(3);
            let bits = BooleanArray::from_iter(rows.clone().map(|row| there(row).then_some(row % 2 == 0)));
            let decimals = rows.map(|row| there(row + 1).then_some(random(row) as i128));
            vec![Arc::new(bits), Arc::new(Decimal128Array::from_iter(decimals))]
        },
    },
];

/// Writes a table of about `bytes` bytes.
fn write(folder: &Folder, shape: &Shape, bytes: usize) {
    let rows = bytes / shape.row;
    let at_once = ((1 << 20) / shape.row).clamp(1, 1 << 16);
    let mut writer = None;
    for start in (0..rows).step_by(at_once) {
        let part = start..rows.min(start + at_once);
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(part.clone().map(|row| random(row) as i64)));
        let others = (shape.columns)(part).into_iter().enumerate().map(|(i, column)| (format!("c{i}"), column, true));
        let batch = RecordBatch::try_from_iter_with_nullable([("k".to_owned(), keys, true)].into_iter().chain(others));
        let batch = batch.expect("columns of one length");
        let file = || File::create(folder.path("t.arrow")).expect("the temporary folder is usable");
        let writer = writer.get_or_insert_with(|| {
            arrow_ipc::writer::FileWriter::try_new(file(), &batch.schema()).expect("the temporary folder is usable")
        });
        writer.write(&batch).expect("the temporary folder is usable");
    }
    writer.expect("some rows").finish().expect("the temporary folder is usable");
}

/// The peak resident memory of a process, in bytes. Pages of its executable, of which unoptimised builds have many, are
/// not counted.
fn peak(child: &mut Child) -> u64 {
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().expect("a child").is_none() {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            kib.unwrap_or(0) << 10
        };
        most = most.max(bytes("VmHWM:").saturating_sub(bytes("RssFile:")));
        std::thread::sleep(Duration::from_millis(1));
    }
    most
}

/// The peak memory of a join of a table with itself, in bytes; `None` if the format does not support its types.
fn measured(folder: &Folder, format: &str, limit: u64) -> Option<u64> {
    let arguments = format!("join t.arrow t.arrow --on k -o out.{format} --memory {limit} --device cpu --threads 2 -q");
    let mut command = folder.command(&arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a command");
    let most = peak(&mut child);
    let output = child.wait_with_output().expect("a child");
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Some(most),
        _ if said.contains("is of type") || said.contains("has nulls") => None,
        _ => panic!("{arguments}: {said}"),
    }
}

const MB: u64 = 1_000_000;

#[test]
#[cfg(target_os = "linux")]
fn memory_stays_below_the_limit_plus_60_mb() {
    check(&[("texts of 1 MB", "parquet"), ("a dictionary of texts of 1 MB", "arrow")]);
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "slow: further types and formats; CI runs it"]
fn columns_of_any_type_stay_below_the_limit_plus_60_mb() {
    check(&[
        ("a number", "npy"),
        ("400 numbers", "parquet"),
        ("one text of 1 MB in 10,000", "csv.gz"),
        ("structs of texts and lists", "arrow"),
    ]);
}

#[cfg(target_os = "linux")]
fn check(shapes: &[(&str, &str)]) {
    let folder = Folder::new();
    let limit = 64 << 20;
    // More rows than fit, so that both tables and the result are spilled.
    for &(name, format) in shapes {
        let shape = SHAPES.iter().find(|shape| shape.name == name).expect("a shape");
        write(&folder, shape, 28 << 20);
        let most = measured(&folder, format, limit).expect("types of the format");
        assert!(most <= limit + 60 * MB, "{name} to .{format}: {} MB of {} MB", most / MB, limit / MB);
    }
}

/// A file of 4 MB with one batch, which takes 250 MB once its dictionary is expanded.
#[test]
#[cfg(target_os = "linux")]
fn dictionaries_of_long_texts_stay_below_the_limit_plus_60_mb() {
    let (folder, limit) = (Folder::new(), 64 << 20);
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..240));
    let batch = RecordBatch::try_from_iter([("k", keys), ("t", dictionary(0..240, 4, 1 << 20))]);
    let batch = batch.expect("columns of one length");
    let file = File::create(folder.path("t.arrow")).expect("the temporary folder is usable");
    let writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema());
    let mut writer = writer.expect("the temporary folder is usable");
    writer.write(&batch).and_then(|()| writer.finish()).expect("the temporary folder is usable");
    let most = measured(&folder, "parquet", limit).expect("types of the format");
    assert!(most <= limit + 60 * MB, "{} MB of {} MB", most / MB, limit / MB);
}

/// Compressed files of a few kB that expand to one line of 300 MB: one text, or empty fields.
#[test]
#[cfg(target_os = "linux")]
fn endless_lines_stay_below_the_limit_plus_60_mb() {
    let (folder, limit) = (Folder::new(), 64 << 20);
    for byte in [b'x', b','] {
        let text = b"a,b\n1,2\n".chain(std::io::repeat(byte).take(300 * MB));
        folder.file("line.csv.zst", zstd::encode_all(text, 1).expect("memory"));
        for columns in ["--on a", ""] {
            let arguments = format!("unique line.csv.zst {columns} --memory {limit} --device cpu --threads 2");
            let mut command = folder.command(&arguments);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a command");
            let most = peak(&mut child);
            let output = child.wait_with_output().expect("a child");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(2) && said.contains("longer than 16 MiB"), "{arguments}: {said}");
            assert!(most <= limit + 60 * MB, "{arguments}: {} MB of {} MB", most / MB, limit / MB);
        }
    }
}

/// Prints the table in docs/performance/limited.md.
#[test]
#[cfg(target_os = "linux")]
fn peaks_of_all_shapes_and_formats() {
    if !full() {
        return;
    }
    const FORMATS: [&str; 5] = ["parquet", "arrow", "csv", "csv.zst", "npy"];
    let folder = Folder::new();
    let mut table =
        format!("| columns | {} |\n|---|{}\n", FORMATS.map(|of| format!(".{of}")).join(" | "), "---|".repeat(5));
    let mut above = Vec::new();
    for shape in &SHAPES {
        write(&folder, shape, 96 << 20);
        let mut cells = Vec::new();
        for format in FORMATS {
            let peaks = [64 << 20, 128 << 20].map(|limit| (limit, measured(&folder, format, limit)));
            let shown = peaks.map(|(_, most)| most.map_or("-".into(), |most| (most / MB).to_string())).join(", ");
            above.extend(peaks.into_iter().filter_map(|(limit, most)| {
                most.filter(|&most| most > limit + 60 * MB).map(|most| (shape.name, format, limit, most / MB))
            }));
            cells.push(if shown == "-, -" { "-".into() } else { shown });
        }
        table += &format!("| {} | {} |\n", shape.name, cells.join(" | "));
        let _ = writeln!(std::io::stderr(), "{}", table.lines().last().unwrap_or_default());
    }
    println!("{table}");
    assert!(above.is_empty(), "above the limit and 60 MB: {above:?}");
}

/// A few shapes with 1 GiB, the largest documented limit; each takes minutes.
#[test]
#[cfg(target_os = "linux")]
fn peaks_of_large_tables() {
    if !full() {
        return;
    }
    let (folder, limit) = (Folder::new(), 1 << 30);
    for name in ["lists of 50,000 numbers", "400 numbers", "texts of 1 MB", "15 numbers"] {
        let shape = SHAPES.iter().find(|shape| shape.name == name).expect("a shape");
        write(&folder, shape, 1280 << 20);
        for format in ["parquet", "arrow"] {
            let most = measured(&folder, format, limit).expect("types of the format");
            let _ = writeln!(std::io::stderr(), "{name} to .{format}: {} MB", most / MB);
            assert!(most <= limit + 60 * MB, "{name} to .{format}: {} MB of {} MB", most / MB, limit / MB);
        }
    }
}
