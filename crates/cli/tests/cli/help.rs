//! Help, completions, manual pages, quiet runs, negative numbers.

use crate::folder::{Folder, stderr};

const COMMANDS: [&str; 13] = [
    "devices",
    "verify",
    "build",
    "lookup",
    "info",
    "join",
    "groupby",
    "unique",
    "isin",
    "dedup",
    "convert",
    "completions",
    "man",
];

#[test]
fn every_command_has_short_and_long_help() {
    let folder = Folder::new();
    for command in COMMANDS {
        let long = folder.ok(&format!("{command} --help"));
        assert_eq!(folder.ok(&format!("help {command}")), long, "{command}");
        assert!(long.contains(&format!("Usage: koel {command}")), "{long}");
    }
    // The short help does not list the parameters of schemes.
    let (short, long) = (folder.ok("build -h"), folder.ok("build --help"));
    for option in ["--reinsertion", "--bucket-slots", "--max-ages"] {
        assert!(long.contains(option) && !short.contains(option), "{option}");
    }
    for option in ["--output", "--table", "--scheme", "--load", "--device"] {
        assert!(short.contains(option), "{option}");
    }
}

#[test]
fn short_help_fits_a_screen() {
    let folder = Folder::new();
    for command in std::iter::once("").chain(COMMANDS) {
        for columns in ["80", "120"] {
            let output = folder.command(&format!("{command} -h")).env("COLUMNS", columns).output().unwrap();
            let help = String::from_utf8(output.stdout).unwrap();
            assert!(help.contains("Usage: koel"), "{command}: {help}");
            assert!(help.lines().count() <= 50, "{command} has {} lines:\n{help}", help.lines().count());
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{command} has a line of {} columns: {line}", line.chars().count());
            }
        }
    }
}

#[test]
fn shells_complete_commands_and_options() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = folder.ok(&format!("completions {shell}"));
        for word in ["koel", "groupby", "bucket-slots"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    folder.refused("completions cmd", "bash");
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("man1")).unwrap();
    assert_eq!(folder.ok("man man1"), "");
    for page in std::iter::once("koel".to_owned()).chain(COMMANDS.map(|command| format!("koel-{command}"))) {
        let text = folder.text(&format!("man1/{page}.1"));
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
    folder.refused("man man2", "man2: there is no such folder");
}

#[test]
fn quiet_commands_print_results_only() {
    let folder = Folder::new();
    folder.file("a.csv", "1,2\n3,4\n");
    for (arguments, said) in [
        ("-q build a.csv -o t.koel", ""),
        ("build a.csv -o t.koel --quiet", ""),
        ("lookup t.koel a.csv -q", "key,value\n1,2\n3,4\n"),
        ("lookup t.koel a.csv -q -o out.csv", ""),
        ("unique a.csv -q -o out.csv", ""),
        ("join a.csv a.csv -o out.csv -q", ""),
    ] {
        let output = folder.koel(arguments);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), said, "{arguments}");
    }
    // Quiet commands still print errors and verdicts.
    assert!(stderr(&folder.koel("-q lookup missing.koel a.csv")).contains("missing.koel"));
    folder.file("q.csv", "1\n9\n");
    let strict = folder.koel("lookup t.koel q.csv -q --strict");
    assert!(strict.status.code() == Some(1) && stderr(&strict).contains("1 of 2 queries"), "{}", stderr(&strict));
}

#[test]
fn lookups_print_summaries_as_json() {
    let folder = Folder::new();
    folder.file("a.csv", "1,2\n3,4\n");
    folder.file("q.csv", "1\n9\n3\n");
    folder.ok("build a.csv -o t.koel");
    let summary = folder.json("lookup t.koel q.csv -o out.csv --json");
    assert_eq!(summary, serde_json::json!({ "queries": 3, "found": 2, "missed": 1, "output": "out.csv" }));
    folder.refused("lookup t.koel q.csv --json", "--output");
}

#[test]
fn negative_numbers_are_invalid_values() {
    let folder = Folder::new();
    folder.file("a.csv", "1,2\n");
    folder.all_refused(&[
        ("build a.csv -o t --seed -1", "`-1` is not a seed"),
        ("build a.csv -o t --slots -1", "`-1` is not a count"),
        ("build a.csv -o t --capacity -5e6", "`-5e6` is not a count"),
        ("build a.csv -o t --load -0.5", "load factor -0.5"),
        ("verify --n -1", "`-1` is not a count"),
    ]);
}
