//! Compares joins, groups and distinct rows of TPC-H with DuckDB, by `beside_duckdb.py`.
//!
//! KOEL_PYTHON names the Python interpreter (default: `python3`), which needs duckdb and tpchgen-cli. Without them, the
//! test prints a message and passes; if KOEL_REQUIRE_DUCKDB is set, it fails. KOEL_TPCH_SCALE is the scale factor
//! (default: 0.002).

use std::process::Command;

use crate::folder::{Folder, devices, stderr};
use crate::pandas::python_with;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/beside_duckdb.py");

#[test]
fn tables_have_the_rows_of_duckdb() {
    let check =
        "import duckdb, os, sys; assert os.path.exists(os.path.join(os.path.dirname(sys.executable), 'tpchgen-cli'))";
    let Some(python) = python_with(check, "duckdb and tpchgen-cli", "KOEL_REQUIRE_DUCKDB") else { return };
    let folder = Folder::new();
    let scale = std::env::var("KOEL_TPCH_SCALE").unwrap_or_else(|_| "0.002".into());
    let mut command = Command::new(&python);
    command.args([PROGRAM, crate::PROGRAM, &scale, &devices().join(",")]).current_dir(folder.path(""));
    let output = command.output().expect("python has just been found");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("comparisons with DuckDB"), "{said}");
}
