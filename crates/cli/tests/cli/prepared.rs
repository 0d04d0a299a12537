//! `build --columns` and `join --with`: right sides of joins that are stored in files.

use std::fs;

use crate::folder::{Folder, devices};
use crate::query;

/// Tables in which one city has no name.
fn folder() -> Folder {
    let folder = query::folder();
    folder.file("cities.csv", format!("{},none,5\n", query::CITIES));
    folder
}

#[test]
fn the_keys_of_the_file_are_the_default() {
    let folder = folder();
    folder.ok("build cities.csv --key age --columns town -o ages.koel -q");
    folder.file("ages.csv", "n,age\n1,2\n2,9\n3,5\n4,2\n");
    assert_eq!(folder.ok("join ages.csv --with ages.koel"), folder.ok("join ages.csv --with ages.koel --on age"));
    assert_eq!(folder.ok("join ages.csv --with ages.koel --columns n,town"), "n,town\n1,Oslo\n3,\n4,Oslo\n");
    folder.refused("join people.csv --with ages.koel --columns nothing", "nothing");
    folder.refused("join cities.csv ages.csv --columns n", "--columns is for tables of named columns");
    folder.refused("join cities.csv ages.csv --suffix _2", "--suffix is for tables of named columns");
    // The keys of a left side without rows, or without values, match any type.
    folder.file("header.csv", "age,n\n");
    folder.file("nulls.csv", "age,n\n,1\n,2\n");
    for how in ["inner", "left", "semi", "anti"] {
        let columns = if ["inner", "left"].contains(&how) { "age,n,town\n" } else { "age,n\n" };
        assert_eq!(folder.ok(&format!("join header.csv --with ages.koel --how {how}")), columns, "{how}");
    }
    assert_eq!(folder.ok("join nulls.csv --with ages.koel --how left"), "age,n,town\n,1,\n,2,\n");
}

#[test]
fn advice_on_types_of_keys_works() {
    let folder = folder();
    folder.ok("build cities.csv --key town --columns country -o cities.koel -q");
    let part = "left key `age` is Int64 and key `town` of cities.koel is Utf8: build cities.koel again with --types town=int64, or give --types age=utf8 to";
    folder.refused("join people.csv --with cities.koel --on age=town", part);
    folder.ok("join people.csv --with cities.koel --on age=town --types age=utf8 -q");
    folder.ok("build cities.csv --key age --columns country -o ages.koel -q");
    let part = "build ages.koel again with --types age=utf8";
    folder.refused("join people.csv --with ages.koel --on name=age", part);
    folder.ok("build cities.csv --key age --columns country --types age=utf8 -o ages.koel -q");
    folder.ok("join people.csv --with ages.koel --on name=age -q");
}

#[test]
fn info_describes_files_of_prepared_sides() {
    let folder = folder();
    let built = folder.json("build cities.csv --key age --columns town -o ages.koel --json");
    let info = folder.json("info ages.koel --json");
    assert_eq!((&info["rows"], &info["digest"]), (&built["rows"], &built["digest"]));
    assert_eq!(info["key"], serde_json::json!([{ "name": "age", "type": "Int64" }]));
    let said = folder.ok("info ages.koel");
    assert!(said.contains("key       age Int64; nulls are not equal\n"), "{said}");
    folder.file("cut.koel", &folder.bytes("ages.koel")[..100]);
    folder.refused("info cut.koel", "it was cut short");
}

#[test]
fn joins_with_a_file_equal_joins_with_the_table() {
    let folder = folder();
    for nulls in ["", "--nulls-equal"] {
        let build = |device: &str, name: &str| {
            folder.ok(&format!(
                "build cities.csv --key town --columns country,age -o {name} --device {device} {nulls} -q"
            ));
            fs::read(folder.path(name)).expect("a file")
        };
        let of_cpu = build("cpu", "cities.koel");
        for device in devices() {
            assert!(build(&device, "other.koel") == of_cpu, "{device}");
            for options in [
                "",
                "--how left",
                "--how semi",
                "--how anti",
                "--columns country,name",
                "--how left --columns age_r,city --suffix _r",
                "--how left --columns name",
            ] {
                let join = |right: &str| {
                    let found = folder.ok(&format!(
                        "join people.csv {right} --on city=town {options} {nulls} --device {device} -o joined.csv -q"
                    ));
                    assert_eq!(found, "");
                    fs::read_to_string(folder.path("joined.csv")).expect("a file")
                };
                let expected = join("cities.csv");
                assert!(!expected.is_empty(), "{options}");
                for with in ["--with cities.koel", "--with cities.koel --mapped"] {
                    assert_eq!(join(with), expected, "{with} {options} {nulls} on {device}");
                }
            }
        }
    }
}

/// Every device writes the same file as the CPU, and the CPU joins with the mapped file.
#[test]
fn the_cpu_maps_files_of_every_device() {
    let folder = Folder::new();
    let right = |row: u32| format!("{},text {},{row}\n", row * row % 30_011, row % 911);
    let left = |row: u32| format!("{row},{}\n", row * 7 % 40_009);
    folder.file("right.csv", format!("number,text,value\n{}", (0..50_000).map(right).collect::<String>()));
    folder.file("left.csv", format!("row,number\n{}", (0..60_000).map(left).collect::<String>()));
    let rows = |right: &str, how: &str| {
        folder.ok(&format!("join left.csv {right} --on number --how {how} -o joined.csv --device cpu -q"));
        fs::read_to_string(folder.path("joined.csv")).expect("a file")
    };
    let kinds = ["inner", "left", "semi", "anti"];
    let expected = kinds.map(|how| rows("right.csv", how));
    assert!(expected[0].lines().count() > 30_000 && expected[3].lines().count() > 10_000);
    let mut of_cpu = None;
    for device in devices() {
        folder.ok(&format!("build right.csv --key number --columns text,value -o right.koel --device {device} -q"));
        let bytes = fs::read(folder.path("right.koel")).expect("a file");
        assert!(*of_cpu.get_or_insert_with(|| bytes.clone()) == bytes, "{device}");
        for (how, expected) in kinds.iter().zip(&expected) {
            assert!(rows("--with right.koel --mapped", how) == *expected, "{how} with a file of {device}");
        }
    }
}

#[test]
fn several_keys_of_parquet_files_are_joined_batch_by_batch() {
    let folder = Folder::new();
    let right = |row: u32| format!("{},k{},{row}\n", row % 300, row % 7);
    let left = |row: u32| format!("{row},{},k{}\n", row % 400, row % 5);
    folder.file("right.csv", format!("number,text,value\n{}", (0..2_000).map(right).collect::<String>()));
    folder.file("left.csv", format!("row,n,t\n{}", (0..90_000).map(left).collect::<String>()));
    folder.ok("convert left.csv left.parquet -q");
    folder.ok("build right.csv --key number,text --columns value -o right.koel -q");
    for left in ["left.parquet", "left.csv"] {
        // The keys may be named in any order.
        folder.ok(&format!("join {left} right.csv --on t=text,n=number -o expected.parquet -q"));
        folder.ok(&format!("join {left} --with right.koel --on t=text,n=number -o found.parquet -q"));
        let rows = |name: &str| folder.ok(&format!("convert {name} /dev/stdout -q"));
        let expected = rows("expected.parquet");
        assert!(expected.lines().count() > 50_000);
        assert!(rows("found.parquet") == expected, "{left}");
    }
    let summary = folder.json("join left.csv --with right.koel --on t=text,n=number -o found.csv --json");
    assert_eq!([&summary["left_rows"], &summary["right_rows"]], [90_000, 2_000]);
}

#[test]
fn summaries_have_the_digest_and_mistakes_have_advice() {
    let folder = folder();
    let summary = folder.json("build cities.csv --key town --columns country -o cities.koel --json");
    assert_eq!(summary["rows"], 5);
    assert_eq!(summary["columns"].as_array().expect("names").len(), 2);
    assert_eq!(summary["digest"].as_str().expect("a digest").len(), 64);
    folder.file("damaged.koel", {
        let mut bytes = fs::read(folder.path("cities.koel")).expect("a file");
        bytes[200] ^= 1;
        bytes
    });
    folder.file("pairs.csv", "1,2\n");
    folder.ok("build pairs.csv -o pairs.koel -q");
    folder.all_refused(&[
        ("join people.csv --with cities.koel --on city", "the keys of cities.koel are town: give --on LEFT=town"),
        ("join people.csv --with cities.koel --on nowhere=town", "nowhere"),
        ("join people.csv --with cities.koel --on city=town --how full", "give the right table in place of --with"),
        ("join people.csv --with cities.koel --on city=town --nulls-equal", "nulls are not equal in cities.koel"),
        ("join people.csv --with cities.koel --on city=town --columns nothing", "nothing"),
        ("join people.csv --with damaged.koel --on city=town", "damaged"),
        ("join people.csv --with pairs.koel --on city=town", "not the prepared side of a join"),
        ("join people.csv --with nothing.koel --on city=town", "nothing.koel"),
        ("join people.csv --with cities.koel", "town"),
        ("join people.csv --with pairs.koel --mapped --on city=town", "not the prepared side of a join"),
        ("join people.csv cities.csv --mapped --on city=town", "--mapped"),
        ("join people.csv --mapped --on city=town", "--with"),
        ("join people.csv cities.csv --with cities.koel --on city=town", "--with"),
        ("build cities.csv --columns country -o c.koel", "--key"),
        ("build cities.csv --key town --columns nothing -o c.koel", "nothing"),
        ("build cities.csv --key town --columns country --table set -o c.koel", "--table"),
        ("build cities.csv --key town --columns country --scheme cuckoo -o c.koel", "--scheme"),
        ("build cities.csv --key town --columns country --max-ages 4 -o c.koel", "--max-ages"),
        ("build cities.csv --key town --nulls-equal -o c.koel", "--columns"),
        ("build cities.csv --key town --columns country -o cities.csv", "cities.csv"),
    ]);
}
