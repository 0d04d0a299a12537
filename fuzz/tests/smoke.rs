//! Runs every target on its corpus and on mutations of it, on stable Rust.
//!
//! `KOEL_FUZZ_INPUTS` is the number of mutations per target (default 4,000), which are the same in every run. `cargo
//! fuzz` searches further, guided by coverage.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use koel_fuzz::mutate::{Random, mutated};
use koel_fuzz::{TARGETS, Target};

const INPUTS: usize = 4000;

/// Inputs take milliseconds, so one that takes longer than this hangs.
const LONGEST: Duration = Duration::from_secs(30);

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of a folder, by name; empty if the folder does not exist.
fn files_of(folder: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a name").path()).collect();
    paths.sort();
    paths.iter().filter(|path| path.is_file()).map(|path| std::fs::read(path).expect("readable")).collect()
}

fn run(target: &Target) {
    let mut corpus: Vec<Vec<u8>> = (target.seeds)().into_iter().map(|(_, bytes)| bytes).collect();
    corpus.extend(files_of(&here().join("corpus").join(target.name)));
    assert!(!corpus.is_empty());
    corpus.iter().for_each(|input| checked(target, input));
    let count = std::env::var("KOEL_FUZZ_INPUTS").map_or(INPUTS, |count| count.parse().expect("a number"));
    let mut random = Random::new(1);
    for _ in 0..count {
        let (input, other) = (&corpus[random.below(corpus.len())], &corpus[random.below(corpus.len())]);
        checked(target, &mutated(input, other, &mut random));
    }
    println!("{}: {} inputs of the corpus and {count} mutations", target.name, corpus.len());
}

/// Runs an input, and keeps it if it fails.
fn checked(target: &Target, input: &[u8]) {
    let (done, waits) = mpsc::channel::<()>();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(move || {
            if waits.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
                keep(target, input, "hangs");
                // A hanging thread cannot be stopped.
                std::process::exit(1);
            }
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
        drop(done);
        outcome
    });
    if let Err(panic) = outcome {
        keep(target, input, "fails");
        std::panic::resume_unwind(panic);
    }
}

/// Writes an input to a file, and reports it outside of the captured output, which is lost if the process ends at once.
fn keep(target: &Target, input: &[u8], what: &str) {
    let folder = here().join("artifacts").join(target.name);
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(format!("smoke-{}", &blake3::hash(input).to_hex()[..16]));
    std::fs::write(&path, input).expect("space for the input");
    let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
    let _ = writeln!(std::io::stderr(), "{} {what} for {}:\n{hex}", target.name, path.display());
}

/// One test for all targets, because the limit on memory applies to the whole process.
#[test]
fn no_input_breaks_a_target() {
    TARGETS.iter().for_each(run);
}

/// Runs a kept input: `KOEL_FUZZ_INPUT=artifacts/table/smoke-.. cargo test -- --nocapture kept_input`.
#[test]
fn kept_input() {
    let Ok(path) = std::env::var("KOEL_FUZZ_INPUT") else { return };
    let name = Path::new(&path).parent().and_then(Path::file_name).expect("a folder named after the target");
    let target = TARGETS.iter().find(|target| name == target.name).expect("a target");
    (target.run)(&std::fs::read(&path).expect("readable"));
}
