//! `koel convert`: round trips through all formats, atomic replacement of outputs, and text compared with pandas.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::folder::{Folder, stderr};

const TEXT: &str = "id,name,price,day\n1,\"a,b\",1.5,2024-02-29\n-2,,0.25,\n,\"\",,2024-03-01\n";

pub(crate) fn formats() -> Vec<&'static str> {
    let mut formats = vec!["arrow", "feather", "arrows", "tsv", "csv.gz", "csv.zst"];
    formats.extend(cfg!(feature = "parquet").then_some("parquet"));
    formats
}

#[test]
fn tables_round_trip_through_all_formats() {
    let folder = Folder::new();
    folder.file("a.csv", TEXT);
    for format in formats() {
        assert_eq!(folder.ok(&format!("convert a.csv t.{format} -q")), "");
        assert_eq!(folder.ok(&format!("convert t.{format} -")), TEXT, "{format}");
        assert_eq!(
            folder.ok(&format!("convert t.{format} - --columns day,id")),
            "day,id\n2024-02-29,1\n,-2\n2024-03-01,\n"
        );
    }
    folder.file("n.csv", "a,b\n1,0.5\n2,-1.0\n");
    folder.ok("convert n.csv n.npy");
    assert_eq!(folder.ok("convert n.npy -"), "a,b\n1,0.5\n2,-1.0\n");
    assert_eq!(folder.ok("convert n.npy - --columns b"), "b\n0.5\n-1.0\n");
    let mut child =
        folder.command("convert - - --header no").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"1;2\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"column_1\n1;2\n");
}

#[test]
fn stdout_has_the_bytes_of_an_output_file() {
    let folder = Folder::new();
    folder.file("a.csv", TEXT);
    folder.file("numbers.csv", "1,7\n2,8\n1,9\n");
    folder.ok("build numbers.csv --duplicates first -o t.koel -q");
    for format in ["csv", "tsv", "ndjson", "arrows"] {
        folder.ok(&format!("convert a.csv file.{format} -q"));
        let read = folder.command(&format!("convert a.csv - --format {format}")).output().unwrap();
        assert!(read.stdout == folder.bytes(&format!("file.{format}")), "convert, {format}: {read:?}");
        for command in [
            "join a.csv a.csv --on id --how left",
            "join a.csv a.csv --on id --memory 64Mi",
            "groupby a.csv --by day --agg count,sum:price",
            "groupby numbers.csv",
            "unique a.csv --on name --counts",
            "unique a.csv --on name --memory 64Mi",
            "isin a.csv a.csv --on id",
            "dedup a.csv --on name",
            "lookup t.koel numbers.csv",
        ] {
            folder.ok(&format!("{command} -o file.{format} -q"));
            let read = folder.command(&format!("{command} --format {format}")).output().unwrap();
            assert!(read.stdout == folder.bytes(&format!("file.{format}")), "{command}, {format}: {read:?}");
        }
    }
    // More rows than one batch, and no rows, through a pipe.
    let rows = |many: u32| "id,name\n".to_owned() + &(0..many).map(|i| format!("{i},{}\n", i % 7)).collect::<String>();
    for many in [300_000, 0] {
        folder.file("rows.csv", rows(many));
        let stream = folder.koel("unique rows.csv --on id --columns id,name --format arrows").stdout;
        folder.file("stream.arrows", stream);
        assert!(folder.ok("convert stream.arrows -") == rows(many), "{many} rows");
    }
    folder.all_refused(&[
        ("convert a.csv b.csv --format tsv", "omit --format, or write to `-`"),
        ("unique a.csv --on id -o b.csv --format tsv", "cannot be used with"),
        ("unique a.csv --on id --format parquet", "[possible values: csv, tsv, ndjson, arrows]"),
    ]);
}

#[test]
fn the_number_of_threads_does_not_change_the_output() {
    let folder = Folder::new();
    folder.file("a.csv", "k,v\n".to_owned() + &(0..200_000).map(|i| format!("{i},{}.5\n", i % 9)).collect::<String>());
    folder.ok("convert a.csv all.arrow");
    folder.ok("convert a.csv one.arrow --threads 1");
    assert!(folder.bytes("one.arrow") == folder.bytes("all.arrow"));
    folder.refused("convert a.csv none.arrow --threads 0", "0 is not in 1..");
    // The option takes precedence over the variable, which is invalid here.
    let with_variable = |line| folder.command(line).env("RAYON_NUM_THREADS", "abc").output().unwrap();
    let refused = with_variable("convert a.csv none.arrow");
    assert!(refused.status.code() == Some(2) && stderr(&refused).contains("RAYON_NUM_THREADS abc"), "{refused:?}");
    let output = with_variable("convert a.csv set.arrow --threads 1");
    assert!(output.status.success() && folder.bytes("set.arrow") == folder.bytes("all.arrow"), "{output:?}");
}

#[test]
fn invalid_conversions_are_refused_and_leave_no_files() {
    let folder = Folder::new();
    folder.file("a.csv", TEXT);
    folder.file("old.npy", "old");
    folder.all_refused(&[
        ("convert a.csv a.csv", "is the input a.csv"),
        ("convert a.csv b.json", "tables are written as .parquet"),
        ("convert a.csv b.xlsx.gz", "tables are written as .parquet"),
        ("convert a.csv old.npy", "column name is of type Utf8"),
        ("convert missing.csv b.csv", "missing.csv: "),
        ("convert a.csv b.csv --columns id,nam", "there is no column nam: did you mean name?"),
        ("convert a.csv b.csv --types prise=int64", "there is no column prise: did you mean price?"),
        ("convert a.csv b.csv --types price=decimal(3,0)", "is not of the type decimal(3,0): correct it"),
        ("convert a.csv b.csv --types price=int64", "a.csv, line 2: column price: `1.5` is not of the type int64"),
        ("convert a.csv b.csv --types price=money", "is not a column type"),
        ("convert a.csv none/b.csv", "there is no such folder"),
    ]);
    folder.ok("convert a.csv a.arrow");
    folder.refused("convert a.arrow b.csv --delimiter ;", "--delimiter is for CSV and TSV");
    folder.file("b.parquet", "no such thing");
    folder.refused("convert b.parquet c.csv", "this is not a valid Parquet file");
    assert_eq!(folder.bytes("old.npy"), b"old");
    assert!(!folder.path("b.csv").exists() && fs::read_dir(folder.path("")).unwrap().count() == 4);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_of_several_row_groups_round_trip() {
    let folder = Folder::new();
    let rows: String = (0..2_500_000u32).map(|i| format!("{i},{}\n", i % 7)).collect();
    folder.file("a.csv", format!("id,of\n{rows}"));
    let said = stderr(&folder.koel("convert a.csv a.parquet"));
    assert!(said.contains("a.parquet: 2,500,000 rows of 2 columns"), "{said}");
    folder.ok("convert a.parquet b.csv -q");
    assert!(folder.bytes("a.csv") == folder.bytes("b.csv"));
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_files_are_refused_without_the_feature() {
    let folder = Folder::new();
    folder.file("a.csv", TEXT);
    folder.refused("convert a.csv a.parquet", "was built without Parquet");
    folder.file("b.parquet", "PAR1");
    folder.refused("convert b.parquet b.csv", "was built without it");
}

#[test]
fn text_is_read_as_pandas_reads_it() {
    let Some(python) = crate::pandas::python() else { return };
    let folder = Folder::new();
    folder.file(
        "a.csv",
        "i,f,t,b,n\n1,0.1,\"x,\"\"y\"\"\",true,\n-3,1e300,z,false,7\n9007199254740993,-2.5,\"a\nb\",true,\n",
    );
    folder.ok("convert a.csv b.csv -q");
    let program = "import pandas as pd; a, b = pd.read_csv('a.csv'), pd.read_csv('b.csv'); \
                   pd.testing.assert_frame_equal(a, b); assert (a.dtypes == b.dtypes).all()";
    let output = Command::new(&python).args(["-c", program]).current_dir(folder.path("")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    // Parquet and Arrow, if pandas can read them.
    if Command::new(&python).args(["-c", "import pyarrow"]).output().unwrap().status.success() {
        for format in formats().into_iter().filter(|format| ["parquet", "feather"].contains(format)) {
            folder.ok(&format!("convert a.csv t.{format} -q"));
            // `os._exit` skips Python's shutdown, during which threads of pyarrow have aborted the process.
            let program = format!(
                "import os; import pandas as pd; a, b = pd.read_csv('a.csv'), pd.read_{format}('t.{format}'); \
                 pd.testing.assert_frame_equal(a, b, check_dtype=False); os._exit(0)"
            );
            let output = Command::new(&python).args(["-c", &program]).current_dir(folder.path("")).output().unwrap();
            assert!(output.status.success(), "{format}: {}", stderr(&output));
        }
    }
}
