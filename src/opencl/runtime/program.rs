//! The sources in cl/ and their common prefixes.
//!
//! ```text
//! program = numbers, printed from the Rust constants        #define KOEL_MIX_FIRST 0x85ebca6bu ..
//!           #line 1 "scheme.clh"     cl/scheme.clh
//!           #line 1 "tally.clh"    cl/tally.clh, and the other files that it needs
//!           #line 1 "cuckoo.cl"    cl/cuckoo.cl
//! options = -cl-std=CL1.2, -DKOEL_PARTIAL=1 in the partial tier, and a -D for each parameter   -DKOEL_FUNCTIONS=4 ..
//! ```
//!
//! No constant is written in cl/ a second time, and the compiler's messages name our files and lines. A program is
//! built when it is first needed and kept in memory; drivers keep their own caches on disk.

use std::ffi::CString;
use std::fmt::Write as _;

use ocl::core;
use ocl::enums::{ProgramBuildInfo, ProgramBuildInfoResult, ProgramBuildStatus};

use crate::error::{Error, Result};
use crate::opencl::passes::tally;
use crate::opencl::{OpenCl, START_UP, lock};
use crate::scheme::cuckoo::classic;
use crate::scheme::horton::{self, tokens};
use crate::scheme::signpost::{group, post};
use crate::scheme::{fks, hash, robin_hood, slot, sorted};

/// The parameter that limits the registers of a work-item.
const REGISTERS: &str = "REGISTERS";

/// The key of a cached program: its file and its options. Programs that end with the same file differ in their options.
pub(in crate::opencl) type Key = (&'static str, String);

/// A file of cl/, and the files that precede it.
#[derive(Clone, Copy)]
pub(in crate::opencl) struct Source {
    name: &'static str,
    text: &'static str,
    needs: &'static [Source],
}

/// The source with this name, and the files that it needs, in the order in which they must precede it.
macro_rules! source {
    ($name:literal $(, $needs:expr)*) => {
        Source { name: $name, text: include_str!(concat!("../../../cl/", $name)), needs: &[$($needs),*] }
    };
}

const SCHEME: Source = source!("scheme.clh");
const FUNCTIONS: Source = source!("functions.clh");
const TALLY: Source = source!("tally.clh");
const HEAVY: Source = source!("heavy.clh");
const CELL: Source = source!("cell.clh");
const BUCKET: Source = source!("bucketized.clh");
const OFFER: Source = source!("offer.clh");
const ORDER: Source = source!("order.clh");
const PARTS_SPEC: Source = source!("parts.clh");
const PARTITION: Source = source!("partition.clh");
const PART: Source = source!("bucketized_part.clh");
const FKS_SPEC: Source = source!("fks.clh");
const PREFIX_SUMS: Source = source!("scan.clh");
const HORTON_SPEC: Source = source!("horton.clh");
const HORTON_OFFER: Source = source!("horton_offer.clh");
const HORTON_HOMES: Source = source!("horton_parts.clh");
const DIVISOR: Source = source!("divisor.clh");
const ROBIN_HOOD_SPEC: Source = source!("robin_hood.clh");
const PERFECT_SPEC: Source = source!("perfect.clh");
const KEYS_IN_RUNS: Source = source!("runs.clh");
const LINES: Source = source!("lines.clh");
const WIDE: Source = source!("wide.clh");
const LINES_OF_PAIRS: Source = source!("bucketized_wide.clh");
const LINES_IN_TILE: Source = source!("wide_part.clh");
const LINES_LOOKUP: Source = source!("wide_lookup.clh");
const SIGNPOST_SPEC: Source = source!("signpost.clh");
const SIGNPOST_PART: Source = source!("signpost_part.clh");
const CUCKOO_LISTS: Source = source!("cuckoo_wide.clh");
const ROBIN_HOOD_LISTS: Source = source!("robin_hood_lists.clh");
const ROBIN_HOOD_WIDE_LISTS: Source = source!("robin_hood_wide.clh");
const LINES_IN_PARTS: Source = source!("bucketized_wide_parts.clh");
const KEPT: Source = source!("kept.clh");
const SORTED_SEARCH: Source = source!("sorted.clh");
const WIDE_TALLY: Source = source!("tally_wide.clh");
const EXACT: Source = source!("exact.clh");
pub(in crate::opencl) const ATOMICS: Source = source!("atomics.cl");
pub(in crate::opencl) const PRIMITIVES: Source = source!("primitives.cl", PREFIX_SUMS, KEPT);
pub(in crate::opencl) const COLUMNS: Source = source!("columns.cl", PREFIX_SUMS, KEPT);
pub(in crate::opencl) const INTERCHANGE: Source = source!("interchange.cl");
pub(in crate::opencl) const VOXELS: Source = source!("voxels.cl");
pub(in crate::opencl) const SCAN: Source = source!("scan.cl", PREFIX_SUMS);
const SORT_TILE: Source = source!("sort.clh");
pub(in crate::opencl) const SORT: Source = source!("sort.cl", PREFIX_SUMS, SORT_TILE);
pub(in crate::opencl) const SORT_RUNS: Source = source!("sort_runs.cl", PREFIX_SUMS, SORT_TILE);
pub(in crate::opencl) const SORT_ALONE: Source = source!("sort_alone.cl");
pub(in crate::opencl) const RELATIONAL: Source = source!("relational.cl", HEAVY);
pub(in crate::opencl) const KEY_SLOTS: Source = source!("key_slots.cl", HEAVY);
pub(in crate::opencl) const ACCUMULATE: Source = source!("accumulate.cl", EXACT);
pub(in crate::opencl) const CUCKOO: Source = source!("cuckoo.cl", FUNCTIONS, TALLY, HEAVY, CELL, KEYS_IN_RUNS);
pub(in crate::opencl) const BUCKETIZED: Source = source!("bucketized.cl", FUNCTIONS, TALLY, HEAVY, DIVISOR, BUCKET);
pub(in crate::opencl) const BUCKETIZED_CLASSIC: Source =
    source!("bucketized_classic.cl", FUNCTIONS, TALLY, HEAVY, DIVISOR, BUCKET);
pub(in crate::opencl) const BUCKETIZED_CANONICAL: Source =
    source!("bucketized_canonical.cl", FUNCTIONS, TALLY, HEAVY, DIVISOR, BUCKET, OFFER, ORDER, PARTS_SPEC);
pub(in crate::opencl) const BUCKETIZED_PARTS: Source =
    source!("bucketized_parts.cl", FUNCTIONS, TALLY, HEAVY, DIVISOR, BUCKET, OFFER, ORDER, PARTS_SPEC, PART);
pub(in crate::opencl) const BUCKETIZED_INSERT: Source =
    source!("bucketized_insert.cl", FUNCTIONS, HEAVY, DIVISOR, BUCKET, OFFER, ORDER, PARTS_SPEC, PART);
pub(in crate::opencl) const PARTS: Source = source!("parts.cl", FUNCTIONS, HEAVY, PREFIX_SUMS, PARTITION, PARTS_SPEC);
pub(in crate::opencl) const BUCKETIZED_LOOKUP: Source =
    source!("bucketized_lookup.cl", FUNCTIONS, HEAVY, DIVISOR, BUCKET);
pub(in crate::opencl) const BUCKETIZED_RUNS: Source =
    source!("bucketized_runs.cl", FUNCTIONS, HEAVY, DIVISOR, BUCKET, KEYS_IN_RUNS, LINES);
pub(in crate::opencl) const BUCKETIZED_WIDE: Source = source!(
    "bucketized_wide.cl",
    FUNCTIONS,
    TALLY,
    HEAVY,
    WIDE_TALLY,
    DIVISOR,
    BUCKET,
    WIDE,
    LINES_OF_PAIRS,
    LINES_IN_PARTS
);
pub(in crate::opencl) const BUCKETIZED_WIDE_TOKENS: Source =
    source!("bucketized_wide_tokens.cl", FUNCTIONS, TALLY, HEAVY, WIDE_TALLY, DIVISOR, BUCKET, WIDE, LINES_OF_PAIRS);
pub(in crate::opencl) const BUCKETIZED_WIDE_PARTITION: Source = source!(
    "bucketized_wide_partition.cl",
    FUNCTIONS,
    HEAVY,
    DIVISOR,
    PREFIX_SUMS,
    PARTITION,
    BUCKET,
    WIDE,
    LINES_OF_PAIRS,
    LINES_IN_PARTS
);
pub(in crate::opencl) const BUCKETIZED_WIDE_PARTS: Source = source!(
    "bucketized_wide_parts.cl",
    FUNCTIONS,
    TALLY,
    HEAVY,
    WIDE_TALLY,
    DIVISOR,
    BUCKET,
    WIDE,
    LINES_OF_PAIRS,
    LINES_IN_PARTS,
    LINES_IN_TILE
);
pub(in crate::opencl) const BUCKETIZED_WIDE_LOOKUP: Source =
    source!("bucketized_wide_lookup.cl", FUNCTIONS, HEAVY, DIVISOR, BUCKET, WIDE, LINES_OF_PAIRS, LINES_LOOKUP);
pub(in crate::opencl) const SIGNPOST: Source =
    source!("signpost.cl", FUNCTIONS, HEAVY, DIVISOR, BUCKET, WIDE, LINES_OF_PAIRS, SIGNPOST_SPEC);
pub(in crate::opencl) const SIGNPOST_BUILD: Source = source!(
    "signpost_build.cl",
    FUNCTIONS,
    TALLY,
    HEAVY,
    WIDE_TALLY,
    DIVISOR,
    BUCKET,
    WIDE,
    LINES_OF_PAIRS,
    SIGNPOST_SPEC
);
pub(in crate::opencl) const SIGNPOST_PARTS: Source = source!(
    "signpost_parts.cl",
    FUNCTIONS,
    HEAVY,
    DIVISOR,
    BUCKET,
    WIDE,
    LINES_OF_PAIRS,
    LINES_IN_PARTS,
    LINES_IN_TILE,
    SIGNPOST_SPEC,
    SIGNPOST_PART
);
pub(in crate::opencl) const SIGNPOST_LOOKUP: Source =
    source!("signpost_lookup.cl", FUNCTIONS, HEAVY, DIVISOR, BUCKET, WIDE, LINES_OF_PAIRS, SIGNPOST_SPEC, LINES_LOOKUP);
pub(in crate::opencl) const CUCKOO_WIDE: Source =
    source!("slot_lists.cl", FUNCTIONS, TALLY, HEAVY, WIDE_TALLY, DIVISOR, BUCKET, WIDE, LINES_OF_PAIRS, CUCKOO_LISTS);
pub(in crate::opencl) const FKS: Source = source!("fks.cl", FUNCTIONS, FKS_SPEC);
pub(in crate::opencl) const FKS_BUILD: Source = source!("fks_build.cl", FUNCTIONS, TALLY, HEAVY, FKS_SPEC);
pub(in crate::opencl) const HORTON: Source = source!("horton.cl", FUNCTIONS, DIVISOR, HORTON_SPEC);
pub(in crate::opencl) const HORTON_BUILD: Source =
    source!("horton_build.cl", FUNCTIONS, TALLY, HEAVY, DIVISOR, HORTON_SPEC, ORDER, HORTON_OFFER);
pub(in crate::opencl) const HORTON_PARTS: Source =
    source!("horton_parts.cl", FUNCTIONS, TALLY, HEAVY, DIVISOR, HORTON_SPEC, PREFIX_SUMS, PARTS_SPEC, HORTON_HOMES);
pub(in crate::opencl) const HORTON_ROOMS: Source = source!(
    "horton_rooms.cl",
    FUNCTIONS,
    TALLY,
    HEAVY,
    DIVISOR,
    HORTON_SPEC,
    ORDER,
    PARTS_SPEC,
    HORTON_OFFER,
    HORTON_HOMES
);
pub(in crate::opencl) const HORTON_STASH: Source = source!("horton_stash.cl", FUNCTIONS, DIVISOR, HORTON_SPEC, ORDER);
pub(in crate::opencl) const HORTON_LOOKUP: Source = source!("horton_lookup.cl", FUNCTIONS, DIVISOR, HORTON_SPEC);
pub(in crate::opencl) const HORTON_RUNS: Source =
    source!("horton_runs.cl", FUNCTIONS, DIVISOR, HORTON_SPEC, KEYS_IN_RUNS, LINES);
pub(in crate::opencl) const SORTED: Source = source!("sorted.cl", TALLY, SORTED_SEARCH);
pub(in crate::opencl) const SORTED_WIDE: Source = source!("sorted_wide.cl", TALLY, HEAVY, WIDE_TALLY, SORTED_SEARCH);
pub(in crate::opencl) const ROBIN_HOOD: Source =
    source!("robin_hood.cl", FUNCTIONS, TALLY, HEAVY, DIVISOR, CELL, ROBIN_HOOD_LISTS, ROBIN_HOOD_SPEC, KEYS_IN_RUNS);
pub(in crate::opencl) const ROBIN_HOOD_WIDE: Source = source!(
    "slot_lists.cl",
    FUNCTIONS,
    TALLY,
    HEAVY,
    WIDE_TALLY,
    DIVISOR,
    ROBIN_HOOD_LISTS,
    WIDE,
    ROBIN_HOOD_WIDE_LISTS
);
pub(in crate::opencl) const PERFECT: Source = source!("perfect.cl", DIVISOR, PERFECT_SPEC);
pub(in crate::opencl) const SHAPE: Source = source!("shape.cl");
#[cfg(test)]
pub(in crate::opencl) const MIRROR: Source = source!("mirror.cl");
#[cfg(test)]
pub(in crate::opencl) const MIRROR_BUCKETIZED: Source =
    source!("mirror_bucketized.cl", FUNCTIONS, HEAVY, DIVISOR, BUCKET);
#[cfg(test)]
pub(in crate::opencl) const MIRROR_WIDE: Source =
    source!("mirror_wide.cl", FUNCTIONS, HEAVY, DIVISOR, BUCKET, WIDE, LINES_OF_PAIRS);
#[cfg(test)]
pub(in crate::opencl) const MIRROR_FKS: Source = source!("mirror_fks.cl", FUNCTIONS, FKS_SPEC);
#[cfg(test)]
pub(in crate::opencl) const MIRROR_HORTON: Source = source!("mirror_horton.cl", FUNCTIONS, DIVISOR, HORTON_SPEC);
#[cfg(test)]
pub(in crate::opencl) const MIRROR_ROBIN_HOOD: Source =
    source!("mirror_robin_hood.cl", FUNCTIONS, DIVISOR, CELL, ROBIN_HOOD_LISTS, ROBIN_HOOD_SPEC);
#[cfg(test)]
pub(in crate::opencl) const MIRROR_ROBIN_HOOD_WIDE: Source =
    source!("mirror_robin_hood_wide.cl", FUNCTIONS, HEAVY, DIVISOR, ROBIN_HOOD_LISTS, WIDE, ROBIN_HOOD_WIDE_LISTS);
#[cfg(test)]
pub(in crate::opencl) const MIRROR_SIGNPOST: Source =
    source!("mirror_signpost.cl", FUNCTIONS, HEAVY, DIVISOR, BUCKET, WIDE, LINES_OF_PAIRS, SIGNPOST_SPEC);
#[cfg(test)]
pub(in crate::opencl) const MIRROR_PERFECT: Source = source!("mirror_perfect.cl", DIVISOR, PERFECT_SPEC);
#[cfg(test)]
pub(in crate::opencl) const MIRROR_DIVISOR: Source = source!("mirror_divisor.cl", DIVISOR);

/// Definitions of the arithmetic's constants, with the names that cl/ uses.
fn numbers() -> String {
    let mut text = String::new();
    for (name, value) in [
        ("MIX_FIRST", hash::MIX_FIRST),
        ("MIX_SECOND", hash::MIX_SECOND),
        ("MIX_FIRST_INVERSE", hash::MIX_FIRST_INVERSE),
        ("MIX_SECOND_INVERSE", hash::MIX_SECOND_INVERSE),
        ("MIX_SHIFT_0", hash::MIX_SHIFTS[0]),
        ("MIX_SHIFT_1", hash::MIX_SHIFTS[1]),
        ("MIX_SHIFT_2", hash::MIX_SHIFTS[2]),
        ("MIX_64_SHIFT", hash::MIX_64_SHIFT),
        ("ALCANTARA_PRIME", hash::ALCANTARA_PRIME),
        ("GOLDEN", hash::GOLDEN),
        ("AGE_BITS", slot::AGE_BITS),
        ("MAX_AGE", slot::MAX_AGE),
        ("CLASSIC_EMPTY_KEY", classic::EMPTY_KEY),
        ("FKS_SUBTABLES", fks::SUBTABLES),
        ("FKS_SUBTABLE_SLOTS", fks::SUBTABLE_SLOTS),
        ("FKS_BUCKET_SLOTS", fks::BUCKET_SLOTS),
        ("FKS_BUCKET_PAIRS", fks::BUCKET_PAIRS),
        ("FKS_SEEDS_OF_WORD", fks::SEEDS_OF_WORD),
        // The tweak of seed number 1; those of other seed numbers are its multiples.
        ("FKS_TWEAK", fks::tweak(1)),
        ("FKS_SAHU_PRIME", fks::SAHU_PRIME),
        ("HORTON_GROUP_MAX", tokens::GROUP_MAX),
        ("HORTON_CYCLES", tokens::CYCLES),
        ("SIGNPOST_FUNCTIONS", post::FUNCTIONS),
        ("SIGNPOST_STASH", post::STASH),
        ("SIGNPOST_CYCLES", group::CYCLES),
        ("SIGNPOST_OFFERS", group::MOST_OFFERS),
        ("SORTED_OFF_MIDDLE", sorted::search::OFF_MIDDLE as u32),
    ]
    .into_iter()
    .chain(tally::NUMBERS)
    {
        let _ = writeln!(text, "#define KOEL_{name} {value:#x}u");
    }
    for (i, step) in horton::functions::KT.iter().enumerate() {
        let _ = writeln!(text, "#define KOEL_HORTON_KT_{i} {step}u");
    }
    for (i, number) in fks::functions::SAHU_XORS.iter().enumerate() {
        let _ = writeln!(text, "#define KOEL_FKS_SAHU_XOR_{i} {number:#x}u");
    }
    for (name, word) in [
        ("SLOT_EMPTY", slot::EMPTY),
        ("TOMBSTONE", slot::TOMBSTONE),
        ("MIX_64_FIRST", hash::MIX_64[0]),
        ("MIX_64_SECOND", hash::MIX_64[1]),
        ("MIX_64_FIRST_INVERSE", hash::MIX_64_INVERSE[0]),
        ("MIX_64_SECOND_INVERSE", hash::MIX_64_INVERSE[1]),
        ("CLASSIC_EMPTY", classic::EMPTY),
        ("HORTON_NO_PROPOSAL", tokens::NO_PROPOSAL),
        ("ROBIN_HOOD_TOMBSTONE", robin_hood::cell::TOMBSTONE),
    ] {
        let _ = writeln!(text, "#define KOEL_{name} {word:#x}UL");
    }
    text
}

impl OpenCl {
    /// Returns the program of `source` with these parameters (`-DKOEL_<name>=<value>`), and builds it if it is not
    /// cached.
    pub(in crate::opencl) fn program(&self, source: Source, parameters: &[(&str, u32)]) -> Result<core::Program> {
        let mut options = "-cl-std=CL1.2".to_owned();
        if self.0.builder.is_some() {
            options += " -DKOEL_PARTIAL=1";
        }
        if self.is_watched() {
            // Oclgrind reports a race for every plain read of memory that others change by atomics, even if it is
            // harmless, so kernels with such reads use other code here. Oclgrind also interprets some optimised code
            // incorrectly: lookups in Horton tables lost keys, which the same kernel finds without optimisation and on
            // every other device.
            options += " -DKOEL_WATCHED=1 -cl-opt-disable";
        }
        for (name, value) in parameters {
            // A hint for compilers that support it: with fewer registers per work-item, more groups run at once.
            if *name == REGISTERS
                && self.0.info.extensions.iter().any(|extension| extension == "cl_nv_compiler_options")
            {
                let _ = write!(options, " -cl-nv-maxrregcount={value}");
            }
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

    /// The parameter that limits a program to `each` registers per work-item, if the compiler supports it. With fewer
    /// registers, more groups run at once.
    pub(in crate::opencl) fn registers(&self, each: u32) -> Option<(&'static str, u32)> {
        let listed = self.0.info.extensions.iter().any(|extension| extension == "cl_nv_compiler_options");
        listed.then_some((REGISTERS, each))
    }

    /// Whether the device is a simulator that detects races.
    fn is_watched(&self) -> bool {
        self.0.info.driver.contains("Oclgrind")
    }

    fn build(&self, source: Source, options: &str) -> Result<core::Program> {
        let mut text = numbers();
        for Source { name, text: part, .. } in [&SCHEME].into_iter().chain(source.needs).chain([&source]) {
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
            // ocl detects a failure by its log, and treats a failure without a log as a success.
            Ok(()) => match core::get_program_build_info(&program, self.0.device, ProgramBuildInfo::BuildStatus) {
                Ok(ProgramBuildInfoResult::BuildStatus(ProgramBuildStatus::Success)) => Ok(program),
                Ok(_) => Err(refused("the compiler failed and left no log".into())),
                Err(error) => Err(self.failed(doing(), error)),
            },
            Err(core::Error::ProgramBuild(error)) => Err(refused(without_banner(&error.to_string()))),
            Err(error) => Err(self.failed(doing(), error)),
        }
    }
}

/// Removes the lines of `####` that the crate adds around a build log.
fn without_banner(log: &str) -> String {
    let lines: Vec<_> = log.lines().filter(|line| !line.is_empty() && !line.starts_with("####")).collect();
    lines.join("\n")
}
