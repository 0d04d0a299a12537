//! Writes an empty OpenCL library, for the linker's eyes only.
//!
//! cl-sys asks the linker for `-lOpenCL`, which fails where no OpenCL development package is
//! installed, and ties the binary to libOpenCL where one is. Cargo hands the search path printed
//! here to every link that this crate takes part in, ahead of the system's folders, so the request
//! is met by an archive without members. zig's linker takes nothing but a shared library for it, or
//! a script in the place of one. The functions themselves come from src/functions.rs.

use std::path::PathBuf;
use std::{env, fs};

/// The smallest complete static library: the magic, then one member, the symbol index, whose content
/// is a big-endian count of symbols: none. The layout is common to Unix and Windows archives.
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
    // Only there: a folder of build scripts is among those that `cargo run` has libraries looked for in.
    if linked_by_zig() {
        fs::write(folder.join("libOpenCL.so"), "INPUT(libOpenCL.a)\n").expect("OUT_DIR is writable");
    }
    println!("cargo::rustc-link-search=native={}", folder.display());
}

/// Whether cargo was told to link by zig, as `maturin --zig` and `cargo zigbuild` tell it.
fn linked_by_zig() -> bool {
    let triple = env::var("TARGET").unwrap_or_default().to_uppercase().replace('-', "_");
    let linker = format!("CARGO_TARGET_{triple}_LINKER");
    println!("cargo::rerun-if-env-changed={linker}");
    env::var(linker).is_ok_and(|linker| linker.contains("zig"))
}
