//! Finds OpenCL when the program runs, not when it is linked.
//!
//! The crates `ocl`, `ocl-core` and `cl-sys` link to libOpenCL in the ordinary way: without its
//! development package nothing links, and without the library the finished program does not start.
//! With this crate in the same binary neither is needed, and those crates stay as they are:
//!
//! ```
//! use koel_opencl_loader as _; // in the crate that uses `ocl`; this is all
//! ```
//!
//! # The idea
//!
//! 1. At build time, build.rs puts an empty library called OpenCL in front of the linker.
//! 2. The `cl…` functions that cl-sys declares, now undefined, are defined here instead.
//! 3. Each of them, when called, looks up its namesake in the real library and passes the call on:
//!
//! ```text
//! once:        library = unless $KOEL_OPENCL is "off":
//!                            open $KOEL_OPENCL, or else libOpenCL.so.1, or else libOpenCL.so
//! clXyz(args): once: real = look up "clXyz" in library
//!              real exists ? real(args) : CL_INVALID_PLATFORM, and null for an object
//! ```
//!
//! Two functions do more than forward, `clGetPlatformIDs` and `clGetDeviceIDs`; src/start_up.rs
//! says why. Among other things, no OpenCL at all is reported as a list of zero platforms.
//!
//! Answers on which ocl-core panics are replaced: codes that it does not know by
//! `CL_OUT_OF_RESOURCES` ([`unknown_code`] has the number), failed retains and releases by successes
//! ([`ignored`] counts them). src/answers.rs says how the references stay right.
//!
//! # What it is not
//!
//! It is no OpenCL binding, as its safe functions only tell what happened, and no ICD loader, as it
//! chooses no driver: that stays the work of the libOpenCL it finds. On macOS, where OpenCL is part
//! of the system, it does nothing and [`VARIABLE`] is not read.

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

/// The environment variable that names another OpenCL library to open, or is `off` (in any case)
/// to use none. Unset and empty mean the system's own. It is read once, at the first call.
///
/// The library that it names is loaded, and its code runs with all rights of the process. A program
/// that runs with more rights than whoever sets its environment must remove the variable first.
pub const VARIABLE: &str = "KOEL_OPENCL";

/// What became of the search for an OpenCL library.
///
/// A library says nothing about drivers or devices: it may still list zero platforms.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// [`VARIABLE`] asked for no OpenCL.
    Off,
    /// No candidate was usable; calls behave as on a machine without OpenCL.
    NotFound {
        /// Each candidate in the order of trying, with the reason why it is not used.
        tried: Vec<String>,
    },
    /// The library is open and stays open until the process ends.
    Loaded {
        /// The name that it was opened by, which need not be a full path.
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

/// Says which OpenCL library is in use, opening it first if no call has done so yet.
///
/// The answer is the same for the life of the process.
#[must_use]
pub fn status() -> Status {
    #[cfg(not(target_os = "macos"))]
    return library::opened().status.clone();
    #[cfg(target_os = "macos")]
    return Status::Loaded { name: "OpenCL.framework".to_owned() };
}

/// A code that a driver answered and that ocl-core does not know. The caller got
/// `CL_OUT_OF_RESOURCES` instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownCode {
    /// The function that answered it.
    pub function: &'static str,
    /// The code. 0 means success, which came without the object that was to be created.
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

/// The code of the calling thread's latest failed call, if it is one that ocl-core does not know.
///
/// It tells what a `CL_OUT_OF_RESOURCES` stands for that this thread has just got. Later successes
/// do not change it.
#[must_use]
pub fn unknown_code() -> Option<UnknownCode> {
    #[cfg(not(target_os = "macos"))]
    return answers::unknown_code();
    #[cfg(target_os = "macos")]
    return None;
}

/// Failures that no caller was told of, counted since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// Releases that the driver refused. Each has left an object or a reference in the driver.
    pub releases: u64,
    /// Retains that the driver refused. They have left nothing behind.
    pub retains: u64,
}

/// The failures so far that were answered with success.
#[must_use]
pub fn ignored() -> Ignored {
    #[cfg(not(target_os = "macos"))]
    return answers::ignored();
    #[cfg(target_os = "macos")]
    return Ignored::default();
}
