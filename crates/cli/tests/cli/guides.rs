//! Runs the commands of the guide, and compares their output with the output that it shows.
//!
//! Commands in blocks of `console` begin with `$ `, and the lines after a command are its output, standard error
//! included. Blocks of `sh` before the first of these create the inputs. Later ones are only examples of options.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::folder::Folder;

/// Runs the commands of a page in a folder, and compares their output. Returns the number of commands.
fn run(page: &str, folder: &Folder) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = fs::read_to_string(path).expect("the page is in the repository");
    let mut commands = 0;
    for block in text.split("\n```").skip(1).step_by(2) {
        let (kind, lines) = block.split_once('\n').expect("a block has lines");
        match kind {
            "console" => {
                for command in lines.strip_prefix("$ ").expect("a block begins with a command").split("\n$ ") {
                    let (command, output) = command.split_once('\n').unwrap_or((command, ""));
                    assert_eq!(shell(command, folder).trim_end(), output.trim_end(), "{page}: {command}");
                    commands += 1;
                }
            }
            "sh" if commands == 0 => assert_eq!(shell(lines, folder), "", "{page}: {lines}"),
            _ => {}
        }
    }
    commands
}

/// The output of a shell in which `koel` is the program under test.
fn shell(command: &str, folder: &Folder) -> String {
    let programs = Path::new(crate::PROGRAM).parent().expect("a program is in a folder").to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&path))).unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(folder.path(""))
        .env("PATH", path)
        .output()
        .expect("a shell runs");
    String::from_utf8(output.stdout).expect("output is text")
}

#[test]
fn pages_show_the_output_of_their_commands() {
    let guides = ["build-side", "deduplicate", "files", "kmers", "tables"].map(|name| format!("docs/guide/{name}.md"));
    for page in [&["README.md".to_owned()][..], &guides].concat() {
        assert!(run(&page, &Folder::new()) > 0, "{page} has no commands");
    }
}

#[test]
#[ignore = "slow: the example of the guide, with a million rows; CI runs it"]
fn the_join_of_large_files_spills() {
    let folder = Folder::new();
    assert_eq!(run("docs/guide/large-join.md", &folder), 4);
    let summary = folder.json("join clicks.csv users.csv --on user -o again.parquet --memory 64Mi --json");
    assert!(summary["spilled_bytes"].as_u64() > Some(1 << 20), "{summary}");
}
