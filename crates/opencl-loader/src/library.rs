//! The real OpenCL library: opened once, searched by name, never closed.

#![expect(unsafe_code, reason = "loading a library runs its code, and symbols carry no types")]

use std::env;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::mem::ManuallyDrop;
use std::sync::OnceLock;

use libloading::Library;

use crate::{Status, VARIABLE};

/// The names of the system's OpenCL library. The first is the one that every loader installs; the second exists with a
/// development package, and on Android.
#[cfg(not(windows))]
const DEFAULT_NAMES: &[&str] = &["libOpenCL.so.1", "libOpenCL.so"];
#[cfg(windows)]
const DEFAULT_NAMES: &[&str] = &["OpenCL.dll"];

/// The result of the one attempt to open a library.
pub(crate) struct Opened {
    pub(crate) status: Status,
    /// Present exactly if the status is `Loaded`.
    library: Option<ManuallyDrop<Library>>,
}

/// Opens the library on the first call; later calls return the same result.
pub(crate) fn opened() -> &'static Opened {
    static OPENED: OnceLock<Opened> = OnceLock::new();
    OPENED.get_or_init(|| {
        let choice = env::var_os(VARIABLE).filter(|value| !value.is_empty());
        match choice {
            Some(value) if value.eq_ignore_ascii_case("off") => Opened { status: Status::Off, library: None },
            Some(value) => open_first(&[value], false),
            None => open_first(&DEFAULT_NAMES.iter().map(OsString::from).collect::<Vec<_>>(), true),
        }
    })
}

fn open_first(names: &[OsString], system_only: bool) -> Opened {
    let mut tried = Vec::new();
    for file in names {
        let name = file.to_string_lossy().into_owned();
        match open(file, system_only) {
            Ok(library) => {
                return Opened { status: Status::Loaded { name }, library: Some(library) };
            }
            // On some systems the message starts with the name.
            Err(reason) if reason.starts_with(&name) => tried.push(reason),
            Err(reason) => tried.push(format!("{name}: {reason}")),
        }
    }
    Opened { status: Status::NotFound { tried }, library: None }
}

/// Loads a library. Windows looks for a plain name also in the program's folder, in the current one and in `PATH`,
/// where an attacker may have put a file of that name; `system_only` restricts it to the system's folder.
///
/// # Safety
/// Those of [`Library::new`].
unsafe fn load(name: &OsStr, system_only: bool) -> Result<Library, libloading::Error> {
    #[cfg(windows)]
    if system_only {
        use libloading::os::windows::{LOAD_LIBRARY_SEARCH_SYSTEM32, Library as OfWindows};
        // SAFETY: the caller's promise.
        return unsafe { OfWindows::load_with_flags(name, LOAD_LIBRARY_SEARCH_SYSTEM32) }.map(Library::from);
    }
    let _ = system_only; // elsewhere the loader only searches the system's folders
    // SAFETY: the caller's promise.
    unsafe { Library::new(name) }
}

/// Opens one file, or returns the reason why it is not usable.
fn open(name: &OsStr, system_only: bool) -> Result<ManuallyDrop<Library>, String> {
    // SAFETY: opening runs the library's initialisers. The name is the system's OpenCL or the user's explicit choice,
    // as trusted as a library that the program had been linked to.
    let library = unsafe { load(name, system_only) }.map_err(|error| match error.source() {
        Some(system) => system.to_string(), // the outer error only says that opening failed
        None => error.to_string(),
    })?;

    // Never closed, not even when it is rejected below: drivers start threads and register exit handlers, whose code
    // must stay loaded.
    let library = ManuallyDrop::new(library);

    // A driver named instead of a loader opens without an error, but every call would then fail obscurely.
    // SAFETY: the address is not used.
    match unsafe { library.get::<*const ()>("clGetPlatformIDs") } {
        Ok(_) => Ok(library),
        Err(_) => Err("it has no function clGetPlatformIDs".to_owned()),
    }
}

/// Finds a function in the library, if there is a library and the function is in it.
///
/// # Safety
///
/// The caller must make sure that `F` is the function pointer type of the symbol called `name`.
pub(crate) unsafe fn resolve<F: Copy>(name: &str) -> Option<F> {
    let library = opened().library.as_ref()?;
    // SAFETY: the type is the caller's promise. The `Option` makes a null address `None`, where a
    // bare `F` would be an invalid function pointer.
    let symbol = unsafe { library.get::<Option<F>>(name) };
    symbol.ok().and_then(|address| *address)
}
