//! `--key` and `--value`: keys and values from named columns of files of any format.

use crate::convert::formats;
use crate::folder::{Folder, devices};

const ROWS: &str =
    "name,id,price,day,old\nAda,7,30,2024-01-02,1.5\nMax,-9,41,1969-12-31,\nEva,8000000000,,2024-01-01,2\n";

#[test]
fn named_columns_of_every_format_are_keys_and_values() {
    let folder = Folder::new();
    folder.file("t.csv", ROWS);
    folder.file("pairs.csv", "7,30\n-9,41\n");
    folder.file("queries.csv", "who,id\nx,8000000000\ny,-9\n");
    for device in devices() {
        folder.ok(&format!("build pairs.csv -o expected.koel --keys i64 --values i64 --device {device}"));
        for format in formats().into_iter().chain(["csv"]) {
            if format != "csv" {
                folder.ok(&format!("convert t.csv t.{format}"));
            }
            // CSV does not store types, so options give them.
            let named = format!("t.{format} --key id --value price --skip-nulls --keys i64 --values i64");
            folder.ok(&format!("build {named} -o t.koel --device {device}"));
            assert_eq!(folder.bytes("t.koel"), folder.bytes("expected.koel"), "{format}");
            let found = folder.ok(&format!("lookup t.koel queries.csv --key id --device {device}"));
            assert_eq!(found, "key,value\n8000000000,\n-9,41\n", "{format}");
        }
    }
}

#[test]
fn columns_are_rows_of_joins_groups_and_distinct_keys() {
    let folder = Folder::new();
    folder.file("t.csv", ROWS);
    assert_eq!(folder.ok("unique t.csv --key price --skip-nulls"), "key\n30\n41\n");
    // Days since 1970.
    assert_eq!(folder.ok("unique t.csv --key day"), "key\n19724\n-1\n19723\n");
    assert_eq!(
        folder.ok("groupby t.csv --key day --value old --agg max --skip-nulls"),
        "key,max\n19724,1.5\n19723,2.0\n"
    );
    assert_eq!(folder.ok("join t.csv t.csv --key id --rows"), "key,left,right\n7,0,0\n-9,1,1\n8000000000,2,2\n");
    // Rows with null keys are skipped, and other rows keep their row numbers.
    folder.file("gap.csv", "k\n5\n\n6\n");
    assert_eq!(folder.ok("join gap.csv gap.csv --key k --skip-nulls"), "key,left,right\n5,0,0\n6,2,2\n");
    folder.refused("join gap.csv gap.csv --key k --skip-nulls --rows", "--rows and --skip-nulls: ");
    folder.refused("unique gap.csv --key k --skip-nulls --inverse i.csv", "--inverse and --skip-nulls: ");
}

#[test]
fn floats_after_whole_numbers_are_refused() {
    let folder = Folder::new();
    folder.file("whole.csv", "k,v\n1,2\n");
    folder.file("half.csv", "k,v\n1,1.5\n");
    let said = "half.csv: its values are floats, and those of the files before it are not: give --values f64";
    folder.refused("groupby whole.csv half.csv --key k --value v --agg sum", said);
    for files in ["half.csv whole.csv", "whole.csv half.csv --values f64"] {
        assert_eq!(folder.ok(&format!("groupby {files} --key k --value v --agg sum")), "key,sum\n1,3.5\n", "{files}");
    }
    folder.file("pairs.csv", "1,2\n");
    folder.ok("convert half.csv half.npy");
    folder.refused("groupby pairs.csv half.npy --agg sum", "its values are floats");
    // Text may be compressed with zstd.
    folder.ok("convert whole.csv whole.csv.zst");
    assert_eq!(folder.ok("unique whole.csv.zst --key k --header yes"), "key\n1\n");
}

#[test]
fn two_columns_of_32_bits_are_halves_of_a_key() {
    let folder = Folder::new();
    folder.file("t.csv", "x,y,v\n1,2,5\n-1,0,6\n");
    let types = "--types x=int32,y=int32";
    assert_eq!(
        folder.ok(&format!("groupby t.csv --key x,y --value v --agg sum {types}")),
        format!("key,sum\n{},5\n{},6\n", (1_u64 << 32) + 2, 0xffff_ffff_u64 << 32)
    );
    folder.refused("groupby t.csv --key x,y", "two columns make a key where each has 32 bits: give --types x=uint32");
    folder.refused("groupby t.csv --key x,y,v", "--key takes one column, or two of 32 bits");
}

#[test]
fn columns_that_cannot_be_keys_are_refused_by_name() {
    let folder = Folder::new();
    folder.file("t.csv", ROWS);
    folder.ok("convert t.csv t.arrow");
    folder.file("r.fa", ">r\nACGTACGTACGTACGTACGT\n");
    folder.file("old.koel", "old");
    folder.all_refused(&[
        (
            "build t.arrow -o old.koel",
            "t.arrow: this is Arrow IPC: name the column of the key by --key: there are name, id, price, day, old",
        ),
        ("build t.csv --key nam -o old.koel", "there is no column nam: did you mean name?"),
        ("build t.csv --key name -o old.koel", "column name is of type Utf8: keys are whole numbers"),
        ("build t.csv --key old -o old.koel", "column old is of type Float64: keys are whole numbers"),
        ("build t.csv --key id --value name -o old.koel", "column name is of type Utf8: values are numbers"),
        ("build t.csv --key id --value old -o old.koel", "values of tables are integers"),
        (
            "build t.csv --key id --value price -o old.koel",
            "row 2, column price: a null is not a number: drop rows with nulls by --skip-nulls",
        ),
        ("build t.csv --key id --keys u32 -o old.koel", "row 1, the key: -9 does not fit u32"),
        ("build t.csv --value id -o old.koel", "--key"),
        ("build t.csv --key id --value price --table set -o old.koel", "--value price: values are not used here"),
        ("unique t.csv --key id --value price", "--value price: values are not used here"),
        ("groupby t.csv --key id --value nosuch --agg count", "--value nosuch: values are not used here"),
        ("join t.csv t.csv --key id --value price --rows", "--value price: values are not used here"),
        ("build t.csv --skip-nulls -o old.koel", "--key"),
        ("build t.csv --delimiter ; -o old.koel", "--delimiter is for tables of named columns"),
        ("build t.csv --key id --types prise=int64 -o old.koel", "there is no column prise: did you mean price?"),
        ("build r.fa --key id -o old.koel", "--key is for numbers, and this is FASTA"),
        ("build t.csv --key id --kmer 5 -o old.koel", "cannot be used with"),
        ("join t.csv t.csv --on id --key id", "cannot be used with"),
    ]);
    assert_eq!(folder.text("old.koel"), "old");
}
