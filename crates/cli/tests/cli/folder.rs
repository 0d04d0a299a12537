//! Runs a command in a temporary folder. The tests of `koel-bench` include this file too.
#![allow(dead_code, unreachable_pub, reason = "a module of two programs")]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A temporary folder, one per test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().expect("the temporary folder is usable"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), contents).expect("the temporary folder is usable");
        self.path(name)
    }

    /// The contents of a file.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The contents of a file as text.
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// A CSV file of a million pairs with distinct keys, 16 MB.
    pub fn million_pairs(&self, name: &str) -> PathBuf {
        let row = |i: u32| format!("{},{i}\n", i.wrapping_mul(0x9e37_79b9));
        self.file(name, (0..1_000_000).map(row).collect::<String>())
    }

    /// Runs the command in the folder; arguments are separated by blanks.
    pub fn koel(&self, arguments: &str) -> Output {
        self.command(arguments).output().expect("the command starts")
    }

    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(arguments.split_whitespace()).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs the command in the folder, checks that it succeeds, and returns its stdout.
    pub fn ok(&self, arguments: &str) -> String {
        let output = self.koel(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("stdout is UTF-8")
    }

    pub fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.ok(arguments)).expect("stdout is JSON")
    }

    /// Runs the command in the folder, and checks that it exits with code 2 and an error that contains `koel: ` and
    /// `part`.
    pub fn refused(&self, arguments: &str, part: &str) {
        let output = self.koel(arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(said.starts_with("koel: ") && said.contains(part), "{arguments}: {said}");
        assert!(!said.contains("panicked") && output.stdout.is_empty(), "{said}");
    }

    /// Calls [`Folder::refused`] for pairs of a command and a part of its error.
    pub fn all_refused(&self, all: &[(&str, &str)]) {
        all.iter().for_each(|(arguments, part)| self.refused(arguments, part));
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The usable devices of this machine.
pub fn devices() -> Vec<String> {
    let usable: Vec<_> = koel::device::devices()
        .into_iter()
        .filter(|device| device.refused.is_none())
        .map(|device| device.info.id)
        .collect();
    if usable.len() == 1 {
        let status = koel::device::opencl_status();
        assert!(
            std::env::var_os("KOEL_REQUIRE_OPENCL").is_none(),
            "KOEL_REQUIRE_OPENCL is set, but OpenCL is not available: {status}"
        );
        let _ = writeln!(std::io::stderr(), "skipped: the command on OpenCL: {status}");
    }
    usable
}

/// An `.npy` file of `u32`, as NumPy writes it.
pub fn npy(shape: &str, data: &[u32]) -> Vec<u8> {
    let data: Vec<i128> = data.iter().map(|&word| word.into()).collect();
    array("<u4", shape, &data)
}

/// An `.npy` file of integers of a type, as NumPy writes it.
pub fn array(code: &str, shape: &str, data: &[i128]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    let width = usize::from(code.as_bytes()[2] - b'0');
    data.iter().for_each(|number| file.extend(&number.to_le_bytes()[..width]));
    file
}

/// Whether tests run all combinations, which takes minutes longer (`KOEL_TEST_FULL`).
pub fn full() -> bool {
    std::env::var_os("KOEL_TEST_FULL").is_some()
}
