//! FASTA and FASTQ: compressed files, several files, both strands, k-mers as letters, and positions as records.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::folder::{Folder, array, stderr};

/// Compresses bytes with gzip.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).and_then(|()| writer.finish()).unwrap()
}

#[test]
fn gzip_is_read_from_files_and_from_pipes() {
    let folder = Folder::new();
    let reads = b"@r x\nACGT\n+\n@+II\n@s\nNACG\n+\nIIII\n";
    folder.file("r.fq", reads);
    folder.file("r.fq.gz", gzip(reads));
    folder.file("named_otherwise", gzip(reads));
    let expected = "key,count,min\n6,2,0\n27,1,1\n";
    for name in ["r.fq", "r.fq.gz", "named_otherwise"] {
        assert_eq!(folder.ok(&format!("groupby {name} --kmer 3 --agg count,min --device cpu")), expected, "{name}");
    }
    let mut command = folder.command("groupby - --kmer 3 --agg count,min --device cpu");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&gzip(reads)).unwrap();
    assert_eq!(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap(), expected);
    folder.file("t.csv.gz", gzip(b"key,value\n7,1\n7,2\n"));
    assert_eq!(folder.ok("groupby t.csv.gz --agg sum --device cpu"), "key,sum\n7,3\n");
    folder.file("t.npy.gz", gzip(&array("<i8", "(2,)", &[-5, 7])));
    assert_eq!(folder.ok("unique t.npy.gz --device cpu"), "key\n-5\n7\n");
}

/// Wherever the damage is, no output looks complete.
#[test]
fn damaged_gzip_leaves_no_output() {
    let folder = Folder::new();
    let rows: String = (0..300_000u32).map(|i| format!("{}\n", i.wrapping_mul(0x9e37_79b9))).collect();
    let packed = gzip(rows.as_bytes());
    folder.file("cut.csv.gz", &packed[..packed.len() - 9]);
    let mut damaged = packed.clone();
    let sum = damaged.len() - 6;
    damaged[sum] ^= 1;
    folder.file("damaged.csv.gz", damaged);
    folder.file("t.csv", "1,2\n");
    folder.ok("build t.csv -o t.koel --device cpu");
    for (name, part) in [("cut.csv.gz", "cut short"), ("damaged.csv.gz", "damaged")] {
        for command in
            ["unique IN -o out.csv", "groupby IN -o out.csv", "lookup t.koel IN -o out.csv", "build IN -o out.koel"]
        {
            folder.refused(&format!("{} --device cpu", command.replace("IN", name)), &format!("{name}: its gzip data"));
            folder.refused(&format!("{} --device cpu", command.replace("IN", name)), part);
            let output = folder.path(command.rsplit_once(' ').unwrap().1);
            assert!(!output.exists(), "{command}: {name}");
        }
    }
}

#[test]
fn both_strands_are_equal_if_requested() {
    let folder = Folder::new();
    // AAAC = 1 is smaller than its reverse complement GTTT = 191; ACGT = 27 equals its reverse complement.
    folder.file("g.fa", ">g\nGTTTNACGT\n");
    folder.file("q.fq", "@q\nAAAC\n+\nIIII\n");
    folder.file("q.csv", "GTTT\nAAAC\n1\n191\nACGT\n");
    let said = json!({ "type": "kmers", "k": 4, "canonical": true });
    for (table, rows) in [
        ("map", "key,value\n1,0\n1,0\n1,0\n191,\n27,5\n"),
        ("set", "key,found\n1,1\n1,1\n1,1\n191,0\n27,1\n"),
        ("compact", "key,id\n1,0\n1,0\n1,0\n191,\n27,1\n"),
        ("multi", "key,value\n1,0\n1,0\n1,0\n191,\n27,5\n"),
    ] {
        let build = format!("build g.fa -o t.koel --kmer 4 --canonical-kmers --table {table} --device cpu");
        assert!(folder.ok(&build).contains("\nkeys      canonical k-mers of 4 letters\n"), "{table}");
        assert_eq!(folder.json(&format!("{build} --json"))["key_type"], said, "{table}");
        assert_eq!(folder.json("info t.koel --json")["key_type"], said, "{table}");
        assert!(folder.ok("info t.koel").contains("\nkeys      canonical k-mers of 4 letters\n"), "{table}");
        for canonical in ["", "--canonical-kmers", "--canonical-kmers --kmer 4"] {
            let found = folder.ok(&format!("lookup t.koel q.fq {canonical} --device cpu"));
            assert_eq!(found.lines().nth(1), rows.lines().nth(1), "{table}, {canonical}");
            assert_eq!(
                folder.ok(&format!("lookup t.koel q.csv {canonical} --device cpu")),
                rows,
                "{table}, {canonical}"
            );
        }
    }
    folder.ok("build g.fa -o plain.koel --kmer 4 --device cpu");
    assert_eq!(folder.ok("lookup plain.koel q.fq --device cpu"), "key,value\n1,\n");
    folder.refused("lookup plain.koel q.fq --canonical-kmers --device cpu", "not canonical k-mers");
    folder.file("n.csv", "1,2\n");
    folder.ok("build n.csv -o n.koel --device cpu");
    folder.refused("lookup n.koel q.fq --kmer 4 --canonical-kmers --device cpu", "not canonical k-mers");
    folder.refused("unique n.csv --canonical-kmers", "--canonical-kmers is for FASTA and FASTQ files");
}

#[test]
fn several_files_are_read_as_one() {
    let folder = Folder::new();
    folder.file("a.fa", ">a\nACGT\n");
    folder.file("b.fq.gz", gzip(b"@b\nNACG\n+\nIIII\n"));
    folder.file("c.csv", "key\n7\n8\n");
    folder.file("d.csv", "id\n8\n9\n");
    folder.file("short.fa", ">s\nAC\n");
    assert_eq!(
        folder.ok("groupby a.fa b.fq.gz --kmer 3 --agg count,max --device cpu"),
        "key,count,max\n6,2,5\n27,1,1\n"
    );
    assert_eq!(folder.ok("groupby c.csv d.csv --agg count,max --device cpu"), "key,count,max\n7,1,0\n8,2,2\n9,1,3\n");
    assert_eq!(folder.ok("unique c.csv d.csv c.csv --counts --device cpu"), "key,count\n7,2\n8,3\n9,1\n");
    folder.ok("build a.fa b.fq.gz --kmer 3 --table multi -o t.koel --device cpu");
    assert_eq!(folder.ok("lookup t.koel a.fa b.fq.gz --device cpu"), "key,value\n6,0\n6,5\n27,1\n6,0\n6,5\n");
    let several = folder.koel("unique a.fa short.fa --kmer 3 --device cpu");
    assert!(several.status.success(), "files without a key are accepted if another file has one: {}", stderr(&several));
    folder.refused(
        "unique short.fa short.fa --kmer 3",
        "short.fa and 1 more file: no key: the longest run of A, C, G, T and U has 2",
    );
    folder.refused("unique a.fa c.csv", "c.csv: this is CSV, and a.fa is FASTA: sequences and numbers cannot be mixed");
    folder.refused("unique c.csv missing.csv", "missing.csv");
    folder.refused("unique - -", "only one of the files can be stdin");
    folder.refused("unique c.csv d.csv -o d.csv", "-o d.csv is the input d.csv");
    std::fs::hard_link(folder.path("d.csv"), folder.path("d.koel")).unwrap();
    folder.refused("build c.csv d.csv -o d.koel", "-o d.koel is the input d.csv");
    // Arrays of two types need an option that names a common type.
    folder.file("u.npy", array("<u4", "(2,)", &[7, 8]));
    folder.file("i.npy", array("<i8", "(2,)", &[-7, 8]));
    folder.refused("unique u.npy i.npy -o o.csv", "i.npy: its keys are i64, and those of the files before it u32");
    assert_eq!(folder.ok("unique u.npy i.npy --keys i64 --device cpu"), "key\n7\n8\n-7\n");
    // Values are ignored if only keys are needed.
    folder.file("p.npy", array("<u4", "(1, 2)", &[9, 1]));
    assert_eq!(folder.ok("unique u.npy p.npy --device cpu"), "key\n7\n8\n9\n");
}

#[test]
fn kmers_can_be_written_as_letters() {
    let folder = Folder::new();
    folder.file("g.fa", ">g\nACGTA\n");
    folder.file("n.csv", "27,1\n");
    assert_eq!(folder.ok("unique g.fa --kmer 4 --letters --counts --device cpu"), "key,count\nACGT,1\nCGTA,1\n");
    assert_eq!(folder.ok("groupby g.fa --kmer 4 --letters --agg min --device cpu"), "key,min\nACGT,0\nCGTA,1\n");
    assert_eq!(folder.ok("join g.fa g.fa --kmer 4 --letters --device cpu"), "key,left,right\nACGT,0,0\nCGTA,1,1\n");
    folder.ok("build g.fa --kmer 4 -o t.koel --table compact --device cpu");
    folder.file("q.csv", "27\nAAAA\n");
    assert_eq!(folder.ok("lookup t.koel q.csv --letters --device cpu"), "key,id\nACGT,0\nAAAA,\n");
    folder.file("ids.csv", "1\n5\n");
    assert_eq!(folder.ok("lookup t.koel ids.csv --reverse --letters --device cpu"), "id,key\n1,CGTA\n5,\n");
    folder.ok("unique g.fa --kmer 4 --letters -o u.npy --device cpu");
    let written = folder.bytes("u.npy");
    assert!(String::from_utf8_lossy(&written).contains("'|S4'") && written.ends_with(b"ACGTCGTA"));
    folder.ok("lookup t.koel q.csv --letters -o l.npy --device cpu");
    let written = folder.bytes("l.npy");
    assert!(written.ends_with(b"ACGT\0\0\0\0\x01AAAA\0\0\0\0\0"), "{written:?}");
    for arguments in ["unique n.csv", "groupby n.csv", "join n.csv g.fa --kmer 4", "join n.csv n.csv"] {
        folder.refused(&format!("{arguments} --letters -o out.csv"), "--letters is for keys that are k-mers");
    }
    folder.ok("build n.csv -o n.koel --device cpu");
    folder.refused("lookup n.koel q.csv --letters --device cpu", "--letters is for keys that are k-mers");
    folder.file("no.csv", "256\n");
    folder.refused("lookup t.koel no.csv --letters -o out.csv --device cpu", "256 is not a k-mer of 4 letters");
    assert!(!folder.path("out.csv").exists());
}

#[test]
fn rare_keys_are_dropped() {
    let folder = Folder::new();
    folder.file("k.csv", "7,1\n8,2\n7,3\n9,4\n8,5\n7,6\n");
    for (arguments, expected) in [
        ("unique --min-count 1", "key\n7\n8\n9\n"),
        ("unique --min-count 2", "key\n7\n8\n"),
        ("unique --min-count 3 --counts", "key,count\n7,3\n"),
        ("unique --min-count 4 --counts", "key,count\n"),
        ("groupby --agg sum --min-count 2", "key,sum\n7,10\n8,7\n"),
        ("groupby --agg max,count --min-count 3", "key,max,count\n7,6,3\n"),
    ] {
        let (command, rest) = arguments.split_once(' ').unwrap();
        assert_eq!(folder.ok(&format!("{command} k.csv {rest} --device cpu")), expected, "{arguments}");
    }
    let summary = folder.json("groupby k.csv --min-count 2 -o g.csv --json --device cpu");
    assert_eq!((&summary["groups"], &summary["min_count"]), (&json!(2), &json!(2)));
    folder.refused("unique k.csv --min-count 2 --inverse i.csv", "--min-count and --inverse");
    folder.refused("unique k.csv --min-count 0", "--min-count");
}

#[test]
fn places_are_records_and_offsets() {
    let folder = Folder::new();
    folder.file("a.fa", ">chr1 first\nACGTA\n>odd,\"name\"\nTACGT\n");
    folder.file("b.fq", "@read/1\nACGT\n+\nIIII\n");
    folder.file("q.csv", "ACGT\nCGTA\nAAAA\n");
    folder.ok("build a.fa b.fq --kmer 4 --table multi -o t.koel --device cpu");
    let expected = "key,record,offset\nACGT,chr1,0\nACGT,\"odd,\"\"name\"\"\",1\nACGT,read/1,0\nCGTA,chr1,1\nAAAA,,\n";
    assert_eq!(folder.ok("lookup t.koel q.csv --letters --device cpu --places a.fa b.fq"), expected);
    folder.ok("lookup t.koel q.csv --letters --device cpu -o p.tsv --places a.fa b.fq");
    assert!(folder.text("p.tsv").ends_with("\nAAAA\t\t\n"));
    folder.ok("lookup t.koel q.csv --letters --device cpu -o p.parquet --places a.fa b.fq");
    assert_eq!(folder.ok("convert p.parquet -"), expected);
    folder.file("odd.fa", b">\xff\nACGTA\n");
    folder.ok("build odd.fa --kmer 4 -o odd.koel --device cpu");
    folder.refused("lookup odd.koel q.csv --letters --places odd.fa -o odd.csv --device cpu", "is not UTF-8");
    folder.ok("build a.fa b.fq --kmer 4 --duplicates last -o map.koel --device cpu");
    let last = folder.ok("lookup map.koel q.csv --letters --mapped --places a.fa b.fq");
    assert_eq!(last, "key,record,offset\nACGT,read/1,0\nCGTA,chr1,1\nAAAA,,\n");
    for (places, part) in [
        ("a.fa", "not the files that the table was built from"),
        ("b.fq a.fa", "not the files that the table was built from"),
        ("q.csv", "give the FASTA or FASTQ"),
        ("missing.fa", "missing.fa"),
    ] {
        folder.refused(&format!("lookup t.koel q.csv -o out.csv --device cpu --places {places}"), part);
        assert!(!folder.path("out.csv").exists(), "{places}");
    }
    folder.refused("lookup t.koel q.csv -o out.npy --places a.fa b.fq", "write to .csv or .tsv");
    folder.refused("lookup t.koel q.csv --count --places a.fa b.fq", "--count writes no values");
    std::fs::hard_link(folder.path("b.fq"), folder.path("b.csv")).unwrap();
    folder.refused("lookup t.koel q.csv -o b.csv --places a.fa b.fq", "-o b.csv is the input b.fq");
    folder.ok("build a.fa --kmer 4 --table set -o set.koel --device cpu");
    folder.refused("lookup set.koel q.csv --places a.fa", "it is for --table map and multi");
    folder.file("n.csv", "27,1\n");
    folder.ok("build n.csv -o n.koel --device cpu");
    folder.refused("lookup n.koel n.csv --places a.fa", "not k-mers");
}
