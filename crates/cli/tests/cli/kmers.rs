//! Tables of k-mers: they store their K, which queries use.

use koel::layout::Layout;
use koel::{Cpu, Cuckoo, HashTable, KeyType};
use serde_json::json;

use crate::folder::{Folder, devices, npy, stderr};

/// `ACGTACGTTT`, with AC at positions 0 and 4.
const GENOME: &str = ">one\nACGTA\nCGTTT\n";

/// Checks that a lookup fails. Its header may have been written before the error.
fn fails(folder: &Folder, arguments: &str, part: &str) {
    let output = folder.koel(arguments);
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && said.contains(part), "{arguments}: {said}");
}

#[test]
fn queries_use_the_k_of_the_table() {
    let folder = Folder::new();
    folder.file("g.fa", GENOME);
    folder.file("q.fa", ">q\nACGTT\n");
    // ACGT = 27, CGTA = 108, GTAC = 177, TACG = 198, CGTT = 111, GTTT = 191
    for (table, rows, misses) in [
        ("map --duplicates first", "key,value\n27,0\n111,5\n", "5,\n"),
        ("set", "key,found\n27,1\n111,1\n", "5,0\n"),
        ("compact", "key,id\n27,0\n111,4\n", "5,\n"),
        ("multi", "key,value\n27,0\n27,4\n111,5\n", "5,\n"),
    ] {
        let build = format!("build g.fa -o t.koel --kmer 4 --table {table} --device cpu");
        assert!(folder.ok(&build).contains("\nkeys      k-mers of 4 letters\n"), "{table}");
        assert_eq!(
            folder.json(&format!("{build} --json"))["key_type"],
            json!({ "type": "kmers", "k": 4, "canonical": false }),
            "{table}"
        );
        assert_eq!(
            folder.json("info t.koel --json")["key_type"],
            json!({ "type": "kmers", "k": 4, "canonical": false }),
            "{table}"
        );
        assert!(folder.ok("info t.koel").contains("\nkeys      k-mers of 4 letters\n"), "{table}");
        assert_eq!(folder.ok("lookup t.koel q.fa --device cpu"), rows, "{table}");
        assert_eq!(folder.ok("lookup t.koel q.fa --kmer 4 --device cpu"), rows, "{table}");
        // Windows of another length would be different keys, some of which are in the table.
        folder.refused("lookup t.koel q.fa --kmer 5 --device cpu -o out.csv", "k-mers of 4 letters");
        folder.refused("lookup t.koel q.csv --kmer 5 --device cpu -o out.csv", "k-mers of 4 letters");
        assert!(!folder.path("out.csv").exists());
        // Numbers and letters are the same queries.
        folder.file("q.csv", "27\n111\n5\n");
        assert_eq!(folder.ok("lookup t.koel q.csv --device cpu"), format!("{rows}{misses}"), "{table}");
        folder.file("q.npy", npy("(3,)", &[27, 111, 5]));
        assert_eq!(folder.ok("lookup t.koel q.npy --device cpu"), format!("{rows}{misses}"), "{table}");
        for letters in ["ACGT\nCGTT\nAACC\n", "k-mer,n\nacgu,1\n\"cgtt\",2\n5,3\n"] {
            folder.file("letters.csv", letters);
            assert_eq!(folder.ok("lookup t.koel letters.csv --device cpu"), format!("{rows}{misses}"), "{table}");
        }
        for (letters, part) in [
            ("ACGTA\nACGT\n", "5 letters"),
            ("ACGN\n5\n", "letter N"),
            ("ACGR\nACGT\n", "letters.csv, line 1: the key `ACGR` has the letter R"),
            ("1\nhello\n", "hello"),
        ] {
            folder.file("letters.csv", letters);
            fails(&folder, "lookup t.koel letters.csv --device cpu", part);
        }
    }
    folder.ok("build g.fa -o t.koel --kmer 4 --duplicates last --device cpu");
    assert_eq!(folder.ok("lookup t.koel q.fa --mapped"), "key,value\n27,4\n111,5\n");
    // The default K is 16, and the table stores it.
    folder.file("long.fa", ">one\nACGTACGTACGTACGTAC\n");
    folder.ok("build long.fa -o t.koel --device cpu");
    assert_eq!(folder.json("info t.koel --json")["key_type"]["k"], 16);
}

#[test]
fn queries_of_letters_need_a_table_of_kmers() {
    let folder = Folder::new();
    folder.file("t.csv", "27,1\n111,2\n");
    folder.file("q.fa", ">q\nACGTT\n");
    folder.file("letters.csv", "ACGT\nCGTT\n");
    folder.ok("build t.csv -o t.koel --device cpu");
    assert_eq!(folder.json("info t.koel --json")["key_type"], json!({ "type": "numbers" }));
    folder.refused("lookup t.koel q.fa --device cpu -o out.csv", "build the table with --kmer K");
    assert!(!folder.path("out.csv").exists());
    // It is not known whether the numbers are k-mers of one strand or of both.
    for queries in ["q.fa", "letters.csv"] {
        for strands in ["", "--canonical-kmers"] {
            let lookup = format!("lookup t.koel {queries} --kmer 4 {strands} --device cpu");
            folder.refused(&lookup, "build the table with --kmer 4, and with --canonical-kmers");
        }
    }
    fails(&folder, "lookup t.koel letters.csv --device cpu", "give `koel build` --kmer 4");
    // Following the advice works.
    folder.ok("build t.csv -o t.koel --kmer 4 --device cpu");
    assert_eq!(folder.json("info t.koel --json")["key_type"], json!({ "type": "kmers", "k": 4, "canonical": false }));
    for queries in ["q.fa", "letters.csv"] {
        assert_eq!(folder.ok(&format!("lookup t.koel {queries} --device cpu")), "key,value\n27,1\n111,2\n");
    }
}

/// The windows of `k` letters of a text. If `canonical`, the smaller one of each window and its reverse complement.
fn windows(text: &str, k: usize, canonical: bool) -> Vec<String> {
    let other = |letter: char| match letter {
        'A' => 'T',
        'C' => 'G',
        'G' => 'C',
        _ => 'A',
    };
    let window = |start: usize| {
        let own = text[start..start + k].to_owned();
        let reverse: String = own.chars().rev().map(other).collect();
        if canonical { own.min(reverse) } else { own }
    };
    (0..=text.len() - k).map(window).collect()
}

/// `koel unique --kmer --counts` writes what `koel build --kmer` reads, as letters and as numbers.
#[test]
fn tables_of_kmers_are_built_from_counts() {
    let folder = Folder::new();
    let mut state = 7_u64;
    let genome: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b"ACGT"[(state >> 62) as usize])
    })
    .take(500)
    .collect();
    folder.file("g.fa", format!(">g\n{genome}\n"));
    for (k, canonical) in [(31, true), (31, false), (3, true), (3, false), (16, true), (32, true)] {
        let windows = windows(&genome, k, canonical);
        let count = |kmer: &String| windows.iter().filter(|other| *other == kmer).count();
        let expected: String = windows.iter().map(|kmer| format!("{kmer},{}\n", count(kmer))).collect();
        let strands = if canonical { "--canonical-kmers" } else { "" };
        let kmers = format!("--kmer {k} {strands} --device cpu");
        let key_type = json!({ "type": "kmers", "k": k, "canonical": canonical });
        for (letters, extension) in [("--letters", "tsv"), ("", "tsv"), ("--letters", "csv"), ("", "npy")] {
            folder.ok(&format!("unique g.fa {kmers} --counts {letters} -o n.{extension}"));
            for (table, column) in [("map", "value"), ("map --shards 3", "value"), ("multi", "value")] {
                let build = format!("build n.{extension} {kmers} --table {table} -o n.koel --json");
                assert_eq!(folder.json(&build)["key_type"], key_type, "{build}");
                let found = folder.ok("lookup n.koel g.fa --letters --device cpu");
                assert_eq!(found, format!("key,{column}\n{expected}"), "{build}");
            }
        }
    }
}

#[test]
fn numbers_that_are_not_kmers_are_refused() {
    let folder = Folder::new();
    // GTTT = 191, and its reverse complement AAAC = 1; 256 has five letters.
    folder.file("n.csv", "1,5\n191,7\n");
    folder.file("long.csv", "256,5\n");
    folder.file("l.csv", "AAAC,5\nGTTT,7\n");
    let advice =
        "n.csv, line 2: the key 191 is GTTT, and the canonical k-mer is its reverse complement AAAC: count with";
    folder.refused("build n.csv --kmer 4 --canonical-kmers -o t.koel", advice);
    folder.refused("build l.csv --kmer 4 --canonical-kmers -o t.koel", "--duplicates");
    folder.refused("build long.csv --kmer 4 -o t.koel", "256 is not a k-mer of 4 letters: give --kmer K");
    folder.ok("build long.csv --kmer 5 -o t.koel");
    folder.refused("build n.csv --kmer 4 --keys u64 -o t.koel", "--keys is for numbers");
    folder.refused("build l.csv -o t.koel", "line 1: the key `AAAC` is not a whole number: for a table of k-mers give");
    folder.refused("build n.csv --kmer 4 --other-letters skip -o t.koel", "--other-letters is for FASTA and FASTQ");
    folder.ok("build l.csv --kmer 4 -o t.koel");
}

/// Ids are numbers, whatever the type of their keys. A compacting table that is converted from a set stores K too.
#[test]
fn ids_are_not_kmers() {
    let folder = Folder::new();
    folder.file("g.fa", GENOME);
    folder.file("ids.csv", "0\n6\n");
    folder.file("letters.csv", "ACGT\nCGTT\n");
    folder.file("q.fa", ">q\nACGTT\n");
    for scheme in ["cuckoo", "cuckoo_set"] {
        folder.ok(&format!("build g.fa -o t.koel --kmer 4 --table compact --scheme {scheme} --device cpu"));
        assert_eq!(
            folder.json("info t.koel --json")["key_type"],
            json!({ "type": "kmers", "k": 4, "canonical": false })
        );
        assert!(folder.ok("lookup t.koel ids.csv --reverse --device cpu").ends_with("\n6,\n"));
        fails(&folder, "lookup t.koel letters.csv --reverse --device cpu", "letters");
        for (queries, kmer) in [("q.fa", ""), ("q.fa", "--kmer 4"), ("q.fa", "--kmer 5"), ("ids.csv", "--kmer 4")] {
            let arguments = format!("lookup t.koel {queries} --reverse {kmer} --device cpu");
            folder.refused(&arguments, "the queries of --reverse are ids, which are numbers");
        }
        assert!(folder.ok("lookup t.koel letters.csv --device cpu").starts_with("key,id\n27,"));
    }
}

#[test]
fn cells_are_not_kmers() {
    let folder = Folder::new();
    let builder = HashTable::builder(Cuckoo::canonical(4)).key_type(KeyType::Cells(Layout::Morton2));
    builder.build(&Cpu::new(), &[27], &[1]).unwrap().save(folder.path("t.koel")).unwrap();
    folder.file("q.fa", ">q\nACGTT\n");
    folder.file("q.csv", "27\n");
    assert_eq!(folder.ok("lookup t.koel q.csv --device cpu"), "key,value\n27,1\n");
    folder.refused("lookup t.koel q.fa --kmer 4 --device cpu", "--kmer 4: the keys of t.koel are cells");
    folder.refused("lookup t.koel q.csv --kmer 4 --device cpu", "omit it");
    folder.refused("lookup t.koel q.fa --device cpu", "give numbers, as CSV, TSV or .npy");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_no_table() {
    let folder = Folder::new();
    assert!(std::process::Command::new("mkfifo").arg(folder.path("pipe")).status().unwrap().success());
    folder.file("q.csv", "1\n");
    folder.refused("info pipe", "plain file");
    folder.refused("lookup pipe q.csv", "plain file");
    folder.refused("info .", "a folder");
}

/// K-mers of more than 16 letters have keys of 64 bits.
#[test]
fn long_kmers_are_keys_of_64_bits() {
    let folder = Folder::new();
    folder.file("g.fa", ">r\nTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTA\n");
    folder.file("q.fa", ">q\nTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTA\n");
    for device in devices() {
        folder.ok(&format!("build g.fa -o t.koel --kmer 32 --table multi --device {device}"));
        let places = "18446744073709551615,0\n18446744073709551615,1\n";
        let said = folder.ok(&format!("lookup t.koel g.fa --device {device}"));
        assert_eq!(said, format!("key,value\n{places}{places}18446744073709551612,2\n"));
        let said = folder.ok(&format!("lookup t.koel q.fa --count --device {device}"));
        assert_eq!(said, "key,count\n18446744073709551612,1\n");
        folder.file("q.csv", "tttttttttttttttttttttttttttttttt\n7\n");
        let said = folder.ok(&format!("lookup t.koel q.csv --count --device {device}"));
        assert_eq!(said, "key,count\n18446744073709551615,2\n7,0\n");
    }
    assert!(folder.ok("info t.koel").contains("keys      k-mers of 32 letters\n"));
    assert_eq!(folder.json("info t.koel --json")["types"], json!({ "keys": "u64", "values": "u32" }));
    // The windows of 17 letters are two distinct keys.
    assert_eq!(folder.ok("unique g.fa --kmer 17 --counts --device cpu"), "key,count\n17179869183,17\n17179869180,1\n");
    folder.refused("build g.fa -o t.koel --kmer 33", "33");
}
