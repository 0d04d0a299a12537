//! Joins, groups and distinct rows of TPC-H compared with DuckDB, by `beside_duckdb.py`.
//!
//! The Python is KOEL_PYTHON, or else `python3`, and has duckdb and tpchgen-cli. Where there is none the test says so and
//! passes; with KOEL_REQUIRE_DUCKDB it fails. KOEL_TPCH_SCALE is the scale factor (0.002).

use std::io::Write;
use std::process::Command;

use crate::folder::{Folder, devices, stderr};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/beside_duckdb.py");

/// A Python that has what is needed.
fn python() -> Option<String> {
    let python = std::env::var("KOEL_PYTHON").unwrap_or_else(|_| "python3".into());
    let check =
        "import duckdb, os, sys; assert os.path.exists(os.path.join(os.path.dirname(sys.executable), 'tpchgen-cli'))";
    let output = Command::new(&python).args(["-c", check]).output();
    if output.as_ref().is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let reason = output.map_or_else(|error| error.to_string(), |output| stderr(&output));
    let reason = format!("{python} has no duckdb and tpchgen-cli: {}", reason.trim_end());
    assert!(std::env::var_os("KOEL_REQUIRE_DUCKDB").is_none(), "DuckDB is required: {reason}");
    let _ = writeln!(std::io::stderr(), "skipped: tables beside DuckDB: {reason}");
    None
}

#[test]
fn tables_have_the_rows_of_duckdb() {
    let Some(python) = python() else { return };
    let folder = Folder::new();
    let scale = std::env::var("KOEL_TPCH_SCALE").unwrap_or_else(|_| "0.002".into());
    let mut command = Command::new(&python);
    command.args([PROGRAM, crate::PROGRAM, &scale, &devices().join(",")]).current_dir(folder.path(""));
    let output = command.output().expect("python was there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("comparisons with DuckDB"), "{said}");
}
