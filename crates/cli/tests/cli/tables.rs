//! Schemes and their options: what `info` reports, and which options apply to which scheme.

use std::fs;

use serde_json::Value;

use crate::folder::Folder;

#[test]
fn info_reports_the_contents_of_a_file() {
    let folder = Folder::new();
    let rows: Vec<String> = (0..1000).map(|key| format!("{key},{key}")).collect();
    folder.file("t.csv", rows.join("\n"));
    folder.ok("build t.csv -o t.koel --kind classic --functions 3 --hash xor --load 0.7 --seed 9 --device cpu");
    let info = folder.json("info t.koel --json");
    assert_eq!(info["scheme"], "cuckoo");
    assert_eq!(info["kind"], "classic");
    assert_eq!(info["parameters"]["functions"], 3);
    assert_eq!(info["parameters"]["hash"], "xor");
    assert_eq!(
        (info["pairs"].as_u64(), info["slots"].as_u64(), info["seed"].as_u64()),
        (Some(1000), Some(1429), Some(9))
    );
    assert_eq!(info["file_bytes"].as_u64(), Some(fs::metadata(folder.path("t.koel")).unwrap().len()));
    let ages: u64 = info["ages"].as_array().unwrap().iter().map(|age| age.as_u64().unwrap()).sum();
    assert_eq!(ages, 1000);
    assert!((1.0..=3.0).contains(&info["reads_per_hit"].as_f64().unwrap()));
    assert!(folder.ok("info t.koel").contains("1,000 pairs in 1,429 slots"));
}

#[test]
fn info_reports_the_costs_of_tables_with_buckets() {
    let folder = Folder::new();
    let rows: Vec<String> = (0..40_000u32).map(|i| format!("{},{i}", i.wrapping_mul(0x9e37_79b9))).collect();
    folder.file("t.csv", rows.join("\n"));
    folder.ok("build t.csv -o h.koel --scheme horton --load 0.95 --device cpu");
    let info = folder.json("info h.koel --json");
    assert!(info["reads_per_hit"].as_f64() < Some(1.17) && info["reads_per_miss"].as_f64() < Some(1.065), "{info}");
    assert!((info["model_reads_per_hit"].as_f64().unwrap() - 1.166).abs() < 0.001, "{info}");
    let sum = |counts: &Value| counts.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum(&info["ages"]), sum(&info["keys_by_reads"])), (40_000, 40_000));
    let types: Vec<_> = info["buckets"].as_array().unwrap().iter().map(|b| b["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["A", "B", "stash"]);
    let said = folder.ok("info h.koel");
    for part in ["model", "type B", "buckets a hit", "of 64 bytes", "slots 8, tags 21, bits 3, hash mixer"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    folder.ok("build t.csv -o b.koel --scheme bucketized --bucket-slots 16 --load 0.98 --device cpu");
    let info = folder.json("info b.koel --json");
    assert_eq!((info["parameters"]["slots"].as_u64(), info["bytes_per_read"].as_u64()), (Some(16), Some(128)));
    assert!(folder.ok("info b.koel").contains("buckets   all"));
}

#[test]
fn info_reports_the_domain_and_the_sides_of_a_perfect_hash() {
    let folder = Folder::new();
    let rows: Vec<String> = (0..4000).map(|i| format!("{},{i}", i % 50 + 2048 * (i / 50))).collect();
    folder.file("t.csv", rows.join("\n"));
    folder.ok("build t.csv -o p.koel --scheme perfect --extent 2048 --device cpu");
    let info = folder.json("info p.koel --json");
    let parameters = &info["parameters"];
    assert_eq!((&info["scheme"], &parameters["extent"]), (&Value::from("perfect"), &Value::from("2048")));
    assert_eq!(info["slots"].as_u64(), parameters["side"].as_u64().map(|side| side * side));
    assert_eq!((info["reads_per_hit"].as_f64(), info["reads_per_miss"].as_f64()), (Some(2.0), Some(2.0)));
    folder.ok("build t.csv -o v.koel --scheme perfect --extent 64x64 --device cpu");
    assert!(folder.ok("info v.koel").contains("extent 64x64, side "));
    assert_eq!(folder.ok("lookup v.koel t.csv --device cpu"), folder.ok("lookup p.koel t.csv --device cpu"));
    folder.refused("build t.csv -o t.koel --scheme perfect --extent 0", "2147483648");
    folder.refused("build t.csv -o t.koel --scheme perfect --extent 64x", "256x256");
    folder.refused("build t.csv -o t.koel --scheme horton --extent 64", "canonical perfect");
}

#[test]
fn errors_for_options_of_other_schemes_name_those_schemes() {
    let folder = Folder::new();
    folder.file("t.csv", "1,2\n");
    folder.refused("build t.csv -o t.koel --scheme horton --functions 3", "canonical cuckoo");
    folder.refused("build t.csv -o t.koel --scheme bucketized --insertion first-fit", "classic bucketized");
    folder.refused("build t.csv -o t.koel --scheme horton --bucket-slots 5", "4, 8 or 16");
    folder.refused("build t.csv -o t.koel --scheme horton --tags 30", "64 bits");
    folder.refused("build t.csv -o t.koel --scheme horton --kind classic --hash linear", "mixer or jenkins");
    let classic = "build t.csv -o t.koel --scheme bucketized --kind classic --functions 3 --bucket-slots 4 --reach 9";
    folder.ok(&format!("{classic} --insertion first-fit --lookup-mode latency-optimized --device cpu"));
    let listed = folder.ok("info t.koel");
    assert!(listed.contains("insertion first-fit, lookup-mode latency-optimized, reach 9"), "{listed}");
    // With several schemes, each uses the options and the values that apply to it.
    folder.ok("verify --n 500 --bucket-slots 4 --functions 3 --device cpu");
    folder.ok("verify --n 500 --functions 5 --hash linear --device cpu");
    folder.refused(
        "verify --n 500 --scheme bucketized,horton --reinsertion as-published",
        "--reinsertion does not apply",
    );
    folder.refused("verify --n 500 --functions 77", "--functions does not apply");
}

/// Alcantara 2011, Section 4.4: the keys of a set are numbered in table order.
#[test]
fn keys_of_sets_are_numbered_in_table_order() {
    let folder = Folder::new();
    let rows: Vec<String> = (0..3000u32).map(|row| (row % 700).wrapping_mul(0x0505_0505).to_string()).collect();
    folder.file("t.csv", rows.join("\n"));
    for kind in ["canonical", "classic"] {
        let build = format!("build t.csv -o ids.koel --table compact --scheme cuckoo_set --kind {kind} --device cpu");
        let built = folder.json(&format!("{build} --json"));
        assert_eq!((&built["table"], built["keys"].as_u64()), (&Value::from("compact"), Some(700)));
        assert_eq!(folder.json("info ids.koel --json")["scheme"], "cuckoo");
        // Every id occurs once, and a reverse lookup returns its key.
        folder.file("ids.csv", (0..700).map(|id| format!("{id}\n")).collect::<String>());
        let keys = folder.ok("lookup ids.koel ids.csv --reverse --device cpu");
        let (ids, mut keys): (Vec<String>, Vec<String>) =
            keys.lines().skip(1).filter_map(|row| row.split_once(',')).map(|(id, key)| (id.into(), key.into())).unzip();
        folder.file("keys.csv", keys.join("\n"));
        let back = folder.ok("lookup ids.koel keys.csv --device cpu");
        assert!(back.lines().skip(1).map(|row| row.split_once(',').unwrap().1).eq(&ids), "{kind}: {back}");
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 700, "{kind}");
    }
    folder.refused("build t.csv -o ids.koel --table compact --scheme cuckoo_set --ids ascending", "table order");
}

#[test]
fn invalid_options_are_refused_before_any_row_is_read() {
    let folder = Folder::new();
    // The input does not exist, but the invalid option is reported.
    folder.refused("build t.csv -o t.koel --table multi --scheme cuckoo_set", "keys only");
    folder.refused("join t.csv t.csv --scheme cuckoo_set", "unexpected argument '--scheme'");
    folder.refused("build t.csv -o -", "`-` is not a file");
    folder.refused("unique t.csv -o -", "omit it");
}

/// A random seed differs in each build, is reported, and is stored in the file. The same seed rebuilds the table.
#[test]
fn a_random_seed_is_reported_and_builds_the_table_again() {
    let folder = Folder::new();
    folder.file("t.csv", "1,2\n3,4\n5,6");
    let build =
        |name: &str, seed: &str| folder.json(&format!("build t.csv -o {name} --seed {seed} --device cpu --json"));
    let (first, second) = (build("a.koel", "random"), build("b.koel", "random"));
    assert_ne!(first["seed"], second["seed"]);
    assert_ne!(first["digest"], second["digest"]);
    let seed = first["seed"].as_u64().unwrap();
    assert_eq!(folder.json("info a.koel --json")["seed"].as_u64(), Some(seed));
    assert_eq!(build("c.koel", &seed.to_string())["digest"], first["digest"]);
    let printed = folder.ok("build t.csv -o d.koel --seed random --device cpu");
    let stored = folder.json("info d.koel --json")["seed"].as_u64().unwrap();
    assert!(printed.contains(&format!("seed      {stored}\n")), "{printed}");
    folder.refused("build t.csv -o e.koel --seed rand", "`rand` is not a seed");
}

/// A CSV column that is neither a key nor aggregated is written unchanged, with and without a limit.
#[test]
fn columns_that_are_only_copied_keep_their_text() {
    let folder = Folder::new();
    let rows = "1,1.50,2024-02-29 12:30,12345678901234567890.12,True\n2,10,2024-03-01T00:00:00.000,0.10,\n";
    folder.file("a.csv", format!("k,price,when,big,yes\n{rows}"));
    folder.file("b.csv", "k,z\n1,1.0\n2,2.50\n");
    let all = format!("k,price,when,big,yes\n{rows}");
    assert_eq!(folder.ok("convert a.csv -"), all);
    assert_eq!(folder.ok("isin a.csv b.csv --on k --columns k,price,isin"), "k,price,isin\n1,1.50,true\n2,10,true\n");
    for limit in ["", " --memory 64Mi"] {
        assert_eq!(folder.ok(&format!("join a.csv b.csv --on k --how semi{limit}")), all);
        assert_eq!(folder.ok(&format!("join a.csv b.csv --on k --columns k,z{limit}")), "k,z\n1,1.0\n2,2.50\n");
        assert_eq!(folder.ok(&format!("unique a.csv --on k --columns k,price,when,big,yes{limit}")), all);
        // Keys and aggregates are parsed, so they are written as numbers.
        assert_eq!(folder.ok(&format!("unique a.csv --on price{limit}")), "price\n1.5\n10.0\n");
        assert_eq!(folder.ok(&format!("groupby a.csv --by k --agg max:price{limit}")), "k,price_max\n1,1.5\n2,10.0\n");
        // A column with an explicit type is parsed.
        let named = folder.ok(&format!("join a.csv b.csv --on k --columns price --types price=float64{limit}"));
        assert_eq!(named, "price\n1.5\n10.0\n");
    }
    folder.ok("convert a.csv a.arrow");
    assert_eq!(folder.ok("convert a.arrow - --columns price"), "price\n1.5\n10.0\n");
}

/// Numbers that Python's `fractions` distinguishes, and doubles do not.
#[test]
fn numbers_that_equal_the_same_double_are_distinct() {
    let folder = Folder::new();
    folder.file("ids.csv", "id,v\n9007199254740993,1\n9007199254740992,2\nnan,3\n");
    folder.file("v.csv", "v,n\n1e400,1\n1e500,2\n1e-400,3\n0,4\n");
    for limit in ["", " --memory 64Mi"] {
        assert_eq!(
            folder.ok(&format!("groupby ids.csv --by id --agg count{limit}")),
            "id,count\n9007199254740993,1\n9007199254740992,1\nnan,1\n"
        );
        assert_eq!(folder.ok(&format!("unique v.csv --on v{limit}")), "v\n1e400\n1e500\n1e-400\n0\n");
        folder.refused(&format!("unique v.csv --on v --types v=float64{limit}"), "`1e400` is n");
    }
}

#[test]
fn duplicate_column_names_are_errors_only_if_they_are_used() {
    let folder = Folder::new();
    folder.file("a.csv", "Sample,Allele,Allele,ST\ns1,a,b,8\ns2,c,d,9\n");
    folder.file("b.csv", "Sample,q\ns1,1\n");
    for limit in ["", " --memory 64Mi"] {
        assert_eq!(folder.ok(&format!("join a.csv b.csv --on Sample --columns Sample,q{limit}")), "Sample,q\ns1,1\n");
        assert_eq!(folder.ok(&format!("groupby a.csv --by Sample --agg sum:ST{limit}")), "Sample,ST_sum\ns1,8\ns2,9\n");
        folder.refused(&format!("unique a.csv --on Allele{limit}"), "two columns are called Allele");
    }
    folder.refused("convert a.csv -", "two columns are called Allele");
    assert_eq!(folder.ok("convert a.csv - --columns ST"), "ST\n8\n9\n");
}

#[test]
fn names_in_messages_are_escaped_and_cut() {
    let folder = Folder::new();
    let long = "x".repeat(1_000_000);
    folder.file("a.csv", format!("k,a\u{1b}[2Jb,{long}\n1,2,y\n"));
    folder.file("b\u{7}.csv", "k\n1\n");
    for command in ["unique a.csv --on q", "groupby a.csv --by k --agg sum:q", "join a.csv a.csv --on q"] {
        folder.refused(command, "a\\u{1b}[2Jb");
        let output = folder.koel(command);
        assert!(output.stderr.len() < 500 && !output.stderr.contains(&0x1b), "{command}");
    }
    folder.refused(&format!("groupby a.csv --by k --agg sum:{}", &long[..1000]), &("x".repeat(80) + "..."));
    folder.refused("unique b\u{7}.csv --on q", "b\\u{7}.csv: there is no column q");
}
