//! Controls driver/opencl.rs from the tests.

#![expect(unsafe_code, reason = "calls functions of a library")]

use std::collections::BTreeMap;
use std::ffi::{CString, OsString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use libloading::Library;

/// The error code of injected faults, which koel does not receive otherwise.
pub const KNOWN: i32 = -59;
/// An error code that neither OpenCL nor ocl-core defines.
pub const UNKNOWN: i32 = -7777;
/// CL_MEM_OBJECT_ALLOCATION_FAILURE, after which koel frees cached memory and tries again.
pub const NO_MEMORY: i32 = -4;

/// Compiles the library, and returns its path.
pub fn compile() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/driver/opencl.rs");
    // Every process compiles to its own file, so that none loads an incomplete library.
    let name = format!("failing_opencl_{}.so", std::process::id());
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let compiled = Command::new(compiler)
        .args(["--edition=2024", "--crate-type=cdylib", "-O", "-o"])
        .args([&library, &source])
        .status();
    assert!(compiled.expect("rustc starts").success());
    library
}

/// The numbers of references, by type of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct References {
    pub contexts: u32,
    pub queues: u32,
    pub memory: u32,
    pub programs: u32,
    pub kernels: u32,
    pub events: u32,
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let name = std::env::var_os(koel_opencl_loader::VARIABLE).expect("the parent names the library");
        // SAFETY: the library is the one that `compile` created, which has no initialisers.
        unsafe { Library::new(name) }.expect("the library opens")
    })
}

macro_rules! call {
    ($name:ident($($argument:expr => $type:ty),*) $(-> $result:ty)?) => {{
        // SAFETY: driver/opencl.rs defines it with these types.
        unsafe {
            let call = library().get::<unsafe extern "C" fn($($type),*) $(-> $result)?>(stringify!($name));
            call.expect("it is exported")($($argument),*)
        }
    }};
}

/// From now on, `count` calls of the function fail with `code`, beginning with call number `first` from here.
pub fn arm(function: &str, first: u32, count: u32, code: i32) {
    let name = CString::new(function).expect("a name");
    call!(faults_arm(name.as_ptr() => *const c_char, first => u32, count => u32, code => i32));
}

/// Ends all faults. Returns how many calls failed.
pub fn disarm() -> u32 {
    call!(faults_disarm() -> u32)
}

/// The number of calls of each function so far.
pub fn calls() -> BTreeMap<String, u32> {
    extern "C" fn add(to: *mut c_void, name: *const c_char, len: usize, calls: u32) {
        // SAFETY: `to` is the map below, and the name has this many bytes.
        let (to, name) =
            unsafe { (&mut *to.cast::<BTreeMap<String, u32>>(), std::slice::from_raw_parts(name.cast::<u8>(), len)) };
        to.insert(String::from_utf8_lossy(name).into_owned(), calls);
    }
    let mut all = BTreeMap::new();
    let to = std::ptr::from_mut(&mut all).cast();
    call!(faults_calls(to => *mut c_void, add => extern "C" fn(*mut c_void, *const c_char, usize, u32)));
    all
}

/// The references that koel holds.
pub fn references() -> References {
    let mut of = [0; 6];
    call!(faults_references(&mut of => *mut [u32; 6]));
    let [contexts, queues, memory, programs, kernels, events] = of;
    References { contexts, queues, memory, programs, kernels, events }
}

/// Releases of objects to which koel had no reference.
pub fn wrong_releases() -> u32 {
    call!(faults_wrong_releases() -> u32)
}

/// Transfers that koel has not waited for.
pub fn pending() -> u32 {
    call!(faults_pending() -> u32)
}

/// Uses of host memory with a pending transfer.
pub fn hazards() -> u32 {
    call!(faults_hazards() -> u32)
}

/// Injects a wrong release.
pub fn release_twice() {
    call!(faults_release_twice());
}
