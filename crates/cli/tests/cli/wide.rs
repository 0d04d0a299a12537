//! 64-bit and negative numbers compared with maps and nested loops, from and to text and arrays, with the same bytes on
//! every device.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::expected::{Expected, ascending, first_seen, nested_loops};
use crate::folder::{Folder, array, devices, stderr};

const I64: (i128, i128) = (i64::MIN as i128, i64::MAX as i128);

/// Signed 64-bit numbers with duplicates: the extremes, numbers that agree in one half, and small ones.
fn numbers(count: usize, seed: u64) -> Vec<i128> {
    let extremes = [0, 1, -1, 1 << 31, -1 << 31, 1 << 32, -1 << 32, I64.0, I64.1, 4_294_967_295];
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let number = |draw: u64| match draw % 5 {
        0 => extremes[(draw / 5 % 10) as usize],
        1 => i128::from(((draw / 5 % 40) as i64 - 20) << 32 | 7),
        2 => i128::from(5 << 48 | (draw / 5 % 40) as i64),
        3 => i128::from((draw / 5 % 40) as i64 - 20),
        _ => i128::from((draw / 5 % 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64),
    };
    (0..count).map(|_| number(next())).collect()
}

/// Writes a column as `NAME.csv`, and as `NAME.npy` with the type `code`.
fn column(folder: &Folder, name: &str, code: &str, column: &[i128]) {
    folder.file(&format!("{name}.csv"), column.iter().map(|number| format!("{number}\n")).collect::<String>());
    folder.file(&format!("{name}.npy"), array(code, &format!("({},)", column.len()), column));
}

/// Writes rows `key,value` in the same formats.
fn pairs(folder: &Folder, name: &str, code: &str, rows: &[(i128, i128)]) {
    folder.file(&format!("{name}.csv"), rows.iter().map(|(key, value)| format!("{key},{value}\n")).collect::<String>());
    let flat: Vec<i128> = rows.iter().flat_map(|&(key, value)| [key, value]).collect();
    folder.file(&format!("{name}.npy"), array(code, &format!("({}, 2)", rows.len()), &flat));
}

/// Checks the output of a command: in each format on the CPU, and only stdout on other devices, because formats do not
/// depend on the device.
fn check(expected: &Expected, folder: &Folder, arguments: &str, device: &str) {
    let arguments = format!("{arguments} --device {device}");
    if device == "cpu" {
        expected.check(folder, &arguments);
    } else {
        assert_eq!(folder.ok(&arguments), expected.text(","), "koel {arguments}");
    }
}

/// The expected values are those of `numpy.unique` and `pandas.factorize` for `[5, -1, 2**40, -1, -2**63, 5]`.
#[test]
fn distinct_numbers_match_numpy() {
    let folder = Folder::new();
    column(&folder, "k", "<i8", &[5, -1, 1 << 40, -1, I64.0, 5]);
    for (order, unique, inverse) in [
        ("ascending", "-9223372036854775808,1\n-1,2\n5,2\n1099511627776,1\n", "2\n1\n3\n1\n0\n2\n"),
        ("first", "5,2\n-1,2\n1099511627776,1\n-9223372036854775808,1\n", "0\n1\n2\n1\n3\n0\n"),
    ] {
        for device in devices() {
            for input in ["k.csv", "k.npy"] {
                let said =
                    folder.ok(&format!("unique {input} --counts --inverse i.csv --ids {order} --device {device}"));
                assert_eq!(said, format!("key,count\n{unique}"), "{input} {order}");
                assert_eq!(folder.text("i.csv"), format!("id\n{inverse}"));
            }
        }
    }
}

#[test]
fn distinct_numbers_of_every_type_keep_their_order() {
    let folder = Folder::new();
    let all = numbers(3000, 1);
    let of = |keep: fn(&i128) -> bool| all.iter().copied().filter(keep).collect::<Vec<_>>();
    for (code, keys) in [
        ("<i8", all.clone()),
        ("<u8", all.iter().map(|&key| i128::from(key as u64)).collect()),
        ("<i4", of(|key| i32::try_from(*key).is_ok())),
        ("<u4", of(|key| u32::try_from(*key).is_ok())),
    ] {
        column(&folder, "k", code, &keys);
        let key = ("key", ["<i8", "<u8", "<i4", "<u4"].into_iter().find(|known| *known == code).unwrap());
        for (order, unique) in [("first", first_seen(keys.clone())), ("ascending", ascending(keys.clone()))] {
            let of_key = |number: &i128| unique.iter().position(|other| other == number).unwrap() as i128;
            let count = |number: &i128| keys.iter().filter(|other| *other == number).count() as i128;
            let counts = unique.iter().map(|number| vec![*number, count(number)]);
            let columns: &'static [_] = Box::leak(Box::new([key, ("count", "<u4")]));
            let expected = Expected::new(columns, counts);
            let ids = Expected::new(&[("id", "<u4")], keys.iter().map(|number| vec![of_key(number)]));
            for device in devices() {
                check(&expected, &folder, &format!("unique k.npy --counts --ids {order}"), &device);
                let inverse = format!("unique k.csv --inverse i.npy --ids {order} --device {device}");
                let keys = unique.iter().map(|number| format!("{number}\n")).collect::<String>();
                assert_eq!(folder.ok(&inverse), format!("key\n{keys}"), "{code} {order}");
                ids.check_array(&folder, "i.npy", &inverse);
            }
        }
    }
}

#[test]
fn groups_of_numbers_below_zero_add_up() {
    let folder = Folder::new();
    let keys = numbers(2000, 2);
    let spread = |i: i64| i128::from((i.wrapping_mul(0x9e37_79b9) as i32) / (1 + (i % 3) as i32));
    let mut rows: Vec<(i128, i128)> = keys.iter().zip(0..).map(|(&key, i)| (key, spread(i))).collect();
    rows.extend([(7, i32::MIN.into()), (7, i32::MIN.into()), (7, i32::MAX.into())]);
    pairs(&folder, "g", "<i8", &rows);
    let mut groups: BTreeMap<i128, Vec<i128>> = BTreeMap::new();
    rows.iter().for_each(|&(key, value)| groups.entry(key).or_default().push(value));
    let keys: Vec<i128> = rows.iter().map(|row| row.0).collect();
    for (order, keys) in [("first", first_seen(keys.clone())), ("ascending", ascending(keys.clone()))] {
        let row = |key: &i128| {
            let values = &groups[key];
            let (least, greatest) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
            vec![*key, values.iter().sum(), least, values.len() as i128, greatest]
        };
        let columns = &[("key", "<i8"), ("sum", "<i8"), ("min", "<i8"), ("count", "<u4"), ("max", "<i8")];
        let expected = Expected::new(columns, keys.iter().map(row));
        assert!(expected.rows.iter().any(|row| row[1] < Some(i32::MIN.into())), "sums below 32 bits");
        let sums = Expected::new(&[("key", "<i8"), ("sum", "<i8")], keys.iter().map(|key| row(key)[..2].to_vec()));
        for device in devices() {
            check(&expected, &folder, &format!("groupby g.npy --agg sum,min,count,max --ids {order}"), &device);
            check(&sums, &folder, &format!("groupby g.csv --keys i64 --values i64 --agg sum --ids {order}"), &device);
        }
    }
    folder.file("great.csv", "-1,9223372036854775807\n5,2\n-1,1\n");
    folder.refused(
        "groupby great.csv --keys i64 --values i64 --agg sum --device cpu",
        "the sum of the values of key -1 does not fit in 64 bits: group fewer rows at a time, or give --values f64",
    );
    let great = folder.ok("groupby great.csv --keys i64 --values f64 --agg sum,min --device cpu");
    assert_eq!(great, "key,sum,min\n-1,9.223372036854776e18,1.0\n5,2.0,2.0\n");
    assert_eq!(folder.ok("groupby great.csv --agg max --device cpu"), "key,max\n-1,9223372036854775807\n5,2\n");
}

#[test]
fn doubles_are_values_of_groups_and_joins_only() {
    let folder = Folder::new();
    folder.file("d.csv", "key,value\n7,1e16\n3,0.1\n7,1\n7,-1e16\n3,nan\n");
    let rows = "key,sum,min,max,count\n7,1.0,-1e16,1e16,3\n3,NaN,NaN,NaN,2\n";
    // Sequential addition gives 0.0, because 1e16 + 1 rounds to 1e16.
    for device in devices() {
        let found = folder.ok(&format!("groupby d.csv --values f64 --agg sum,min,max,count --device {device}"));
        assert_eq!(found, rows, "{device}");
    }
    assert_eq!(
        folder.ok("join d.csv d.csv --values f64 --how semi --device cpu"),
        "key,left\n7,1e16\n3,0.1\n7,1.0\n7,-1e16\n3,NaN\n"
    );
    folder.refused("groupby d.csv --agg sum --device cpu", "give --values f64");
    folder.refused("build d.csv -o t.koel --values f64 --device cpu", "f64");
    folder.refused("unique d.csv --keys f64 --device cpu", "f64");
    folder.refused("build d.csv -o t.koel --device cpu", "`1e16` is not a whole number");
}

#[test]
fn joins_of_wide_columns_match_nested_loops() {
    let folder = Folder::new();
    let (mut left, mut right) = (numbers(300, 3), numbers(200, 4));
    left.retain(|key| key.rem_euclid(5) != 1);
    right.retain(|key| key.rem_euclid(5) != 2);
    // Values have another type than the keys, and joins return them unchanged.
    let valued = |keys: &[i128], of: i128| keys.iter().zip(0..).map(|(&key, i)| (key, of - i)).collect::<Vec<_>>();
    let (left_rows, right_rows) = (valued(&left, 10), valued(&right, I64.1));
    pairs(&folder, "l", "<i8", &left_rows);
    pairs(&folder, "r", "<i8", &right_rows);
    for how in ["inner", "left", "right", "full", "semi", "anti"] {
        let row = |(i, j): (Option<usize>, Option<usize>)| {
            let key = i.map_or_else(|| j.map(|j| right[j]), |i| Some(left[i]));
            vec![key, i.map(|i| left_rows[i].1), j.map(|j| right_rows[j].1)]
        };
        let columns: &[_] = match how {
            "inner" => &[("key", "<i8"), ("left", "<i8"), ("right", "<i8")],
            "left" => &[("key", "<i8"), ("left", "<i8"), ("right", "?found <i8")],
            "right" => &[("key", "<i8"), ("left", "?left_found <i8"), ("right", "<i8")],
            "full" => &[("key", "<i8"), ("left", "?left_found <i8"), ("right", "?found <i8")],
            _ => &[("key", "<i8"), ("left", "<i8")],
        };
        let expected = Expected::new(columns, nested_loops(&left, &right, how).into_iter().map(row));
        assert!(expected.rows.len() > 10, "{how}");
        for device in devices() {
            check(&expected, &folder, &format!("join l.npy r.npy --how {how}"), &device);
        }
        assert_eq!(folder.ok(&format!("join l.csv r.csv --how {how} --device cpu")), expected.text(","));
    }
}

#[test]
fn columns_of_different_types_are_joined_by_value() {
    let folder = Folder::new();
    column(&folder, "i", "<i8", &[-1, 5, 4_294_967_295, I64.0]);
    column(&folder, "u", "<u4", &[4_294_967_295, 5, 5]);
    column(&folder, "s", "<i4", &[-1, 7, 5]);
    column(&folder, "w", "<u8", &[5, 4_294_967_295, 1 << 63]);
    for (files, rows, code) in [
        ("i.npy u.npy", "5,1,1\n5,1,2\n4294967295,2,0\n", "<i8"),
        ("u.npy i.npy", "4294967295,0,2\n5,1,1\n5,2,1\n", "<i8"),
        ("s.npy i.npy", "-1,0,0\n5,2,1\n", "<i8"),
        ("s.npy u.npy", "5,2,1\n5,2,2\n", "<i8"),
        ("u.npy w.npy", "4294967295,0,1\n5,1,0\n5,2,0\n", "<u8"),
    ] {
        assert_eq!(folder.ok(&format!("join {files} --device cpu")), format!("key,left,right\n{rows}"), "{files}");
        folder.ok(&format!("join {files} -o j.npy --device cpu"));
        let header = String::from_utf8_lossy(&folder.bytes("j.npy")).into_owned();
        assert!(header.contains(&format!("('key', '{code}'), ('left', '<u4'), ('right', '<u4')")), "{files}: {header}");
    }
    folder.refused(
        "join i.npy w.npy --device cpu",
        "left keys are i64 and right keys u64, and no type holds both -9223372036854775808 and 9223372036854775808",
    );
    column(&folder, "w", "<u8", &[5, 4_294_967_295]);
    assert_eq!(folder.ok("join i.npy w.npy --device cpu"), "key,left,right\n5,1,0\n4294967295,2,1\n", "all fit i64");
}

/// Every pair of types, from text and arrays: each key is found with its value, and other keys are not found.
#[test]
fn maps_of_every_type_return_their_values() {
    let folder = Folder::new();
    let span = |name: &str| match name {
        "u32" => (0, i128::from(u32::MAX)),
        "i32" => (i32::MIN.into(), i32::MAX.into()),
        "u64" => (0, i128::from(u64::MAX)),
        _ => I64,
    };
    for keys in ["u32", "i32", "u64", "i64"] {
        for values in ["u32", "i32", "u64", "i64"] {
            let inside = |number: i128, name: &str| (span(name).0..=span(name).1).contains(&number);
            let extremes = [span(keys).0, span(keys).1, 0, 1, 1 << 32, 1 << 31, -1];
            let drawn = numbers(200, 5).into_iter().chain(extremes).filter(|&key| inside(key, keys));
            let distinct = ascending(drawn);
            let value = |i: usize| [span(values).1, span(values).0, 0, 1, 77][i % 5];
            let rows: Vec<_> = distinct.iter().enumerate().map(|(i, &key)| (key, value(i))).collect();
            let (held, absent): (Vec<_>, Vec<_>) = rows.iter().enumerate().partition(|(i, _)| i % 3 != 2);
            let held: Vec<_> = held.into_iter().map(|(_, &row)| row).collect();
            folder.file("p.csv", held.iter().map(|(key, value)| format!("{key},{value}\n")).collect::<String>());
            let queried = held.iter().copied().map(|(key, value)| (key, Some(value)));
            let queried = queried.chain(absent.into_iter().map(|(_, row)| (row.0, None))).collect::<Vec<_>>();
            folder.file("q.csv", queried.iter().map(|(key, _)| format!("{key}\n")).collect::<String>());
            let shown = |value: &Option<i128>| value.map_or(String::new(), |value| value.to_string());
            let expected = queried.iter().map(|(key, value)| format!("{key},{}\n", shown(value))).collect::<String>();
            let mut digests = BTreeSet::new();
            for device in devices() {
                let build = format!("build p.csv -o t.koel --keys {keys} --values {values} --device {device} --json");
                let built = folder.json(&build);
                assert_eq!(built["types"], json!({ "keys": keys, "values": values }));
                digests.insert(built["digest"].as_str().unwrap().to_owned());
                let lookup = format!("lookup t.koel q.csv --device {device}");
                assert_eq!(folder.ok(&lookup), format!("key,value\n{expected}"), "{keys} {values}");
            }
            assert_eq!(digests.len(), 1, "{keys} {values}: the same on every device");
            let info = folder.json("info t.koel --json");
            assert_eq!((&info["types"], &info["audit"]), (&json!({ "keys": keys, "values": values }), &json!("ok")));
            assert_eq!(folder.ok("lookup t.koel q.csv --mapped"), format!("key,value\n{expected}"));
            let said = folder.ok("info t.koel");
            let named = |name: &str| if name == "u32" { "numbers\n".to_owned() } else { format!("numbers ({name})\n") };
            assert!(said.contains(&format!("keys      {}", named(keys))), "{said}");
            assert_eq!(said.contains(&format!("values    {}", named(values))), values != "u32", "{said}");
        }
    }
}

#[test]
fn tables_are_queried_with_keys_of_other_types() {
    let folder = Folder::new();
    folder.file("u.csv", "5,1\n4294967295,2\n0,3\n");
    folder.file("s.csv", "5,1\n-1,2\n-9223372036854775808,3\n");
    folder.file("w.csv", "5,1\n18446744073709551615,2\n9223372036854775808,3\n");
    for name in ["u", "s", "w"] {
        folder.ok(&format!("build {name}.csv -o {name}.koel --device cpu"));
        for table in ["set", "compact", "multi"] {
            folder.ok(&format!("build {name}.csv -o {name}.{table} --table {table} --device cpu"));
        }
    }
    // A text file may contain any numbers that fit one type.
    folder.file("signed.csv", "-1\n5\n4294967295\n-9223372036854775808\n-1\n");
    folder.file("wide.csv", "18446744073709551615\n5\n9223372036854775808\n0\n");
    for (table, queries, rows) in [
        ("u", "signed", "-1,\n5,1\n4294967295,2\n-9223372036854775808,\n-1,\n"),
        ("u", "wide", "18446744073709551615,\n5,1\n9223372036854775808,\n0,3\n"),
        ("s", "signed", "-1,2\n5,1\n4294967295,\n-9223372036854775808,3\n-1,2\n"),
        ("s", "wide", "18446744073709551615,\n5,1\n9223372036854775808,\n0,\n"),
        ("w", "signed", "-1,\n5,1\n4294967295,\n-9223372036854775808,\n-1,\n"),
        ("w", "wide", "18446744073709551615,2\n5,1\n9223372036854775808,3\n0,\n"),
    ] {
        let queried = |table: &str, more: &str| folder.ok(&format!("lookup {table} {queries}.csv --device cpu {more}"));
        assert_eq!(queried(&format!("{table}.koel"), ""), format!("key,value\n{rows}"));
        assert_eq!(queried(&format!("{table}.multi"), ""), format!("key,value\n{rows}"));
        let flags = |yes: &str, no: &str| -> String {
            let flag = |row: &str| row.split_once(',').map(|(key, value)| (key.to_owned(), value.is_empty())).unwrap();
            let line = |(key, missed)| format!("{key},{}\n", if missed { no } else { yes });
            rows.lines().map(flag).map(line).collect()
        };
        assert_eq!(queried(&format!("{table}.set"), ""), format!("key,found\n{}", flags("1", "0")));
        assert_eq!(queried(&format!("{table}.multi"), "--count"), format!("key,count\n{}", flags("1", "0")));
        let ids = queried(&format!("{table}.compact"), "");
        let hits = |text: &str| text.lines().filter(|line| !line.ends_with(',')).count();
        assert_eq!(hits(&ids), hits(&format!("key,id\n{rows}")), "{ids}");
        let strict = folder.koel(&format!("lookup {table}.koel {queries}.csv --strict --device cpu"));
        let missed = rows.lines().filter(|line| line.ends_with(',')).count();
        assert!(stderr(&strict).contains(&format!("{missed} of {} queries", rows.lines().count())));
    }
    // The key column of an output array has the type of the queries, of `--keys`, or of the table.
    column(&folder, "q", "<i8", &[-1, 5, 4_294_967_295]);
    let expected = Expected::new(
        &[("key", "<i8"), ("value", "?found")],
        [vec![Some(-1), None], vec![Some(5), Some(1)], vec![Some(4_294_967_295), Some(2)]],
    );
    expected.check(&folder, "lookup u.koel q.npy --device cpu");
    folder.ok("lookup u.koel q.csv --keys i64 -o out.npy --device cpu");
    expected.check_array(&folder, "out.npy", "lookup u.koel q.csv --keys i64");
    folder.refused(
        "lookup u.koel q.csv -o out.npy --device cpu",
        "row 1 of the output: the key -1 does not fit the type of its column, u32: give --keys i64",
    );
    folder.refused(
        "lookup u.koel q.csv --keys u64 --device cpu -o out.csv",
        "q.csv, line 1: the key -1 does not fit u64",
    );
    folder.file("plain.csv", "5\n0\n");
    assert_eq!(folder.ok("lookup u.koel plain.csv --keys u64 --device cpu"), "key,value\n5,1\n0,3\n");
}

#[test]
fn ids_ascend_in_numerical_order() {
    let folder = Folder::new();
    let keys = numbers(1500, 6);
    column(&folder, "k", "<i8", &keys);
    for (order, unique) in [("first", first_seen(keys.clone())), ("ascending", ascending(keys.clone()))] {
        let ids: Vec<i128> = (0..unique.len() as i128 + 2).rev().collect();
        column(&folder, "ids", "<u4", &ids);
        let key = |id: &i128| [Some(*id), unique.get(*id as usize).copied()].to_vec();
        let reverse = Expected::new(&[("id", "<u4"), ("key", "?found <i8")], ids.iter().map(key));
        let id = |number: &i128| unique.iter().position(|other| other == number).map(|id| id as i128);
        let queried: Vec<i128> = keys[..200].iter().flat_map(|&key| [key, key ^ 1 << 20]).collect();
        column(&folder, "q", "<i8", &queried);
        let forward = Expected::new(
            &[("key", "<i8"), ("id", "?found")],
            queried.iter().map(|number| vec![Some(*number), id(number)]),
        );
        for device in devices() {
            folder.ok(&format!("build k.npy -o t.koel --table compact --ids {order} --device {device}"));
            check(&reverse, &folder, "lookup t.koel ids.npy --reverse", &device);
            check(&forward, &folder, "lookup t.koel q.npy", &device);
        }
    }
    folder.file("ids.csv", "-1\n0\n4294967296\n");
    assert!(folder.ok("lookup t.koel ids.csv --reverse --device cpu").starts_with("id,key\n-1,\n0,"));
    assert_eq!(folder.json("info t.koel --json")["types"], json!({ "keys": "i64", "values": null }));
}

#[test]
fn all_values_of_wide_keys_keep_their_order() {
    let folder = Folder::new();
    let keys = numbers(1500, 8);
    let rows: Vec<(i128, i128)> = keys.iter().zip(0..).map(|(&key, i)| (key, (700 - i) << 33)).collect();
    pairs(&folder, "m", "<i8", &rows);
    let mut queried = vec![3 << 33, 9 << 33];
    queried.extend(ascending(keys.clone()).iter().take(60).flat_map(|&key| [key, 11 << 33]));
    column(&folder, "q", "<i8", &queried);
    let of = |key: i128| rows.iter().filter(move |row| row.0 == key).map(|row| row.1);
    let row = |&key: &i128| match of(key).count() {
        0 => vec![vec![Some(key)]],
        _ => of(key).map(|value| vec![Some(key), Some(value)]).collect(),
    };
    let all = Expected::new(&[("key", "<i8"), ("value", "?found <i8")], queried.iter().flat_map(row));
    let mut files = BTreeSet::new();
    for device in devices() {
        for input in ["m.npy", "m.csv"] {
            folder.ok(&format!("build {input} -o t.koel --table multi --device {device}"));
            files.insert(folder.bytes("t.koel"));
        }
        check(&all, &folder, "lookup t.koel q.npy", &device);
    }
    assert_eq!(files.len(), 1, "text and arrays, on every device");
    assert_eq!(folder.json("info t.koel --json")["types"], json!({ "keys": "i64", "values": "i64" }));
    // Values of 64 bits do not restrict the scheme of the keys.
    folder.file("wide.csv", "5,4294967296\n7,-1\n5,3\n");
    for (keys, values, scheme) in [("u32", "i64", "horton"), ("i32", "i64", "cuckoo"), ("i64", "i64", "bucketized")] {
        let types = format!("--keys {keys} --values {values} --scheme {scheme}");
        folder.ok(&format!("build wide.csv -o t.koel --table multi --device cpu {types}"));
        assert_eq!(folder.json("info t.koel --json")["types"], json!({ "keys": keys, "values": values }));
        folder.file("q.csv", "7\n6\n5\n");
        assert_eq!(
            folder.ok("lookup t.koel q.csv --device cpu"),
            "key,value\n7,-1\n6,\n5,4294967296\n5,3\n",
            "{types}"
        );
        assert_eq!(folder.ok("lookup t.koel q.csv --device cpu --count"), "key,count\n7,1\n6,0\n5,2\n", "{types}");
    }
}

#[test]
fn text_that_needs_more_than_32_bits_is_reported() {
    let folder = Folder::new();
    folder.file("narrow.csv", "1,4294967295\n");
    folder.file("wide.csv", "key,value\n4294967296,-5\n");
    let said = |arguments: &str| stderr(&folder.koel(arguments));
    assert_eq!(said("unique narrow.csv --device cpu"), "");
    let printed = "wide.csv: keys are u64, values are i32, the narrowest type that holds them\n";
    assert_eq!(said("build wide.csv -o t.koel --device cpu"), printed);
    assert_eq!(said("build wide.csv -o t.koel --keys u64 --values i64 --device cpu"), "");
    assert_eq!(said("-q build wide.csv -o t.koel --device cpu"), "");
    assert_eq!(said("unique wide.csv --device cpu"), "wide.csv: keys are u64, the narrowest type that holds them\n");
    // Lookups write the queries unchanged, so nothing is reported.
    assert_eq!(said("lookup t.koel wide.csv --device cpu"), "");
}

#[test]
fn options_unsupported_by_wide_tables_are_refused() {
    let folder = Folder::new();
    folder.file("w.csv", "4294967296,1\n-3,2\n");
    for (arguments, part) in [
        (
            "build w.csv -o t --scheme horton",
            "--scheme horton: tables of 64-bit keys or values have one of the schemes bucketized, robin_hood, signpost",
        ),
        ("build w.csv -o t --scheme robin_hood --kind classic", "--kind classic: tables of 64-bit keys or values"),
        ("build w.csv -o t --scheme robin_hood --max-ages 4", "tables of 64-bit keys or values have none: use 0"),
        ("build w.csv -o t --scheme robin_hood --functions 3", "--functions does not apply to canonical robin_hood"),
        ("build w.csv -o t --kind classic", "--kind classic: tables of 64-bit keys or values are canonical"),
        (
            "build w.csv -o t --scheme bucketized --bucket-slots 8",
            "--bucket-slots does not apply to tables of 64-bit keys or values",
        ),
        ("build missing.csv -o t --keys i64 --functions 3", "--functions does not apply to tables of 64-bit"),
        ("build missing.csv -o t --values u64 --scheme cuckoo", "--scheme cuckoo: tables of 64-bit keys or values"),
        ("build w.csv -o t --table set --values u64", "--values is for tables with values, and set has none"),
        ("build w.csv -o t --keys u16", "'u16'"),
        ("build w.csv -o t --keys u64", "w.csv, line 2: the key -3 does not fit u64 (0 to"),
        ("build w.csv -o t --keys u32", "w.csv, line 1: the key 4294967296 does not fit u32"),
        ("build w.csv -o t --load 1.5", "load factor 1.5"),
        ("join w.csv w.csv --scheme sorted", "unexpected argument '--scheme'"),
    ] {
        folder.refused(&format!("-q {arguments} --device cpu"), part);
    }
    assert!(!folder.path("t").exists());
    for size in ["--load 0.5", "--capacity 100", "--slots 200", "--seed 9", "--scheme bucketized --kind canonical"]
        .into_iter()
        .chain(["--scheme robin_hood", "--scheme robin_hood --sequence random --load 0.99"])
    {
        folder.ok(&format!("build w.csv -o t {size} --device cpu"));
        assert_eq!(folder.ok("lookup t w.csv --device cpu"), "key,value\n4294967296,1\n-3,2\n", "{size}");
    }
    let printed = folder.ok("info t");
    assert!(printed.contains("robin_hood") && printed.contains("sequence random"), "{printed}");
    folder.file("twice.csv", "-5,1\n-7,2\n-5,3\n-7,4\n4294967296,5\n");
    folder
        .refused("-q build twice.csv -o t --device cpu", "key -7 occurs more than once (it is the smallest such key)");
    for (rule, rows) in [("first", "-7,2\n-5,1\n"), ("last", "-7,4\n-5,3\n")] {
        folder.ok(&format!("build twice.csv -o t --duplicates {rule} --device cpu"));
        folder.file("q.csv", "-7\n-5\n");
        assert_eq!(folder.ok("lookup t q.csv --device cpu"), format!("key,value\n{rows}"));
    }
    folder.file("g.fa", ">r\nACGTACGTACGTACGTACGT\n");
    folder.refused("unique g.fa --keys u64", "--keys is for numbers, and this is FASTA");
}
