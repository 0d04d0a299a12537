//! Programs that the compiler must accept, or reject with errors that say what to do.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The path of the compiled library: the one that this program is linked with, or a newer one.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let all = fs::read_dir(program.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let is_koel = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libkoel-") && name.ends_with(".rlib")
    };
    all.filter(is_koel).max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("koel is compiled")
}

/// Checks a program without compiling it, and returns its errors.
fn errors(program: &str) -> String {
    let (folder, library) = (tempfile::tempdir().unwrap(), library());
    let source = folder.path().join("main.rs");
    fs::write(&source, format!("use koel::prelude::*;\n{program}\n")).unwrap();
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "--crate-type", "bin", "--emit", "metadata", "--allow", "warnings"]);
    rustc.arg("-L").arg(format!("dependency={}", library.parent().unwrap().display()));
    rustc.arg("--extern").arg(format!("koel={}", library.display())).arg("--out-dir").arg(folder.path()).arg(source);
    String::from_utf8(rustc.output().unwrap().stderr).unwrap()
}

#[test]
fn schemes_of_64_bit_columns_are_exported_at_the_root_and_in_the_prelude() {
    let program = "fn main() {
        let table = HashTable::builder(BucketizedOf::<u64, u64>::default()).build(&Cpu::new(), &[1_u64], &[10_u64]);
        let prelude: Option<(CuckooOf<u64, u32>, RobinHoodOf<u64, u64>)> = None;
        let prelude: Option<(SignpostOf<u64, u32>, SortedOf<u64, u64>)> = None;
        let root: Option<(koel::BucketizedOf<u64, u64>, koel::CuckooOf<u64, u32>, koel::RobinHoodOf<u64, u64>)> = None;
        let root: Option<(koel::SignpostOf<u64, u32>, koel::SortedOf<u64, u64>, koel::AnySchemeOf<u64, u64>)> = None;
    }";
    assert_eq!(errors(program), "");
}

#[test]
fn errors_for_types_that_are_not_devices_say_what_to_do() {
    let build = "HashTable::builder(Cuckoo::canonical(4)).build";
    for (program, parts) in [
        (
            format!("fn main() {{ let table = {build}(&auto(), &[1], &[10]); }}"),
            &[
                "tables of `koel::Cuckoo` cannot be built on `Choice`",
                "pass `&koel::auto().backend`",
                "devices are `koel::Cpu`, `koel::OpenCl` and `koel::Any`",
            ][..],
        ),
        (
            format!("fn of<B: HashBackend>(b: &B) {{ let table = {build}(b, &[1], &[10]); }} fn main() {{}}"),
            &[
                "tables of `koel::Cuckoo` cannot be built on `B`",
                "generic code states what it needs, such as `B: Runs<",
            ],
        ),
    ] {
        let said = errors(&program);
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        // The error does not name the supertraits of `Runs`.
        assert!(!said.contains("Kernels<") && !said.contains("Relational"), "{said}");
    }
}
