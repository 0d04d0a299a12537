//! Devices with planted faults, to test koel's checks. Only with the feature `fault-injection`.
//!
//! `KOEL_FAULT` names a backend and a fault, such as `opencl:hash` or `cpu:drop`; `koel verify` must then exit with 1.
//! It wraps its devices in [`Faulty`], which changes the input or output of passes:
//!
//! ```text
//! hash    all passes use a plan with a wrong constant: results of the device are consistent with each other
//! stale   the image remains as it was before the batch
//! drop    the last pair of a batch is not placed
//! rows    one row is skipped when columns are marked, listed or aggregated
//! ```
//!
//! `KOEL_FAULT=atomics` does not name a backend: the self-test of 64-bit atomics fails on every OpenCL device.
//!
//! Faults within passes are not simulated, because backends do not contain code for faults.

use std::ffi::OsStr;

use crate::backend::{
    Accumulated, Answers, ChunkOf, DecodedOf, DeviceBuffer, DeviceInfo, Expanded, HashBackend, KeySlots, Ledger,
    Numbers, Passes, Piece, Placed, PlacedOf, Queries, Relational, Removed, Spans, Wanted, WideAccumulated, Word,
};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::shard::ShardOf;
use crate::scheme::{self, Key, Perfect, PerfectPlan, Plan, Request, Scheme};
use crate::sealed::Sealed;

/// The environment variable.
const VARIABLE: &str = "KOEL_FAULT";
const ADVICE: &str = "use atomics, or cpu: or opencl: and one of hash, stale, drop, rows";

/// A fault in the passes of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A constant of one hash function is wrong.
    Hash,
    /// The image remains as it was before the last batch.
    Stale,
    /// The last pair of a batch is not placed.
    Drop,
    /// One row is skipped when columns are marked, listed or aggregated.
    Rows,
}

impl Fault {
    const ALL: [(&str, Fault); 4] =
        [("hash", Fault::Hash), ("stale", Fault::Stale), ("drop", Fault::Drop), ("rows", Fault::Rows)];

    /// The fault that `said` specifies for the device with this id, if any.
    fn of(said: &OsStr, id: &str) -> Result<Option<Fault>> {
        if said == "atomics" {
            return Ok(None);
        }
        let parts = said.to_str().and_then(|said| said.split_once(':'));
        let named = parts.and_then(|(side, name)| Some((side, Fault::ALL.iter().find(|fault| fault.0 == name)?.1)));
        match named {
            Some((side @ ("cpu" | "opencl"), fault)) => Ok((id.split(':').next() == Some(side)).then_some(fault)),
            _ => Err(Error::parameter(VARIABLE, said.display(), ADVICE)),
        }
    }
}

/// Whether the self-test of 64-bit atomics must fail.
#[cfg(feature = "opencl")]
pub(crate) fn spoils_atomics() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|said| said == "atomics")
}

/// A backend, with or without a fault.
#[derive(Clone, Debug)]
pub struct Faulty<B> {
    inner: B,
    fault: Option<Fault>,
}

impl<B: HashBackend> Faulty<B> {
    /// Wraps a backend with the fault in `KOEL_FAULT`, if the variable names this backend.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if the fault is unknown.
    pub fn of_environment(inner: B) -> Result<Faulty<B>> {
        let fault = std::env::var_os(VARIABLE).map(|said| Fault::of(&said, &inner.info().id)).transpose()?.flatten();
        Ok(Faulty { inner, fault })
    }

    /// Runs a pass that places pairs: `stale` if the image must remain unchanged, otherwise `place`.
    fn placed<S: Scheme, R>(
        &self,
        plan: &S::Plan,
        keys: &B::Buffer<S::Key>,
        values: &B::Buffer<S::Value>,
        stale: impl FnOnce() -> Result<R>,
        place: impl FnOnce(&S::Plan, &B::Buffer<S::Key>, &B::Buffer<S::Value>) -> Result<R>,
    ) -> Result<R> {
        match self.fault {
            Some(Fault::Stale) => stale(),
            Some(Fault::Drop) => {
                let (keys, values) = (self.without_last(keys)?, self.without_last(values)?);
                // Sorted tables have a different plan for each number of pairs.
                place(&replanned(&S::from_plan(plan), plan, keys.len(), plan.seed())?, &keys, &values)
            }
            _ => place(plan, keys, values),
        }
    }

    /// The plan that a pass receives.
    fn plan<P: Plan>(&self, plan: &P, off: impl FnOnce(&P) -> Result<P>) -> Result<P> {
        if self.fault == Some(Fault::Hash) { off(plan) } else { Ok(*plan) }
    }

    /// The rows of a column that a pass processes.
    fn rows<T: Word>(&self, column: &B::Buffer<T>) -> Result<B::Buffer<T>> {
        if self.fault == Some(Fault::Rows) { self.without_last(column) } else { self.inner.clone_buffer(column) }
    }

    fn without_last<T: Word>(&self, column: &B::Buffer<T>) -> Result<B::Buffer<T>> {
        let mut rest = self.inner.unwritten(column.len().saturating_sub(1))?;
        self.inner.copy(column, 0, &mut rest, 0, column.len().saturating_sub(1))?;
        Ok(rest)
    }
}

/// A plan of the same attempt, but for other parameters, another number of pairs, or another seed.
fn replanned<S: Scheme>(scheme: &S, plan: &S::Plan, pairs: usize, seed: u64) -> Result<S::Plan> {
    let request = Request { slots: plan.requested_slots(), pairs: pairs as u64, seed, attempt: plan.attempt() };
    Ok(scheme.plan(request)?.with_rest_of(plan))
}

/// The plan with another seed, and therefore other constants. The chains of classic cuckoo tables get the length limit
/// of a full table, so that builds do not fail.
fn with_another_seed<S: Scheme>(plan: &S::Plan) -> Result<S::Plan> {
    replanned(&S::from_plan(plan), plan, plan.capacity() as usize, plan.seed() ^ 1)
}

/// The plan for a domain that is wider or narrower by one: the only constants of perfect tables are sizes.
fn with_another_width(plan: &PerfectPlan) -> Result<PerfectPlan> {
    let width = plan.width() ^ 1;
    let scheme = plan.height().map_or_else(|| Perfect::plane(width), |height| Perfect::volume(width, height));
    replanned(&scheme, plan, 0, plan.seed())
}

/// Makes a plan of a scheme with a wrong constant.
macro_rules! off {
    (Perfect) => {
        with_another_width
    };
    // Sorted tables have no hash functions.
    (Sorted) => {
        |plan| Ok(*plan)
    };
    ($scheme:ident) => {
        with_another_seed::<scheme::$scheme>
    };
}

impl<B: Sealed> Sealed for Faulty<B> {}

/// Forwards methods to the inner backend.
macro_rules! as_they_are {
    ($(
        fn $name:ident$(<$($T:ident: $bound:ident),+>)?(&self $(, $argument:ident: $type:ty)* $(,)?) -> $result:ty;
    )*) => {$(
        fn $name$(<$($T: $bound),+>)?(&self $(, $argument: $type)*) -> $result {
            self.inner.$name($($argument),*)
        }
    )*};
}

impl<B: HashBackend> HashBackend for Faulty<B> {
    type Buffer<T: Word> = B::Buffer<T>;

    as_they_are! {
        fn info(&self) -> &DeviceInfo;
        fn ledger(&self) -> &Ledger;
        fn filled<T: Word>(&self, len: usize, value: T) -> Result<B::Buffer<T>>;
        fn unwritten<T: Word>(&self, len: usize) -> Result<B::Buffer<T>>;
        fn upload<T: Word>(&self, data: &[T]) -> Result<B::Buffer<T>>;
        fn write<T: Word>(&self, buffer: &mut B::Buffer<T>, at: usize, data: &[T]) -> Result<()>;
        fn read<T: Word>(&self, buffer: &B::Buffer<T>, at: usize, data: &mut [T]) -> Result<()>;
        fn shares_memory(&self) -> bool;
        fn builder(&self) -> Option<&Cpu>;
        fn finish(&self) -> Result<()>;
        fn iota(&self, len: usize) -> Result<B::Buffer<u32>>;
        fn complement(&self, buffer: &mut B::Buffer<u32>) -> Result<()>;
        fn gather<T: Word>(&self, from: &B::Buffer<T>, index: &B::Buffer<u32>) -> Result<B::Buffer<T>>;
        fn greatest<T: Word>(&self, buffer: &B::Buffer<T>) -> Result<T>;
        fn select<T: Word>(&self, bits: &B::Buffer<u32>, keep: bool, column: &B::Buffer<T>) -> Result<B::Buffer<T>>;
        fn sort_pairs<K: Word, V: Word>(&self, keys: &B::Buffer<K>, values: &B::Buffer<V>)
            -> Result<(B::Buffer<K>, B::Buffer<V>)>;
    }

    fn copy<T: Word>(
        &self,
        from: &B::Buffer<T>,
        from_at: usize,
        to: &mut B::Buffer<T>,
        to_at: usize,
        len: usize,
    ) -> Result<()> {
        self.inner.copy(from, from_at, to, to_at, len)
    }

    fn select_pairs<K: Word, V: Word>(
        &self,
        bits: &B::Buffer<u32>,
        keep: bool,
        keys: &B::Buffer<K>,
        values: &B::Buffer<V>,
    ) -> Result<(B::Buffer<K>, B::Buffer<V>)> {
        self.inner.select_pairs(bits, keep, keys, values)
    }

    fn fetch<T: Word>(&self, to: &mut B::Buffer<T>, at: usize, pieces: &[Piece<'_, Self, T>]) -> Result<()> {
        let of_inner = pieces.iter().map(|piece| {
            let &Piece { device, buffer, ref range } = piece;
            Piece { device: &device.inner, buffer, range: range.clone() }
        });
        self.inner.fetch(to, at, &of_inner.collect::<Vec<_>>())
    }

    fn in_pairs<K: Word, V: Word>(
        &self,
        keys: &[K],
        values: &[V],
        rows: usize,
        pass: impl FnMut(B::Buffer<K>, B::Buffer<V>) -> Result<()>,
    ) -> Result<()> {
        self.inner.in_pairs(keys, values, rows, pass)
    }

    fn in_chunks<Q: Word, A: Word>(
        &self,
        queries: Queries<'_, Q>,
        answers: Answers<'_, A>,
        pass: impl FnMut(ChunkOf<Self, Q, A>) -> Result<ChunkOf<Self, Q, A>>,
    ) -> Result<()> {
        self.inner.in_chunks(queries, answers, pass)
    }
}

impl<B: Relational> Relational for Faulty<B> {
    as_they_are! {
        fn heads<T: Word>(&self, column: &B::Buffer<T>) -> Result<B::Buffer<u32>>;
        fn tails<T: Word>(&self, column: &B::Buffer<T>) -> Result<B::Buffer<u32>>;
        fn ranks(&self, bits: &B::Buffer<u32>, len: usize) -> Result<B::Buffer<u32>>;
        fn shards<K: Key>(&self, keys: &B::Buffer<K>, which: &ShardOf) -> Result<B::Buffer<u32>>;
        fn scatter<T: Word>(&self, values: &B::Buffer<T>, places: &B::Buffer<u32>, len: usize) -> Result<B::Buffer<T>>;
        fn offsets(&self, counts: &B::Buffer<u32>) -> Result<B::Buffer<u64>>;
        fn key_slots<K: Key>(
            &self,
            keys: &B::Buffer<K>,
            bits: u32,
        ) -> Result<Option<KeySlots<B::Buffer<u32>>>>;
    }

    fn mark(&self, places: &B::Buffer<u32>, len: usize) -> Result<B::Buffer<u32>> {
        self.inner.mark(&self.rows(places)?, len)
    }

    fn spans(
        &self,
        starts: &B::Buffer<u32>,
        ids: &B::Buffer<u32>,
        found: &B::Buffer<u32>,
        missing: Option<u32>,
    ) -> Result<Spans<B::Buffer<u32>>> {
        self.inner.spans(starts, ids, found, missing)
    }

    fn expand(
        &self,
        offsets: &B::Buffer<u64>,
        starts: &B::Buffer<u32>,
        first: u64,
        len: usize,
    ) -> Result<Expanded<B::Buffer<u32>>> {
        let passed_over = u64::from(self.fault == Some(Fault::Rows));
        self.inner.expand(offsets, starts, first.saturating_add(passed_over), len)
    }

    fn accumulate(
        &self,
        ids: &B::Buffer<u32>,
        values: &B::Buffer<u32>,
        groups: usize,
        wanted: Wanted,
    ) -> Result<Accumulated<Self>> {
        let Accumulated { counts, sums, least, greatest } =
            self.inner.accumulate(&self.rows(ids)?, &self.rows(values)?, groups, wanted)?;
        Ok(Accumulated { counts, sums, least, greatest })
    }

    fn accumulate_wide(
        &self,
        ids: &B::Buffer<u32>,
        values: &B::Buffer<u64>,
        of: Numbers,
        groups: usize,
        wanted: Wanted,
    ) -> Result<WideAccumulated<Self>> {
        let WideAccumulated { counts, sums, means, least, greatest, overflow } =
            self.inner.accumulate_wide(&self.rows(ids)?, &self.rows(values)?, of, groups, wanted)?;
        Ok(WideAccumulated { counts, sums, means, least, greatest, overflow })
    }

    fn interleave(
        &self,
        cells: &B::Buffer<u64>,
        lower: &B::Buffer<u32>,
        bits: &B::Buffer<u32>,
        empty: u64,
    ) -> Result<B::Buffer<u64>> {
        self.inner.interleave(cells, lower, bits, empty)
    }
}

/// The passes of a scheme, with its type parameters and their bounds, if any, and the expression for a wrong plan.
macro_rules! faulty_passes {
    (($($parameters:tt)*) $scheme:ty, ($($bounds:tt)*), $off:expr) => {
        impl<B: Passes<$scheme>, $($parameters)*> Passes<$scheme> for Faulty<B> $($bounds)* {
            fn build(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                keys: &B::Buffer<<$scheme as Scheme>::Key>,
                values: &B::Buffer<<$scheme as Scheme>::Value>,
            ) -> Result<(B::Buffer<u64>, PlacedOf<$scheme>)> {
                let plan = &self.plan(plan, $off)?;
                let stale = || Ok((self.filled(plan.word_count()?, plan.empty_word())?, Placed::default()));
                self.placed::<$scheme, _>(plan, keys, values, stale, |plan, keys, values| {
                    Passes::<$scheme>::build(&self.inner, plan, keys, values)
                })
            }
            fn extended(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &B::Buffer<u64>,
                keys: &B::Buffer<<$scheme as Scheme>::Key>,
                values: &B::Buffer<<$scheme as Scheme>::Value>,
            ) -> Result<(B::Buffer<u64>, PlacedOf<$scheme>)> {
                let plan = &self.plan(plan, $off)?;
                let stale = || Ok((self.clone_buffer(image)?, Placed::default()));
                self.placed::<$scheme, _>(plan, keys, values, stale, |plan, keys, values| {
                    Passes::<$scheme>::extended(&self.inner, plan, image, keys, values)
                })
            }
            fn place(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &mut B::Buffer<u64>,
                keys: &B::Buffer<<$scheme as Scheme>::Key>,
                values: &B::Buffer<<$scheme as Scheme>::Value>,
            ) -> Result<PlacedOf<$scheme>> {
                let plan = &self.plan(plan, $off)?;
                let stale = || Ok(Placed::default());
                self.placed::<$scheme, _>(plan, keys, values, stale, |plan, keys, values| {
                    Passes::<$scheme>::place(&self.inner, plan, image, keys, values)
                })
            }
            fn lookup(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &B::Buffer<u64>,
                queries: &B::Buffer<<$scheme as Scheme>::Key>,
                values: &mut B::Buffer<<$scheme as Scheme>::Value>,
                found: &mut B::Buffer<u32>,
            ) -> Result<()> {
                let plan = &self.plan(plan, $off)?;
                Passes::<$scheme>::lookup(&self.inner, plan, image, queries, values, found)
            }
            fn contains(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &B::Buffer<u64>,
                queries: &B::Buffer<<$scheme as Scheme>::Key>,
            ) -> Result<B::Buffer<u32>> {
                let plan = &self.plan(plan, $off)?;
                Passes::<$scheme>::contains(&self.inner, plan, image, queries)
            }
            fn assign(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &mut B::Buffer<u64>,
                keys: &B::Buffer<<$scheme as Scheme>::Key>,
                values: &B::Buffer<<$scheme as Scheme>::Value>,
            ) -> Result<()> {
                let plan = &self.plan(plan, $off)?;
                Passes::<$scheme>::assign(&self.inner, plan, image, keys, values)
            }
            fn decode(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &B::Buffer<u64>,
            ) -> Result<DecodedOf<B, $scheme>> {
                let plan = &self.plan(plan, $off)?;
                Passes::<$scheme>::decode(&self.inner, plan, image)
            }
            fn remove(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &mut B::Buffer<u64>,
                keys: &B::Buffer<<$scheme as Scheme>::Key>,
            ) -> Result<Removed> {
                let plan = &self.plan(plan, $off)?;
                Passes::<$scheme>::remove(&self.inner, plan, image, keys)
            }
            fn lift(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &mut B::Buffer<u64>,
            ) -> Result<DecodedOf<B, $scheme>> {
                let plan = &self.plan(plan, $off)?;
                Passes::<$scheme>::lift(&self.inner, plan, image)
            }
        }
    };
}

macro_rules! faulty_passes_of_registry {
    ($($module:ident, $scheme:ident, $name:literal;)*) => {
        $(faulty_passes! { () scheme::$scheme, (), off!($scheme) })*
    };
}
crate::for_each_scheme!(faulty_passes_of_registry);
macro_rules! faulty_passes_of_wide {
    ($($scheme:ident),*) => {$(
        faulty_passes! {
            (K: Column, V: Column) scheme::$scheme<K, V>,
            (where (K, V): Layout),
            with_another_seed::<scheme::$scheme<K, V>>
        }
    )*};
}
faulty_passes_of_wide!(BucketizedOf, RobinHoodOf);
macro_rules! faulty_passes_of_signposts {
    ($(($key:ty, $value:ty))*) => {$(
        faulty_passes! {
            () scheme::SignpostOf<$key, $value>, (), with_another_seed::<scheme::SignpostOf<$key, $value>>
        }
    )*};
}
faulty_passes_of_signposts!((u64, u64)(u64, u32)(u32, u64)(u64, ())(u32, ()));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_apply_to_one_side_and_unknown_ones_are_refused() -> Result<()> {
        let of = |said: &str, id| Fault::of(OsStr::new(said), id);
        assert_eq!(of("cpu:drop", "cpu")?, Some(Fault::Drop));
        assert_eq!(of("opencl:hash", "opencl:1")?, Some(Fault::Hash));
        assert_eq!(of("opencl:hash", "cpu")?, None);
        assert_eq!(of("atomics", "opencl:0")?, None);
        for none in ["", "drop", "cpu:", "cpu:atomics", "gpu:drop", "cpu:drop,stale"] {
            assert!(matches!(of(none, "cpu"), Err(Error::InvalidParameter { .. })), "{none}");
        }
        Ok(())
    }
}
