//! Several devices for tables of named columns: the bytes of one.

use std::fs;

use crate::folder::{Folder, devices, stderr};

const ROWS: u64 = 150_000;

/// Two tables: numbers with gaps, copies and nulls, text and doubles.
fn folder() -> Folder {
    let folder = Folder::new();
    let left = |i: u64| match i % 10 {
        0 => format!(",text {},{i}\n", i % 300),
        1..=3 => format!("77,text {},{}.25\n", i % 300, i % 1000),
        _ => format!("{},text {},{}.1\n", i * 7919 % (ROWS + 1000), i % 300, i % 1000),
    };
    let right = |i: u64| format!("{},{i},{}\n", i * 31 % ROWS, ["red", "green", "", "blue"][i as usize % 4]);
    folder.file("left.csv", "k,t,v\n".to_owned() + &(0..ROWS).map(left).collect::<String>());
    folder.file("right.csv", "k,c,d\n".to_owned() + &(0..ROWS).map(right).collect::<String>());
    for name in ["left", "right"] {
        folder.ok(&format!("convert {name}.csv {name}.parquet"));
    }
    folder
}

/// The CPU twice and three times, and, where there are others, all.
fn places() -> Vec<String> {
    let mut places = vec!["cpu,cpu".to_owned(), "cpu,cpu,cpu".to_owned()];
    places.extend(Some(devices()).filter(|devices| devices.len() > 1).map(|devices| devices.join(",")));
    places
}

#[test]
fn several_devices_give_the_bytes_of_one() {
    let folder = folder();
    let places = places();
    for (arguments, output) in [
        ("join left.parquet right.parquet --on k", "parquet"),
        ("join left.csv right.csv --on k --how full", "csv"),
        ("join left.parquet right.csv --on k=c --how right", "csv"),
        ("join left.parquet right.parquet --on k --how anti --nulls-equal", "csv"),
        ("groupby left.csv --by t,k --agg count,sum:v,mean:v,first:v", "parquet"),
        ("groupby right.parquet --by k --agg min:d,nunique:c --ids ascending", "csv"),
        ("unique left.parquet --on k,t --columns v,k --counts --ids ascending", "parquet"),
        ("unique left.parquet right.csv --key k --skip-nulls --counts --min-count 2", "npy"),
    ] {
        folder.ok(&format!("{arguments} -o one.{output} --device cpu -q"));
        let read = |name: &str| fs::read(folder.path(&format!("{name}.{output}"))).unwrap();
        for place in &places {
            for memory in ["", "--memory 64Mi"] {
                let said = folder.json(&format!("{arguments} -o several.{output} --device {place} {memory} --json"));
                assert!(read("one") == read("several"), "{arguments} to .{output} on {place} {memory}");
                assert_eq!(said["device"], place.as_str());
                assert_eq!(said["memory"].as_u64(), (!memory.is_empty()).then_some(64 << 20));
            }
        }
    }
    let arguments = "unique left.parquet --on k,v -q";
    folder.ok(&format!("{arguments} --inverse one-ids.parquet -o one-keys.parquet --device cpu"));
    folder.ok(&format!("{arguments} --inverse ids.parquet -o keys.parquet --device cpu,cpu"));
    for name in ["ids", "keys"] {
        let read = |name: String| fs::read(folder.path(&name)).unwrap();
        assert!(read(format!("{name}.parquet")) == read(format!("one-{name}.parquet")), "{name}");
    }
}

/// What does not fit is in parts, and each device has some.
#[test]
fn parts_go_to_several_devices() {
    let folder = Folder::new();
    let rows = |i: u64| format!("{},{}.5\n", i * 7919 % 700_000, i % 1000);
    folder.file("rows.csv", "k,v\n".to_owned() + &(0..1_000_000).map(rows).collect::<String>());
    for arguments in ["groupby rows.csv --by k --agg sum:v,count", "join rows.csv rows.csv --on k --how semi"] {
        folder.ok(&format!("{arguments} -o one.csv --device cpu -q"));
        let said = folder.json(&format!("{arguments} -o several.csv --device cpu,cpu,cpu --memory 64Mi --json"));
        assert!(said["spilled_bytes"].as_u64() > Some(1 << 20), "{said}");
        assert!(fs::read(folder.path("one.csv")).unwrap() == fs::read(folder.path("several.csv")).unwrap());
    }
}

#[test]
fn what_several_devices_cannot_do_is_refused() {
    let folder = Folder::new();
    folder.file("a.csv", "k,v\n1,2\n,3\n");
    folder.file("p.csv", "1,2\n3,4\n");
    folder.refused("join p.csv p.csv --device cpu,cpu", "name one device, or key columns by --on");
    folder.refused("groupby p.csv --device cpu,cpu", "name one device, or key columns by --by");
    folder.refused("groupby p.csv --device all", "--device all: one device groups rows `key,value`");
    folder.refused("unique p.csv --inverse i.csv --device cpu,cpu", "--device with several devices and --inverse");
    folder.refused("unique a.csv --on k --device cpu,vax", "no device for vax");
    folder.refused("isin a.csv a.csv --on k --device cpu,cpu", "this command uses one device");
    let said = |arguments: &str| stderr(&folder.koel(arguments));
    let arguments = "groupby a.csv --by k --agg sum:x";
    assert_eq!(said(&format!("{arguments} --device cpu,cpu")), said(&format!("{arguments} --device cpu")));
    assert_eq!(folder.ok("unique p.csv --device cpu,cpu"), folder.ok("unique p.csv --device cpu"));
}
