//! Errors that say what to do, and the command that does it.

use std::process::Command;

use crate::folder::{Folder, array, npy};

/// A command that fails, a part of what it says, and a command that follows the advice and succeeds.
type Case = (&'static str, &'static str, &'static str);

/// Commands that take keys and values without names, and those that take named columns in their place.
const NAMES: &[Case] = &[
    ("koel groupby orders.csv", "by --by; there are id, day, city, price, n", "koel groupby orders.csv --by id"),
    ("koel groupby orders.csv --agg sum", "by --by; there are", "koel groupby orders.csv --by city --agg sum:n"),
    ("koel groupby sales.csv", "by --by; there are city, price", "koel groupby sales.csv --by city"),
    ("koel groupby one.csv", "name the columns of the key by --by", "koel groupby one.csv --by column_1 --header no"),
    ("koel groupby codes.csv", "as in --by column_1 --header no", "koel groupby codes.csv --by column_1 --header no"),
    (
        "koel groupby triples.csv",
        "as in --by column_1 --header no",
        "koel groupby triples.csv --by column_1 --header no",
    ),
    (
        "koel groupby pairs.csv --agg nunique",
        "give --by NAME",
        "koel groupby pairs.csv --header no --by column_1 --agg nunique:column_2",
    ),
    ("koel groupby orders.parquet", "name the columns of the key by --by", "koel groupby orders.parquet --by id"),
    ("koel groupby pairs.csv --drop-nulls", "by --by", "koel groupby pairs.csv --by column_1 --header no --drop-nulls"),
    ("koel unique sales.csv", "by --on; there are city, price", "koel unique sales.csv --on city"),
    ("koel unique orders.csv", "by --on; there are id, day", "koel unique orders.csv --on id,day"),
    (
        "koel unique pairs.csv --types column_1=utf8",
        "by --on",
        "koel unique pairs.csv --on column_1 --header no --types column_1=utf8",
    ),
    ("koel unique pairs.csv --quote none", "by --on", "koel unique pairs.csv --on column_1 --header no --quote none"),
    ("koel join orders.csv orders.csv", "by --on; there are id, day", "koel join orders.csv orders.csv --on id"),
    ("koel join orders.csv orders.csv --rows", "by --on; there are id, day", "koel join orders.csv orders.csv --on id"),
    ("koel join sales.csv sales.csv", "by --on; there are city, price", "koel join sales.csv sales.csv --on city"),
    ("koel join names.csv names.csv", "by --on; there are id, name", "koel join names.csv names.csv --on id"),
    (
        "koel join pairs.csv pairs.csv --nulls-equal",
        "by --on",
        "koel join pairs.csv pairs.csv --on column_1 --header no --nulls-equal",
    ),
    ("koel build orders.csv -o t.koel", "by --key and --value", "koel build orders.csv --key id --value n -o t.koel"),
    ("koel build orders.csv -o t.koel", "cut -d, -f1,2", "cut -d, -f1,5 orders.csv | koel build - -o t.koel"),
    ("koel build orders.parquet -o t.koel", "by --key", "koel build orders.parquet --key id -o t.koel"),
    (
        "koel build nulls.csv --key v --null-value NULL -o t.koel",
        "by --skip-nulls",
        "koel build nulls.csv --key v --null-value NULL --skip-nulls -o t.koel",
    ),
    (
        "koel build orders.csv --key city -o t.koel",
        "`koel unique --on`",
        "koel unique orders.csv --on city --inverse ids.csv",
    ),
    (
        "koel build orders.csv --key id --value price -o t.koel",
        "save them as int64",
        "koel build orders.csv --key id --value n -o t.koel",
    ),
    (
        "koel build orders.csv --key id,n -o t.koel",
        "--types id=uint32",
        "koel build orders.csv --key id,n --types id=uint32,n=uint32 -o t.koel",
    ),
    (
        "koel build orders.csv --key id --value n --table set -o t.koel",
        "omit it",
        "koel build orders.csv --key id --table set -o t.koel",
    ),
    (
        "koel build orders.csv --key id,day,n -o t.koel",
        "two of 32 bits",
        "koel build orders.csv --key id,n --types id=uint32,n=uint32 -o t.koel",
    ),
];

/// Columns and options that name them.
const COLUMNS: &[Case] = &[
    (
        "koel groupby counts.csv --by count",
        "--agg count_2=count",
        "koel groupby counts.csv --by count --agg count_2=count",
    ),
    (
        "koel groupby counts.csv --by key --agg sum:count,sum:count",
        "--agg count_sum_2=sum:count",
        "koel groupby counts.csv --by key --agg sum:count,count_sum_2=sum:count",
    ),
    (
        "koel unique counts.csv --on count --counts",
        "--agg rows=count",
        "koel groupby counts.csv --by count --agg rows=count",
    ),
    (
        "koel groupby sales.csv --by city --agg sum",
        "Write sum:COLUMN",
        "koel groupby sales.csv --by city --agg sum:price",
    ),
    (
        "koel groupby sales.csv --by city --agg median:price",
        "give one of count, sum",
        "koel groupby sales.csv --by city --agg mean:price",
    ),
    (
        "koel groupby sales.csv --by city --agg :price",
        "give one of",
        "koel groupby sales.csv --by city --agg sum:price",
    ),
    (
        "koel groupby sales.csv --by city --agg sum:",
        "write FUNCTION:COLUMN",
        "koel groupby sales.csv --by city --agg sum:price",
    ),
    ("koel groupby sales.csv --by City", "did you mean city?", "koel groupby sales.csv --by city"),
    ("koel groupby sales.csv --by city,city", "omit one of them", "koel groupby sales.csv --by city"),
    ("koel groupby pairs.csv --agg sum,sum", "name each aggregate once", "koel groupby pairs.csv --agg sum"),
    (
        "koel groupby nulls.csv --by id --agg sum:v",
        "--types v=int64",
        "koel groupby nulls.csv --by id --agg sum:v --types v=int64 --null-value NULL",
    ),
    (
        "koel groupby nulls.csv --by id --agg sum:v --types v=int64",
        "--null-value",
        "koel groupby nulls.csv --by id --agg sum:v --types v=int64 --null-value NULL",
    ),
    (
        "koel groupby big.csv --by k --agg sum:v",
        "--types v=decimal(38,s)",
        "koel groupby big.csv --by k --agg sum:v --types 'v=decimal(38,0)'",
    ),
    (
        "koel groupby comma.csv --by v --agg 'count:last, first'",
        "in quotes, as in sum:\"a, b\"",
        "koel groupby comma.csv --by v --agg 'count:\"last, first\"'",
    ),
    ("koel groupby comma.csv --by 'last, first'", "'\"last, first\"'", "koel groupby comma.csv --by '\"last, first\"'"),
    ("koel groupby comma.csv --by '\"last, first'", "close it", "koel groupby comma.csv --by '\"last, first\"'"),
    (
        "koel join names.csv texts.csv --on id",
        "give --types id=",
        "koel join names.csv texts.csv --on id --types id=utf8",
    ),
    ("koel join names.csv names.csv --on =id", "give NAME, or LEFT=RIGHT", "koel join names.csv names.csv --on id=id"),
    (
        "koel join suffix.csv suffix.csv --on k",
        "give another --suffix",
        "koel join suffix.csv suffix.csv --on k --suffix _2",
    ),
    ("koel isin isin.csv isin.csv --on id", "by --name", "koel isin isin.csv isin.csv --on id --name known"),
    (
        "koel isin names.csv names.csv --on id --columns id",
        "add it",
        "koel isin names.csv names.csv --on id --columns id,isin",
    ),
    ("koel convert names.csv - --types id", "write it as name=type", "koel convert names.csv - --types id=int64"),
    ("koel convert names.csv - --types id=int", "use int32", "koel convert names.csv - --types id=int32"),
    ("koel convert names.csv - --types id=int32,id=utf8", "give it one", "koel convert names.csv - --types id=utf8"),
    ("koel convert names.csv - --types name=int64", "another of --types", "koel convert names.csv - --types name=utf8"),
];

/// Files, their formats and their places.
const FILES: &[Case] = &[
    ("koel join - -", "name the other", "koel join - pairs.csv < pairs.csv"),
    ("koel unique - - --on id", "name the others", "koel unique - names.csv --on id < names.csv"),
    ("koel unique names.csv --on id -o names.csv", "write to another file", "koel unique names.csv --on id -o out.csv"),
    (
        "koel unique pairs.csv -o out.csv --inverse out.csv",
        "give each its own",
        "koel unique pairs.csv -o out.csv --inverse ids.csv",
    ),
    ("koel unique pairs.csv -o out.json", "give .csv", "koel unique pairs.csv -o out.csv"),
    ("koel unique pairs.csv -o -", "omit it", "koel unique pairs.csv"),
    (
        "koel unique pairs.csv -o missing/out.csv",
        "create it first",
        "mkdir missing && koel unique pairs.csv -o missing/out.csv",
    ),
    ("koel build pairs.csv -o t.csv", "give a name like table.koel", "koel build pairs.csv -o table.koel"),
    ("koel build pairs.csv -o -", "name a file", "koel build pairs.csv -o t.koel"),
    ("koel build pairs.csv -o /dev/stdout --json", "omit one of them", "koel build pairs.csv -o /dev/stdout"),
    ("koel man nowhere", "create it first", "mkdir nowhere && koel man nowhere"),
    (
        "koel convert names.csv names.parquet two.csv",
        "remove this file first",
        "rm two.csv; koel convert names.csv names.csv two.csv",
    ),
    (
        "koel convert names.csv orders.parquet -",
        "with `koel convert`",
        "koel convert names.csv n.parquet && koel convert n.parquet n.parquet -",
    ),
    ("koel convert orders.parquet - --header no", "omit it", "koel convert orders.parquet -"),
    ("koel convert orders.parquet - --delimiter ';'", "omit it", "koel convert orders.parquet -"),
    ("koel convert semicolons.csv -", "give --delimiter", "koel convert semicolons.csv - --delimiter ';'"),
    (
        "koel convert semicolons.csv - --delimiter ab",
        "give one character",
        "koel convert semicolons.csv - --delimiter ';'",
    ),
    ("koel convert open.csv -", "give --quote none", "koel convert open.csv - --quote none"),
    ("koel convert after.csv -", "give --quote none", "koel convert after.csv - --quote none"),
    ("koel convert latin1.csv -", "iconv -f LATIN1 -t UTF-8", "iconv -f LATIN1 -t UTF-8 latin1.csv | koel convert - -"),
    ("koel convert utf16.csv -", "iconv -f UTF-16 -t UTF-8", "iconv -f UTF-16 -t UTF-8 utf16.csv | koel convert - -"),
    ("koel unique utf16.csv", "iconv -f UTF-16 -t UTF-8", "iconv -f UTF-16 -t UTF-8 utf16.csv | koel unique -"),
    ("koel convert cr.csv -", "tr '\\r' '\\n'", "tr '\\r' '\\n' < cr.csv | koel convert - -"),
    ("koel convert twice.gz -", "once", "gzip -dc twice.gz | koel convert - -"),
    ("koel unique twice.gz", "once", "gzip -dc twice.gz | koel unique -"),
    ("koel convert names.csv out.npy", "write .parquet, .arrow or .csv", "koel convert names.csv out.parquet"),
    ("koel convert numbers.csv out.npy", "write .parquet, .arrow or .csv", "koel convert numbers.csv out.arrow"),
    ("koel convert names.csv out.xlsx", ".parquet", "koel convert names.csv out.parquet"),
    ("koel build cube.npy -o t.koel", "give", "koel build keys.npy -o t.koel"),
];

/// Numbers, k-mers and tables of them.
const TABLES: &[Case] = &[
    ("koel build floats.csv -o t.koel", "columns are separated by commas or tabs", "koel build pairs.csv -o t.koel"),
    ("koel groupby floats.csv --agg sum", "give --values f64", "koel groupby floats.csv --agg sum --values f64"),
    ("koel groupby sums.csv --agg sum", "give --values f64", "koel groupby sums.csv --agg sum --values f64"),
    ("koel build twice.csv -o t.koel", "--duplicates first", "koel build twice.csv -o t.koel --duplicates first"),
    ("koel build signed.csv -o t.koel", "--duplicates last", "koel build signed.csv -o t.koel --duplicates last"),
    ("koel build header.csv -o t.koel", "give --header yes", "koel build header.csv -o t.koel --header yes"),
    ("koel build named2.csv -o t.koel", "give --header yes", "koel build named2.csv -o t.koel --header yes"),
    ("koel build wide.csv -o t.koel --scheme cuckoo", "give one", "koel build wide.csv -o t.koel --scheme bucketized"),
    (
        "koel build pairs.csv -o t.koel --keys u64 --scheme cuckoo",
        "give --keys u32",
        "koel build pairs.csv -o t.koel --keys u32 --scheme cuckoo",
    ),
    ("koel build wide.csv -o t.koel --kind classic", "omit it", "koel build wide.csv -o t.koel"),
    (
        "koel build pairs.csv -o t.koel --table set --values u64",
        "omit it",
        "koel build pairs.csv -o t.koel --table set",
    ),
    ("koel build pairs.csv -o t.koel --ids ascending", "omit it", "koel build pairs.csv -o t.koel"),
    (
        "koel build pairs.csv -o t.koel --table multi --duplicates first",
        "omit it",
        "koel build pairs.csv -o t.koel --table multi",
    ),
    (
        "koel build pairs.csv -o t.koel --table multi --memory 64Mi",
        "omit it",
        "koel build pairs.csv -o t.koel --table multi",
    ),
    ("koel build pairs.csv -o t.koel --memory 10M", "at least 64Mi", "koel build pairs.csv -o t.koel --memory 64Mi"),
    (
        "koel build pairs.csv -o t.koel --table compact --shards 2",
        "omit it",
        "koel build pairs.csv -o t.koel --table compact",
    ),
    (
        "koel build pairs.csv -o t.koel --table compact --scheme cuckoo_set --ids first",
        "omit it",
        "koel build pairs.csv -o t.koel --table compact --scheme cuckoo_set",
    ),
    (
        "koel build pairs.csv -o t.koel --device cpu,cpu",
        "give --shards P",
        "koel build pairs.csv -o t.koel --device cpu,cpu --shards 4",
    ),
    ("koel build pairs.csv -o t.koel --seed x", "`random`", "koel build pairs.csv -o t.koel --seed random"),
    (
        "koel build pairs.csv -o t.koel --capacity many",
        "give one like",
        "koel build pairs.csv -o t.koel --capacity 2^10",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme horton --functions 3",
        "omit it",
        "koel build pairs.csv -o t.koel --scheme horton",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme signpost --kind classic",
        "--kind canonical",
        "koel build pairs.csv -o t.koel --scheme signpost --kind canonical",
    ),
    ("koel build kmers.csv -o t.koel", "give `koel build` --kmer 4", "koel build kmers.csv -o t.koel --kmer 4"),
    ("koel build kmers.csv -o t.koel --kmer 4 --keys u64", "omit it", "koel build kmers.csv -o t.koel --kmer 4"),
    ("koel build long.csv -o t.koel --kmer 4", "give --kmer K", "koel build long.csv -o t.koel --kmer 5"),
    ("koel build g.fa -o t.koel --kmer 4 --keys u64", "omit it", "koel build g.fa -o t.koel --kmer 4"),
    (
        "koel build both.csv -o t.koel --kmer 4 --canonical-kmers",
        "build the table without it",
        "koel build both.csv -o t.koel --kmer 4",
    ),
    ("koel unique odd.fa --kmer 3", "--other-letters skip", "koel unique odd.fa --kmer 3 --other-letters skip"),
    ("koel unique pairs.csv --kmer 3", "omit it", "koel unique pairs.csv"),
    ("koel unique pairs.csv --letters", "omit it", "koel unique pairs.csv"),
    (
        "koel unique pairs.csv --min-count 1 --inverse ids.csv",
        "omit one of them",
        "koel unique pairs.csv --inverse ids.csv",
    ),
    ("koel join pairs.csv pairs.csv --memory 64Mi --seed 1", "omit it", "koel join pairs.csv pairs.csv --memory 64Mi"),
    (
        "koel lookup pairs.koel g.fa",
        "build the table with --kmer K",
        "koel build pairs.csv --kmer 4 -o k.koel && koel lookup k.koel g.fa",
    ),
    (
        "koel lookup pairs.koel g.fa --kmer 4",
        "build the table with --kmer 4",
        "koel build pairs.csv --kmer 4 -o k.koel && koel lookup k.koel g.fa",
    ),
    (
        "koel lookup pairs.koel g.fa --kmer 4 --canonical-kmers",
        "with --canonical-kmers",
        "koel build strands.csv --kmer 4 --canonical-kmers -o k.koel && koel lookup k.koel g.fa",
    ),
    (
        "koel lookup pairs.koel kmers.csv",
        "give `koel build` --kmer 4",
        "koel build pairs.csv --kmer 4 -o k.koel && koel lookup k.koel kmers.csv",
    ),
    ("koel lookup kmers.koel kmers.csv --kmer 5", "omit it", "koel lookup kmers.koel kmers.csv"),
    ("koel lookup kmers.koel g.fa --canonical-kmers", "omit it", "koel lookup kmers.koel g.fa"),
    ("koel lookup pairs.koel pairs.csv --count", "omit it", "koel lookup pairs.koel pairs.csv"),
    ("koel lookup pairs.koel pairs.csv --reverse", "omit it", "koel lookup pairs.koel pairs.csv"),
    ("koel lookup pairs.koel pairs.csv --letters", "omit it", "koel lookup pairs.koel pairs.csv"),
    (
        "koel lookup pairs.koel pairs.csv --memory 64Mi",
        "`koel build --shards`",
        "koel build pairs.csv --shards 2 -o s.koel && koel lookup s.koel pairs.csv --memory 64Mi",
    ),
    ("koel lookup pairs.koel g.fa --places g.fa", "omit it", "koel lookup kmers.koel g.fa --places g.fa"),
    (
        "koel lookup kmers.koel g.fa --places g.fa -o out.npy",
        "write to .csv",
        "koel lookup kmers.koel g.fa --places g.fa -o out.csv",
    ),
    (
        "koel verify --shards 2 --table join",
        "omit the other tables",
        "koel verify --shards 2 --table set --n 99 --scheme cuckoo --device cpu",
    ),
    (
        "koel verify --n 99 --scheme signpost --kind classic",
        "give --kind all",
        "koel verify --n 99 --scheme signpost --kind all --device cpu",
    ),
    ("koel verify --n 99 --scheme horton --functions 3", "omit it", "koel verify --n 99 --scheme horton --device cpu"),
];

fn folder() -> Folder {
    let folder = Folder::new();
    for (name, text) in [
        ("orders.csv", "id,day,city,price,n\n1,2024-01-01,Oslo,2.5,1\n2,2024-01-02,Bern,3.5,2\n"),
        ("sales.csv", "city,price\nOslo,3\nBern,4\nOslo,5\n"),
        ("names.csv", "id,name\n1,Ann\n2,Bob\n"),
        ("texts.csv", "id,text\n1,a\nx,b\n"),
        ("two.csv", "id,name\n9,Eve\n"),
        ("one.csv", "Ann,Bob\n"),
        ("codes.csv", "007,1\n7,2\n"),
        ("triples.csv", "1,2,3\n4,5,6\n"),
        ("pairs.csv", "27,1\n111,2\n"),
        ("counts.csv", "key,count\na,2\nb,2\n"),
        ("nulls.csv", "id,v\n1,5\n2,NULL\n"),
        ("big.csv", "k,v\n1,9223372036854775807\n1,9223372036854775807\n"),
        ("comma.csv", "\"last, first\",v\n\"Doe, J\",1\n"),
        ("suffix.csv", "k,v,v_right\n1,2,3\n"),
        ("isin.csv", "id,isin\n1,2\n"),
        ("semicolons.csv", "a;b\n1,5;2\n"),
        ("open.csv", "id,name\n1,\"a\n"),
        ("after.csv", "id,name\n1,\"a\"b\n"),
        ("cr.csv", "id,v\r1,2\r"),
        ("numbers.csv", "a,b\n1,2\n,3\n"),
        ("floats.csv", "1,1.5\n1,2.5\n"),
        ("sums.csv", "1,18446744073709551615\n1,18446744073709551615\n"),
        ("twice.csv", "1,2\n1,3\n"),
        ("signed.csv", "-1,2\n-1,3\n"),
        ("header.csv", "key,value\n"),
        ("named2.csv", "key,2024\n1,2\n"),
        ("wide.csv", "5000000000,1\n"),
        ("kmers.csv", "ACGT,1\nCGTT,2\n"),
        ("long.csv", "256,5\n"),
        ("both.csv", "1,5\n191,7\n"),
        ("strands.csv", "1,5\n27,7\n"),
        ("g.fa", ">g\nACGTT\n"),
        ("odd.fa", ">g\nACGT*ACG\n"),
    ] {
        folder.file(name, text);
    }
    folder.file("latin1.csv", b"id,name\n1,Bj\xf6rn\n");
    folder.file("utf16.csv", "\u{feff}id\n1\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>());
    folder.file("keys.npy", npy("(3,)", &[1, 2, 3]));
    folder.file("cube.npy", array("<u4", "(1, 1, 3)", &[1, 2, 3]));
    folder
}

#[test]
fn advice_in_errors_works() {
    let folder = folder();
    let program = std::path::Path::new(crate::PROGRAM);
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let run = |line: &str| {
        let mut command = Command::new("sh");
        let output = command.args(["-c", line]).current_dir(folder.path("")).env("PATH", &path).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for line in [
        "koel convert orders.csv orders.parquet",
        "koel build pairs.csv -o pairs.koel",
        "koel build g.fa --kmer 4 -o kmers.koel",
        "gzip -c keys.npy > once.gz; printf '1\\n2\\n' | gzip | gzip > twice.gz",
    ] {
        assert_eq!(run(line).0, Some(0), "{line}");
    }
    let mut wrong = Vec::new();
    for (fails, says, follows) in [NAMES, COLUMNS, FILES, TABLES].into_iter().flatten() {
        let (code, said) = run(fails);
        if code != Some(2) || !said.contains(says) || !said.contains("koel: ") {
            wrong.push(format!("{fails}\n  should say: {says}\n  says ({code:?}): {said}"));
        }
        let (code, said) = run(follows);
        if code != Some(0) {
            wrong.push(format!("{fails}\n  advises: {says}\n  {follows}\n  says ({code:?}): {said}"));
        }
    }
    assert!(wrong.is_empty(), "{} of the cases:\n{}", wrong.len(), wrong.join("\n"));
}
