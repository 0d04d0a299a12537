//! Compares `unique`, `groupby`, `join` and `lookup` with NumPy and pandas by `beside_pandas.py`: rows, types and
//! order.
//!
//! KOEL_PYTHON names the Python interpreter (default: `python3`), which needs numpy and pandas 2.2 or newer; joins of
//! older versions have another order. Without them, the test prints a message and passes; if KOEL_REQUIRE_PANDAS is
//! set, it fails.

use std::io::Write;
use std::process::Command;

use crate::folder::{Folder, devices};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/beside_pandas.py");

/// Returns a Python interpreter that has NumPy and pandas.
pub(crate) fn python() -> Option<String> {
    let check = "import numpy, pandas; assert tuple(map(int, pandas.__version__.split('.')[:2])) >= (2, 2)";
    python_with(check, "pandas of 2.2 or newer", "KOEL_REQUIRE_PANDAS")
}

/// Returns a Python interpreter that has `what`, so that the program `check` succeeds. Otherwise panics if the
/// environment variable `required` is set, and returns `None` if not.
pub(crate) fn python_with(check: &str, what: &str, required: &str) -> Option<String> {
    let python = std::env::var("KOEL_PYTHON").unwrap_or_else(|_| "python3".into());
    let output = Command::new(&python).args(["-c", check]).output();
    if output.as_ref().is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let reason = output.map_or_else(|error| error.to_string(), |output| crate::folder::stderr(&output));
    let reason = format!("{python} has no {what}: {}", reason.trim_end());
    assert!(std::env::var_os(required).is_none(), "{required} is set: {reason}");
    let _ = writeln!(std::io::stderr(), "skipped: the command compared with {what}: {reason}");
    None
}

#[test]
fn the_command_has_the_rows_of_numpy_and_pandas() {
    let Some(python) = python() else { return };
    for device in devices() {
        let folder = Folder::new();
        let mut command = Command::new(&python);
        command.args([PROGRAM, crate::PROGRAM, &device]).current_dir(folder.path(""));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &crate::folder::stderr(&output);
        assert!(output.status.success(), "{device}: {said}");
        assert!(said.contains("comparisons with NumPy"), "{device}: {said}");
    }
}
