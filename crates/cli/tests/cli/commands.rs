//! The `koel` command: what it prints, which files it writes, and its exit codes.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::Value;

use crate::folder::{Folder, devices, npy, stderr};

#[test]
fn help_and_version_go_to_stdout() {
    let folder = Folder::new();
    for arguments in ["", "--help", "-h", "verify --help", "build --help", "lookup -h", "info -h"] {
        assert!(folder.ok(arguments).contains("Usage: koel"), "{arguments}");
    }
    assert_eq!(folder.ok("--version").trim(), concat!("koel ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn mistakes_exit_with_2_and_say_what_to_do() {
    let folder = Folder::new();
    folder.file("a.csv", "1,2\n");
    folder.all_refused(&[
        ("frobnicate", "unrecognized"),
        ("build a.csv", "--output"),
        ("build a.csv -o t --load 0.5 --slots 100", "cannot be used with"),
        ("build a.csv -o t --load 1.5", "load factor 1.5"),
        ("build a.csv -o t --functions 9", "2 to 5"),
        ("build a.csv -o t --hash linear", "mixer"),
        ("build a.csv -o t --reinsertion as-published", "classic"),
        ("build a.csv -o t --threads 0", "--threads"),
        ("build a.csv -o t --device quantum", "quantum"),
        ("build a.csv -o t --device all", "one device"),
        ("unique a.csv --kmer 5", "FASTA"),
        ("build missing.csv -o t", "missing.csv"),
        ("build a.csv -o nowhere/t --device cpu", "nowhere: there is no such folder"),
        ("lookup missing.koel a.csv", "missing.koel"),
        ("lookup missing.koel a.csv --mapped --device opencl", "--mapped"),
        ("info a.csv", "a.csv"),
        ("verify --n many", "2^20"),
        ("verify --scheme robin", "robin"),
    ]);
    assert!(!folder.path("t").exists());
}

#[test]
fn every_input_gives_the_same_table() {
    let folder = Folder::new();
    folder.file("plain.csv", "7,70\n0,4294967295\n4294967295,0\n");
    folder.file("header.csv", "key,value\r\n7,70\r\n0,4294967295\r\n4294967295,0\r\n");
    folder.file("tabs.tsv", "key\tvalue\n7\t70\n0\t4294967295\n4294967295\t0\n");
    folder.file("unnamed", "7\t70\n0\t4294967295\n4294967295\t0\n");
    folder.file("pairs.npy", npy("(3, 2)", &[7, 70, 0, u32::MAX, u32::MAX, 0]));
    let mut digests = Vec::new();
    for input in ["plain.csv", "header.csv", "tabs.tsv", "unnamed", "pairs.npy"] {
        let built = folder.json(&format!("build {input} -o t.koel --device cpu --json"));
        assert_eq!((built["pairs"].as_u64(), built["rows"].as_u64()), (Some(3), Some(3)));
        digests.push(built["digest"].as_str().unwrap().to_owned());
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");

    folder.file("keys.csv", "id\n7\n9\n8\n");
    folder.file("keys.npy", npy("(3,)", &[7, 9, 8]));
    for input in ["keys.csv", "keys.npy"] {
        folder.ok(&format!("build {input} -o t.koel --device cpu"));
        assert_eq!(folder.ok(&format!("lookup t.koel {input} --device cpu")), "key,value\n7,0\n9,1\n8,2\n");
    }
    for (empty, text, option) in
        [("empty.csv", "", ""), ("header.csv", "key,value\n", "--header yes"), ("empty.fa", "", "")]
    {
        folder.file(empty, text);
        assert_eq!(folder.json(&format!("build {empty} {option} -o t.koel --device cpu --json"))["pairs"], 0);
        folder.json("info t.koel --json");
    }
}

#[test]
fn stdin_is_read() {
    let folder = Folder::new();
    let mut child =
        folder.command("build - -o t.koel --device cpu").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"1,2\n3,4\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(folder.json("info t.koel --json")["pairs"], 2);
}

#[test]
fn bad_rows_are_named() {
    let folder = Folder::new();
    folder.file("range.csv", "key,value\n1,2\n18446744073709551616,3\n");
    folder.file("mixed.csv", "key,value\n9223372036854775808,2\n-1,3\n");
    folder.file("words.csv", "1,2\nthree,4\n");
    folder.file("wide.csv", "1,2,3\n");
    folder.file("ragged.csv", "1,2\n3\n");
    folder.file("bytes.csv", b"1,2\n\xff,4\n");
    folder.file("short.npy", npy("(9,)", &[1]));
    let mut signed = npy("(1,)", &[u32::MAX]);
    let at = signed.windows(3).position(|window| window == b"<u4").unwrap();
    signed[at + 1] = b'i';
    folder.file("signed.npy", signed);
    for (input, part) in [
        ("range.csv", "range.csv, line 3: the key 18446744073709551616 is above 18446744073709551615"),
        (
            "mixed.csv",
            "mixed.csv, line 3: the key -1 and 9223372036854775808, which is in the same column, do not fit one type",
        ),
        ("words.csv", "words.csv, line 2: the key `three`"),
        ("wide.csv", "wide.csv, line 1: there are 3 columns"),
        ("ragged.csv", "ragged.csv, line 2"),
        ("bytes.csv", "bytes.csv, line 2"),
        ("short.npy", "9 rows of 4 bytes are announced, and 4 bytes are there"),
        ("signed.npy --keys u32", "row 0, the key: -1 does not fit u32 (0 to 4294967295"),
    ] {
        folder.refused(&format!("build {input} -o t.koel --device cpu"), part);
    }
    folder.ok("build signed.npy -o t.koel --device cpu");
    assert_eq!(folder.ok("lookup t.koel signed.npy --device cpu"), "key,value\n-1,0\n");
}

#[test]
fn duplicate_kmers_follow_the_rule() {
    let folder = Folder::new();
    folder.file("g.fa", ">one\nACG\nTTac\n");
    folder.refused("build g.fa -o t.koel --kmer 33", "33");
    folder.refused("build g.fa -o t.koel --kmer 2 --device cpu", "--duplicates");
    folder.file("q.fa", ">q\nAC\n");
    for (rule, place) in [("first", 0), ("last", 5)] {
        folder.ok(&format!("build g.fa -o t.koel --kmer 2 --duplicates {rule} --device cpu"));
        let answer = folder.ok("lookup t.koel q.fa --kmer 2 --device cpu");
        assert_eq!(answer, format!("key,value\n1,{place}\n"), "AC occurs at positions 0 and 5");
    }
}

#[test]
fn fasta_values_are_positions() {
    let folder = Folder::new();
    folder.file("g.fa", ">one\nACG\nTNca\n>two\ngg\n");
    folder.ok("build g.fa -o t.koel --kmer 2 --device cpu");
    folder.file("q.csv", "1\n6\n11\n4\n10\n2\n");
    let expected = "key,value\n1,0\n6,1\n11,2\n4,5\n10,7\n2,\n";
    assert_eq!(folder.ok("lookup t.koel q.csv --device cpu"), expected, "AC, CG, GT, CA, GG; no AG across records");
    folder.file("q.fa", ">q\nACGG\n");
    assert_eq!(folder.ok("lookup t.koel q.fa --kmer 2 --device cpu"), "key,value\n1,0\n6,1\n10,7\n");
}

#[test]
fn shuffled_rows_give_the_same_bytes_on_every_device() {
    let folder = Folder::new();
    let keys: Vec<u32> = (0..20_000u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let rows: Vec<String> = keys.iter().map(|key| format!("{key},{}", key ^ 0x5555)).collect();
    let mut shuffled = rows.clone();
    shuffled.sort_by_key(|row| row.bytes().rev().collect::<Vec<_>>());
    assert_ne!(rows, shuffled);
    folder.file("rows.csv", rows.join("\n"));
    folder.file("shuffled.csv", shuffled.join("\n"));
    let mut first = None;
    for device in devices() {
        for threads in [1, 2] {
            for input in ["rows.csv", "shuffled.csv"] {
                folder.ok(&format!("build {input} -o t.koel --device {device} --threads {threads} --load 0.9"));
                let bytes = folder.bytes("t.koel");
                assert!(*first.get_or_insert_with(|| bytes.clone()) == bytes, "{device}, {threads} threads, {input}");
            }
        }
    }
}

#[test]
fn lookups_keep_the_order_of_queries() {
    let folder = Folder::new();
    folder.file("t.csv", "5,50\n6,0\n7,4294967295\n");
    folder.ok("build t.csv -o t.koel --device cpu");
    folder.file("q.csv", "query,ignored\n7,1\n9,1\n6,1\n5,1\n7,1\n");
    let expected = "key,value\n7,4294967295\n9,\n6,0\n5,50\n7,4294967295\n";
    for device in devices() {
        assert_eq!(folder.ok(&format!("lookup t.koel q.csv --device {device}")), expected, "{device}");
    }
    assert_eq!(folder.ok("lookup t.koel q.csv --mapped"), expected);
    folder.ok("lookup t.koel q.csv -o out.tsv --device cpu");
    assert_eq!(folder.text("out.tsv"), expected.replace(',', "\t"));
    let said = folder.koel("lookup t.koel q.csv -o out.csv --device cpu");
    assert_eq!(folder.text("out.csv"), expected);
    assert!(stderr(&said).contains("5 queries, 4 found, 1 missed") && said.stdout.is_empty(), "{}", stderr(&said));

    folder.file("none.csv", "");
    assert_eq!(folder.ok("lookup t.koel none.csv --device cpu"), "key,value\n");
}

#[test]
fn output_arrays_have_the_documented_fields() {
    let folder = Folder::new();
    folder.file("t.csv", "5,50\n6,0\n");
    folder.ok("build t.csv -o t.koel --device cpu");
    folder.file("q.npy", npy("(3,)", &[6, 7, 5]));
    folder.ok("lookup t.koel q.npy -o out.npy --device cpu");
    let bytes = folder.bytes("out.npy");
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let header_end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8_lossy(&bytes[10..header_end]);
    assert!(header.contains("('key', '<u4'), ('value', '<u4'), ('found', '|b1')"), "{header}");
    assert!(header.contains("'shape': (3") && header_end % 16 == 0, "{header}");
    let rows: Vec<_> = bytes[header_end..]
        .chunks(9)
        .map(|row| {
            let word = |at: usize| u32::from_le_bytes(row[at..at + 4].try_into().unwrap());
            (word(0), word(4), row[8])
        })
        .collect();
    assert_eq!(rows, [(6, 0, 1), (7, 0, 0), (5, 50, 1)]);
    let left: Vec<_> = fs::read_dir(folder.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".part")), "{left:?}");
}

#[test]
fn strict_exits_with_1_after_all_answers() {
    let folder = Folder::new();
    folder.file("t.csv", "5,50\n");
    folder.ok("build t.csv -o t.koel --device cpu");
    folder.file("q.csv", "4\n5\n6\n");
    let output = folder.koel("lookup t.koel q.csv --strict --device cpu");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "key,value\n4,\n5,50\n6,\n");
    assert!(stderr(&output).starts_with("koel: 2 of 3 queries"), "{}", stderr(&output));
    folder.ok("lookup t.koel t.csv --strict --device cpu");
}

#[test]
fn duplicates_follow_the_rule() {
    let folder = Folder::new();
    folder.file("t.csv", "9,1\n5,1\n9,2\n5,2\n5,3\n6,0\n");
    folder.file("q.csv", "5\n9\n6\n");
    for device in devices() {
        folder.refused(&format!("build t.csv -o t.koel --device {device}"), "key 5 occurs more than once");
        for (rule, five, nine) in [("first", 1, 1), ("last", 3, 2)] {
            let built = folder.json(&format!("build t.csv -o t.koel --duplicates {rule} --device {device} --json"));
            assert_eq!((built["pairs"].as_u64(), built["rows"].as_u64()), (Some(3), Some(6)));
            let expected = format!("key,value\n5,{five}\n9,{nine}\n6,0\n");
            assert_eq!(folder.ok("lookup t.koel q.csv --device cpu"), expected, "{device} {rule}");
        }
    }
}

#[test]
fn impossible_tables_are_refused() {
    let folder = Folder::new();
    let rows: Vec<String> = (0..1000).map(|key| key.to_string()).collect();
    folder.file("t.csv", rows.join("\n"));
    for kind in ["canonical", "classic"] {
        folder.refused(&format!("build t.csv -o t.koel --slots 500 --kind {kind} --device cpu"), "do not fit");
    }
}

#[test]
fn damaged_files_are_refused() {
    let folder = Folder::new();
    folder.file("t.csv", "1,2\n3,4\n");
    folder.ok("build t.csv -o t.koel --device cpu");
    let good = folder.bytes("t.koel");
    let mut flipped = good.clone();
    flipped[200] ^= 1;
    folder.file("flipped.koel", flipped);
    folder.file("short.koel", &good[..good.len() - 1]);
    folder.file("empty.koel", "");
    folder.file("foreign.koel", "key,value\n".repeat(100));
    for name in ["flipped.koel", "short.koel", "empty.koel", "foreign.koel"] {
        folder.refused(&format!("info {name}"), name);
        folder.refused(&format!("lookup {name} t.csv --device cpu"), name);
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let folder = Folder::new();
    let rows: Vec<String> = (0..200_000).map(|key| key.to_string()).collect();
    folder.file("t.csv", rows.join("\n"));
    folder.ok("build t.csv -o t.koel --device cpu");
    for arguments in ["lookup t.koel t.csv --device cpu", "verify --n 1000 --device cpu", "--help", "devices"] {
        let mut child = folder.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "koel {arguments}: {said}");
        assert_eq!(said, "", "koel {arguments}");
    }
}

/// Returns the number of schemes that have canonical tables.
fn canonical_schemes() -> usize {
    koel::AnyScheme::all().filter(|scheme| koel::Scheme::kind(scheme) == koel::Kind::Canonical).count()
}

#[test]
fn verify_compares_devices_with_the_reference() {
    let folder = Folder::new();
    let found = folder.json("verify --n 5000 --json");
    assert_eq!((&found["ok"], &found["failed"]), (&Value::Bool(true), &Value::from(0)));
    let mut digests: HashMap<[String; 3], Vec<String>> = HashMap::new();
    for row in found["rows"].as_array().unwrap() {
        assert_eq!(row["verdict"], "ok", "{row}");
        if row["kind"] == "canonical" {
            let text = |field: &str| row[field].as_str().unwrap().to_owned();
            digests.entry(["scheme", "data", "types"].map(text)).or_default().push(text("digest"));
        }
    }
    assert_eq!(
        digests.len(),
        canonical_schemes() * 2 + 2 * 7 + 8,
        "every scheme on random keys and lambda; wide tables of three schemes"
    );
    for of_set in digests.values() {
        assert_eq!(of_set.len(), devices().len() + 1, "the devices and the reference");
        assert!(of_set.iter().all(|digest| *digest == of_set[0]));
    }
    for row in found["rows"].as_array().unwrap().iter().filter(|row| row["device"] != "reference") {
        let stages = row["stages"].as_array().unwrap();
        let name = |stage: &Value| stage["name"].as_str().unwrap().to_owned();
        let items = |stage: &Value, by: &str| stage[by].as_u64().unwrap();
        let (audits, others): (Vec<_>, Vec<_>) = stages.iter().partition(|stage| name(stage) == "audit");
        assert!(audits.iter().all(|stage| items(stage, "kernel") == 0 && items(stage, "host") > 0), "{row}");
        assert_eq!(audits.len(), 1, "{row}");
        // Kernels build the table, and some stage processes every pair, unless the row says that the host builds it.
        let serial = row["scheme"] == "bucketized" && row["kind"] == "classic" && row["device"] == "cpu";
        if row["host_built"] == false && !serial {
            let reads = |name: &str| name == "greatest" || name.ends_with("_lookup") || name.ends_with("_copies");
            let building = others.iter().filter(|stage| !reads(&name(stage)));
            let most = building.map(|stage| items(stage, "kernel")).max();
            assert!(most >= row["pairs"].as_u64() && others.iter().all(|stage| items(stage, "host") == 0), "{row}");
        }
    }
    for row in found["rows"].as_array().unwrap().iter().filter(|row| row["kind"] == "classic") {
        // The paper's Robin Hood words have 28 bits for a value; random values have 32.
        let is_cut = row["scheme"] == "robin_hood" && row["data"] == "random";
        assert_eq!(row["cut"].as_str().is_some_and(|cut| cut.contains("values of 28 bits")), is_cut, "{row}");
    }
    for (verify, mers) in [("verify --n 300", "300"), ("verify --n 50000 --scheme cuckoo", "48,487")] {
        let said = folder.ok(&format!("{verify} --device cpu"));
        let has_lambda =
            |line: &str| line.split_whitespace().collect::<Vec<_>>().windows(2).any(|two| two == ["lambda", mers]);
        assert!(said.lines().any(has_lambda) && said.contains("checks passed"), "{said}");
    }
    folder.refused("verify --n 300 --load 1.0 --device cpu", "lower --load");
}

#[test]
#[ignore = "slow: every scheme, with 0 to 3 pairs, which tests/suite tests as well; CI runs it"]
fn verify_supports_the_smallest_tables() {
    let folder = Folder::new();
    // tests/suite builds tables of 0 to 3 pairs on every device.
    for n in ["0 --device cpu", "1", "2 --device cpu", "3 --device cpu"] {
        folder.ok(&format!("verify --n {n} --kind canonical"));
    }
}

#[test]
fn without_opencl_everything_works_on_the_cpu() {
    let folder = Folder::new();
    let run = |arguments: &str| {
        let output = folder.command(arguments).env("KOEL_OPENCL", "off").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "koel {arguments}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let listed: Value = serde_json::from_str(&run("devices --json")).unwrap();
    assert_eq!(listed["devices"].as_array().unwrap().len(), 1);
    assert_eq!(listed["auto"]["id"], "cpu");
    assert!(run("devices").contains("OpenCL"));
    assert!(run("verify --n 1000").contains("checks passed"));
    folder.file("t.csv", "1,2\n");
    assert!(run("build t.csv -o t.koel").contains("cpu"));
    let output = folder.command("verify --device opencl").env("KOEL_OPENCL", "off").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("koel: no device for opencl"), "{}", stderr(&output));
}

#[test]
fn a_failed_build_leaves_the_old_table() {
    let folder = Folder::new();
    folder.file("t.csv", "1,2\n");
    folder.ok("build t.csv -o t.koel --device cpu");
    let before = folder.bytes("t.koel");
    folder.file("t.csv", "1,2\n1,3\n");
    folder.refused("build t.csv -o t.koel --device cpu", "key 1");
    assert!(folder.bytes("t.koel") == before);
}

/// A case from the documentation of `RobinHood`: if a stride wraps around, runs of the coherent sequence may overlap.
#[test]
fn multiples_of_a_large_number_need_the_random_sequence() {
    let folder = Folder::new();
    let row = |i: u32| format!("{},{i}\n", i.wrapping_mul(0x85eb_ca6b));
    folder.file("keys.csv", (0..50_000).map(row).collect::<String>());
    let reads = |sequence: &str| {
        folder.ok(&format!("build keys.csv --scheme robin_hood --sequence {sequence} -o t.koel --device cpu -q"));
        folder.json("info t.koel --json")["reads_per_hit"].as_f64().unwrap()
    };
    let (coherent, random) = (reads("coherent"), reads("random"));
    assert!((17.0..17.5).contains(&coherent) && (2.7..2.9).contains(&random), "{coherent} {random}");
}
