//! Sets, compacting tables, multivalue tables, joins, groups and distinct keys compared with maps and nested loops,
//! from and to text and arrays, on every device.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::process::Stdio;

use crate::expected::{Expected, Row, ascending, first_seen, nested_loops, rows, write};
use crate::folder::{Folder, devices, npy, stderr};

const KEY: (&str, &str) = ("key", "<u4");

fn cells<const N: usize>(cells: [u32; N]) -> Vec<i128> {
    cells.map(i128::from).into()
}

fn keys(rows: &[Row]) -> Vec<u32> {
    rows.iter().map(|row| row.0).collect()
}

/// The values of each key, in the order of the rows.
fn values(rows: &[Row]) -> BTreeMap<u32, Vec<u32>> {
    let mut values: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    rows.iter().for_each(|&(key, value)| values.entry(key).or_default().push(value));
    values
}

#[test]
fn sets_report_which_keys_they_contain() {
    let folder = Folder::new();
    let rows = rows(2000, 1);
    let keys = ascending(keys(&rows));
    write(&folder, "a", &rows);
    let queries: Vec<Row> = keys.iter().flat_map(|&key| [key, key.wrapping_add(1)]).map(|key| (key, 0)).collect();
    write(&folder, "q", &queries);
    let expected = Expected::new(
        &[KEY, ("found", "|b1")],
        queries.iter().map(|&(key, _)| cells([key, keys.contains(&key).into()])),
    );
    for device in devices() {
        for input in ["a.csv", "a.npy", "a_keys.csv", "a_keys.npy"] {
            let built = folder.json(&format!("build {input} -o t.koel --table set --device {device} --json"));
            assert_eq!((&built["table"], &built["rows"]), (&"set".into(), &2000.into()));
            assert_eq!(built["keys"].as_u64(), Some(keys.len() as u64));
        }
        expected.check(&folder, &format!("lookup t.koel q.csv --device {device}"));
        assert_eq!(folder.ok(&format!("lookup t.koel q.npy --device {device}")), expected.text(","));
    }
    folder.ok("lookup t.koel q.csv -o found.parquet --device cpu");
    let known = folder.ok("convert found.parquet -").replace(",true", ",1").replace(",false", ",0");
    assert_eq!(known, expected.text(","), "formats other than CSV and .npy have booleans");
    let info = folder.json("info t.koel --json");
    assert_eq!((&info["table"], info["pairs"].as_u64()), (&"set".into(), Some(keys.len() as u64)));
    assert!(folder.ok("info t.koel").contains("table     set"));
    let missed = folder.koel("lookup t.koel q.csv --strict --device cpu");
    assert_eq!(missed.status.code(), Some(1), "{}", stderr(&missed));
}

#[test]
fn compacting_tables_number_their_keys() {
    let folder = Folder::new();
    let rows = rows(2000, 2);
    write(&folder, "a", &rows);
    for (order, keys) in [("first", first_seen(keys(&rows))), ("ascending", ascending(keys(&rows)))] {
        let ids: HashMap<u32, u32> = keys.iter().zip(0..).map(|(&key, id)| (key, id)).collect();
        let absent = (0..).find(|key| !ids.contains_key(key)).unwrap();
        let queried: Vec<Row> = rows[..100].iter().copied().chain([(absent, 0)]).collect();
        write(&folder, "q", &queried);
        let answer = |&(key, _): &Row| [key].into_iter().chain(ids.get(&key).copied()).map(i128::from).collect();
        let forward = Expected::new(&[KEY, ("id", "?found")], queried.iter().map(answer));
        let numbers: Vec<u32> = (0..=keys.len() as u32).rev().chain([u32::MAX]).collect();
        folder.file("ids.npy", npy(&format!("({},)", numbers.len()), &numbers));
        let key_of = |&id: &u32| [id].into_iter().chain(keys.get(id as usize).copied()).map(i128::from).collect();
        let reverse = Expected::new(&[("id", "<u4"), ("key", "?found")], numbers.iter().map(key_of));
        for device in devices() {
            for input in ["a.csv", "a_keys.npy"] {
                folder.ok(&format!("build {input} -o t.koel --table compact --ids {order} --device {device}"));
            }
            forward.check(&folder, &format!("lookup t.koel q.csv --device {device}"));
            reverse.check(&folder, &format!("lookup t.koel ids.npy --reverse --device {device}"));
        }
    }
    folder.ok("build a.csv -o first.koel --table compact --device cpu");
    folder.ok("build a.csv -o t.koel --table compact --ids first --device cpu");
    assert!(folder.bytes("first.koel") == folder.bytes("t.koel"), "the default order");
    assert_eq!(folder.json("info t.koel --json")["table"], "compact");
}

#[test]
fn multivalue_tables_return_all_values_in_row_order() {
    let folder = Folder::new();
    let rows = rows(2000, 3);
    let values = values(&rows);
    write(&folder, "a", &rows);
    // Misses at the start, at the end and in between, and duplicate queries.
    let absent: Vec<u32> = (1..).filter(|key| !values.contains_key(key)).take(5).collect();
    let mut queried = vec![absent[0], absent[1]];
    queried.extend(values.keys().flat_map(|&key| [key, absent[2], key]));
    queried.extend([absent[3], absent[4]]);
    write(&folder, "q", &queried.iter().map(|&key| (key, 9)).collect::<Vec<_>>());
    let of = |key: &u32| values.get(key).map_or(&[][..], Vec::as_slice);
    let all = Expected::new(
        &[KEY, ("value", "?found")],
        queried.iter().flat_map(|key| match of(key) {
            [] => vec![cells([*key])],
            values => values.iter().map(|&value| cells([*key, value])).collect(),
        }),
    );
    let counts = Expected::new(&[KEY, ("count", "<u4")], queried.iter().map(|key| cells([*key, of(key).len() as u32])));
    let mut files = Vec::new();
    for device in devices() {
        for input in ["a.csv", "a.npy"] {
            let built = folder.json(&format!("build {input} -o t.koel --table multi --device {device} --json"));
            assert_eq!((built["pairs"].as_u64(), built["keys"].as_u64()), (Some(2000), Some(values.len() as u64)));
            files.push(folder.bytes("t.koel"));
        }
        all.check(&folder, &format!("lookup t.koel q.csv --device {device}"));
        counts.check(&folder, &format!("lookup t.koel q.npy --count --device {device}"));
    }
    assert!(files.iter().all(|file| *file == files[0]), "every device writes the same bytes");
    let info = folder.json("info t.koel --json");
    let most = values.values().map(Vec::len).max().unwrap() as u64;
    assert_eq!((&info["table"], info["most_values"].as_u64()), (&"multi".into(), Some(most)));
    assert_eq!((info["pairs"].as_u64(), info["keys"].as_u64()), (Some(2000), Some(values.len() as u64)));
    assert_eq!(info["file_bytes"].as_u64(), Some(files[0].len() as u64));
    let said = folder.ok("info t.koel");
    assert!(said.contains("2,000 pairs of") && said.contains("values a key"), "{said}");
    let strict = folder.koel("lookup t.koel q.csv --strict --device cpu");
    assert_eq!(strict.status.code(), Some(1));
    let missed = 4 + values.len();
    assert!(stderr(&strict).contains(&format!("{missed} of {} queries", queried.len())), "{}", stderr(&strict));
    let said = folder.koel("lookup t.koel q.csv -o out.csv --device cpu");
    assert!(stderr(&said).contains(&format!("{missed} missed")), "{}", stderr(&said));
}

#[test]
fn values_are_retrieved_in_pieces() {
    let folder = Folder::new();
    let all = 3000;
    write(&folder, "a", &(0..all).map(|i| (7, i)).collect::<Vec<_>>());
    folder.ok("build a.npy -o t.koel --table multi --device cpu");
    // 1.2 million values; a piece ends within a run, and misses surround each run.
    let queried: Vec<Row> = (0..400).flat_map(|i| [(7, i), (8, i)]).collect();
    write(&folder, "q", &queried);
    let said = folder.ok("lookup t.koel q.csv --device cpu");
    let mut lines = said.lines().skip(1);
    for _ in 0..400 {
        assert!((0..all).all(|i| lines.next() == Some(&format!("7,{i}"))));
        assert_eq!(lines.next(), Some("8,"));
    }
    assert_eq!(lines.next(), None);
}

fn joined(left: &[Row], right: &[Row], how: &str, numbers: bool) -> Expected {
    let shown = |side: &[Row], i: usize| if numbers { i as i128 } else { side[i].1.into() };
    let row = |(i, j): (Option<usize>, Option<usize>)| {
        let key = i.map_or_else(|| j.map(|j| right[j].0), |i| Some(left[i].0));
        vec![key.map(i128::from), i.map(|i| shown(left, i)), j.map(|j| shown(right, j))]
    };
    let columns: &[_] = match how {
        "inner" => &[KEY, ("left", "<u4"), ("right", "<u4")],
        "left" => &[KEY, ("left", "<u4"), ("right", "?found")],
        "right" => &[KEY, ("left", "?left_found"), ("right", "<u4")],
        "full" => &[KEY, ("left", "?left_found"), ("right", "?found")],
        _ => &[KEY, ("left", "<u4")],
    };
    Expected::new(columns, nested_loops(&keys(left), &keys(right), how).into_iter().map(row))
}

#[test]
fn joins_match_nested_loops() {
    let folder = Folder::new();
    let (mut left, mut right) = (rows(300, 4), rows(200, 5));
    // Each side has keys that the other does not have.
    left.retain(|row| row.0 % 5 != 1);
    right.retain(|row| row.0 % 5 != 2);
    write(&folder, "l", &left);
    write(&folder, "r", &right);
    for how in ["inner", "left", "right", "full", "semi", "anti"] {
        let (by_value, by_row) = (joined(&left, &right, how, false), joined(&left, &right, how, true));
        assert!(!by_value.rows.is_empty() && by_value.rows.len() != left.len() * right.len());
        for device in devices() {
            by_value.check(&folder, &format!("join l.csv r.npy --how {how} --device {device}"));
            by_row.check(&folder, &format!("join l.npy r.csv --rows --how {how} --device {device}"));
            // If a file has only keys, row numbers are the values.
            let arguments = format!("join l_keys.npy r_keys.csv --how {how} --device {device}");
            assert_eq!(folder.ok(&arguments), by_row.text(","), "koel {arguments}");
        }
    }
    assert_eq!(folder.ok("join l.csv r.csv"), joined(&left, &right, "inner", false).text(","), "the defaults");
    let with_threads = "join l.csv r.csv --threads 1 --device cpu";
    assert_eq!(folder.ok(with_threads), joined(&left, &right, "inner", false).text(","));
    // Formats that support nulls have nulls instead of flags.
    let full = "join l.csv r.csv --how full --device cpu";
    folder.ok(&format!("{full} -o full.parquet"));
    assert_eq!(folder.ok("convert full.parquet -"), folder.ok(full));
}

#[test]
fn joins_with_an_empty_side_match_nested_loops() {
    let folder = Folder::new();
    let rows = rows(10, 6);
    write(&folder, "a", &rows);
    write(&folder, "none", &[]);
    for (left, right, how, result) in [
        ("a", "none", "inner", 0),
        ("none", "a", "left", 0),
        ("a", "none", "left", 10),
        ("a", "none", "anti", 10),
        ("none", "a", "right", 10),
        ("none", "a", "full", 10),
    ] {
        let sides = |name| if name == "a" { &rows[..] } else { &[] };
        let expected = joined(sides(left), sides(right), how, false);
        assert_eq!(expected.rows.len(), result);
        for device in devices() {
            expected.check(&folder, &format!("join {left}.csv {right}.csv --how {how} --device {device}"));
        }
    }
}

#[test]
fn long_joins_are_written_in_pieces() {
    let folder = Folder::new();
    let side = 1100;
    write(&folder, "a", &(0..side).map(|i| (7, i)).collect::<Vec<_>>());
    let summary = folder.json("join a.csv a.npy -o out.csv --json --device cpu");
    assert_eq!((summary["rows"].as_u64(), summary["right_rows"].as_u64()), (Some(1_210_000), Some(side.into())));
    assert_eq!((&summary["how"], &summary["output"]), (&"inner".into(), &"out.csv".into()));
    let written = folder.text("out.csv");
    let mut lines = written.lines().skip(1);
    for i in 0..side {
        assert!((0..side).all(|j| lines.next() == Some(&format!("7,{i},{j}"))));
    }
    assert_eq!(lines.next(), None);

    let mut child =
        folder.command("join a.csv a.csv --device cpu").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*said), (Some(0), ""), "a closed pipe is not an error");
}

#[test]
fn groups_match_a_map() {
    let folder = Folder::new();
    let rows = rows(3000, 7);
    write(&folder, "a", &rows);
    let values = values(&rows);
    for (order, keys) in [("first", first_seen(keys(&rows))), ("ascending", ascending(keys(&rows)))] {
        let group = |key: &u32| {
            let of = &values[key];
            let sum = of.iter().map(|&value| i128::from(value)).sum();
            let (least, greatest) = (of.iter().min().unwrap(), of.iter().max().unwrap());
            (of.len() as i128, sum, i128::from(*least), i128::from(*greatest))
        };
        let all = Expected::new(
            &[KEY, ("max", "<u4"), ("count", "<u4"), ("sum", "<u8"), ("min", "<u4")],
            keys.iter().map(|key| {
                let (count, sum, least, greatest) = group(key);
                vec![i128::from(*key), greatest, count, sum, least]
            }),
        );
        let counts =
            Expected::new(&[KEY, ("count", "<u4")], keys.iter().map(|key| vec![i128::from(*key), group(key).0]));
        assert!(all.rows.iter().any(|row| row[3] > Some(i128::from(u32::MAX))), "sums above 32 bits");
        for device in devices() {
            all.check(&folder, &format!("groupby a.csv --agg max,count,sum,min --ids {order} --device {device}"));
            assert_eq!(
                folder.ok(&format!("groupby a.npy --agg max,count,sum,min --ids {order} --device {device}")),
                all.text(",")
            );
            counts.check(&folder, &format!("groupby a_keys.csv --ids {order} --device {device}"));
        }
    }
    write(&folder, "none", &[]);
    assert_eq!(folder.ok("groupby none.csv --agg sum --device cpu"), "key,sum\n");
    folder.file("wide.csv", "1,2,3\n");
    folder.refused("groupby wide.csv --device cpu", "this file has 3 columns: choose the key columns with --by");
    folder.file("named.csv", "id,day,city\n1,2,3\n");
    for command in
        ["groupby named.csv", "groupby named.csv --agg sum", "unique named.csv", "join named.csv named.csv --rows"]
    {
        folder.refused(command, "Columns: id, day, city");
    }
    let summary = folder.json("groupby a.csv --agg sum,max -o out.csv --json --device cpu");
    assert_eq!((summary["rows"].as_u64(), summary["groups"].as_u64()), (Some(3000), Some(values.len() as u64)));
    assert_eq!(summary["aggregates"], serde_json::json!(["sum", "max"]));
}

#[test]
fn distinct_keys_are_listed_counted_and_numbered() {
    let folder = Folder::new();
    let rows = rows(3000, 8);
    write(&folder, "a", &rows);
    let values = values(&rows);
    for (order, keys) in [("first", first_seen(keys(&rows))), ("ascending", ascending(keys(&rows)))] {
        let unique = Expected::new(&[KEY], keys.iter().map(|&key| cells([key])));
        let counted =
            Expected::new(&[KEY, ("count", "<u4")], keys.iter().map(|&key| cells([key, values[&key].len() as u32])));
        let id_of = |&(key, _): &Row| cells([keys.iter().position(|&other| other == key).unwrap() as u32]);
        let inverse = Expected::new(&[("id", "<u4")], rows.iter().map(id_of));
        for device in devices() {
            let options = format!("--ids {order} --device {device}");
            unique.check(&folder, &format!("unique a.csv {options}"));
            unique.check(&folder, &format!("unique a_keys.npy --inverse inverse.npy {options}"));
            inverse.check_array(&folder, "inverse.npy", "unique");
            counted.check(&folder, &format!("unique a.npy --counts {options}"));
            counted.check(&folder, &format!("unique a_keys.csv --counts --inverse inverse.csv {options}"));
            assert_eq!(folder.text("inverse.csv"), inverse.text(","));
        }
    }
    // The output can be read as an input.
    folder.ok("unique a.csv -o keys.npy --device cpu");
    assert_eq!(folder.ok("unique keys.npy --device cpu"), folder.ok("unique a.csv --device cpu"));
    let summary = folder.json("unique a.csv -o out.csv --json --device cpu");
    assert_eq!((summary["rows"].as_u64(), summary["keys"].as_u64()), (Some(3000), Some(values.len() as u64)));
    let said = folder.koel("unique a.csv -o out.csv --device cpu");
    assert!(stderr(&said).contains("keys of 3,000 rows") && said.stdout.is_empty(), "{}", stderr(&said));
}

#[test]
fn kmers_are_counted_and_joined() {
    let folder = Folder::new();
    folder.file("g.fa", ">one\nACGACG\n");
    folder.file("reads.fa", ">r\nCGA\n");
    // AC = 1, CG = 6, GA = 8
    assert_eq!(folder.ok("unique g.fa --kmer 2 --counts --device cpu"), "key,count\n1,2\n6,2\n8,1\n");
    assert_eq!(folder.ok("join reads.fa g.fa --kmer 2 --device cpu"), "key,left,right\n6,0,1\n6,0,4\n8,1,2\n");
    // One side may be a file of numbers; --kmer is refused if neither side is FASTA.
    folder.file("known.csv", "8,77\n");
    assert_eq!(folder.ok("join known.csv g.fa --kmer 2 --device cpu"), "key,left,right\n8,77,2\n");
    folder.refused("join known.csv known.csv --kmer 2 --device cpu", "--kmer");
    folder.ok("build g.fa -o t.koel --kmer 2 --table multi --device cpu");
    assert_eq!(folder.ok("lookup t.koel reads.fa --kmer 2 --device cpu"), "key,value\n6,1\n6,4\n8,2\n");
}

#[test]
fn structures_support_other_schemes() {
    let folder = Folder::new();
    let rows: Vec<Row> = rows(500, 9).into_iter().map(|(key, value)| (key, value >> 4)).collect();
    write(&folder, "a", &rows);
    let answers = |table: &str, options: &str| {
        let built = folder.json(&format!("build a.csv -o t.koel --table {table} {options} --device cpu --json"));
        let info = folder.json("info t.koel --json");
        assert_eq!((&built["scheme"], &built["digest"]), (&info["scheme"], &info["digest"]));
        folder.ok("lookup t.koel a.csv --device cpu")
    };
    for table in ["set", "compact", "multi"] {
        let usual = answers(table, "");
        let scheme = if table == "set" { "cuckoo_set" } else { "cuckoo" };
        assert_eq!(folder.json("info t.koel --json")["scheme"], scheme, "the default of {table}");
        for options in [
            "--scheme cuckoo --functions 3",
            "--scheme bucketized --load 0.95",
            "--scheme horton --seed 4",
            "--scheme fks",
            "--scheme sorted",
            "--scheme robin_hood --kind classic",
            "--kind classic --slots 200",
        ] {
            assert_eq!(answers(table, options), usual, "{table} {options}");
        }
    }
}

#[test]
fn mistakes_exit_with_2_and_say_what_to_do() {
    let folder = Folder::new();
    folder.file("a.csv", "1,2\n1,3\n");
    folder.file("two.csv", "1,2\n3,4\n");
    folder.file("wide.csv", "1,2,3\n");
    for table in ["map", "set", "compact", "multi"] {
        let rule = if table == "map" { "--duplicates last" } else { "" };
        folder.ok(&format!("build a.csv -o {table}.koel --table {table} {rule} --device cpu"));
    }
    folder.all_refused(&[
        ("build a.csv -o t --table bag", "multi"),
        ("build a.csv -o t --table set --duplicates first", "--table map"),
        ("build a.csv -o t --table multi --duplicates first", "keeps all pairs"),
        ("build a.csv -o t --ids first", "--table compact"),
        ("build a.csv -o t --table compact --ids random", "ascending"),
        ("build wide.csv -o t --table multi --device cpu", "3 columns"),
        ("lookup map.koel a.csv --count", "--table multi"),
        ("lookup set.koel a.csv --reverse", "--table compact"),
        ("lookup multi.koel a.csv --mapped", "--table map"),
        ("build two.csv -o t --table multi --scheme cuckoo_set --device cpu", "keys only"),
        ("join a.csv", "<RIGHT>"),
        ("join - -", "stdin"),
        ("join a.csv missing.csv", "missing.csv"),
        ("join a.csv wide.csv --device cpu", "wide.csv, line 1"),
        ("join a.csv a.csv --how cross", "full"),
        ("join a.csv a.csv --json", "--output"),
        ("join a.csv a.csv --functions 9", "unexpected argument '--functions'"),
        ("join a.csv a.csv -o nowhere/t --device cpu", "nowhere"),
        ("groupby a.csv --agg nunique", "count"),
        ("groupby a.csv --agg sum,count,sum", "twice"),
        ("groupby missing.csv", "missing.csv"),
        ("groupby wide.csv --agg sum --device cpu", "3 columns"),
        ("unique a.csv -o t --inverse t", "each its own"),
    ]);
    assert!(!folder.path("t").exists());
    for arguments in ["join --help", "groupby --help", "unique --help", "build --help", "lookup --help"] {
        assert!(folder.ok(arguments).contains("Examples:"), "{arguments}");
    }
}

#[test]
fn damaged_files_are_refused() {
    let folder = Folder::new();
    write(&folder, "a", &rows(100, 10));
    for table in ["set", "compact", "multi"] {
        folder.ok(&format!("build a.csv -o good.koel --table {table} --device cpu"));
        let good = folder.bytes("good.koel");
        for at in [8, good.len() / 3, good.len() / 2, good.len() - 5] {
            let mut flipped = good.clone();
            flipped[at] ^= 0x10;
            folder.file("bad.koel", flipped);
            folder.refused("info bad.koel", "bad.koel");
            folder.refused("lookup bad.koel a.csv --device cpu", "bad.koel");
        }
        folder.file("bad.koel", &good[..good.len() - 1]);
        folder.refused("info bad.koel", "bad.koel");
    }
}
