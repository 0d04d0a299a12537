//! Errors that give advice, and commands that follow the advice.

mod columns;
mod files;
mod formats;
mod schemes;
mod tables;

use std::process::Command;

use crate::folder::{Folder, array, npy};

/// A command that fails, a part of its error, and a command that follows the advice and succeeds.
type Case = (&'static str, &'static str, &'static str);

/// An array of fields, or of a type that `folder::array` does not write.
fn fields(types: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': {types}, 'fortran_order': False, 'shape': {shape}, }}\n");
    [&b"\x93NUMPY\x01\0"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), data].concat()
}

fn arrays(folder: &Folder) {
    let numbers = |all: &[i64]| all.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    folder.file("keys.npy", npy("(3,)", &[1, 2, 3]));
    folder.file("cube.npy", array("<u4", "(1, 1, 3)", &[1, 2, 3]));
    folder.file("flat.npy", array("<i8", "(0, 0)", &[]));
    let pair = "[('k', '<i8'), ('v', '<i8')]";
    folder.file("whole.npy", fields(pair, "(1,)", &numbers(&[1, 2])));
    folder.file("two.npy", fields(pair, "(2,)", &numbers(&[1, 2, 4, 5])));
    folder.file(
        "narrow.npy",
        fields("[('k', '<i4'), ('v', '<i8')]", "(1,)", &[&[1, 0, 0, 0], &numbers(&[2])[..]].concat()),
    );
    folder.file("floats.npy", fields("[('k', '<i8'), ('v', '<f8')]", "(1,)", &numbers(&[1, 0])));
    folder.file("three.npy", fields("[('a', '<i8'), ('b', '<i8'), ('c', '<i8')]", "(1,)", &numbers(&[1, 2, 3])));
    folder.file("nested.npy", fields("[('a', [('b', '<i8')])]", "(1,)", &numbers(&[1])));
    folder.file("same.npy", fields("[('a', '<i8'), ('a', '<i8')]", "(1,)", &numbers(&[1, 2])));
    folder.file("empty.npy", fields("'|S0'", "(2,)", b""));
    folder.file("objects.npy", fields("'<U1'", "(1,)", b"a\0\0\0"));
    folder.file("texts.npy", fields("'|S1'", "(1,)", b"a"));
}

/// A folder of small files in which lines of shell are run. `run` returns the exit code and stderr.
struct Shell {
    folder: Folder,
    path: String,
}

impl Shell {
    fn new() -> Shell {
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
            ("docs.csv", "id,text,cluster\n1,a b,x\n2,a b,y\n"),
            ("whole.csv", "1,2\n"),
            ("doubles.csv", "3,0.5\n"),
            ("letters.csv", "ACGX\n"),
            ("good.csv", "ACGT\n"),
            ("gaps.csv", "id,v\n1,5\n,6\n"),
            ("high.csv", "18446744073709551615\n"),
            ("low.csv", "-1\n"),
            ("twins.csv", "k,x,x\n1,2,3\n"),
            ("text.csv", "id,name\nx,Ann\n"),
            ("quote.csv", "\"it's\",b\n1,2\n"),
            ("mixed.ndjson", "{\"a\":0.5}\n{\"a\":9007199254740993}\n"),
            ("quoted.ndjson", "{\"a\":\"0.5\"}\n{\"a\":\"9007199254740993\"}\n"),
            ("long.ndjson", "{\"a\":123456789012345678901234567890}\n"),
            ("long_quoted.ndjson", "{\"a\":\"123456789012345678901234567890\"}\n"),
            ("kinds.ndjson", "{\"a\":1}\n{\"a\":\"x\"}\n"),
            ("kinds_quoted.ndjson", "{\"a\":\"1\"}\n{\"a\":\"x\"}\n"),
            ("lists.ndjson", "{\"k\":1,\"l\":[1,2]}\n"),
            ("objects.ndjson", "{\"a\":1}\n"),
            ("array.json", "[\n {\"a\": 1}\n]\n"),
            ("feather1.arrow", "FEA1                FEA1"),
        ] {
            folder.file(name, text);
        }
        let many = (0..4000).map(|column| format!("c{column}")).collect::<Vec<_>>().join(",");
        folder.file("many.csv", format!("{many}\n{}1\n", "1,".repeat(3999)));
        folder.file("latin1.csv", b"id,name\n1,Bj\xf6rn\n");
        folder.file("utf16.csv", "\u{feff}id\n1\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>());
        folder.file("brotli.parquet", include_bytes!("files/brotli.parquet"));
        folder.file("encrypted.parquet", include_bytes!("files/encrypted.parquet"));
        folder.file("keys.csv", (0..1000).map(|key| format!("{key}\n")).collect::<String>());
        folder.file("binary.arrow", include_bytes!("files/binary.arrow"));
        folder.file("fixed.arrow", include_bytes!("files/fixed.arrow"));
        folder.file("ree.arrow", include_bytes!("files/ree.arrow"));
        folder.file("union.arrow", include_bytes!("files/union.arrow"));
        arrays(&folder);
        let program = std::path::Path::new(crate::PROGRAM);
        let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let shell = Shell { folder, path };
        for line in [
            "for name in names orders text; do koel convert $name.csv $name.parquet; done; koel convert lists.ndjson lists.parquet",
            "koel convert names.csv names.arrow",
            "koel build pairs.csv -o pairs.koel",
            "koel build pairs.csv --table set -o set.koel",
            "koel build pairs.csv --table multi -o multi.koel",
            "koel build pairs.csv --table compact -o compact.koel",
            "koel build pairs.csv --shards 2 -o shards.koel",
            "koel build g.fa --kmer 4 -o kmers.koel",
            "koel build g.fa --kmer 4 --table set -o kset.koel",
            "koel build names.csv --key id --columns name -o side.koel",
            "gzip -c keys.npy > once.gz; printf '1\\n2\\n' | gzip | gzip > twice.gz",
            "mkdir tables empty && cp names.csv tables",
        ] {
            let (code, said) = shell.run(line);
            assert_eq!(code, Some(0), "{line}: {said}");
        }
        shell
    }

    fn run(&self, line: &str) -> (Option<i32>, String) {
        let mut command = Command::new("sh");
        let python = std::env::var("KOEL_PYTHON").unwrap_or("python3".into());
        command.args(["-c", line]).current_dir(self.folder.path("")).env("PATH", &self.path).env("PYTHON", python);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn try_advice(&self, cases: &[Case]) {
        let mut wrong = Vec::new();
        for (fails, says, follows) in cases {
            let (code, said) = self.run(fails);
            if code != Some(2) || !said.contains(says) || !said.contains("koel: ") {
                wrong.push(format!("{fails}\n  should say: {says}\n  says ({code:?}): {said}"));
            }
            let (code, said) = self.run(follows);
            if code != Some(0) {
                wrong.push(format!("{fails}\n  advises: {says}\n  {follows}\n  says ({code:?}): {said}"));
            }
        }
        assert!(wrong.is_empty(), "{} cases failed:\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn advice_on_names_works() {
    Shell::new().try_advice(columns::NAMES);
}

#[test]
fn advice_on_columns_works() {
    Shell::new().try_advice(columns::COLUMNS);
}

#[test]
fn advice_on_files_works() {
    Shell::new().try_advice(files::FILES);
}

#[test]
fn advice_on_tables_works() {
    Shell::new().try_advice(tables::TABLES);
}

#[test]
fn advice_on_schemes_works() {
    Shell::new().try_advice(schemes::SCHEMES);
}

#[test]
fn advice_on_formats_works() {
    Shell::new().try_advice(formats::FORMATS);
}

#[test]
fn advice_on_joins_works() {
    Shell::new().try_advice(formats::JOINS);
}

#[test]
fn advice_on_packed_files_works() {
    let shell = Shell::new();
    let cases: Vec<Case> =
        files::UNPACK.iter().filter(|(is_there, _)| shell.run(is_there).0 == Some(0)).map(|&(_, case)| case).collect();
    assert!(!cases.is_empty(), "tar exists on every system");
    shell.try_advice(&cases);
}
