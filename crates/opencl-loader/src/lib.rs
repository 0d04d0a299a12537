//! Finds OpenCL when the program runs, not when it is linked.
//!
//! The crates `ocl`, `ocl-core` and `cl-sys` link to libOpenCL. Without its development package nothing links, and
//! without the library the program does not start. With this crate in the same binary neither is needed, and those
//! crates stay unmodified:
//!
//! ```
//! use koel_opencl_loader as _; // in the crate that uses `ocl`
//! ```
//!
//! # The idea
//!
//! 1. At build time, build.rs puts an empty library called OpenCL before the system's in the search path of the linker.
//! 2. The `cl…` functions that cl-sys declares are then undefined, and this crate defines them.
//! 3. Each of them looks up the function of the same name in the real library at its first call, and forwards the
//!    calls:
//!
//! ```text
//! once:        library = unless $KOEL_OPENCL is "off":
//!                            open $KOEL_OPENCL if it is set; otherwise libOpenCL.so.1, or else libOpenCL.so
//! clXyz(args): once: real = look up "clXyz" in library
//!              real exists ? real(args) : CL_INVALID_PLATFORM, and null for an object
//! ```
//!
//! Two functions do more than forward, `clGetPlatformIDs` and `clGetDeviceIDs`, as src/start_up.rs explains. In
//! particular, a machine without OpenCL is reported as an empty list of platforms.
//!
//! Results on which ocl-core panics are replaced: unknown codes by `CL_OUT_OF_RESOURCES` ([`unknown_code`] returns the
//! original), failed retains and releases by successes ([`ignored`] counts them). src/answers.rs explains how reference
//! counts stay correct.
//!
//! # Limits
//!
//! This crate is not an OpenCL binding: its safe functions only report the state of the loader. It is not an ICD loader
//! either: the libOpenCL that it finds chooses the driver. On macOS, where OpenCL is part of the system, it does
//! nothing and [`VARIABLE`] is not read.

#[cfg(not(target_os = "macos"))]
mod answers;
#[cfg(not(target_os = "macos"))]
#[macro_use]
mod forward;
#[cfg(not(target_os = "macos"))]
mod functions;
#[cfg(not(target_os = "macos"))]
mod library;
#[cfg(all(test, not(target_os = "macos")))]
mod signatures;
#[cfg(not(target_os = "macos"))]
mod start_up;

use std::fmt;

/// The environment variable that names another OpenCL library to open, or is `off` (in any case) to use none. If it is
/// unset or empty, the system's library is used. It is read once, at the first call.
///
/// The named library is loaded, and its code runs with all rights of the process. A program with more rights than the
/// user who sets its environment must remove the variable first.
pub const VARIABLE: &str = "KOEL_OPENCL";

/// The result of the search for an OpenCL library.
///
/// A loaded library need not have drivers or devices: it may list zero platforms.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// [`VARIABLE`] is `off`.
    Off,
    /// No candidate was usable; calls behave as on a machine without OpenCL.
    NotFound {
        /// Each candidate in the order of trying, with the reason why it was rejected.
        tried: Vec<String>,
    },
    /// The library is open and stays open until the process ends.
    Loaded {
        /// The name by which it was opened, not necessarily a full path.
        name: String,
    },
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => write!(f, "OpenCL is switched off by {VARIABLE}"),
            Self::NotFound { tried } => write!(
                f,
                "no OpenCL library found (tried {}); install an OpenCL driver, or set {VARIABLE} \
                 to the library's file name",
                tried.join("; ")
            ),
            Self::Loaded { name } => write!(f, "OpenCL library {name} is loaded"),
        }
    }
}

/// Returns which OpenCL library is in use. Opens it if no call has done so yet.
///
/// The result does not change during the life of the process.
#[must_use]
pub fn status() -> Status {
    #[cfg(not(target_os = "macos"))]
    return library::opened().status.clone();
    #[cfg(target_os = "macos")]
    return Status::Loaded { name: "OpenCL.framework".to_owned() };
}

/// A code that a driver returned and that ocl-core does not know. The caller received `CL_OUT_OF_RESOURCES` instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownCode {
    /// The function that returned it.
    pub function: &'static str,
    /// The code. 0 means success without the object that was to be created.
    pub code: i32,
}

impl fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, code } = self;
        match code {
            0 => write!(f, "{function} reported success without an object"),
            _ => write!(f, "{function} returned {code}, a code that OpenCL does not define"),
        }
    }
}

/// The code of the calling thread's latest failed call, if ocl-core does not know it.
///
/// It explains a `CL_OUT_OF_RESOURCES` that this thread has just received. Later successes do not change it.
#[must_use]
pub fn unknown_code() -> Option<UnknownCode> {
    #[cfg(not(target_os = "macos"))]
    return answers::unknown_code();
    #[cfg(target_os = "macos")]
    return None;
}

/// Failures that were not reported to callers, counted since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// Releases that the driver rejected. Each has leaked an object or a reference in the driver.
    pub releases: u64,
    /// Retains that the driver rejected. They leak nothing.
    pub retains: u64,
}

/// The failures so far that were reported as success.
#[must_use]
pub fn ignored() -> Ignored {
    #[cfg(not(target_os = "macos"))]
    return answers::ignored();
    #[cfg(target_os = "macos")]
    return Ignored::default();
}
