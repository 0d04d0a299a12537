//! Tests of the race detector. `.ci/run` runs the suites on Oclgrind, and expects that it finds no races and bad
//! accesses in koel's kernels. Here it runs kernels with planted faults, and one without.

use std::path::Path;
use std::process::Command;

// Links the `cl*` functions that `ocl` calls.
use koel as _;

const RUNTIME: &str = "/usr/lib/oclgrind/liboclgrind-rt-icd.so";
const KERNEL: &str = "KOEL_TEST_KERNEL";

/// Name, the expected finding (`None` for kernels that are right), source.
const KERNELS: [(&str, Option<&str>, &str); 6] = [
    ("store_race", Some("Write-write data race"), "__kernel void k(__global ulong *x) { x[0] = get_global_id(0); }"),
    ("past_the_end", Some("Invalid write"), "__kernel void k(__global ulong *x) { x[get_global_id(0) + 250] = 1; }"),
    (
        "peek_then_atomic",
        Some("Read-write data race"),
        "#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable\n\
         __kernel void k(__global ulong *x) { if (x[0] < 5) atom_max(x, (ulong)get_global_id(0)); }",
    ),
    (
        "missing_barrier",
        Some("data race at local memory"),
        "__kernel void k(__global ulong *x) { __local ulong t[64]; uint i = get_local_id(0); t[i] = i;\n\
         x[get_global_id(0)] = t[63 - i]; }",
    ),
    (
        "with_barrier",
        None,
        "__kernel void k(__global ulong *x) { __local ulong t[64]; uint i = get_local_id(0); t[i] = i;\n\
         barrier(CLK_LOCAL_MEM_FENCE); x[get_global_id(0)] = t[63 - i]; }",
    ),
    (
        "atomics_alone",
        None,
        "#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable\n\
         __kernel void k(__global ulong *x) { atom_max(x, (ulong)get_global_id(0)); }",
    ),
];

/// Runs in the child process: one kernel over 256 words, with the OpenCL of the environment.
fn run_kernel(name: &str) {
    let (_, _, source) = KERNELS.iter().find(|(known, ..)| *known == name).unwrap();
    let queue = ocl::ProQue::builder().src(*source).dims(256).build().unwrap();
    let buffer = queue.create_buffer::<u64>().unwrap();
    buffer.write(&vec![0u64; 256]).enq().unwrap();
    let kernel = queue.kernel_builder("k").local_work_size(64).arg(&buffer).build().unwrap();
    #[expect(unsafe_code, reason = "the kernels are intentionally wrong, and a simulator checks every access")]
    // SAFETY: only reached under Oclgrind, which interprets the kernel and rejects bad accesses.
    unsafe {
        kernel.enq().unwrap();
    }
    queue.finish().unwrap();
}

#[test]
fn the_detector_finds_planted_faults_and_only_those() {
    if let Ok(name) = std::env::var(KERNEL) {
        return run_kernel(&name);
    }
    if !Path::new(RUNTIME).exists() {
        assert!(std::env::var_os("KOEL_REQUIRE_OCLGRIND").is_none(), "{RUNTIME} is missing, and required");
        return crate::common::skip("Oclgrind's detection", "the package `oclgrind` is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, fault, _) in KERNELS {
        let log = folder.path().join(name);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "devices::oclgrind::the_detector_finds_planted_faults_and_only_those"])
            .env(KERNEL, name)
            .env_remove("KOEL_OPENCL")
            .env("OCL_ICD_VENDORS", RUNTIME)
            .env("OCLGRIND_DATA_RACES", "1")
            .env("OCLGRIND_CHECK_API", "1")
            .env("OCLGRIND_LOG", &log)
            .output()
            .unwrap();
        assert!(child.status.success(), "{name}: {}", String::from_utf8_lossy(&child.stderr));
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        match fault {
            Some(words) => assert!(said.contains(words), "{name}: {said}"),
            None => assert_eq!(said, "", "{name}"),
        }
    }
}
