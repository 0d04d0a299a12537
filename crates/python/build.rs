//! The module exports `PyInit_koel` alone. The OpenCL loader has functions of the names of OpenCL's, and another library of the
//! process must not find those in place of its own.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    }
}
