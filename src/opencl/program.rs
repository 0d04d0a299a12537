//! Programs: what is printed in front of a source, and the store of what has been compiled.
//!
//! ```text
//! #define KOEL_MIX_FIRST ..       constants from Rust, so that none is spelled twice
//! #define KOEL_FUNCTIONS 4 ..     the combination of parameters that this program is for
//! spec.clh                        the twin of src/spec/
//! #line 1 "cuckoo.cl"             so that the compiler's messages name our files
//! cuckoo.cl
//! ```
//!
//! A program is compiled when it is first needed and kept for the life of the process; drivers keep their own caches on disk.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Mutex;

use ocl::Program;

use super::OpenCl;
use crate::backend::HashBackend;
use crate::error::{Error, Result};
use crate::fault::{Fault, planted};
use crate::spec::cuckoo::classic;
use crate::spec::{HashFamily, Reinsertion, hash, slot};

/// A file of `cl/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Atomics,
    Primitives,
    /// A scheme, by its name in the registry.
    Scheme(&'static str),
}

impl Source {
    /// File name and text.
    fn file(self) -> (String, &'static str) {
        macro_rules! scheme_sources {
            ($($module:ident, $scheme:ident, $name:literal;)*) => {
                match self {
                    Source::Atomics => ("atomics.cl".into(), include_str!("../../cl/atomics.cl")),
                    Source::Primitives => ("primitives.cl".into(), include_str!("../../cl/primitives.cl")),
                    $(Source::Scheme($name) => (
                        concat!($name, ".cl").into(),
                        include_str!(concat!("../../cl/", $name, ".cl")),
                    ),)*
                    // A name outside the registry cannot be compiled, and the compiler's message will name it.
                    Source::Scheme(other) => (format!("{other}.cl"), "#error no such scheme"),
                }
            };
        }
        crate::for_each_scheme!(scheme_sources)
    }
}

/// A parameter of a program: name and value of a `#define`.
pub(super) type Define = (&'static str, u32);

/// What has been compiled.
pub(super) type Programs = Mutex<HashMap<(Source, usize, Vec<Define>), Program>>;

const SPEC: &str = include_str!("../../cl/spec.clh");

/// The constants that `spec/` and `cl/` share.
fn constants() -> Vec<(&'static str, u64)> {
    // A fault that a test plants: one constant of the device's arithmetic is off, and `verify` must see it.
    let shifted = 2 * u64::from(planted("opencl", Fault::Hash));
    vec![
        ("KOEL_MIX_FIRST", hash::MIX_FIRST.into()),
        ("KOEL_MIX_SECOND", u64::from(hash::MIX_SECOND) + shifted),
        ("KOEL_MIX_FIRST_INVERSE", hash::MIX_FIRST_INVERSE.into()),
        ("KOEL_MIX_SECOND_INVERSE", hash::MIX_SECOND_INVERSE.into()),
        ("KOEL_MIX_SHIFT_0", hash::MIX_SHIFTS[0].into()),
        ("KOEL_MIX_SHIFT_1", hash::MIX_SHIFTS[1].into()),
        ("KOEL_MIX_SHIFT_2", hash::MIX_SHIFTS[2].into()),
        ("KOEL_ALCANTARA_PRIME", hash::ALCANTARA_PRIME.into()),
        ("KOEL_AGE_BITS", slot::AGE_BITS.into()),
        ("KOEL_MAX_AGE", slot::MAX_AGE.into()),
        ("KOEL_SLOT_EMPTY", slot::EMPTY),
        ("KOEL_CLASSIC_EMPTY_KEY", classic::EMPTY_KEY.into()),
        ("KOEL_FAMILY_MIXER", HashFamily::Mixer as u64),
        ("KOEL_FAMILY_LINEAR", HashFamily::Linear as u64),
        ("KOEL_FAMILY_XOR", HashFamily::Xor as u64),
        ("KOEL_AS_PUBLISHED", Reinsertion::AsPublished as u64),
        ("KOEL_SKIP_SAME_SLOT", Reinsertion::SkipSameSlot as u64),
        ("KOEL_RANDOM_FUNCTION", Reinsertion::RandomFunction as u64),
    ]
}

impl OpenCl {
    /// The program of a source with these parameters, compiled if it is new.
    pub(super) fn program(&self, source: Source, defines: &[Define]) -> Result<Program> {
        let mut programs = self.shared.programs.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let key = (source, self.group, defines.to_vec());
        if let Some(program) = programs.get(&key) {
            return Ok(program.clone());
        }
        // Under the lock: drivers differ in whether they stand two compilations at once, and nobody needs two.
        let program = self.compile(source, defines)?;
        programs.insert(key, program.clone());
        Ok(program)
    }

    fn compile(&self, source: Source, defines: &[Define]) -> Result<Program> {
        let (name, text) = source.file();
        Program::builder()
            .src(self.text(&name, text, defines))
            .devices(self.shared.device)
            .cmplr_opt("-cl-std=CL1.2")
            .build(&self.shared.context)
            .map_err(|error| Error::Compile {
                device: self.info().to_string(),
                program: format!("{name} {defines:?}"),
                log: error.to_string(),
            })
    }

    fn text(&self, name: &str, text: &str, defines: &[Define]) -> String {
        let mut all = format!("#define KOEL_GROUP {}\n", self.group);
        let own = defines.iter().map(|&(name, value)| (name, u64::from(value)));
        for (name, value) in constants().into_iter().chain(own) {
            // `u` where it fits, so that arithmetic stays in 32 bits.
            let suffix = if u32::try_from(value).is_ok() { "u" } else { "UL" };
            // Writing to a String cannot fail.
            let _ = writeln!(all, "#define {name} {value}{suffix}");
        }
        all + "#line 1 \"spec.clh\"\n" + SPEC + &format!("\n#line 1 \"{name}\"\n") + text
    }
}
