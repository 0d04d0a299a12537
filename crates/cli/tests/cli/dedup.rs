//! `koel dedup`: files, limits, threads, options and errors.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::folder::{Folder, devices, stderr};

/// Documents with exact duplicates, duplicates that differ in case and white space, and ones with one more word.
fn documents() -> Vec<Value> {
    let words: Vec<String> = (0..4000).map(|i| format!("w{}", i * 7919 % 1009)).collect();
    let text = |number: usize| words[number * 37 % 3900..][..60].join(" ");
    let mut rows: Vec<Value> = (0..80).map(|id| json!({"id": id, "text": text(id)})).collect();
    for id in 0..40 {
        rows.push(json!({"id": 100 + id, "text": text(id)}));
        rows.push(json!({"id": 200 + id, "text": text(id).to_uppercase().replace(' ', "  ")}));
        rows.push(json!({"id": 300 + id, "text": format!("{} more", text(id))}));
    }
    rows.extend([
        json!({"id": 400}),
        json!({"id": 401, "text": ""}),
        json!({"id": 402}),
        json!({"id": 403, "text": ""}),
    ]);
    rows
}

fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

fn ids(folder: &Folder, name: &str) -> Vec<i64> {
    let text = folder.text(name);
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_i64().unwrap()).collect()
}

#[test]
fn files_limits_threads_and_devices_do_not_change_the_output() {
    let folder = Folder::new();
    let rows = documents();
    folder.file("all.jsonl", lines(&rows));
    let mut packed = zstd::Encoder::new(Vec::new(), 1).unwrap();
    packed.write_all(lines(&rows[..100]).as_bytes()).unwrap();
    folder.file("part-1.jsonl.zst", packed.finish().unwrap());
    folder.file("part-2.jsonl", lines(&rows[100..101]));
    folder.file("part-3.jsonl", lines(&rows[101..]));
    folder.ok("convert all.jsonl all.parquet");
    let least: Vec<i64> = (0..80).chain([400, 401, 402]).collect();
    for (options, duplicates) in [
        ("", 41),
        (" --normalize case,whitespace", 81),
        (" --near", 41 + 40),
        (" --near --normalize case --bands 20 --seed 3", 121),
    ] {
        let all = folder.json(&format!("dedup all.jsonl --on text -o out.jsonl --json --device cpu{options}"));
        assert_eq!((all["rows"].as_u64(), all["duplicates"].as_u64()), (Some(204), Some(duplicates)), "{options}");
        let (expected, kept) = (folder.bytes("out.jsonl"), ids(&folder, "out.jsonl"));
        assert_eq!(kept.len() as u64, 204 - duplicates);
        assert!(duplicates < 121 || kept == least, "{options}");
        let mut others: Vec<String> = ["--memory 64Mi", "--threads 1", "--threads 8"].map(String::from).into();
        others.extend(devices().iter().map(|device| format!("--device {device}")));
        for other in others {
            for input in ["all.jsonl", "part-*", "all.parquet"] {
                folder.ok(&format!("dedup {input} --on text -o again.jsonl {other}{options}"));
                assert!(folder.bytes("again.jsonl") == expected, "{input} {other}{options}");
            }
        }
    }
}

#[test]
fn stdin_is_read_once() {
    let folder = Folder::new();
    let rows = lines(&documents());
    folder.file("all.jsonl", &rows);
    folder.ok("dedup all.jsonl --on text -o expected.jsonl");
    for memory in ["", " --memory 64Mi"] {
        let mut child = folder
            .command(&format!("dedup - --on text -o out.jsonl{memory}"))
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(rows.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(folder.bytes("out.jsonl"), folder.bytes("expected.jsonl"));
    }
}

#[test]
fn clusters_are_the_rows_that_are_kept() {
    let folder = Folder::new();
    folder.file("a.csv", "text,n\nfig,1\n7,2\nfig,3\n,4\n7,5\n,6\n");
    let expected = "text,n,first\nfig,1,0\n7,2,1\nfig,3,0\n,4,3\n7,5,1\n,6,5\n";
    for options in ["", " --near", " --memory 64Mi"] {
        assert_eq!(folder.ok(&format!("dedup a.csv --on text --clusters first{options}")), expected, "{options}");
    }
    assert_eq!(folder.ok("dedup a.csv --on text"), "text,n\nfig,1\n7,2\n,4\n,6\n");
    // Text that looks like a number stays text in every output format.
    folder.file("n.csv", "text,n\n7,1\n07,2\n7,3\n");
    folder.ok("dedup n.csv --on text -o n.parquet");
    assert_eq!(folder.ok("convert n.parquet -"), "text,n\n7,1\n07,2\n");
}

#[test]
fn clusters_need_no_temporary_files_without_a_limit() {
    let folder = Folder::new();
    let text = |row: usize| format!("{{\"text\":\"{:01000}\"}}\n", row % 20_000);
    folder.file("a.jsonl", (0..30_000).map(text).collect::<String>());
    let command = "dedup a.jsonl --on text --clusters first --json -o";
    let run = |arguments: &str, temporary: &str| {
        let mut command = folder.command(arguments);
        let output = command.env("TMPDIR", folder.path(temporary)).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(run(&format!("{command} all.csv"), "missing")["spilled_bytes"], 0);
    let limited = run(&format!("{command} limited.csv --memory 64Mi"), ".");
    assert!(limited["spilled_bytes"].as_u64() > Some(20_000_000), "{limited}");
    assert!(folder.bytes("all.csv") == folder.bytes("limited.csv"));
}

#[test]
fn the_help_has_the_limit_among_the_options() {
    let help = Folder::new().ok("dedup --help");
    let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}:\n{help}"));
    assert!(place("--memory") < place("Near-duplicates:") && !help.contains("Columns:"), "{help}");
}

#[test]
fn lines_and_paragraphs_are_removed() {
    let folder = Folder::new();
    let rows = [
        json!({"id": 0, "text": "Menu\n\nOne fig.\n\nMenu"}),
        json!({"id": 1, "text": "MENU\n\nTwo\nlines\n\nMenu\nOne fig."}),
        json!({"id": 2, "text": "Menu\n"}),
    ];
    folder.file("a.jsonl", lines(&rows));
    for (options, expected) in [
        ("--by line", vec![(0, "Menu\n\nOne fig.\n\n"), (1, "MENU\n\nTwo\nlines\n\n")]),
        ("--by paragraph --normalize case", vec![(0, "Menu\n\nOne fig.\n\n"), (1, "Two\nlines\n\nMenu\nOne fig.")]),
    ] {
        let expected: Vec<Value> = expected.iter().map(|(id, text)| json!({"id": id, "text": text})).collect();
        for memory in ["", " --memory 64Mi"] {
            folder.ok(&format!("dedup a.jsonl --on text {options}{memory} -o out.jsonl"));
            assert_eq!(folder.text("out.jsonl"), lines(&expected), "{options}");
        }
    }
}

#[test]
fn mistakes_are_named() {
    let folder = Folder::new();
    folder.file("a.jsonl", lines(&documents()));
    folder.all_refused(&[
        ("dedup a.jsonl", "--on"),
        ("dedup a.jsonl --on body", "body"),
        ("dedup a.jsonl --on id", "Int64"),
        ("dedup a.jsonl --on text --by line --near", "--near is for documents"),
        ("dedup a.jsonl --on text --by line --clusters c", "--clusters is for documents"),
        ("dedup a.jsonl --on text --clusters id", "give another name"),
        ("dedup a.jsonl --on text --normalize nfd", "nfd"),
        ("dedup a.jsonl --on text --ngram 3", "--near"),
        ("dedup a.jsonl --on text --near --threshold 1.5", "threshold 1.5"),
        ("dedup a.jsonl --on text --near --bands 129", "bands 129"),
        ("dedup a.jsonl --on text --json", "--output"),
        ("dedup a.jsonl --on text -o a.jsonl", "a.jsonl"),
        ("dedup a.jsonl --on text --delimiter ;", "--delimiter"),
        ("dedup missing-*.jsonl --on text", "missing-*"),
    ]);
}
