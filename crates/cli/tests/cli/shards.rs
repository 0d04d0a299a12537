//! Tables in shards: their files do not depend on the devices that build them, and their answers are those of one
//! table.

use serde_json::Value;

use crate::folder::{Folder, devices, full, npy, stderr};

/// Lists of devices: each device, the CPU twice, and all devices, if there are several, in two orders.
fn places() -> Vec<String> {
    let mut places = devices();
    let mut all = places.clone();
    if all.len() > 1 {
        places.push(all.join(","));
        all.reverse();
        places.push(all.join(","));
    }
    places.push("cpu,cpu".into());
    places
}

/// Every second list of devices: those with even or odd positions, in turn.
fn half_of_places(turn: usize) -> Vec<String> {
    places()
        .into_iter()
        .enumerate()
        .filter(|(at, _)| full() || (at + turn).is_multiple_of(2))
        .map(|(_, place)| place)
        .collect()
}

fn key(i: u32) -> u32 {
    i.wrapping_mul(0x9e37_79b9)
}

/// Writes `pairs.csv` with `rows` rows, and `queries.csv` with some of their keys and with absent keys.
fn pairs(folder: &Folder, rows: u32) {
    folder.file("pairs.csv", (0..rows).map(|i| format!("{},{i}\n", key(i))).collect::<String>());
    folder.file(
        "queries.csv",
        (0..rows).map(|i| format!("{}\n", if i % 3 == 0 { i } else { key(i) })).collect::<String>(),
    );
}

#[test]
fn files_do_not_depend_on_the_devices() {
    let folder = Folder::new();
    pairs(&folder, 20_000);
    for (scheme, load) in
        [("bucketized", ""), ("signpost", "--load 0.95"), ("cuckoo", "--capacity 30000 --seed 5"), ("horton", "")]
    {
        let mut first: Option<(Vec<u8>, Value)> = None;
        for place in places() {
            let arguments =
                format!("build pairs.csv -o t.koel --scheme {scheme} {load} --shards 5 --device {place} --json");
            let built = folder.json(&arguments);
            assert_eq!((built["shards"].as_u64(), built["pairs"].as_u64()), (Some(5), Some(20_000)), "{arguments}");
            assert_eq!(built["device"], place.as_str());
            let bytes = folder.bytes("t.koel");
            let (expected, digest) = first.get_or_insert_with(|| (bytes.clone(), built["digest"].clone()));
            assert!(*expected == bytes && *digest == built["digest"], "{scheme} on {place}");
        }
        let other = folder.json(&format!("build pairs.csv -o t.koel --scheme {scheme} {load} --shards 6 --json"));
        assert_ne!(first.unwrap().1, other["digest"]);
    }
}

#[test]
fn lookups_match_those_of_one_table() {
    let folder = Folder::new();
    pairs(&folder, 5000);
    for (turn, widths) in [
        "",
        "--keys u64 --values u64",
        "--keys u64 --values u32 --scheme signpost",
        "--keys u32 --values u64 --scheme robin_hood",
    ]
    .into_iter()
    .enumerate()
    {
        folder.ok(&format!("build pairs.csv -o one.koel {widths}"));
        folder.ok(&format!("build pairs.csv -o shards.koel {widths} --shards 4"));
        let (text, array) = (folder.ok("lookup one.koel queries.csv"), "lookup one.koel queries.csv -o one.npy");
        folder.ok(array);
        assert!(text.lines().count() == 5001 && text.contains(&format!("{},1\n", key(1))));
        for place in half_of_places(turn) {
            // A table in shards is split over these devices, and any other table is replicated on them.
            for table in ["shards", "one"] {
                assert_eq!(
                    folder.ok(&format!("lookup {table}.koel queries.csv --device {place}")),
                    text,
                    "{place} {widths}"
                );
                folder.ok(&format!("lookup {table}.koel queries.csv -o of.npy --device {place}"));
                assert!(folder.bytes("of.npy") == folder.bytes("one.npy"));
            }
        }
    }
    let strict = folder.koel("lookup shards.koel queries.csv --strict -o of.csv");
    assert_eq!(strict.status.code(), Some(1), "{}", stderr(&strict));
}

#[test]
fn sets_and_lists_in_shards_match_those_of_one_table() {
    check_sets_and_lists(&[("set", ""), ("multi", "--keys u64 --values u64")]);
}

#[test]
#[ignore = "slow: other widths, and signposts; CI runs it"]
fn sets_and_lists_of_any_width_match_those_of_one_table() {
    check_sets_and_lists(&[
        ("set", "--keys u64"),
        ("set", "--scheme signpost"),
        ("multi", ""),
        ("multi", "--values u64"),
    ]);
}

fn check_sets_and_lists(tables: &[(&str, &str)]) {
    let folder = Folder::new();
    // Keys occur one to four times.
    let rows = (0..9000_u32).map(|i| format!("{},{i}\n", key(i % 4000 / (1 + i % 2))));
    folder.file("rows.csv", rows.collect::<String>());
    folder.file(
        "queries.csv",
        (0..5000).map(|i| format!("{}\n", if i % 3 == 0 { i } else { key(i) })).collect::<String>(),
    );
    for (turn, &(table, rest)) in tables.iter().enumerate() {
        folder.ok(&format!("build rows.csv -o one.koel --table {table} {rest}"));
        let one = folder.json("info one.koel --json");
        let counts = if table == "multi" { vec!["", "--count"] } else { vec![""] };
        let expected: Vec<String> =
            counts.iter().map(|count| folder.ok(&format!("lookup one.koel queries.csv {count}"))).collect();
        let mut first: Option<Vec<u8>> = None;
        for place in half_of_places(turn) {
            let arguments =
                format!("build rows.csv -o t.koel --table {table} {rest} --shards 5 --device {place} --json");
            let built = folder.json(&arguments);
            assert_eq!((&built["table"], built["shards"].as_u64()), (&Value::from(table), Some(5)), "{arguments}");
            assert_eq!((&built["pairs"], &built["keys"]), (&one["pairs"], &one["keys"]), "{arguments}");
            let bytes = folder.bytes("t.koel");
            assert!(*first.get_or_insert_with(|| bytes.clone()) == bytes, "{arguments}");
            for (count, expected) in counts.iter().zip(&expected) {
                let found = folder.ok(&format!("lookup t.koel queries.csv {count} --device {place}"));
                assert_eq!(found, *expected, "{table} {rest} {count} on {place}");
            }
        }
        let printed = folder.json("info t.koel --json");
        assert_eq!(
            (&printed["table"], &printed["pairs"], &printed["keys"]),
            (&one["table"], &one["pairs"], &one["keys"])
        );
        folder.refused("lookup t.koel queries.csv --memory 1G", "--memory is for maps in shards");
        folder.refused("lookup t.koel queries.csv --mapped", "--mapped is for tables that are not in shards");
    }
}

#[test]
fn sets_and_ids_are_looked_up_on_several_devices() {
    let folder = Folder::new();
    pairs(&folder, 3000);
    for (table, rest) in [
        ("set", ""),
        ("compact", ""),
        ("set", "--scheme cuckoo_set"),
        ("compact", "--scheme cuckoo_set"),
        ("set", "--keys u64"),
    ] {
        folder.ok(&format!("build pairs.csv -o t.koel --table {table} {rest}"));
        let text = folder.ok("lookup t.koel queries.csv");
        for place in places() {
            assert_eq!(
                folder.ok(&format!("lookup t.koel queries.csv --device {place}")),
                text,
                "{table} {rest} {place}"
            );
        }
    }
    folder.ok("build pairs.csv -o t.koel --table compact");
    folder.refused("lookup t.koel queries.csv --reverse --device cpu,cpu", "--reverse uses one device: name one");
    folder.ok("build pairs.csv -o m.koel --table multi");
    folder.refused("lookup m.koel queries.csv --device cpu,cpu", "--device cpu,cpu: a table of --table multi");
    folder.refused("lookup m.koel queries.csv --device cpu,vax", "no device for vax");
}

#[test]
fn info_shows_all_shards() {
    let folder = Folder::new();
    pairs(&folder, 4000);
    let built = folder.json("build pairs.csv -o shards.koel --scheme horton --shards 7 --json");
    folder.ok("build pairs.csv -o one.koel --scheme horton");
    let (info, one) = (folder.json("info shards.koel --json"), folder.json("info one.koel --json"));
    for field in ["digest", "pairs", "slots", "load", "seed", "restarts", "parameters", "shards", "types", "bytes"] {
        assert_eq!(info[field], built[field], "{field}");
    }
    for field in [
        "table",
        "scheme",
        "kind",
        "parameters",
        "key_type",
        "types",
        "pairs",
        "keys",
        "tombstones",
        "audit",
        "bytes_per_read",
    ] {
        assert_eq!(info[field], one[field], "{field}");
    }
    assert_eq!(
        (info["shards"].as_u64(), one["shards"].is_null(), one["pairs_by_shard"].is_null()),
        (Some(7), true, true)
    );
    let by_shard: Vec<u64> =
        info["pairs_by_shard"].as_array().unwrap().iter().map(|pairs| pairs.as_u64().unwrap()).collect();
    assert_eq!((by_shard.len(), by_shard.iter().sum::<u64>()), (7, 4000));
    let near = |field: &str| (info[field].as_f64().unwrap() - one[field].as_f64().unwrap()).abs() < 0.1;
    assert!(["reads_per_hit", "reads_per_miss", "model_reads_per_hit", "load"].into_iter().all(near), "{info}");
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&info), fields(&one));
    let said = folder.ok("info shards.koel");
    let [least, most] = [by_shard.iter().min(), by_shard.iter().max()].map(Option::unwrap);
    assert!(
        said.contains("4,000 pairs in ") && said.contains(&format!("\nshards    7, of {least} to {most} pairs\n")),
        "{said}"
    );
    assert!(said.contains("ok: checksum right, 4,000 pairs checked"), "{said}");
    assert!(!folder.ok("info one.koel").contains("shards"));
}

#[test]
#[ignore = "slow: 1 to 300 shards, also without rows; CI runs it"]
fn parameters_that_differ_between_shards_are_omitted() {
    let folder = Folder::new();
    pairs(&folder, 4000);
    let built = folder.json("build pairs.csv -o t.koel --scheme signpost --load 0.97 --shards 9 --json");
    assert_eq!(built["parameters"]["slots"], folder.json("info t.koel --json")["parameters"]["slots"]);
    // Tables without rows, and with one shard.
    folder.file("none.csv", "");
    for (rows, shards) in [("none", 3), ("none", 1), ("pairs", 1), ("pairs", 300)] {
        folder.ok(&format!("build {rows}.csv -o t.koel --shards {shards}"));
        assert_eq!(folder.json("info t.koel --json")["shards"], shards);
        assert_eq!(folder.ok("lookup t.koel queries.csv").lines().count(), 4001);
    }
}

#[test]
fn kmers_and_duplicates_match_those_of_one_table() {
    let folder = Folder::new();
    folder.file("g.fa", ">g\nACGTTGCAACGGTTAACCGGATATCGCGTAC\n");
    folder.ok("build g.fa --kmer 9 -o shards.koel --shards 3 --duplicates last");
    folder.ok("build g.fa --kmer 9 -o one.koel --duplicates last");
    folder.file("q.csv", "ACGTTGCAA\nTTTTTTTTT\n");
    for options in ["", "--letters", "--letters --places g.fa"] {
        let of = |table: &str| folder.ok(&format!("lookup {table}.koel g.fa {options}"));
        assert_eq!(of("shards"), of("one"));
    }
    folder.file("copies.csv", "5,1\n9,2\n5,3\n9,4\n-1,8\n");
    for rule in ["first", "last"] {
        folder.ok(&format!("build copies.csv -o t.koel --shards 4 --duplicates {rule} --device cpu,cpu"));
        let value = if rule == "first" { (1, 2) } else { (3, 4) };
        let said = folder.ok("lookup t.koel copies.csv");
        assert!(said.starts_with(&format!("key,value\n5,{}\n9,{}\n", value.0, value.1)), "{said}");
    }
    folder.refused("build copies.csv -o t.koel --shards 4 --keys i32", "key 5 occurs more than once");
}

#[test]
fn tables_in_shards_are_written_to_stdout() {
    let folder = Folder::new();
    pairs(&folder, 100);
    folder.ok("build pairs.csv -o t.koel --shards 2");
    let piped = folder.koel("build pairs.csv -o /dev/stdout --shards 2 --device cpu");
    assert!(piped.stdout == folder.bytes("t.koel"));
    assert!(stderr(&piped).contains("\nshards    2, of "), "{}", stderr(&piped));
}

#[test]
fn unsupported_uses_of_shards_are_refused() {
    let folder = Folder::new();
    pairs(&folder, 100);
    folder.refused(
        "build pairs.csv -o t.koel --table compact --shards 4",
        "--shards is for --table map, set and multi; a compact table numbers all keys in one table: omit it",
    );
    for shards in ["0", "4097", "-1", "x"] {
        folder.refused(&format!("build pairs.csv -o t.koel --shards {shards}"), "--shards");
    }
    folder.refused(
        "build pairs.csv -o t.koel --device cpu,cpu",
        "a table on several devices must be in shards: give --shards P",
    );
    folder.refused("build pairs.csv -o t.koel --device cpu,vax --shards 4", "no device for vax");
    folder.refused("build pairs.csv -o t.koel --shards 2 --slots 60", "do not fit");
    assert!(!folder.path("t.koel").exists());
    folder.ok("build pairs.csv -o t.koel --shards 2 --slots 400");
    folder.refused(
        "lookup t.koel queries.csv --mapped",
        "t.koel: --mapped is for tables that are not in shards: omit it",
    );
    folder.refused("lookup t.koel queries.csv --count", "--count is for --table multi");
    // Without a GPU, `gpus` is an error.
    let is_gpu = |device: &koel::backend::Listed| device.refused.is_none() && device.info.kind.name() == "gpu";
    if !koel::device::devices().iter().any(is_gpu) {
        folder.refused("build pairs.csv -o u.koel --shards 4 --device gpus", "no device for gpus");
        let mut without = folder.command("lookup t.koel queries.csv --device gpus");
        let said = without.env("KOEL_OPENCL", "off").output().unwrap();
        assert!(said.status.code() == Some(2) && stderr(&said).contains("KOEL_OPENCL"), "{}", stderr(&said));
    }
}

#[test]
fn damaged_shards_are_refused() {
    let folder = Folder::new();
    pairs(&folder, 300);
    folder.ok("build pairs.csv -o t.koel --shards 3");
    let whole = folder.bytes("t.koel");
    for at in [9, 13, 17, 30, 70, 200, whole.len() / 2, whole.len() - 50, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x11;
        folder.file("bad.koel", &damaged);
        for command in ["info bad.koel", "lookup bad.koel queries.csv"] {
            folder.refused(command, "bad.koel");
        }
    }
    for len in [8, 63, 64, 100, whole.len() - 1] {
        folder.file("bad.koel", &whole[..len]);
        folder.refused("info bad.koel", "bad.koel");
    }
}

#[test]
fn arrays_of_many_rows_keep_their_order() {
    let folder = Folder::new();
    let rows = 200_000;
    folder.file("p.npy", npy(&format!("({rows}, 2)"), &(0..rows).flat_map(|i| [key(i), i]).collect::<Vec<_>>()));
    folder.file("q.npy", npy(&format!("({rows},)"), &(0..rows).rev().map(key).collect::<Vec<_>>()));
    folder.ok("build p.npy -o t.koel --shards 16 --device cpu,cpu,cpu");
    let said = folder.ok("lookup t.koel q.npy --device cpu,cpu");
    assert!(said.lines().skip(1).zip((0..rows).rev()).all(|(line, i)| line == format!("{},{i}", key(i))));
    assert_eq!(said.lines().count(), rows as usize + 1);
}
