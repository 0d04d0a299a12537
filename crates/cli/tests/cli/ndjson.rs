//! NDJSON as input and output, and folders of files that are read as one table.

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::folder::Folder;

/// The output is the same with and without a limit.
const MEMORY: [&str; 2] = ["", " --memory 64Mi"];

const DOCUMENTS: [&str; 2] = [
    concat!(
        r#"{"text": "caf\u00e9 \ud83d\ude00", "id": 9007199254740993, "meta": {"tags": ["a", null], "n": 1.5}}"#,
        "\r\n\n",
        r#"{"id": -9223372036854775808, "text": "two", "meta": null, "ok": true}"#,
        "\n",
    ),
    concat!(
        r#"{"text": "café 😀", "id": 7, "meta": {"n": 2, "tags": []}, "ok": null}"#,
        "\n",
        r#"{"text": null, "id": 9223372036854775807}"#,
        "\n",
        r#"{"ok": false, "text": "a\n\"b\"", "id": 8, "meta": {"tags": ["c"], "n": 0.5}}"#,
    ),
];

fn lines(folder: &Folder, name: &str) -> Vec<Value> {
    let text = folder.text(name);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn documents_of_a_file_are_deduplicated_by_text() {
    let expected = [
        json!({"text": "café 😀", "id": 9007199254740993_i64, "meta": {"tags": ["a", null], "n": 1.5}}),
        json!({"text": "two", "id": i64::MIN, "ok": true}),
        json!({"id": i64::MAX}),
        json!({"text": "a\n\"b\"", "id": 8, "meta": {"tags": ["c"], "n": 0.5}, "ok": false}),
    ];
    let folder = Folder::new();
    let all = DOCUMENTS.concat();
    folder.file("a.jsonl", &all);
    folder.file("detected", format!("\u{feff}{all}"));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(all.as_bytes()).unwrap();
    folder.file("a.ndjson.gz", packed.finish().unwrap());
    for input in ["a.jsonl", "detected", "a.ndjson.gz"] {
        for memory in MEMORY {
            folder
                .ok(&format!("unique {input} --on text --columns text,id,meta,ok -o out.ndjson --device cpu{memory}"));
            assert_eq!(lines(&folder, "out.ndjson"), expected, "{input}{memory}");
        }
    }
    assert_eq!(folder.ok("unique a.jsonl --on id --columns id --device cpu").lines().nth(1), Some("9007199254740993"));
}

#[test]
fn a_folder_is_one_table() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("docs")).unwrap();
    folder.refused("unique docs --on text", "the folder has no tables");
    folder.file("docs/notes.md", "not a table");
    folder.refused("unique docs --on text", "the folder has no tables");
    folder.file("docs/b.jsonl", "{\"text\": \"x\", \"id\": 3}\n{\"text\": \"z\", \"id\": 4}\n");
    folder.file("docs/a.ndjson", "{\"text\": \"x\", \"id\": 1}\n{\"id\": 2, \"text\": \"y\"}\n");
    let expected = "{\"text\":\"x\",\"id\":1}\n{\"text\":\"y\",\"id\":2}\n{\"text\":\"z\",\"id\":4}\n";
    for memory in MEMORY {
        for input in ["docs", "docs/*.*n*"] {
            folder.ok(&format!("unique {input} --on text --columns text,id -o out.ndjson --device cpu{memory}"));
            let found = folder.text("out.ndjson");
            assert_eq!(found, expected, "{input}{memory}");
        }
    }
}

/// Files of a folder may have different fields, like the objects of one file.
#[test]
fn files_may_have_different_fields() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("docs")).unwrap();
    let parts = [
        "{\"a\":1,\"m\":{\"x\":[1]}}\n",
        "",
        "{\"b\":\"t\",\"a\":0.5,\"m\":{\"y\":true,\"x\":[null,2.5]}}\n{}\n",
        "{\"c\":null}\n{\"c\":[{\"z\":1}],\"a\":null}\n",
    ];
    for (number, part) in parts.iter().enumerate() {
        folder.file(&format!("docs/{number}.jsonl"), part);
    }
    folder.file("docs/.hidden.jsonl", "not JSON");
    folder.file("all.jsonl", parts.concat());
    for (command, memory) in [
        ("convert INPUT OUTPUT", ""),
        ("convert INPUT OUTPUT --columns c,a", ""),
        ("unique INPUT --on a --columns m,c,b,a -o OUTPUT", MEMORY[0]),
        ("unique INPUT --on a --columns m,c,b,a -o OUTPUT", MEMORY[1]),
        ("dedup INPUT --on b -o OUTPUT", MEMORY[1]),
    ] {
        let run = |input: &str| {
            let command = command.replace("INPUT", input).replace("OUTPUT", "out.ndjson");
            folder.ok(&(command + " -q" + memory));
            folder.text("out.ndjson")
        };
        let (one, several) = (run("all.jsonl"), run("docs"));
        assert!(one.lines().count() >= 3 && one == several, "{command}{memory}:\n{one}\n{several}");
    }
    folder.file("docs/4.jsonl", "{\"a\":\"text\"}\n");
    folder.refused("dedup docs --on b", "docs/4.jsonl: column a: text where lines before have numbers");
}

#[test]
fn an_output_in_the_folder_that_is_read_is_refused() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("docs")).unwrap();
    folder.file("docs/a.jsonl", "{\"k\":1}\n");
    for command in ["dedup docs --on k -o", "unique docs --on k -o", "convert docs", "unique docs --on k --inverse"] {
        folder.refused(&format!("{command} docs/out.jsonl"), "docs/out.jsonl is in the folder docs");
        folder.refused(&format!("{command} ./docs/../docs/a.jsonl"), "docs");
    }
    assert_eq!(std::fs::read_dir(folder.path("docs")).unwrap().count(), 1);
}

#[test]
fn compressed_files_have_the_same_lines() {
    let folder = Folder::new();
    let lines: String = (0..70_000).map(|i| format!("{{\"i\":{i}}}\n")).collect();
    folder.file("many.jsonl", &lines);
    folder.file("none.csv", "i\n");
    for (input, expected) in [("many.jsonl", lines.as_str()), ("none.csv", "")] {
        for name in ["out.jsonl.gz", "out.ndjson.zst"] {
            folder.ok(&format!("convert {input} {name} -q"));
            let packed = std::fs::File::open(folder.path(name)).unwrap();
            let mut text = String::new();
            match name.ends_with("gz") {
                true => flate2::read::MultiGzDecoder::new(packed).read_to_string(&mut text).unwrap(),
                false => zstd::Decoder::new(packed).unwrap().read_to_string(&mut text).unwrap(),
            };
            assert!(text == expected && compressed_len(&folder, name) > 0, "{input} {name}");
            if !expected.is_empty() {
                assert_eq!(folder.ok(&format!("unique {name} --on i --counts -o counts.csv")), "");
            }
        }
    }
}

fn compressed_len(folder: &Folder, name: &str) -> u64 {
    std::fs::metadata(folder.path(name)).unwrap().len()
}

#[cfg(feature = "parquet")]
#[test]
fn a_pattern_of_parquet_files_is_one_table() {
    let folder = Folder::new();
    for (name, rows) in [("part-1", "{\"k\":1}\n{\"k\":2}\n"), ("part-0", "{\"k\":2}\n{\"k\":3}\n")] {
        folder.file(&format!("{name}.ndjson"), rows);
        folder.ok(&format!("convert {name}.ndjson {name}.parquet"));
    }
    assert_eq!(folder.ok("unique part-*.parquet --on k --columns k --device cpu"), "k\n2\n3\n1\n");
}

#[test]
fn errors_name_the_line_and_the_column() {
    let folder = Folder::new();
    for (text, part) in [
        ("{\"k\": 1}\n{\"k\": }\n", "line 2: this is not a JSON object"),
        ("{\"k\": 1}\n\n{\"k\": 2} x\n", "line 3: this is not a JSON object"),
        ("{\"k\": 1}\n[2]\n", "line 2: this line is not an object"),
        ("{\"k\": 1}\n{\"k\": \"x\"}\n", "line 2: column k: text where lines before have numbers"),
        ("{\"k\": -1}\n{\"k\": 9223372036854775808}\n", "line 2: column k: negative numbers and integers from 2^63 on"),
        ("{\"k\": 1}\n{\"k\": 100000000000000000000}\n", "line 2: column k: an integer does not fit in 64 bits"),
        (
            "{\"o\": [{\"\\\"\": 100000000000000000000}], \"k\": 1}\n",
            "line 1: column o: an integer does not fit in 64 bits",
        ),
        ("{\"k\": 9007199254740993}\n{\"k\": 0.5}\n", "line 2: column k: doubles and integers beyond 2^53"),
        ("", "this file has no columns"),
        ("{}\n", "this file has no columns"),
    ] {
        folder.file("a.ndjson", text);
        folder.refused("unique a.ndjson --on k --device cpu", part);
    }
    folder.refused("unique a.ndjson --device cpu", "this file has no columns");
}

#[test]
fn integers_from_2_to_the_63_on_are_unsigned() {
    let folder = Folder::new();
    let text = "k\n5\n18446744073709551615\n9223372036854775808\n";
    folder.file("u64.csv", text);
    folder.ok("convert u64.csv u64.ndjson");
    for types in ["", " --types k=uint64", " --types k=utf8"] {
        assert_eq!(folder.ok(&format!("convert u64.ndjson -{types}")), text, "{types}");
    }
    folder.refused("convert u64.ndjson - --types k=int64", "column k: `18446744073709551615` is not of the type int64");
    folder.file("less.ndjson", "{\"k\":-1}\n");
    folder.refused("convert u64.ndjson less.ndjson -", "less.ndjson: column k: negative numbers");
}

/// NDJSON is processed while it is read, and CSV once it is in memory; the results are equal.
#[test]
fn ndjson_and_csv_have_the_same_rows() {
    let folder = Folder::new();
    let city = |i: usize| ["Oslo", "Bern", "Rome"][i * i % 3];
    let rows = || (0..600_usize).map(|i| (i, city(i), i as f64 / 4.0));
    folder.file(
        "t.csv",
        "i,city,v\n".to_owned() + &rows().map(|(i, c, v)| format!("{i},{c},{v:?}\n")).collect::<String>(),
    );
    let object = |(i, c, v): (usize, &str, f64)| format!("{{\"i\": {i}, \"city\": \"{c}\", \"v\": {v:?}}}\n");
    folder.file("t.ndjson", rows().map(object).collect::<String>());
    for command in [
        "unique t.FORMAT --on city --columns city,v,i --counts",
        "unique t.FORMAT --on city --counts --min-count 300 --ids ascending",
        "unique t.FORMAT --on city --inverse ids.npy",
        "groupby t.FORMAT --by city --agg count,sum:v,max:i,last:i",
        "join t.FORMAT t.FORMAT --on i=i --columns i,city,v_right",
    ] {
        let run = |format: &str| folder.ok(&(command.replace("FORMAT", format) + " --device cpu"));
        let (csv, ndjson) = (run("csv"), run("ndjson"));
        assert!(csv.lines().count() > 1 && csv == ndjson, "{command}:\n{csv}\n{ndjson}");
    }
    // `--types` applies to both formats.
    let typed =
        |format: &str| folder.ok(&format!("groupby t.{format} --by i --agg max:v --types i=utf8,v=decimal(9,2)"));
    assert_eq!(typed("csv"), typed("ndjson"));
    folder
        .refused("groupby t.ndjson --by city --agg max:v --types v=int64", "column v: `0.25` is not of the type int64");
}

#[test]
fn columns_of_objects_are_keys_and_values() {
    let folder = Folder::new();
    folder.file("pairs.jsonl", "{\"id\":7,\"v\":1}\n{\"id\":1,\"v\":2}\n");
    folder.ok("build pairs.jsonl --key id --value v -o pairs.koel");
    assert_eq!(folder.ok("lookup pairs.koel pairs.jsonl --key id"), "key,value\n7,1\n1,2\n");
    folder.refused("build pairs.jsonl -o p.koel", "--key");
}

/// Large files are parsed in several pieces by several threads.
#[test]
fn types_and_the_first_error_are_those_of_the_whole_file() {
    const ROWS: usize = 400_000;
    let folder = Folder::new();
    let text = |change: &dyn Fn(usize) -> Option<&'static str>| {
        let line = |row: usize| match change(row) {
            Some(line) => format!("{line}\n"),
            None => format!("{{\"a\":{row}}}\n"),
        };
        (0..ROWS).map(line).collect::<String>()
    };
    // Doubles, another column and blank lines occur only in the last piece.
    let last = ROWS - 5;
    folder.file(
        "late.ndjson",
        text(&|row| match row {
            _ if row < last => None,
            _ if row == last => Some(r#"{"b":"x","a":0.5}"#),
            _ => Some(" \t"),
        }),
    );
    let mut expected: String = (0..last).map(|row| format!("{row}.0,\n")).collect();
    expected.insert_str(0, "a,b\n");
    expected.push_str("0.5,x\n");
    for threads in [1, 2, 5] {
        let output = folder.command("convert late.ndjson -").env("RAYON_NUM_THREADS", threads.to_string()).output();
        assert!(output.unwrap().stdout == expected.as_bytes(), "{threads} threads");
    }
    // An error within a piece, one that contradicts earlier pieces, and two errors of which the first is reported.
    let faults: [(&str, &str, usize); 3] = [
        ("{\"a\":1", "this is not a JSON object", last),
        (r#"{"a":"x"}"#, "column a: text where lines before have numbers", last),
        (r#"{"a":123456789012345678901}"#, "column a: an integer does not fit in 64 bits", 2),
    ];
    for (line, reason, at) in faults {
        folder.file("fault.ndjson", text(&|row| (row == at || row == last + 1).then_some(line)));
        for memory in MEMORY {
            let place = format!("fault.ndjson, line {}: {reason}", at + 1);
            folder.refused(&format!("unique fault.ndjson --on a{memory}"), &place);
        }
    }
}
