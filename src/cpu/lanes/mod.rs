//! Selects the instructions of the hot loops at run time, in a program that was compiled for any x86-64 processor.
//!
//! `wide` selects its instructions when koel is compiled. For a portable x86-64 program these are SSE2's, which have no
//! 32-bit product and no unsigned maximum. So the work of a chunk of keys is compiled several times, and the version to
//! run is selected by the features of the processor:
//!
//! ```text
//! at_best(|| a chunk)             inlined into a function with AVX2 enabled, if the processor has it;
//!                                 inlined as it is otherwise, or if koel was compiled for AVX2
//! with_lanes!(lanes => a chunk)   the same, and into a function with AVX-512; `lanes` compares 64-byte lines with the
//!                                 instructions of that version
//! ```
//!
//! `at_best` is for loops that hash: the types of `wide` remain pairs of 128-bit halves, but each operation on a half
//! is one instruction, where SSE2 needs several. That is most of the possible gain. Loops that compare lines gain more
//! from [`Lanes`]: a line is one register of AVX-512, and its comparison takes three instructions
//! (docs/performance/cpu.md).
//!
//! Everything that the work calls must be inlined to be compiled with these instructions, hence `#[inline(always)]` on
//! closures and loops.

pub(super) mod x86;

use std::sync::OnceLock;

use wide::u32x16;

use self::x86::{Avx2, Avx512};
use crate::tuning::tuning;

/// Compares a 64-byte line, with some set of instructions.
pub(super) trait Lanes: Copy {
    /// Compares each of the sixteen 32-bit lanes of a line with its lane of `[wanted; 8]`, in all bits of `[care; 8]`.
    /// The result has a bit for each lane that is equal.
    fn same(self, line: &[u64; 8], wanted: u64, care: u64) -> u32;
}

/// The lanes of `wide`, compiled to the instructions of the enclosing function. They have 32 bits, because every
/// instruction set compares such lanes, and SSE2 does not compare wider ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

impl Lanes for Portable {
    #[inline(always)]
    fn same(self, line: &[u64; 8], wanted: u64, care: u64) -> u32 {
        let everywhere = |word: u64| bytemuck::cast::<_, u32x16>([word; 8]);
        // In the order of a little-endian array.
        let line = if cfg!(target_endian = "big") { line.map(|word| word.rotate_left(32)) } else { *line };
        let (wanted, care) =
            if cfg!(target_endian = "big") { (wanted.rotate_left(32), care.rotate_left(32)) } else { (wanted, care) };
        ((bytemuck::cast::<_, u32x16>(line) ^ everywhere(wanted)) & everywhere(care)).simd_eq(u32x16::ZERO).to_bitmask()
    }
}

/// Runs `work` with the best instructions available, except for AVX-512. Worthwhile for a chunk of keys, not for one.
#[inline(always)]
pub(super) fn at_best<R>(work: impl FnOnce() -> R) -> R {
    match found().avx2 {
        Some(avx2) if !cfg!(target_feature = "avx2") => avx2.run(work),
        _ => work(),
    }
}

/// Runs `$work` with the best instructions available, and `$lanes` of these instructions.
macro_rules! with_lanes {
    ($lanes:ident => $work:expr) => {
        match $crate::cpu::lanes::found() {
            $crate::cpu::lanes::Found { avx512: Some($lanes), .. } => $lanes.run(
                #[inline(always)]
                || $work,
            ),
            $crate::cpu::lanes::Found { avx2: Some($lanes), .. } => $lanes.run(
                #[inline(always)]
                || $work,
            ),
            _ => {
                let $lanes = $crate::cpu::lanes::Portable;
                $work
            }
        }
    };
}
pub(super) use with_lanes;

/// The features of the processor that koel uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) avx2: Option<Avx2>,
    pub(super) avx512: Option<Avx512>,
}

/// Detected once.
#[inline(always)]
pub(super) fn found() -> Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // `KOEL_CPU_LANES`.
        if tuning().compiled_lanes() {
            return Found { avx2: None, avx512: None };
        }
        Found { avx2: Avx2::of_this_processor(), avx512: Avx512::of_this_processor() }
    })
}

/// The name of the instructions.
pub(super) fn name() -> &'static str {
    let Found { avx2, avx512 } = found();
    if avx512.is_some() {
        "AVX-512"
    } else if cfg!(target_feature = "avx2") || avx2.is_some() {
        "AVX2"
    } else if cfg!(target_feature = "sse2") {
        "SSE2"
    } else if cfg!(target_feature = "neon") {
        "NEON"
    } else {
        "scalar"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::hash::{MixKeys, mix, reduce};
    use quickcheck::quickcheck;
    use wide::u32x8;

    #[test]
    fn all_lanes_compute_the_same() {
        let keys: [u32; 8] = std::array::from_fn(|i| (i as u32).wrapping_mul(0x9e37_79b9));
        let work = || reduce(mix(u32x8::new(keys), MixKeys::new(3, 5, 7)), 1000).to_array();
        let expected = keys.map(|key| reduce(mix(key, MixKeys::new(3, 5, 7)), 1000));
        assert_eq!((at_best(work), work()), (expected, expected));
        assert_eq!(with_lanes!(_lanes => work()), expected);
        if let Some(avx2) = Avx2::of_this_processor() {
            assert_eq!(avx2.run(work), expected);
        }
        if let Some(avx512) = Avx512::of_this_processor() {
            assert_eq!(avx512.run(work), expected);
        }
        assert!(!name().is_empty());
    }

    quickcheck! {
        /// Each implementation for this processor, compared with a loop over the lanes.
        fn lanes_agree(noise: Vec<u64>, wanted: u64, care: u64) -> bool {
            // Lanes that differ in few bits, so that many agree.
            let line: [u64; 8] =
                std::array::from_fn(|i| noise.get(i).map_or(wanted, |bits| wanted ^ (1 << (bits % 64) & bits)));
            let care = if care.is_multiple_of(3) { u64::MAX } else { care | care << 7 };
            let expected = (0..16).fold(0, |bits, lane| {
                let apart = (line[lane / 2] ^ wanted) & care;
                bits | u32::from((apart >> (lane % 2 * 32)) as u32 == 0) << lane
            });
            let avx2 = Avx2::of_this_processor().is_none_or(|lanes| lanes.same(&line, wanted, care) == expected);
            let avx512 = Avx512::of_this_processor().is_none_or(|lanes| lanes.same(&line, wanted, care) == expected);
            Portable.same(&line, wanted, care) == expected && avx2 && avx512
        }
    }
}
