//! `koel-bench`: measurements, data, and omitted tables.

use serde_json::Value;

use crate::folder::Folder;

/// A quick run on the CPU.
const QUICK: &str = "--repeats 1 --device cpu --no-peers --json";

fn list<'a>(found: &'a Value, field: &str) -> &'a [Value] {
    found[field].as_array().unwrap()
}

/// The omitted tables, with their reasons.
fn left_out(found: &Value) -> Vec<&str> {
    list(found, "left_out").iter().map(|line| line.as_str().unwrap()).collect()
}

#[test]
fn bench_measures_what_it_says() {
    let folder = Folder::new();
    let arguments = "--n 2000,4000 --queries 5000 --repeats 1 --device cpu --hits 100,0 --load 0.75 --json";
    let found = folder.json(arguments);
    let rows = found["rows"].as_array().unwrap();
    for row in rows {
        assert!(row["seconds"].as_f64() > Some(0.0) && row["rate"].as_f64() > Some(0.0), "{row}");
    }
    let count = |key: &str, value: &str| rows.iter().filter(|row| row[key] == value).count();
    // Two sizes, two kinds; a build and two hit rates each, on the device and end to end.
    assert_eq!((count("scheme", "hashbrown"), count("scheme", "sorted array")), (2 * 3, 2 * 3));
    assert_eq!(count("where", "end-to-end"), 2 * 2 * 3);
    // In addition: two limits, a removal, and compaction if the removal left tombstones.
    assert_eq!(count("where", "device"), 2 * (2 * (3 + 2 + 1) + 1));
    assert_eq!((count("what", "remove a tenth"), count("what", "compact")), (2 * 2, 2));
    assert!(rows.iter().filter(|row| row["scheme"] == "cuckoo").all(|row| row["load"].as_f64().unwrap() <= 0.75));
    assert!(folder.ok("--n 2000 --queries 2000 --repeats 1 --device cpu --no-peers").contains("n = 2,000"));
}

/// All cells of a picture are queried, in every order; the command itself checks the answers.
#[test]
fn bench_accepts_pictures_and_orders_and_reports_stages() {
    let folder = Folder::new();
    let bench = "--scheme all --repeats 1 --device cpu --no-peers --json --stages";
    for (order, picture) in
        [("row", "blobs"), ("morton", "random"), ("bitrev", "blobs"), ("sorted", "blobs"), ("shuffled", "blobs")]
    {
        let domain = format!("--domain 60x45 --defined 900 --order {order} --picture {picture}");
        let found = folder.json(&format!("{bench} {domain}"));
        assert_eq!((&found["data"]["order"], &found["data"]["domain"]["width"]), (&order.into(), &60.into()));
        let lookups: Vec<_> = found["rows"].as_array().unwrap().iter().filter(|row| row["what"] == "lookup").collect();
        assert!(lookups.iter().all(|row| (row["n"].as_u64(), row["hits"].as_u64()) == (Some(900), Some(33))));
        let tables = found["stages"].as_array().unwrap();
        assert_eq!(lookups.len(), 2 * tables.len(), "on the device, and end to end");
        for table in tables.iter().filter(|table| table["scheme"] == "cuckoo") {
            let stages = table["stages"].as_array().unwrap();
            assert_eq!((&stages[0]["name"], &stages[1]["name"]), (&"set-up".into(), &"cuckoo_place".into()));
            assert!(stages[1..].iter().all(|stage| stage["ns_per_pair"].as_f64() > Some(0.0)), "{table}");
        }
    }
    let sorted = "--n 2000 --queries 3000 --hits 40 --order sorted --repeats 1 --device cpu --no-peers --stages";
    let printed = folder.ok(sorted);
    assert!(printed.contains("random keys, sorted") && printed.contains("ns a pair"), "{printed}");
}

/// A perfect hash has the picture's extent if keys are its cells row by row, and is omitted otherwise.
#[test]
fn bench_gives_perfect_hashes_the_extent_of_the_picture() {
    let folder = Folder::new();
    let bench = format!("--scheme perfect,cuckoo --kind canonical --stages {QUICK} --domain 64x48 --defined 1000");
    for order in ["row", "sorted", "shuffled"] {
        let found = folder.json(&format!("{bench} --order {order}"));
        assert_eq!(left_out(&found), [""; 0]);
        let perfect = list(&found, "stages").iter().find(|table| table["scheme"] == "perfect").unwrap();
        assert_eq!((&perfect["parameters"]["extent"], &perfect["host_built"]), (&"64".into(), &true.into()), "{order}");
    }
    for order in ["morton", "bitrev"] {
        let found = folder.json(&format!("{bench} --order {order}"));
        assert!(matches!(left_out(&found)[..], [line] if line.contains("perfect") && line.contains(order)), "{found}");
        assert!(list(&found, "rows").iter().all(|row| row["scheme"] == "cuckoo"));
        let found = folder.json(&format!("{bench} --order {order} --extent 65536"));
        assert!(!left_out(&found).iter().any(|line| line.contains("--order")), "a requested extent is tried");
    }
    let given = folder.json(&format!("{bench} --extent 128"));
    let extents = list(&given, "stages").iter().filter_map(|table| table["parameters"]["extent"].as_str());
    assert_eq!(extents.collect::<Vec<_>>(), ["128"]);
}

#[test]
fn bench_names_the_stages_and_the_parameters_of_a_build() {
    let folder = Folder::new();
    for hash in ["mixer", "sahu"] {
        let bench = format!("--scheme fks --kind classic --n 5000 --queries 100 --stages {QUICK} --hash {hash}");
        let found = folder.json(&bench);
        let [table] = list(&found, "stages") else { panic!("{found}") };
        let names: Vec<_> = list(table, "stages").iter().map(|stage| stage["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["set-up", "fks_count", "fks_scan", "fks_shuffle", "fks_cuckoo"]);
        assert_eq!((&table["parameters"]["hash"], table["restarts"].is_u64()), (&hash.into(), true));
        let sum: f64 = list(table, "stages").iter().map(|stage| stage["seconds"].as_f64().unwrap()).sum();
        let all = table["seconds"].as_f64().unwrap();
        assert!((sum - all).abs() < 1e-6 + all * 1e-6, "the stages of one run add up to its time: {table}");
        let printed = folder.ok(&bench.replace(" --json", ""));
        assert!(printed.contains(&format!("hash {hash}")) && printed.contains("restarts"), "{printed}");
    }
}

/// The rows of a table say whether the host builds it, on every device.
#[test]
fn bench_marks_tables_that_the_host_builds() {
    let folder = Folder::new();
    let bench = "--scheme perfect,horton --n 3000 --queries 100 --hits 50 --repeats 1 --device all --no-peers --stages";
    let found = folder.json(&format!("{bench} --json"));
    for row in list(&found, "rows") {
        let by_host = row["scheme"] == "perfect" || row["kind"] == "classic";
        let builds = ["build", "remove a tenth"].iter().any(|what| row["what"] == *what);
        assert_eq!(row["host_built"], by_host && builds, "{row}");
    }
    for table in list(&found, "stages") {
        let by_host = table["scheme"] == "perfect" || table["kind"] == "classic";
        assert_eq!(table["host_built"], by_host, "{table}");
        let names: Vec<_> = list(table, "stages").iter().map(|stage| stage["name"].as_str().unwrap()).collect();
        let part = if table["device"] == "cpu" { "place" } else { "host" };
        assert_eq!(names.contains(&part), by_host, "{table}");
    }
    assert!(folder.ok(bench).contains("build (host-built)"));
}

#[test]
fn bench_omits_what_cannot_be_built_and_says_why() {
    let folder = Folder::new();
    folder.refused(&format!("--scheme quadratic --n 2^13 {QUICK}"), "its most is 4,096");
    let bench = format!("--scheme quadratic,cuckoo --kind canonical --queries 100 {QUICK}");
    for (rest, n, part) in [("--n 2^13", 8192, "its most is 4,096"), ("--n 4096 --load 0.5", 4096, "the most is 4096")]
    {
        let found = folder.json(&format!("{bench} {rest}"));
        assert!(matches!(left_out(&found)[..], [line] if line.contains("quadratic") && line.contains(part)), "{found}");
        let rows = list(&found, "rows");
        assert!(!rows.is_empty() && rows.iter().all(|row| row["scheme"] == "cuckoo" && row["n"] == n), "{found}");
    }
    // Keys of 28 bits in tables of such keys, and keys of 32 bits; schemes are omitted if the keys of a picture are
    // wider.
    let narrow = format!("--scheme robin_hood,cuckoo --kind classic --keys-alone --queries 100 {QUICK}");
    let found = folder.json(&format!("{narrow} --n 1000"));
    assert_eq!((left_out(&found), list(&found, "rows").len()), (vec![], 2 * (2 + 2 + 2 * 3 + 1)));
    let wide =
        folder.json(&format!("{narrow} --domain 2x20000 --order morton --defined 500").replace("--queries 100", ""));
    assert!(matches!(left_out(&wide)[..], [line] if line.contains("robin_hood") && line.contains("28 bits")), "{wide}");
}

#[test]
fn bench_accepts_ranges_of_sizes() {
    let folder = Folder::new();
    let found = folder.json(&format!("--kind canonical --n 512..2^11,700 --queries 100 --hits 0 {QUICK}"));
    let mut sizes: Vec<_> = list(&found, "rows").iter().map(|row| row["n"].as_u64().unwrap()).collect();
    sizes.dedup();
    assert_eq!(sizes, [512, 1024, 2048, 700]);
    folder.refused("--n 0..8", "512..2^24");
}

/// Each table is measured with and without a heavy key, at each multiplicity; the command checks every answer itself.
#[test]
fn bench_measures_what_is_made_of_tables() {
    let folder = Folder::new();
    for table in ["set", "compact", "multi", "group", "join"] {
        let bench = format!("--table {table} --n 3000 --multiplicity 1,8 --heavy 0.5 --hits 100,30 --repeats 1");
        let found = folder.json(&format!("{bench} --scheme cuckoo,sorted --kind canonical --device all --json"));
        let rows = list(&found, "rows");
        assert_eq!(left_out(&found), [""; 0]);
        for row in rows {
            assert!(row["table"] == table && row["n"] == 3000 && row["seconds"].as_f64() > Some(0.0), "{row}");
            assert_eq!(row["of_uniform"].as_f64().is_some(), row["heavy"] == 0.5, "{row}");
        }
        let of = |device: &str| rows.iter().filter(|row| row["device"] == device).count();
        // Two multiplicities, with and without the heavy key; groups have no scheme, so they are measured once.
        let schemes = if table == "group" { 1 } else { 2 };
        let each = match table {
            "set" => 2 + 2 * 2,
            "compact" => 2 * 2 + 2 + 2,
            "multi" => 2 + 2 * 2 + 2,
            "group" => 2 * (2 + 2 * 2),
            _ => 2 + 6 * 2,
        };
        assert_eq!(of("cpu"), 2 * 2 * schemes * each, "{table}");
        assert!(of("host") > 0, "{table} compared with alternatives on the host");
        let printed = folder.ok(&format!("{bench} --device cpu --no-peers --stages"));
        assert!(
            printed.contains("stages of a build")
                && printed.contains("n = 3,000, 8 rows a key")
                && printed.contains("of uniform"),
            "{printed}"
        );
    }
}

/// The paper's algorithm for a compacting table: through the set of 32-bit slots.
#[test]
fn bench_converts_sets_to_compacting_tables() {
    let found = Folder::new()
        .json(&format!("--table compact --scheme cuckoo_set --n 2000 --multiplicity 4 --hits 100,0 {QUICK}"));
    let builds = |row: &&Value| row["what"] == "build, ids in table order" && row["scheme"] == "cuckoo_set";
    assert_eq!(list(&found, "rows").iter().filter(builds).count(), 2 * 2, "two kinds, on the device and end to end");
    assert_eq!(left_out(&found), [""; 0]);
}

#[test]
fn bench_accepts_maps_of_keys_with_duplicates() {
    let folder = Folder::new();
    for (rule, what) in [("first", "build, the first stays"), ("last", "build, the last stays")] {
        let bench = format!("--n 2000 --multiplicity 1..4 --heavy 0.5 --duplicates {rule} --scheme all --hits 50");
        let found = folder.json(&format!("{bench} {QUICK}"));
        let rows = list(&found, "rows");
        let builds = rows.iter().filter(|row| row["what"] == what && row["where"] == "device").count();
        let schemes = koel::AnyScheme::all().count();
        assert_eq!((builds, left_out(&found)), (3 * 2 * schemes, vec![]), "{rule}");
    }
}

#[test]
fn bench_refuses_options_of_other_tables() {
    let folder = Folder::new();
    for (rest, part) in [
        ("--multiplicity 4", "--duplicates first or last"),
        ("--heavy 0.5", "--duplicates first or last"),
        ("--duplicates first", "--multiplicity or --heavy"),
        ("--table multi --duplicates first", "--table map: omit it"),
        ("--table multi --multiplicity 0", "1 or more"),
        ("--table set --order sorted", "--order"),
        ("--table group --load 0.5,0.8", "--load"),
        ("--scheme nothing", "nothing"),
        ("--table set --heavy 0", "above 0 and up to 1"),
        ("--table set --heavy 0.5 --order sorted", "cannot be used with"),
    ] {
        folder.refused(&format!("--n 100 {QUICK} {rest}"), part);
    }
    // Tables that cannot number the keys are omitted.
    let alone = "--table multi --scheme robin_hood,cuckoo --kind classic --keys-alone --n 500 --hits 0";
    let found = folder.json(&format!("{alone} {QUICK}"));
    assert!(
        matches!(left_out(&found)[..], [line] if line.contains("robin_hood") && line.contains("0 bits")),
        "{found}"
    );
}

#[test]
fn mistakes_exit_with_2_and_say_what_to_do() {
    let folder = Folder::new();
    for (arguments, part) in [
        ("frobnicate", "unexpected"),
        ("--hits 101", "101"),
        ("--order morton", "--domain"),
        ("--defined 5", "--domain"),
        ("--domain 10x10 --defined 5 --hits 50", "cannot be used with"),
        ("--domain 10 --defined 5", "width and a height"),
        ("--domain 10x10 --defined 101 --device cpu", "as many as the picture has"),
    ] {
        folder.refused(arguments, part);
    }
}

/// Help texts fit windows of 120 columns.
#[test]
fn help_fits_120_columns() {
    let help = Folder::new().ok("--help");
    let examples = help.split_once("Rows `device`").unwrap().1;
    assert!(examples.lines().all(|line| line.len() <= 120), "{examples}");
}

/// Every row with a goal is listed with its rate, or with the reason why it was not measured.
#[test]
fn bench_of_all_lists_every_row_with_a_goal() {
    let folder = Folder::new();
    let bench = "--all --n 2^11 --repeats 1 --device cpu --threads 2";
    let found = folder.json(&format!("{bench} --json"));
    let rows = list(&found, "rows");
    for name in [
        "Horton lookup",
        "Horton lookup, in cache",
        "bucketized build, load 0.98",
        "Horton build",
        "cuckoo lookup",
        "Robin Hood, all pixels in row order",
        "two-level build",
        "set, contains",
        "multivalue build, 4 values a key",
        "insert a tenth, bucketized",
        "bucketized lookup on 2 threads",
    ] {
        let row = rows.iter().find(|row| row["row"] == name).unwrap_or_else(|| panic!("no {name}: {found}"));
        assert!(row["not_measured"].is_null() && row["rate"].as_f64() > Some(0.0), "{row}");
        assert_eq!((&row["device"], &row["n"]), (&"cpu".into(), &2048.into()), "{row}");
        let share = row["rate"].as_f64().zip(row["limit"].as_f64()).map(|(rate, limit)| rate / limit);
        assert_eq!(share.is_some(), !row["limited_by"].is_null(), "{row}");
        // Numbers in JSON are rounded, so they are compared with a tolerance.
        let near = row["of_limit"].as_f64().zip(share).map(|(printed, share)| (printed / share - 1.0).abs() < 1e-9);
        assert_eq!((near.unwrap_or(true), row["of_limit"].is_null()), (true, share.is_none()), "{row}");
    }
    for row in rows {
        let measured = row["not_measured"].is_null();
        assert_eq!(measured, row["rate"].as_f64() > Some(0.0), "{row}");
        for goal in list(row, "goals") {
            assert!(!goal["reach"]["goal"].as_str().unwrap().is_empty(), "{row}");
            // With so few pairs, and without a GPU, no goal is reached or missed.
            assert!(goal["reached"].is_null() && goal["stretch_reached"].is_null(), "{row}");
            assert_eq!(goal["not_judged"].is_string(), measured, "{row}");
        }
    }
    let reason = |name: &str| {
        // Among rows with one name, those about more pairs than are measured are last.
        let row = rows.iter().rfind(|row| row["row"] == name && row["device"] == "cpu");
        row.unwrap_or_else(|| panic!("no {name}: {found}"))["not_measured"].as_str().unwrap()
    };
    assert!(reason("Horton lookup, a table of 2^31").contains("--n 2147483648"));
    assert!(reason("bucketized build").contains("--n 67108864"), "the larger size, which applies to CPUs");
    assert!(rows.iter().any(|row| row["for"] == "a CPU through OpenCL" && row["device"].is_null()), "{found}");
    // A goal that is a multiple of another rate is listed with that rate.
    let two = rows.iter().find(|row| row["row"] == "bucketized lookup on 2 threads").unwrap();
    assert!(two["goals"][0]["reach"]["of_goal"].as_f64() > Some(0.0), "{two}");
    let build = rows.iter().find(|row| row["row"] == "bucketized build" && row["goal_n"] == 1 << 24).unwrap();
    assert!(build["goals"][0]["reach"]["rate"].as_f64() > Some(0.0), "compared with hashbrown: {build}");
    for limit in list(&found, "limits") {
        for of in ["random_8_byte_reads", "random_64_byte_reads", "random_atomics", "keys_copied"] {
            assert!(limit[of].as_f64() > Some(0.0), "{limit}");
        }
    }
    let own = folder.json(&format!("{bench} --no-peers --judged --json"));
    for row in list(&own, "rows") {
        let other = row["for"] != "a CPU";
        assert_eq!(row["device"].is_null(), other, "{row}");
        assert!(!other || row["not_measured"].as_str().is_some_and(|reason| !reason.is_empty()), "{row}");
    }
    let printed = folder.ok(&format!("{bench} --no-peers"));
    for part in ["64-byte reads", "not measured", "34.00 G/s", "0.97x 64-byte reads", "the goal is at n = 16,777,216"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}

#[test]
fn bench_of_all_refuses_options_of_single_benches() {
    let folder = Folder::new();
    for (rest, part) in [
        ("--scheme cuckoo", "--scheme"),
        ("--load 0.5", "--load"),
        ("--functions 3", "--functions"),
        ("--hits 50", "--hits"),
        ("--table set", "--table"),
        ("--insert", "--insert"),
        ("--domain 64x64 --defined 100", "--domain"),
        ("--order sorted", "--order"),
        ("--multiplicity 2", "--multiplicity"),
        ("--n 100", "1024 or more"),
        ("--n 2^12,2^13", "one number"),
        ("--rows lookup,nothing", "set, contains"),
    ] {
        folder.refused(&format!("--all --device cpu {rest}"), part);
    }
    folder.refused("--rows lookup", "--all");
}

/// Only the selected rows and the rates that they are compared with are measured.
#[test]
fn bench_of_all_measures_chosen_rows_alone() {
    let folder = Folder::new();
    let bench = "--all --n 2^11 --repeats 1 --device cpu --threads 2 --no-peers --rows";
    let found = folder.json(&format!("{bench} THREADS,2^31 --json"));
    let rows = list(&found, "rows");
    let names: Vec<_> = rows.iter().map(|row| row["row"].as_str().unwrap()).collect();
    let two = "bucketized lookup on 2 threads";
    assert_eq!(names, ["Horton lookup, a table of 2^31", "bucketized lookup, a table of 2^31", two]);
    assert!(rows[0]["not_measured"].as_str().unwrap().contains("--n 2147483648"), "{found}");
    assert!(rows[2]["goals"][0]["reach"]["of_goal"].as_f64() > Some(0.0), "compared with one thread: {found}");
    assert_eq!(found["chosen"], serde_json::json!(["THREADS", "2^31"]));
    let printed = folder.ok(&format!("{bench} portable"));
    assert!(printed.contains("portable in their names") && !printed.contains("lookup"), "{printed}");
}

/// A batch into a table with capacity for it, if the scheme supports it; the command itself checks the answers.
#[test]
fn bench_inserts_a_tenth() {
    let folder = Folder::new();
    let bench = format!("--scheme bucketized,cuckoo --kind canonical --n 11000 --queries 100 --hits 100 {QUICK}");
    let found = folder.json(&format!("{bench} --load 0.8 --insert"));
    let rows: Vec<_> = list(&found, "rows").iter().filter(|row| row["what"] == "insert a tenth").collect();
    assert_eq!((rows.len(), left_out(&found)), (2, vec![]));
    assert!(rows.iter().all(|row| (row["load"].as_f64().unwrap() - 0.8).abs() < 0.01), "the load before it: {found}");
    let full = folder.json(&format!("{bench} --load 0.99 --insert").replace("bucketized,cuckoo", "bucketized"));
    assert!(matches!(left_out(&full)[..], [line] if line.contains("inserting")), "{full}");
}

/// Rows are grouped by size, whatever the load; other tables have no load, and are measured once.
#[test]
fn bench_accepts_several_loads() {
    let folder = Folder::new();
    let bench = "--kind canonical --n 1000,3000 --load 0.5,0.75 --queries 100 --hits 100 --repeats 1 --device cpu";
    let found = folder.json(&format!("{bench} --json"));
    let rows = list(&found, "rows");
    let sizes: Vec<_> = rows.iter().map(|row| row["n"].as_u64().unwrap()).collect();
    assert!(sizes.is_sorted(), "{sizes:?}");
    for n in [1000, 3000] {
        let lookup = |row: &&Value| row["n"] == n && row["what"] == "lookup" && row["where"] == "device";
        let loads: Vec<_> = rows.iter().filter(lookup).map(|row| row["load"].as_f64().unwrap()).collect();
        assert!(matches!(loads[..], [half, more] if half <= 0.5 && (0.7..=0.75).contains(&more)), "{loads:?}");
        let peer = |row: &&Value| row["n"] == n && row["scheme"] == "hashbrown" && row["what"] == "build";
        assert_eq!(rows.iter().filter(peer).count(), 1);
    }
    assert_eq!(folder.ok(bench).matches("\nn = ").count(), 2, "a table for each size");
    folder.refused(&format!("{bench},1.5"), "1.5");
}
