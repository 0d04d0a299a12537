//! Every call to OpenCL fails once, and koel returns an error: no panic, no hang, no leak, no wrong result.
//!
//! ```text
//! driver/opencl.rs   a library between koel and the real OpenCL that fails on request, and counts
//! driver.rs          controls it
//! operations.rs      the operations: build, insert, upsert, remove, get, join, group, ..
//! sweep.rs           for each function that an operation calls: its first, a middle and its last call fail
//! opening.rs         the same while devices are listed and opened
//! transfers.rs       two failures at once, while transfers are pending
//! tester.rs          an injected leak and a wrong release must be detected
//! ```
//!
//! Each test runs in a child process, whose OpenCL is this library. The parent waits for it, and kills it if it hangs.
//! A leak is a reference that exists after an operation and did not exist before it; the device's cached memory is
//! freed before both counts. A warm-up creates the programs, slots and queues that a device creates only once.

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

/// The tested OpenCL implementation. Others may have different limits.
const PLATFORM: &str = "Portable Computing Language";
const CHILD: &str = "KOEL_TEST_CHILD";
/// A child that takes longer is considered to hang. Children take less than a minute on two idle cores.
const PATIENCE: Duration = Duration::from_secs(900);

fn device() -> OpenCl {
    OpenCl::by_name(PLATFORM).expect("the device opens")
}

/// Whether this process is the one with the failing library.
fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Whether the implementation is installed. Panics if it is missing although `KOEL_REQUIRE_OPENCL` names it, or if the
/// variable is 1 and no device is listed.
fn is_there() -> bool {
    let listed = koel::opencl::devices();
    let there = listed.iter().any(|device| device.refused.is_none() && device.info.driver.contains(PLATFORM));
    if let Ok(required) = std::env::var("KOEL_REQUIRE_OPENCL") {
        let wanted = PLATFORM.contains(&required) || required == "1" && listed.is_empty();
        assert!(there || !wanted, "KOEL_REQUIRE_OPENCL={required}, but the devices are {listed:#?}");
    }
    there
}

/// Runs a test of this program again, in a process with the failing library, and returns its stdout. `None` without
/// PoCL.
fn in_child(test: &str, variables: &[(&str, &str)]) -> Option<String> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let Some(library) = LIBRARY.get_or_init(|| is_there().then(driver::compile)) else {
        // Bypasses cargo's capture.
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

/// The exit status; `None` if the process had to be killed.
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
