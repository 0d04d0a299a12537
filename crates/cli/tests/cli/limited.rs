//! `--memory`: inputs beyond the limit give the same bytes as without it, and failed runs leave no files.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::folder::{Folder, full, stderr};

/// With this number of rows, two tables take more than half of the smallest limit.
const ROWS: u64 = 800_000;

/// Writes two CSV tables with these numbers of rows: integers with gaps and duplicates, text, nulls and doubles.
fn texts(left_rows: u64, right_rows: u64) -> Folder {
    let folder = Folder::new();
    let left = |i: u64| match i % 10 {
        0 => format!(",text {},{i}\n", i % 300),
        1..=4 => format!("77,text {},{}.25\n", i % 300, i % 1000),
        _ => format!("{},text {},{}.1\n", i * 7919 % (right_rows + 1000), i % 300, i % 1000),
    };
    let right = |i: u64| format!("{},{i},{}\n", i * 31 % right_rows, ["red", "green", "", "blue"][i as usize % 4]);
    folder.file("left.csv", "k,t,v\n".to_owned() + &(0..left_rows).map(left).collect::<String>());
    folder.file("right.csv", "k,c,d\n".to_owned() + &(0..right_rows).map(right).collect::<String>());
    folder
}

/// Writes the same tables as CSV and Parquet.
pub(crate) fn tables(left_rows: u64, right_rows: u64) -> Folder {
    let folder = texts(left_rows, right_rows);
    for name in ["left", "right"] {
        folder.ok(&format!("convert {name}.csv {name}.parquet"));
    }
    folder
}

/// Runs a command with and without a limit, compares the outputs, and returns the summary of the limited run.
fn both(folder: &Folder, arguments: &str, output: &str) -> serde_json::Value {
    folder.ok(&format!("{arguments} -o free.{output} --device cpu -q"));
    let said = folder.json(&format!("{arguments} -o limited.{output} --device cpu --memory 64Mi --json"));
    let read = |name: &str| folder.bytes(&format!("{name}.{output}"));
    assert!(read("free") == read("limited"), "{arguments} to .{output}");
    said
}

/// Runs commands whose rows do not fit within the limit.
fn spilled(folder: &Folder, all: &[(&str, &str)]) {
    for (arguments, output) in all {
        let said = both(folder, arguments, output);
        assert!(said["spilled_bytes"].as_u64() > Some(1 << 20), "{arguments}: {said}");
        assert_eq!(said["memory"], 64 << 20);
    }
}

#[test]
fn inputs_beyond_the_limit_give_the_same_bytes() {
    let folder = tables(ROWS / 2, ROWS);
    spilled(
        &folder,
        &[
            ("join left.parquet right.csv --on k", "parquet"),
            ("groupby right.csv --by c,d --agg count,sum:k,mean:k", "parquet"),
        ],
    );
    // One side fits, so no temporary files are written.
    let arguments = "join right.parquet left.parquet --on k --columns k,v,c";
    let said = both(&folder, arguments, "csv");
    assert!(said["spilled_bytes"].is_u64(), "{arguments}: {said}");
}

#[test]
#[ignore = "slow: further kinds of join, formats, and ids of rows; CI runs it"]
fn every_command_gives_the_same_bytes_under_a_limit() {
    let folder = tables(ROWS / 2, ROWS);
    spilled(
        &folder,
        &[
            ("join left.parquet right.parquet --on k", "parquet"),
            ("join left.csv right.csv --on k --how full", "csv.gz"),
            ("join left.parquet right.csv --on k=c --how right", "arrow"),
            ("join left.parquet right.parquet --on k --how anti --nulls-equal", "csv"),
            ("unique right.parquet --on k,c --columns d,k --counts --ids ascending", "parquet"),
        ],
    );
    for options in ["", "--ids ascending --drop-nulls"] {
        let arguments = format!("unique left.parquet --on k,v {options} -q");
        folder.ok(&format!("{arguments} --inverse free-ids.parquet -o free-keys.parquet"));
        folder.ok(&format!("{arguments} --inverse ids.parquet -o keys.parquet --memory 64Mi"));
        for name in ["ids", "keys"] {
            let read = |name: String| folder.bytes(&name);
            assert!(read(format!("{name}.parquet")) == read(format!("free-{name}.parquet")), "{arguments}: {name}");
        }
    }
    for arguments in [
        "groupby left.parquet --by t --agg sum:v,min:t,nunique:k --ids ascending",
        "unique left.parquet --on t --min-count 2000 --drop-nulls",
    ] {
        let said = both(&folder, arguments, "csv");
        assert!(said["spilled_bytes"].is_u64(), "{arguments}: {said}");
    }
}

/// The runs differ in the limit, the number of threads and the schedule.
#[test]
#[ignore = "slow: eight threads and a full join; CI runs it"]
fn files_depend_only_on_the_rows() {
    let folder = tables(ROWS / 2, ROWS);
    let join = "join left.parquet right.parquet --on k --how full --device cpu -q";
    let formats = ["parquet", "arrow", "arrows", "csv", "csv.gz", "csv.zst"];
    for output in if full() { &formats[..] } else { &formats[..1] } {
        folder.ok(&format!("{join} -o free.{output}"));
        let read = |name: &str| folder.bytes(&format!("{name}.{output}"));
        let free = read("free");
        for run in if full() { 0..20 } else { 7..8 } {
            let options = format!("--threads {} --memory {}", 1 + run % 8, ["64Mi", "100M", "300M"][run % 3]);
            folder.ok(&format!("{join} -o limited.{output} {options}"));
            assert!(read("limited") == free, "{options} to .{output}, run {run}");
        }
    }
}

/// A random DNA sequence.
fn letters(count: u64) -> String {
    let letter = |i: u64| {
        let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ['A', 'C', 'G', 'T'][((mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 62) as usize]
    };
    (0..count).map(letter).collect()
}

#[test]
fn keys_without_names_are_counted_under_a_limit() {
    let folder = Folder::new();
    let letters = letters(900_000);
    folder.file("genome.fa", ">g\n".to_owned() + &letters + "\n");
    folder.file("signed.csv", (0..5000).map(|i| format!("{}\n", i % 700 - 300)).collect::<String>());
    for (arguments, output) in [
        ("unique genome.fa --kmer 31 --canonical-kmers --counts --min-count 1 --letters", "tsv"),
        ("unique genome.fa --kmer 11 --counts --min-count 2 --ids ascending", "npy"),
        ("unique signed.csv signed.csv --counts --ids ascending", "csv"),
        ("unique signed.csv", "npy"),
    ] {
        let said = both(&folder, arguments, output);
        assert_eq!(said["spilled_bytes"].as_u64() > Some(0), arguments.contains("genome"), "{arguments}: {said}");
    }
    for arguments in ["unique signed.csv", "unique genome.fa --kmer 11 --letters"] {
        folder.ok(&format!("{arguments} --inverse free-ids.npy -o free.csv -q"));
        folder.ok(&format!("{arguments} --inverse ids.npy -o keys.csv -q --memory 64Mi"));
        for (limited, free) in [("ids.npy", "free-ids.npy"), ("keys.csv", "free.csv")] {
            assert!(folder.bytes(limited) == folder.bytes(free), "{arguments}: {limited}");
        }
    }
}

/// Runs joins and groups of unnamed columns that do not fit within the limit.
fn without_names(all: &[(&str, &str)]) {
    let folder = Folder::new();
    let letters = letters(700_000);
    folder.file("genome.fa", ">g\n".to_owned() + &letters + "\n");
    let rows = |rows: u64, step: u64| (0..rows).map(|i| format!("{},{i}\n", i * step % 700_001)).collect::<String>();
    folder.file("left.csv", rows(900_000, 7919));
    folder.file("right.csv", rows(700_000, 31));
    for (arguments, output) in all {
        let said = both(&folder, arguments, output);
        assert!(said["spilled_bytes"].as_u64() > Some(0), "{arguments}: {said}");
    }
}

#[test]
fn unnamed_columns_are_joined_and_grouped_under_a_limit() {
    without_names(&[
        ("join left.csv right.csv --how full", "csv"),
        ("groupby left.csv --agg sum,count,min,max", "npy"),
    ]);
}

#[test]
#[ignore = "slow: further kinds of join, aggregates and k-mers; CI runs it"]
fn every_join_and_group_of_unnamed_columns_works_under_a_limit() {
    without_names(&[
        ("join left.csv right.csv --how inner --rows", "npy"),
        ("join left.csv right.csv --how anti", "csv"),
        ("groupby left.csv --agg mean --min-count 2", "csv"),
        ("groupby genome.fa --kmer 12 --agg count,min --ids ascending --letters", "csv"),
    ]);
}

#[test]
#[ignore = "slow: a million pairs; koel tests builds that spill with fewer; CI runs it"]
fn tables_are_built_under_a_limit_to_the_same_bytes() {
    let folder = Folder::new();
    folder.million_pairs("pairs.csv");
    let far = |i: u64| format!("{},{}\n", (i * i) << 20, i as i64 - 5000);
    folder.file("far.csv", (0..20_000).map(far).collect::<String>());
    folder.file("genome.fa", ">g\n".to_owned() + &"ACGTTGCAAGCTAGGATC".repeat(300) + "\n");
    for arguments in [
        "build pairs.csv",
        "build far.csv --scheme signpost",
        "build far.csv far.csv --duplicates last --values i64 --load 0.7",
        "build genome.fa --kmer 9 --duplicates first --shards 5",
    ] {
        let shards = if arguments.contains("--shards") { "" } else { "--shards 64" };
        folder.ok(&format!("{arguments} {shards} -o free.koel --device cpu -q"));
        let said = folder.ok(&format!("{arguments} -o limited.koel --device cpu --memory 64Mi"));
        assert!(folder.bytes("free.koel") == folder.bytes("limited.koel"), "{arguments}");
        let digest = folder.json("info free.koel --json")["digest"].as_str().unwrap().to_owned();
        assert!(said.contains(&digest) && said.contains("shards"), "{said}");
    }
    // Several chunks of queries.
    folder.ok("build pairs.csv -o t.koel --shards 3 --device cpu -q");
    let expected = folder.ok("lookup t.koel pairs.csv --device cpu");
    assert!(folder.ok("lookup t.koel pairs.csv --device cpu,cpu --memory 64Mi") == expected);
    folder.file("one.csv", "5,1\n7,2\n");
    folder.ok("build one.csv -o one.koel --device cpu -q");
    folder.refused("lookup one.koel one.csv --memory 64Mi", "--memory is for maps in shards");
    let both = |arguments: &str| {
        let said = |more: &str| stderr(&folder.koel(&format!("{arguments} -o no.koel --device cpu {more}")));
        assert_eq!(said("--memory 64Mi"), said("--shards 64"), "{arguments}");
        assert!(!folder.path("no.koel").exists());
    };
    both("build far.csv pairs.csv far.csv");
    folder.file("signed.csv", "-3,1\n-3,2\n5,1\n5,2\n");
    both("build signed.csv");
    folder.refused("build pairs.csv -o no.koel --shards 1 --load 0.01 --memory 64Mi --device cpu", "give --shards");
    folder.refused("build pairs.csv -o no.koel --table set --memory 1G", "--memory is for --table map");
}

#[test]
#[ignore = "slow: compressed input and stdin, also read without a limit elsewhere; CI runs it"]
fn compressed_files_and_stdin_are_read_under_a_limit() {
    let folder = texts(ROWS / 2, ROWS);
    folder.ok("convert left.csv left.csv.gz");
    let expected = folder.ok("join left.csv right.csv --on k --how semi --device cpu");
    let found = folder.ok("join left.csv.gz right.csv --on k --how semi --device cpu --memory 64Mi");
    assert!(found == expected);
    let input = fs::File::open(folder.path("right.csv")).unwrap();
    let mut command = folder.command("join left.csv - --on k --how semi --device cpu --memory 64Mi");
    let output = command.stdin(input).output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout) == expected, "{}", stderr(&output));
}

#[test]
fn results_without_values_and_errors_are_the_same_under_a_limit() {
    let folder = Folder::new();
    folder.file("a.csv", "k,v\n1,2\n,3\n");
    folder.file("b.csv", "k,w\n,5\n");
    folder.refused("join a.csv b.csv --on k --memory 1M", "64Mi");
    folder.refused("join a.csv b.csv --memory 1G --load 0.5", "unexpected argument '--load'");
    // A key column without values takes the type of the other side's key, and a sum over no values is null.
    for arguments in [
        "join a.csv b.csv --on k --how full --nulls-equal",
        "join b.csv a.csv --on k --how left",
        "groupby b.csv --by w --agg sum:k,mean:k,first:k,min:k",
        "groupby b.csv --by k --agg sum:w",
        "groupby b.csv --by w --agg sum:k --types k=float64",
    ] {
        let expected = folder.ok(arguments);
        assert_eq!(folder.ok(&format!("{arguments} --memory 64Mi")), expected, "{arguments}");
    }
    folder.file("c.csv", "k\nx\n");
    let said = |arguments: &str| stderr(&folder.koel(arguments));
    assert_eq!(said("join a.csv c.csv --on k --memory 64Mi"), said("join a.csv c.csv --on k"));
    assert_eq!(said("groupby c.csv --by k --agg sum:k --memory 64Mi"), said("groupby c.csv --by k --agg sum:k"));
}

#[test]
fn errors_name_folders_that_cannot_be_written() {
    let folder = Folder::new();
    folder.file("a.csv", (0..1_500_000).map(|i| format!("{i}\n")).collect::<String>());
    folder.ok("convert a.csv a.parquet --header no");
    let join = "join a.parquet a.parquet --on column_1 --memory 64Mi --device cpu -q";
    for temporary in ["missing", "a.csv"] {
        let mut command = folder.command(&format!("{join} -o out.parquet"));
        let output = command.env("TMPDIR", folder.path(temporary)).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with("koel: temporary files in ") && said.contains("set TMPDIR"), "{said}");
    }
    let mut command = folder.command(&format!("{join} -o out.parquet"));
    assert_eq!(command.env("TMPDIR", folder.path("")).output().unwrap().status.code(), Some(0));
    fs::remove_file(folder.path("out.parquet")).unwrap();
    folder.refused(&format!("{join} -o missing/out.parquet"), "no such folder");
    let left = fs::read_dir(folder.path("")).unwrap().count();
    assert_eq!(left, 2, "temporary files were not removed");
}

/// A join with an empty side needs no rows of the other side, but must still detect that its file is damaged.
#[test]
fn damage_after_the_last_needed_row_is_refused_with_a_limit_and_without() {
    let folder = Folder::new();
    folder.file("empty.csv", "k,v\n");
    let mut rows = "k,w\n".to_owned() + &(0..50_000).map(|i| format!("{i},{i}\n")).collect::<String>();
    folder.file("good.csv", &rows);
    rows.push_str("7,8,9\n");
    folder.file("damaged.csv", &rows);
    folder.ok("convert good.csv damaged.parquet");
    let mut parquet = folder.bytes("damaged.parquet");
    // The header of the first page, which follows the magic bytes.
    parquet[4..24].fill(0xff);
    folder.file("damaged.parquet", parquet);
    folder.ok("convert good.csv damaged.csv.gz");
    let mut gzip = folder.bytes("damaged.csv.gz");
    // The checksum, which precedes the length.
    let checksum = gzip.len() - 5;
    gzip[checksum] ^= 1;
    folder.file("damaged.csv.gz", gzip);
    folder.ok("convert good.csv damaged.arrows");
    let stream = folder.bytes("damaged.arrows");
    folder.file("damaged.arrows", &stream[..stream.len() - 1000]);
    folder.ok("convert good.csv damaged.ndjson");
    folder.file("damaged.ndjson", folder.text("damaged.ndjson") + "{\"k\":");
    for (damaged, part) in [
        ("damaged.csv", "damaged.csv, line 50002: 3 fields"),
        ("damaged.parquet", "damaged.parquet: "),
        ("damaged.csv.gz", "damaged.csv.gz: its gzip data are damaged"),
        ("damaged.arrows", "damaged.arrows: this Arrow file is damaged"),
        ("damaged.ndjson", "damaged.ndjson, line 50001: "),
    ] {
        for how in ["inner", "left", "semi", "anti"] {
            for memory in ["", "--memory 64Mi"] {
                let options = format!("--on k --how {how} --device cpu {memory}");
                folder.refused(&format!("join empty.csv {damaged} {options}"), part);
                // Inner and semi joins return no rows here, but must still read the left side to its end.
                folder.refused(&format!("join {damaged} empty.csv {options} -o out.csv"), part);
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn full_disks_and_signals_leave_no_files() {
    let folder = tables(ROWS / 2, ROWS);
    fs::create_dir(folder.path("temporary")).unwrap();
    let is_clean = || {
        let names = |path| fs::read_dir(folder.path(path)).unwrap().map(|entry| entry.unwrap().file_name());
        let new: Vec<_> = names("").filter(|name| name.to_string_lossy().contains("out")).collect();
        assert!(names("temporary").count() == 0 && new.is_empty(), "{new:?}");
    };
    let arguments = "join left.parquet right.parquet --on k -o out.parquet --device cpu --memory 64Mi";
    // No file may grow beyond 4 MB.
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("trap '' XFSZ; ulimit -f 8000; exec \"$0\" \"$@\"").arg(crate::PROGRAM);
    shell.args(arguments.split_whitespace()).current_dir(folder.path("")).stdin(Stdio::null());
    let output = shell.env("TMPDIR", folder.path("temporary")).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("koel: temporary files in ") && said.contains("TMPDIR"), "{said}");
    is_clean();
    for kill in (0..50).step_by(if full() { 1 } else { 5 }) {
        let mut command = folder.command(arguments);
        let command = command.env("TMPDIR", folder.path("temporary")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(7 * kill));
        let signal = ["-INT", "-TERM", "-KILL"][kill as usize % 3];
        let sent = Command::new("kill").arg(signal).arg(child.id().to_string()).stderr(Stdio::null()).status();
        assert!(sent.is_ok());
        child.wait().unwrap();
        // On a fast machine the command may have completed before the signal.
        let _ = fs::remove_file(folder.path("out.parquet"));
        is_clean();
    }
}

/// The field names of a summary, including those of nested objects.
fn names(summary: &serde_json::Value) -> Vec<String> {
    let fields = summary.as_object().expect("an object").iter();
    let of = |(name, value): (&String, &serde_json::Value)| match value {
        serde_json::Value::Object(_) => names(value).iter().map(|inner| format!("{name}.{inner}")).collect(),
        _ => vec![name.clone()],
    };
    fields.flat_map(of).collect()
}

#[test]
fn summaries_have_the_same_names_with_a_limit_and_without() {
    let folder = Folder::new();
    folder.file("a.csv", "k,v\n1,2\n3,4\n1,5\n");
    for command in ["unique a.csv --on k", "groupby a.csv --by k --agg sum:v", "join a.csv a.csv --on k"] {
        let [all, limited] = ["", " --memory 64Mi"]
            .map(|memory| names(&folder.json(&format!("{command} -o out.csv --json --device cpu{memory}"))));
        assert!(all == limited && all.contains(&"seconds.read".into()), "{command}: {all:?} {limited:?}");
    }
}
