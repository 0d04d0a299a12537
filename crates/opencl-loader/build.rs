//! Writes an empty OpenCL library for the linker.
//!
//! cl-sys links with `-lOpenCL`, which fails if no OpenCL development package is installed, and otherwise makes the
//! binary depend on libOpenCL. Cargo passes the search path printed here to every link that includes this crate, before
//! the system's folders, so an archive without members satisfies `-lOpenCL`. zig's linker accepts only a shared library
//! for it, or a linker script. The functions are defined in src/functions.rs.

use std::path::PathBuf;
use std::{env, fs};

/// The smallest complete static library: the magic, then one member, the symbol index, which contains a big-endian
/// count of symbols: 0. The layout is common to Unix and Windows archives.
const EMPTY_ARCHIVE: &[u8; 72] = b"!<arch>\n\
    /               0           0     0     0       4         `\n\
    \0\0\0\0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");

    let target = |key: &str| env::var(key).unwrap_or_default();
    if target("CARGO_CFG_TARGET_OS") == "macos" {
        return; // OpenCL is a framework of the system there, always present.
    }

    let name = match target("CARGO_CFG_TARGET_ENV").as_str() {
        "msvc" => "OpenCL.lib",
        _ => "libOpenCL.a",
    };
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(folder.join(name), EMPTY_ARCHIVE).expect("OUT_DIR is writable");
    // Only for zig: `cargo run` searches the folders of build scripts for libraries at run time.
    if linked_by_zig() {
        fs::write(folder.join("libOpenCL.so"), "INPUT(libOpenCL.a)\n").expect("OUT_DIR is writable");
    }
    println!("cargo::rustc-link-search=native={}", folder.display());
}

/// Whether cargo links by zig, as `maturin --zig` and `cargo zigbuild` do.
fn linked_by_zig() -> bool {
    let triple = env::var("TARGET").unwrap_or_default().to_uppercase().replace('-', "_");
    let linker = format!("CARGO_TARGET_{triple}_LINKER");
    println!("cargo::rerun-if-env-changed={linker}");
    env::var(linker).is_ok_and(|linker| linker.contains("zig"))
}
