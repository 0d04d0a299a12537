//! The sources in cl/ and what stands in front of them.
//!
//! ```text
//! program = numbers, printed from the Rust constants        #define KOEL_MIX_FIRST 0x85ebca6bu ..
//!           #line 1 "spec.clh"     cl/spec.clh
//!           #line 1 "cuckoo.cl"    cl/cuckoo.cl
//! options = -cl-std=CL1.2, and a -D for each parameter      -DKOEL_FUNCTIONS=4 ..
//! ```
//!
//! No constant is written in cl/ a second time, and the compiler's messages name our files and lines. A program is
//! built when it is first needed and kept in memory; drivers keep their own caches on disk.

use std::ffi::CString;
use std::fmt::Write as _;

use ocl::core;

use super::{OpenCl, START_UP, lock};
use crate::error::{Error, Result};
use crate::fault::{Fault, planted};
use crate::spec::cuckoo::classic;
use crate::spec::{hash, slot};

/// What a program is kept under: its file and its options.
pub(super) type Key = (&'static str, String);

/// A file of cl/.
#[derive(Clone, Copy)]
pub(super) struct Source {
    name: &'static str,
    text: &'static str,
}

const SPEC: Source = Source { name: "spec.clh", text: include_str!("../../cl/spec.clh") };
pub(super) const ATOMICS: Source = Source { name: "atomics.cl", text: include_str!("../../cl/atomics.cl") };
pub(super) const PRIMITIVES: Source = Source { name: "primitives.cl", text: include_str!("../../cl/primitives.cl") };
pub(super) const CUCKOO: Source = Source { name: "cuckoo.cl", text: include_str!("../../cl/cuckoo.cl") };
#[cfg(test)]
pub(super) const MIRROR: Source = Source { name: "mirror.cl", text: include_str!("../../cl/mirror.cl") };

/// The constants of the arithmetic, by the names that cl/ has for them.
fn numbers() -> String {
    // A planted fault: a shift that is off by one. The device still agrees with itself in everything.
    let shift = hash::MIX_SHIFTS[1] - u32::from(planted("opencl", Fault::Hash));
    let mut text = String::new();
    for (name, value) in [
        ("MIX_FIRST", hash::MIX_FIRST),
        ("MIX_SECOND", hash::MIX_SECOND),
        ("MIX_FIRST_INVERSE", hash::MIX_FIRST_INVERSE),
        ("MIX_SECOND_INVERSE", hash::MIX_SECOND_INVERSE),
        ("MIX_SHIFT_0", hash::MIX_SHIFTS[0]),
        ("MIX_SHIFT_1", shift),
        ("MIX_SHIFT_2", hash::MIX_SHIFTS[2]),
        ("ALCANTARA_PRIME", hash::ALCANTARA_PRIME),
        ("AGE_BITS", slot::AGE_BITS),
        ("MAX_AGE", slot::MAX_AGE),
        ("CLASSIC_EMPTY_KEY", classic::EMPTY_KEY),
    ] {
        let _ = writeln!(text, "#define KOEL_{name} {value:#x}u");
    }
    for (name, word) in [("SLOT_EMPTY", slot::EMPTY), ("TOMBSTONE", slot::TOMBSTONE), ("CLASSIC_EMPTY", classic::EMPTY)]
    {
        let _ = writeln!(text, "#define KOEL_{name} {word:#x}UL");
    }
    text
}

impl OpenCl {
    /// The program of `source` with these parameters (`-DKOEL_<name>=<value>`), built if it was not before.
    pub(super) fn program(&self, source: Source, parameters: &[(&str, u32)]) -> Result<core::Program> {
        let mut options = "-cl-std=CL1.2".to_owned();
        for (name, value) in parameters {
            let _ = write!(options, " -DKOEL_{name}={value}");
        }
        let key = (source.name, options);
        let mut programs = lock(&self.0.programs);
        if let Some(program) = programs.get(&key) {
            return Ok(program.clone());
        }
        let program = self.build(source, &key.1)?;
        programs.insert(key, program.clone());
        Ok(program)
    }

    fn build(&self, source: Source, options: &str) -> Result<core::Program> {
        let mut text = numbers();
        for Source { name, text: part } in [SPEC, source] {
            let _ = write!(text, "#line 1 \"{name}\"\n{part}\n");
        }
        let refused = |log: String| Error::Compile {
            device: self.0.info.to_string(),
            program: format!("{} ({options})", source.name),
            log,
        };
        let c_string = |text: &str| CString::new(text).map_err(|error| refused(error.to_string()));
        let (text, c_options) = (c_string(&text)?, c_string(options)?);
        let _one_at_a_time = lock(&START_UP);
        let doing = || format!("building {}", source.name);
        let program = core::create_program_with_source(self.0.context.as_core(), &[text])
            .map_err(|error| self.failed(doing(), error))?;
        match core::build_program(&program, Some(&[self.0.device]), &c_options, None, None) {
            Ok(()) => Ok(program),
            Err(core::Error::ProgramBuild(error)) => Err(refused(without_banner(&error.to_string()))),
            Err(error) => Err(self.failed(doing(), error)),
        }
    }
}

/// A build log without the lines of `####` that the crate puts round it.
fn without_banner(log: &str) -> String {
    let lines: Vec<_> = log.lines().filter(|line| !line.is_empty() && !line.starts_with("####")).collect();
    lines.join("\n")
}
