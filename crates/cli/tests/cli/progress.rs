//! Progress on a terminal: the part that is done, the total and the rate.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::folder::Folder;

/// Everything that the command writes to a terminal; `None` without `script`, which provides the terminal.
fn on_terminal(folder: &Folder, arguments: &str) -> Option<String> {
    let mut command = Command::new("script");
    command.args(["-qec", &format!("'{}' {arguments}", crate::PROGRAM), "/dev/null"]).current_dir(folder.path(""));
    command.env("KOEL_OPENCL", "off").env("TERM", "xterm").stdin(Stdio::null());
    let Ok(output) = command.output() else {
        let _ = writeln!(std::io::stderr(), "skipped: progress on a terminal: there is no `script`");
        return None;
    };
    assert!(output.status.success(), "{arguments}: {output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
#[cfg(target_os = "linux")]
fn progress_shows_the_part_done_the_total_and_the_rate() {
    let folder = Folder::new();
    folder.million_pairs("pairs.csv");
    for (arguments, parts) in [
        (
            "build pairs.csv -o t.koel --device cpu",
            &["reading pairs.csv: ", " of 16.", " MiB, ", "/s", "building a table"][..],
        ),
        ("info t.koel", &["reading, checking and walking the table"]),
        ("lookup t.koel pairs.csv -o a.csv --device cpu", &["looking up: ", " of 16.", "/s"]),
        ("join pairs.csv pairs.csv -o j.csv --device cpu", &["reading pairs.csv: ", "joining", "writing: ", " rows, "]),
        ("groupby pairs.csv -o g.csv --device cpu", &["reading pairs.csv: ", "grouping", "writing: ", " rows, "]),
        ("unique pairs.csv -o u.csv --device cpu", &["reading pairs.csv: ", "finding keys", "writing: ", " rows, "]),
    ] {
        let Some(shown) = on_terminal(&folder, arguments) else { return };
        for part in parts {
            assert!(shown.contains(part), "{arguments}: no `{part}` in {shown:?}");
        }
        assert!(!shown.contains("0/0"), "{arguments}: {shown:?}");
    }
}
