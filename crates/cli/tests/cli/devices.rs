//! Several devices give the bytes of one, for tables of named columns and for rows without names.

use crate::folder::{Folder, devices, full, stderr};
use crate::limited::tables;

const ROWS: u64 = 150_000;

/// Lists of devices: the CPU twice and three times, and all devices if there is more than one.
fn places() -> Vec<String> {
    let mut places = vec!["cpu,cpu".to_owned(), "cpu,cpu,cpu".to_owned()];
    places.extend(Some(devices()).filter(|devices| devices.len() > 1).map(|devices| devices.join(",")));
    places
}

#[test]
fn the_output_of_several_devices_is_that_of_one() {
    check(&[
        ("join left.parquet right.csv --on k --how full", "csv"),
        ("groupby left.csv --by t,k --agg count,sum:v,mean:v,first:v", "parquet"),
    ]);
}

#[test]
#[ignore = "slow: further kinds of join, aggregates and formats; CI runs it"]
fn the_output_of_every_command_is_that_of_one_device() {
    check(&[
        ("join left.parquet right.parquet --on k", "parquet"),
        ("join left.csv right.csv --on k --how full", "csv"),
        ("join left.parquet right.csv --on k=c --how right", "csv"),
        ("join left.parquet right.parquet --on k --how anti --nulls-equal", "csv"),
        ("groupby right.parquet --by k --agg min:d,nunique:c --ids ascending", "csv"),
        ("unique left.parquet --on k,t --columns v,k --counts --ids ascending", "parquet"),
        ("unique left.parquet right.csv --key k --skip-nulls --counts --min-count 2", "npy"),
    ]);
}

/// Runs these commands on one device and on several, and `unique --inverse`.
fn check(all: &[(&str, &str)]) {
    let folder = tables(ROWS, ROWS);
    let places = places();
    let mut memory = ["", "--memory 64Mi", "--memory 64Mi", ""].into_iter().cycle();
    for (arguments, output) in all {
        folder.ok(&format!("{arguments} -o one.{output} --device cpu -q"));
        let read = |name: &str| folder.bytes(&format!("{name}.{output}"));
        let all = places.iter().flat_map(|place| {
            let first = memory.next().expect("an endless iterator");
            [first, if first.is_empty() { "--memory 64Mi" } else { "" }].map(|memory| (place, memory))
        });
        for (place, memory) in all.step_by(if full() { 1 } else { 2 }) {
            let said = folder.json(&format!("{arguments} -o several.{output} --device {place} {memory} --json"));
            assert!(read("one") == read("several"), "{arguments} to .{output} on {place} {memory}");
            assert_eq!(said["device"], place.as_str());
            assert_eq!(said["memory"].as_u64(), (!memory.is_empty()).then_some(64 << 20));
        }
    }
    let arguments = "unique left.parquet --on k,v -q";
    folder.ok(&format!("{arguments} --inverse one-ids.parquet -o one-keys.parquet --device cpu"));
    folder.ok(&format!("{arguments} --inverse ids.parquet -o keys.parquet --device cpu,cpu"));
    for name in ["ids", "keys"] {
        let (all, one) = (folder.bytes(&format!("{name}.parquet")), folder.bytes(&format!("one-{name}.parquet")));
        assert!(all == one, "{name}");
    }
}

/// Rows that do not fit within the limit are partitioned, and each device processes some of the partitions.
#[test]
#[ignore = "slow: rows that exceed the limit on several devices, which koel-arrow tests with fewer rows; CI runs it"]
fn partitions_are_processed_on_several_devices() {
    let folder = Folder::new();
    let rows = |i: u64| format!("{},{}.5\n", i * 7919 % 700_000, i % 1000);
    folder.file("rows.csv", "k,v\n".to_owned() + &(0..1_000_000).map(rows).collect::<String>());
    for arguments in ["groupby rows.csv --by k --agg sum:v,count", "join rows.csv rows.csv --on k --how semi"] {
        folder.ok(&format!("{arguments} -o one.csv --device cpu -q"));
        let said = folder.json(&format!("{arguments} -o several.csv --device cpu,cpu,cpu --memory 64Mi --json"));
        assert!(said["spilled_bytes"].as_u64() > Some(1 << 20), "{said}");
        assert!(folder.bytes("one.csv") == folder.bytes("several.csv"));
    }
}

#[test]
fn the_output_for_unnamed_columns_is_that_of_one_device() {
    check_pairs(&[
        "join left.csv right.csv --how full",
        "join signed.csv wide.csv --how inner --rows",
        "groupby left.csv --agg count,sum,min,max",
        "groupby signed.csv --agg max,sum --ids ascending",
        "groupby doubles.csv --values f64 --agg sum,min,count",
    ]);
}

#[test]
#[ignore = "slow: every kind of join, with values and with row numbers; CI runs it"]
fn every_join_and_group_of_unnamed_columns_matches_one_device() {
    let kinds = ["inner", "left", "right", "full", "semi", "anti"];
    let joins = kinds.map(|how| format!("join left.csv right.csv --how {how}"));
    let wide = kinds.map(|how| format!("join signed.csv wide.csv --how {how} --rows"));
    let mut all: Vec<&str> = joins.iter().chain(&wide).map(String::as_str).collect();
    all.extend([
        "join right.csv signed.csv",
        "join wide.csv wide.csv --keys u64",
        "groupby wide.csv",
        "groupby left.csv --agg sum --min-count 2",
    ]);
    check_pairs(&all);
}

/// Runs these commands on one device and on several, with rows `key,value` of every number type.
fn check_pairs(all: &[&str]) {
    let folder = Folder::new();
    let rows = |count: u64, step: u64, key: &dyn Fn(u64) -> i64| -> String {
        (0..count).map(|i| format!("{},{}\n", key(i * step % 60_000), i % 1000)).collect()
    };
    folder.file("left.csv", rows(90_000, 7919, &|key| key as i64));
    folder.file("right.csv", rows(60_000, 31, &|key| key as i64 * 2));
    folder.file("signed.csv", rows(50_000, 7, &|key| key as i64 - 30_000));
    folder.file("wide.csv", rows(50_000, 11, &|key| key as i64 * 3_000_000_007));
    folder.file("doubles.csv", (0..70_000).map(|i| format!("{},{}.1\n", i * 7 % 900, i % 1000)).collect::<String>());
    let mut places = places();
    places.push("cpu --memory 64Mi".into());
    let outputs = ["csv", "npy", "npy", "csv"];
    for (turn, arguments) in all.iter().enumerate() {
        for output in if full() { &outputs[..2] } else { &outputs[turn % 4..][..1] } {
            folder.ok(&format!("{arguments} -o one.{output} --device cpu -q"));
            // Each command runs on half of the device lists, in turn.
            let some = if full() { places.len() } else { places.len().div_ceil(2) };
            for place in places.iter().cycle().skip(turn * some % places.len()).take(some) {
                let said = folder.json(&format!("{arguments} -o several.{output} --device {place} --json"));
                let read = |name: &str| folder.bytes(&format!("{name}.{output}"));
                assert!(read("one") == read("several"), "{arguments} to .{output} on {place}: {said}");
            }
        }
    }
}

#[test]
fn sums_that_do_not_fit_are_reported_on_several_devices_too() {
    let folder = Folder::new();
    folder.file("sums.csv", format!("1,5\n7,{0}\n7,{0}\n", i64::MAX));
    for device in ["cpu", "cpu,cpu"] {
        folder.refused(
            &format!("groupby sums.csv --agg sum --values i64 --device {device}"),
            "does not fit in 64 bits: group fewer rows",
        );
    }
}

#[test]
fn unsupported_uses_of_several_devices_are_refused() {
    let folder = Folder::new();
    folder.file("a.csv", "k,v\n1,2\n,3\n");
    folder.file("p.csv", "1,2\n3,4\n");
    folder.refused("join p.csv p.csv --device cpu,cpu --scheme sorted", "unexpected argument '--scheme'");
    folder.refused("unique a.csv --on k --device cpu,vax", "no device for vax");
    folder.refused("isin a.csv a.csv --on k --device cpu,cpu", "this command uses one device");
    let said = |arguments: &str| stderr(&folder.koel(arguments));
    let arguments = "groupby a.csv --by k --agg sum:x";
    assert_eq!(said(&format!("{arguments} --device cpu,cpu")), said(&format!("{arguments} --device cpu")));
    assert_eq!(folder.ok("unique p.csv --device cpu,cpu"), folder.ok("unique p.csv --device cpu"));
    folder.ok("unique p.csv --inverse one.csv --device cpu");
    folder.ok("unique p.csv --inverse several.csv --device cpu,cpu");
    assert!(folder.bytes("one.csv") == folder.bytes("several.csv"));
}
