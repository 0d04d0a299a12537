//! Which instructions the hot loops use: those of this processor, in a program that was compiled for any.
//!
//! `wide` chooses its instructions when koel is compiled, and for a portable x86-64 program those are SSE2's, which
//! have no 32-bit product and no unsigned maximum. So the work of a chunk of keys is compiled twice, and which of the
//! two runs is asked of the processor:
//!
//! ```text
//! at_best(|| a chunk)     inlined into a function with AVX2 switched on, if the processor has it
//!                         inlined as it is, if not, or if koel was compiled for AVX2 anyway
//! ```
//!
//! What it is not: lanes of 256 bits. The types of `wide` stay pairs of 128-bit halves; but each half is then one
//! instruction where SSE2 needs several. That is most of what there is to gain (docs/performance/cpu.md).
//!
//! Whatever `work` calls must be inlined to take part, hence `#[inline(always)]` on closures and loops.

use std::sync::OnceLock;

use super::memory::Avx2;
use crate::tuning::tuning;

/// Runs `work` with the best instructions that there are. Worth it for a chunk of keys, not for one.
#[inline(always)]
pub(super) fn at_best<R>(work: impl FnOnce() -> R) -> R {
    match found() {
        Some(avx2) => avx2.run(work),
        None => work(),
    }
}

/// What the processor has and koel was not compiled for.
#[inline(always)]
fn found() -> Option<Avx2> {
    static FOUND: OnceLock<Option<Avx2>> = OnceLock::new();
    if cfg!(target_feature = "avx2") {
        return None;
    }
    *FOUND.get_or_init(|| {
        // `KOEL_CPU_LANES`.
        if tuning().compiled_lanes() { None } else { Avx2::of_this_processor() }
    })
}

/// What they are called.
pub(super) fn name() -> &'static str {
    if cfg!(target_feature = "avx2") || found().is_some() {
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
    use wide::u32x8;

    #[test]
    fn whatever_runs_computes_the_same() {
        let keys: [u32; 8] = std::array::from_fn(|i| (i as u32).wrapping_mul(0x9e37_79b9));
        let work = || reduce(mix(u32x8::new(keys), MixKeys::new(3, 5, 7)), 1000).to_array();
        let expected = keys.map(|key| reduce(mix(key, MixKeys::new(3, 5, 7)), 1000));
        assert_eq!((at_best(work), work()), (expected, expected));
        if let Some(avx2) = Avx2::of_this_processor() {
            assert_eq!(avx2.run(work), expected);
        }
        assert!(!name().is_empty());
    }
}
