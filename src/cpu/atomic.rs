//! Operations on words that threads share. Passes are generic over the type of the word, so that a model checker's type
//! can replace the processor's: `RUSTFLAGS="--cfg loom" cargo test -p koel --no-default-features --lib loom_` runs the
//! code of builds in every interleaving of two threads.
//!
//! The type is not chosen at run time. A build of the library has one type per width.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A word shared by threads.
pub(super) trait Atomic: Sync {
    /// The type of its content.
    type Word: Copy + Ord;

    fn load(&self, order: Ordering) -> Self::Word;

    /// Stores a word, in no order.
    fn store(&self, word: Self::Word);

    fn compare_exchange(
        &self,
        current: Self::Word,
        new: Self::Word,
        success: Ordering,
        failure: Ordering,
    ) -> Result<Self::Word, Self::Word>;

    fn compare_exchange_weak(
        &self,
        current: Self::Word,
        new: Self::Word,
        success: Ordering,
        failure: Ordering,
    ) -> Result<Self::Word, Self::Word>;

    fn fetch_or(&self, bits: Self::Word, order: Ordering) -> Self::Word;
}

macro_rules! atomic {
    ($($atomic:ty, $word:ty;)*) => {
        $(impl Atomic for $atomic {
            type Word = $word;

            #[inline(always)]
            fn load(&self, order: Ordering) -> $word {
                <$atomic>::load(self, order)
            }

            #[inline(always)]
            fn store(&self, word: $word) {
                <$atomic>::store(self, word, Ordering::Relaxed);
            }

            #[inline(always)]
            fn compare_exchange(
                &self,
                current: $word,
                new: $word,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$word, $word> {
                <$atomic>::compare_exchange(self, current, new, success, failure)
            }

            #[inline(always)]
            fn compare_exchange_weak(
                &self,
                current: $word,
                new: $word,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$word, $word> {
                <$atomic>::compare_exchange_weak(self, current, new, success, failure)
            }

            #[inline(always)]
            fn fetch_or(&self, bits: $word, order: Ordering) -> $word {
                <$atomic>::fetch_or(self, bits, order)
            }
        })*
    };
}

atomic! {
    AtomicU64, u64;
    AtomicU32, u32;
}

/// Words of the model checker: sound ones, and ones with planted faults, which the tests must detect.
#[cfg(all(test, loom))]
pub(super) mod modelled {
    use super::{Atomic, Ordering};

    /// A word in loom's model.
    pub(in crate::cpu) type Sound = loom::sync::atomic::AtomicU64;

    atomic! { Sound, u64; }

    /// A word of the model, sound or not.
    pub(in crate::cpu) trait Modelled: Atomic<Word = u64> + Send + 'static {
        fn of(word: u64) -> Self;
    }

    impl Modelled for Sound {
        fn of(word: u64) -> Self {
            Sound::new(word)
        }
    }

    /// A word with planted faults.
    pub(in crate::cpu) struct Weak<const SPLIT: bool, const BLIND: bool, const LOST: bool>(Sound);

    /// Exchanges in two steps, between which another thread's exchange can happen.
    pub(in crate::cpu) type Split = Weak<true, false, false>;
    /// Exchanges without checking whether the word has changed since it was read.
    pub(in crate::cpu) type Blind = Weak<false, true, false>;
    /// Sets bits in two steps.
    pub(in crate::cpu) type Lost = Weak<false, false, true>;

    impl<const SPLIT: bool, const BLIND: bool, const LOST: bool> Modelled for Weak<SPLIT, BLIND, LOST> {
        fn of(word: u64) -> Self {
            Weak(Sound::new(word))
        }
    }

    impl<const SPLIT: bool, const BLIND: bool, const LOST: bool> Atomic for Weak<SPLIT, BLIND, LOST> {
        type Word = u64;

        fn load(&self, order: Ordering) -> u64 {
            self.0.load(order)
        }

        fn store(&self, word: u64) {
            self.0.store(word, Ordering::Relaxed);
        }

        fn compare_exchange(&self, current: u64, new: u64, success: Ordering, failure: Ordering) -> Result<u64, u64> {
            if BLIND {
                self.0.swap(new, success);
                return Ok(current);
            }
            if SPLIT {
                let there = self.0.load(failure);
                if there == current {
                    self.0.store(new, Ordering::Relaxed);
                    return Ok(current);
                }
                return Err(there);
            }
            self.0.compare_exchange(current, new, success, failure)
        }

        fn compare_exchange_weak(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            Atomic::compare_exchange(self, current, new, success, failure)
        }

        fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
            if LOST {
                let there = self.0.load(order);
                self.0.store(there | bits, order);
                return there;
            }
            self.0.fetch_or(bits, order)
        }
    }
}
