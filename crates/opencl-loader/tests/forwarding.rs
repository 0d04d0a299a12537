//! Calls OpenCL as ocl-core does, through cl-sys, with and without a library.
//!
//! The library is chosen once per process, so each test runs its body in a child process: this test program, started
//! again for that one test with another environment.

#![cfg(not(target_os = "macos"))]
#![expect(unsafe_code, reason = "calls C functions")]

use std::ffi::{OsStr, OsString, c_void};
use std::path::Path;
use std::process::Command;
use std::ptr::{dangling_mut, null, null_mut};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, thread};

use koel_opencl_loader::{Status, VARIABLE, ignored, status, unknown_code};

const CHILD: &str = "KOEL_OPENCL_LOADER_TEST_CHILD";
const NOT_FOUND: i32 = -1001;

/// Runs `body` in a child process in which the variable has this value. `test` is the name of the
/// calling test.
fn in_child(test: &str, variable: Option<&OsStr>, body: fn()) {
    if env::var_os(CHILD).is_some() {
        return body();
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env(CHILD, "1").env_remove(VARIABLE);
    if let Some(value) = variable {
        child.env(VARIABLE, value);
    }
    let output = child.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    assert!(stdout.contains("1 passed"), "no test of the name {test}: {stdout}");
}

/// Queries the number of platforms. The count is initially wrong, so it must be written.
fn count_platforms() -> (i32, u32) {
    let mut count = 4711;
    let status = unsafe { cl_sys::clGetPlatformIDs(0, null_mut(), &mut count) };
    (status, count)
}

/// The file name of the fake library, compiled on first use.
fn fake_library() -> &'static OsStr {
    static FILE: OnceLock<OsString> = OnceLock::new();
    FILE.get_or_init(|| {
        if env::var_os(CHILD).is_some() {
            return OsString::new(); // the parent has already passed it on
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/opencl.rs");
        let file = format!("fake_opencl{}", env::consts::DLL_SUFFIX);
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
        let compiled = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args(["--edition=2024", "--crate-type=cdylib", "-Anon_snake_case", "-o"])
            .args([&file, &source])
            .status();
        assert!(compiled.unwrap().success());
        file.into_os_string()
    })
}

#[test]
fn off_is_no_platform() {
    in_child("off_is_no_platform", Some("Off".as_ref()), || {
        let start = Instant::now();
        assert_eq!(count_platforms(), (0, 0));
        assert_eq!(status(), Status::Off);
        assert!(start.elapsed() < Duration::from_secs(1), "took {:?}", start.elapsed());
    });
}

#[test]
fn unusable_libraries_are_named() {
    in_child("unusable_libraries_are_named", Some("/nonexistent.so".as_ref()), || {
        assert_eq!(count_platforms(), (0, 0));
        let Status::NotFound { tried } = status() else { panic!("{:?}", status()) };
        assert_eq!(tried.len(), 1);
        assert!(tried[0].starts_with("/nonexistent.so: "), "{tried:?}");
        assert!(status().to_string().contains(&tried[0]), "{}", status());
    });
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))] // where that name certainly exists
fn libraries_of_other_kinds_are_refused() {
    in_child("libraries_of_other_kinds_are_refused", Some("libc.so.6".as_ref()), || {
        assert_eq!(count_platforms(), (0, 0));
        let reason = status().to_string();
        assert!(reason.contains("libc.so.6: it has no function clGetPlatformIDs"), "{reason}");
    });
}

/// Runs with the OpenCL of this machine, if there is one.
#[test]
fn the_default_does_not_fail() {
    in_child("the_default_does_not_fail", None, || {
        let (code, count) = count_platforms();
        assert_eq!(code, 0);
        match status() {
            Status::Loaded { name } => assert!(name.contains("OpenCL"), "{name}"),
            Status::NotFound { tried } => assert!(count == 0 && !tried.is_empty()),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn calls_without_a_library_fail_softly() {
    in_child("calls_without_a_library_fail_softly", Some("off".as_ref()), || unsafe {
        let mut code = 0;
        assert_eq!(cl_sys::clFinish(null_mut()), cl_sys::CL_INVALID_PLATFORM);
        assert!(cl_sys::clCreateBuffer(null_mut(), 0, 0, null_mut(), &mut code).is_null());
        assert_eq!(code, cl_sys::CL_INVALID_PLATFORM);
        assert!(cl_sys::clCreateBuffer(null_mut(), 0, 0, null_mut(), null_mut()).is_null());
        assert!(cl_sys::clSVMAlloc(null_mut(), 0, 1, 1).is_null());
        assert!(cl_sys::clGetExtensionFunctionAddressForPlatform(null_mut(), null()).is_null());
        cl_sys::clSVMFree(null_mut(), null_mut());
    });
}

/// Without a place for the count, success would promise platforms that were never written.
#[test]
fn zero_platforms_need_a_count() {
    in_child("zero_platforms_need_a_count", Some("off".as_ref()), || {
        let mut platforms = [null_mut(); 2];
        let code = unsafe { cl_sys::clGetPlatformIDs(2, platforms.as_mut_ptr(), null_mut()) };
        assert_eq!(code, NOT_FOUND);
    });
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "a static program loads no library")]
fn calls_reach_the_library() {
    in_child("calls_reach_the_library", Some(fake_library()), || unsafe {
        let Status::Loaded { name } = status() else { panic!("{}", status()) };
        assert_eq!(name, env::var(VARIABLE).unwrap());

        let handle = |number| null_mut::<c_void>().wrapping_byte_add(number);
        assert_eq!(cl_sys::clFinish(handle(42)), -42);
        let mut code = 0;
        let object = cl_sys::clCreateBuffer(handle(1000), 1, 0, handle(0), &mut code);
        assert_eq!((object, code), (handle(1001), -1001));

        // The library has no such functions.
        assert_eq!(cl_sys::clFlush(handle(42)), cl_sys::CL_INVALID_PLATFORM);
        assert!(cl_sys::clCreateUserEvent(handle(1), &mut code).is_null());
        assert_eq!(code, cl_sys::CL_INVALID_PLATFORM);

        // The library returns CL_PLATFORM_NOT_FOUND_KHR.
        assert_eq!(count_platforms(), (0, 0));
        assert_eq!(cl_sys::clGetPlatformIDs(1, dangling_mut(), null_mut()), NOT_FOUND);
    });
}

/// ocl-core panics on these results.
#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "a static program loads no library")]
fn what_ocl_core_cannot_take_is_replaced() {
    in_child("what_ocl_core_cannot_take_is_replaced", Some(fake_library()), || unsafe {
        let handle = |number| null_mut::<c_void>().wrapping_byte_add(number);
        let unknown = || unknown_code().map(|unknown| (unknown.function, unknown.code));
        for code in [71, 7777, i32::MAX as usize] {
            assert_eq!(cl_sys::clFinish(handle(code)), cl_sys::CL_OUT_OF_RESOURCES);
            assert_eq!(unknown(), Some(("clFinish", -(code as i32))));
        }
        let mut code = 0;
        assert_eq!(cl_sys::clCreateBuffer(handle(1000), 200, 30, handle(4), &mut code), handle(1234));
        assert_eq!((code, unknown()), (cl_sys::CL_OUT_OF_RESOURCES, Some(("clCreateBuffer", -1234))));
        assert!(cl_sys::clCreateBuffer(handle(0), 0, 0, handle(0), &mut code).is_null());
        assert_eq!((code, unknown()), (cl_sys::CL_OUT_OF_RESOURCES, Some(("clCreateBuffer", 0))));
        assert_eq!(cl_sys::clFinish(handle(36)), -36);
        assert_eq!(unknown(), None);

        let counts = || (ignored().retains, ignored().releases);
        assert_eq!(cl_sys::clRetainEvent(handle(8)), cl_sys::CL_SUCCESS);
        assert_eq!(counts(), (1, 0));
        assert_eq!(cl_sys::clReleaseEvent(handle(8)), cl_sys::CL_SUCCESS);
        assert_eq!(counts(), (1, 0), "the release of a reference that the driver never had");
        assert_eq!(cl_sys::clReleaseEvent(handle(8)), cl_sys::CL_SUCCESS);
        assert_eq!(counts(), (1, 1));
        assert_eq!(unknown(), None);
    });
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "a static program loads no library")]
fn discovery_takes_turns() {
    in_child("discovery_takes_turns", Some(fake_library()), || {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let platforms = count_platforms();
                        let devices = unsafe { cl_sys::clGetDeviceIDs(null_mut(), 0, 0, null_mut(), null_mut()) };
                        assert_eq!((platforms, devices), ((0, 0), -1));
                    }
                });
            }
        });
    });
}
