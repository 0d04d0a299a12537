//! Every call to OpenCL fails once, and koel answers with an error: no panic, no hang, no leak, no wrong answer.
//!
//! ```text
//! driver/opencl.rs   a library between koel and the real OpenCL that fails where it is told to, and counts
//! driver.rs          its steering wheel
//! operations.rs      what koel is to do: build, insert, upsert, remove, get, join, group, ..
//! sweep.rs           for each function that an operation calls: its first, a middle and its last call fail
//! opening.rs         the same while devices are listed and opened
//! transfers.rs       two failures at once, while transfers are under way
//! tester.rs          a leak and a wrong release are found when they are planted
//! ```
//!
//! Each test runs in a process of its own, which has the library for its OpenCL. This process waits for it, and ends it
//! if it hangs. What is a leak: references that are there after an operation and were not before it, where the device's
//! kept memory was given back both times. Programs, slots and queues that a device makes once are made in a warm-up.

#![cfg(all(feature = "opencl", target_os = "linux"))]
#![allow(unreachable_pub, reason = "modules of a program")]

mod driver;
mod opening;
mod operations;
mod sweep;
mod tester;
mod transfers;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use koel::OpenCl;

/// The implementation that is tested: others may have limits of their own.
const PLATFORM: &str = "Portable Computing Language";
const CHILD: &str = "KOEL_TEST_CHILD";
/// A child that runs longer hangs. It takes a fraction of a minute where two cores have nothing else to do.
const PATIENCE: Duration = Duration::from_secs(900);

fn device() -> OpenCl {
    OpenCl::by_name(PLATFORM).expect("the device opens")
}

/// Whether this process is the one with the failing library.
fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Whether there is the implementation to test. `KOEL_REQUIRE_OPENCL` makes it an error that there is none, if it names
/// that one, or any where no device is listed.
fn is_there() -> bool {
    let listed = koel::opencl::devices();
    let there = listed.iter().any(|device| device.refused.is_none() && device.info.driver.contains(PLATFORM));
    if let Ok(required) = std::env::var("KOEL_REQUIRE_OPENCL") {
        let wanted = PLATFORM.contains(&required) || required == "1" && listed.is_empty();
        assert!(there || !wanted, "KOEL_REQUIRE_OPENCL={required}, but the devices are {listed:#?}");
    }
    there
}

/// Runs a test of this program again, in a process with the failing library; what it wrote to stdout. `None` where
/// there is no PoCL.
fn in_child(test: &str, variables: &[(&str, &str)]) -> Option<String> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let Some(library) = LIBRARY.get_or_init(|| is_there().then(driver::compile)) else {
        // Past cargo's capture.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: there is no {PLATFORM}");
        return None;
    };
    let name = format!("{}_{}", test.replace("::", "_"), std::process::id());
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let file = File::create(&output).expect("a file for output");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture"]).env(CHILD, "1").env(koel_opencl_loader::VARIABLE, library);
    command.env("KOEL_STAGING", "on").envs(variables.iter().copied());
    command.stdout(file.try_clone().expect("a second handle")).stderr(file);
    let status = wait(command);
    let said = std::fs::read_to_string(&output).unwrap_or_default();
    let _ = std::fs::remove_file(&output);
    match status {
        Some(status) if status.success() && said.contains("1 passed") => Some(said),
        Some(status) => panic!("{test}: {status}\n{said}"),
        None => panic!("{test} hangs\n{said}"),
    }
}

/// How it ended; `None` if it had to be killed.
fn wait(mut command: Command) -> Option<ExitStatus> {
    let mut child = command.spawn().expect("a process");
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("a status") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}
