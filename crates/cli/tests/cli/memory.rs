//! Limits on address space: the command returns a result or an error message, and never ends by a signal or a panic.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::folder::{Folder, full, stderr};

/// Runs the command under a `ulimit` of the shell.
fn limited(folder: &Folder, limit: &str, arguments: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit} || exit 77; exec \"$0\" {arguments}"), crate::PROGRAM]);
    command.current_dir(folder.path("")).env("KOEL_OPENCL", "off").stdin(Stdio::null());
    command.output().expect("a shell")
}

/// The lowest limit on address space, in KiB, rounded up to 4 MiB, under which `--version` works.
fn least(folder: &Folder) -> Option<u64> {
    let starts = |kib: &u64| limited(folder, &format!("-v {kib}"), "--version").status.code() == Some(0);
    (1..200).map(|step| step << 12).find(starts)
}

#[test]
#[cfg(target_os = "linux")]
fn short_memory_is_an_error_with_a_message() {
    check(&[
        "build pairs.csv -o t.koel --device cpu --threads 2",
        "groupby pairs.csv --header no --by column_1 -o g.arrow --device cpu --threads 2",
    ]);
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "slow: further commands, also with a limit; CI runs it"]
fn short_memory_is_an_error_in_every_command() {
    check(&[
        "lookup t.koel pairs.csv -o a.csv --device cpu --threads 2",
        "join pairs.csv pairs.csv -o j.csv --device cpu --threads 2",
        "groupby pairs.csv -o g.csv --agg count,sum --device cpu --threads 2",
        "join pairs.arrow pairs.arrow --on column_1 -o j.arrow --device cpu --threads 2",
        "join pairs.arrow pairs.arrow --on column_1 -o j.parquet --device cpu --threads 2 --memory 64Mi",
        "groupby pairs.arrow --by column_1 -o g.csv --device cpu --threads 2 --memory 64Mi",
    ]);
}

/// 400 columns are written within 2 GB of address space, because encoders do not reserve buffers for full row groups.
#[test]
#[cfg(target_os = "linux")]
fn parquet_of_many_columns_needs_little_address_space() {
    let folder = Folder::new();
    let line = |cell: &dyn Fn(usize) -> String| (0..400).map(cell).collect::<Vec<_>>().join(",") + "\n";
    let rows: String = (0..200).map(|row| line(&|column| (row + column).to_string())).collect();
    folder.file("wide.csv", line(&|column| format!("c{column}")) + &rows);
    for arguments in [
        "convert wide.csv out.parquet --threads 2",
        "join wide.csv wide.csv --on c0 -o out.parquet --memory 64Mi --device cpu --threads 2",
    ] {
        let output = limited(&folder, "-v 2000000", arguments);
        assert!([Some(0), Some(77)].contains(&output.status.code()), "{arguments}: {}", stderr(&output));
    }
}

/// Each command succeeds with enough memory, and reports an error with less.
#[cfg(target_os = "linux")]
fn check(commands: &[&str]) {
    let folder = Folder::new();
    folder.million_pairs("pairs.csv");
    folder.ok("build pairs.csv -o t.koel --device cpu");
    folder.ok("convert pairs.csv pairs.arrow --header no");
    let Some(least) = least(&folder) else {
        let _ = writeln!(std::io::stderr(), "skipped: short memory: `ulimit -v` does not limit this system");
        return;
    };
    // Memory is reserved for the maximum number of rows, which does not depend on the number of lines: each row has at
    // least one byte per column.
    let header = (0..60_000).map(|i| format!("c{i}")).collect::<Vec<_>>().join(",");
    folder.file("lines.csv", format!("{header}\n{}", "\n".repeat(1 << 20)));
    let output = limited(&folder, "-v 4000000", "convert lines.csv -");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{header}\n"), "{}", stderr(&output));
    for arguments in commands {
        let (mut failed, mut went) = (0, 0);
        // Limits that suffice for threads and small allocations, whose failure would end the process in std or the
        // linker, and that are below or above what the rows need.
        for more in if full() { &[16, 20, 24, 32, 40, 48, 64, 1024][..] } else { &[16, 32, 48, 1024] } {
            let limit = format!("-v {}", least + (more << 10));
            let output = limited(&folder, &limit, arguments);
            let said = stderr(&output);
            let at = format!("ulimit {limit}; {arguments}: {:?}: {said}", output.status);
            match output.status.code() {
                Some(0) => went += 1,
                Some(2) => failed += 1,
                _ => panic!("{at}"),
            }
            assert!(!said.contains("panicked") && (output.status.success() || said.starts_with("koel: ")), "{at}");
        }
        assert!(
            failed > 0 && went > 0,
            "{arguments}: {failed} failed, {went} succeeded: the limits do not test both cases"
        );
    }
}
