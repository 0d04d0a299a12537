//! The program, run as a user would run it. Each example checks its own answers; `.ci/run` runs them all.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_koel-examples"));
    program.args(arguments).env("KOEL_OPENCL", "off").output().expect("the program is built")
}

#[test]
fn without_a_subcommand_all_examples_are_listed() {
    let output = run(&[]);
    assert!(!output.status.success());
    let help = String::from_utf8(output.stderr).expect("UTF-8");
    let names = "find-picture group-by intersection kmer-reads parquet-join sparse-image sparse-painting stress tpch-join \
                 unique-words voxel-mesh";
    for name in names.split(' ') {
        let line = help.lines().find(|line| line.trim_start().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{name} is missing from\n{help}"));
        assert!(line.trim().len() > name.len() + 10, "{name} has no description: {line}");
    }
}

#[test]
fn names_with_underscores_are_aliases() {
    let output = run(&["group_by"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, run(&["group-by"]).stdout);
}

#[test]
fn a_wrong_number_of_arguments_is_an_error() {
    for arguments in [["group-by", "a.parquet", "key"], ["parquet-join", "a.parquet", "b.parquet"]] {
        assert!(!run(&arguments).status.success(), "{arguments:?}");
    }
}
