//! Instructions of x86-64 for which koel was not compiled: types that prove that this processor has them, and all
//! `unsafe` code that calls them. On other processors, these types cannot be created.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_loadu_si256, _mm256_movemask_ps,
    _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_xor_si256, _mm512_loadu_si512, _mm512_set1_epi64,
    _mm512_testn_epi32_mask, _mm512_xor_si512,
};

use super::Lanes;

/// Whether the processor has all of these.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! has {
    ($($feature:tt)*) => { $(is_x86_feature_detected!($feature))&&* };
}
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
macro_rules! has {
    ($($feature:tt)*) => {
        false
    };
}

/// Defines the proof that a processor has some instructions.
macro_rules! proof {
    ($(#[$doc:meta])* $proof:ident: $features:literal, $($feature:tt)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(in crate::cpu) struct $proof(());

        impl $proof {
            /// Returns the proof if the processor has these instructions.
            pub(in crate::cpu) fn of_this_processor() -> Option<$proof> {
                has!($($feature)*).then_some($proof(()))
            }

            /// Runs `work`, compiled for these instructions as far as it is inlined.
            #[expect(unsafe_code, reason = "the compiler cannot know what the processor has")]
            #[inline(always)]
            pub(in crate::cpu) fn run<R>(self, work: impl FnOnce() -> R) -> R {
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = $features)]
                fn with_all<R>(work: impl FnOnce() -> R) -> R {
                    work()
                }
                #[cfg(not(target_arch = "x86_64"))]
                unsafe fn with_all<R>(work: impl FnOnce() -> R) -> R {
                    work()
                }
                // SAFETY: `self` exists only if the processor has all of them.
                unsafe { with_all(work) }
            }
        }
    };
}

proof! {
    /// AVX2, and the extensions that precede or accompany it.
    Avx2: "avx2,bmi1,bmi2,lzcnt,popcnt", "avx2" "bmi1" "bmi2" "lzcnt" "popcnt"
}

proof! {
    /// AVX-512 as in Intel's processors since Ice Lake and AMD's since Zen 4: older ones lower their clock for it.
    Avx512: "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2",
    "avx2" "bmi1" "bmi2" "lzcnt" "popcnt" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vbmi2"
}

impl Lanes for Avx2 {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the compiler cannot know what the processor has")]
    #[inline(always)]
    fn same(self, line: &[u64; 8], wanted: u64, care: u64) -> u32 {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn same(line: &[u64; 8], wanted: u64, care: u64) -> u32 {
            let (wanted, care) = (_mm256_set1_epi64x(wanted as i64), _mm256_set1_epi64x(care as i64));
            let half = |words: &[u64]| {
                // SAFETY: the load reads 32 bytes, the size of four words, at any alignment.
                let words = unsafe { _mm256_loadu_si256(words[..4].as_ptr().cast::<__m256i>()) };
                let apart = _mm256_and_si256(_mm256_xor_si256(words, wanted), care);
                _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(apart, _mm256_setzero_si256()))) as u32
            };
            half(&line[..4]) | half(&line[4..]) << 8
        }
        // SAFETY: `self` exists only if the processor has AVX2.
        unsafe { same(line, wanted, care) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn same(self, line: &[u64; 8], wanted: u64, care: u64) -> u32 {
        super::Portable.same(line, wanted, care)
    }
}

impl Lanes for Avx512 {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the compiler cannot know what the processor has")]
    #[inline(always)]
    fn same(self, line: &[u64; 8], wanted: u64, care: u64) -> u32 {
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn same(line: &[u64; 8], wanted: u64, care: u64) -> u32 {
            // SAFETY: the load reads 64 bytes, the size of `line`, at any alignment.
            let line = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
            let apart = _mm512_xor_si512(line, _mm512_set1_epi64(wanted as i64));
            _mm512_testn_epi32_mask(apart, _mm512_set1_epi64(care as i64)).into()
        }
        // SAFETY: `self` exists only if the processor has AVX-512.
        unsafe { same(line, wanted, care) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn same(self, line: &[u64; 8], wanted: u64, care: u64) -> u32 {
        super::Portable.same(line, wanted, care)
    }
}
