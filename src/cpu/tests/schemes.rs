//! Passes over tables of any scheme on threads, for the tests of each scheme. They panic on errors.

use crate::backend::scheme_tests::{self, SchemePlan, compare_lookups_with, find_all, with_and_without_outside};
use crate::backend::{HashBackend, Kernels, Placed};
use crate::cpu::Cpu;
use crate::scheme::Scheme as _;
use crate::scheme::hash::SplitMix64;

pub(in crate::cpu) type Pairs = Vec<(u32, u32)>;

/// CPUs with these numbers of threads.
pub(in crate::cpu) fn with_threads<const N: usize>(threads: [usize; N]) -> [Cpu; N] {
    threads.map(|threads| Cpu::with_threads(threads).expect("threads"))
}

pub(in crate::cpu) fn shuffled(mut pairs: Pairs, seed: u64) -> Pairs {
    let mut stream = SplitMix64::new(seed);
    for i in (1..pairs.len()).rev() {
        pairs.swap(i, stream.next_u64() as usize % (i + 1));
    }
    pairs
}

pub(in crate::cpu) fn keys_of(pairs: &[(u32, u32)]) -> Vec<u32> {
    pairs.iter().map(|&(key, _)| key).collect()
}

pub(in crate::cpu) fn columns<B: HashBackend>(cpu: &B, pairs: &[(u32, u32)]) -> (B::Buffer<u32>, B::Buffer<u32>) {
    let (keys, values): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    (cpu.upload(&keys).expect("memory"), cpu.upload(&values).expect("memory"))
}

pub(in crate::cpu) fn placed<B, P>(cpu: &B, plan: &P, image: &mut B::Buffer<u64>, pairs: &[(u32, u32)]) -> Placed
where
    B: Kernels<P::Scheme>,
    P: SchemePlan,
{
    let (keys, values) = columns(cpu, pairs);
    cpu.place(plan, image, &keys, &values).expect("placed")
}

/// The image after some batches, the first of them in an image with this word everywhere; and the last one's counts.
pub(in crate::cpu) fn built_over<B, P>(cpu: &B, word: u64, plan: &P, batches: &[&[(u32, u32)]]) -> (Vec<u64>, Placed)
where
    B: Kernels<P::Scheme>,
    P: SchemePlan,
{
    let mut image = cpu.filled(plan.words() as usize, word).expect("memory");
    let counted = batches.iter().map(|batch| placed(cpu, plan, &mut image, batch)).last();
    (cpu.download(&image).expect("memory"), counted.unwrap_or_default())
}

/// As [`built_over`], in an empty image.
pub(in crate::cpu) fn built<B, P>(cpu: &B, plan: &P, batches: &[&[(u32, u32)]]) -> (Vec<u64>, Placed)
where
    B: Kernels<P::Scheme>,
    P: SchemePlan,
{
    built_over(cpu, plan.empty_word(), plan, batches)
}

/// Compares the answers to these queries with the expected ones.
pub(in crate::cpu) fn answers<B, P>(cpu: &B, plan: &P, image: &[u64], queries: &[u32], expected: &[Option<u32>])
where
    B: Kernels<P::Scheme>,
    P: SchemePlan,
{
    let image = cpu.upload(image).expect("memory");
    compare_lookups_with(cpu, &cpu.info().driver, plan, &image, queries, expected).expect("looked up");
}

/// Every key of the pairs is found, with its value.
pub(in crate::cpu) fn all_are_found<B, P>(cpu: &B, plan: &P, image: &[u64], pairs: &[(u32, u32)])
where
    B: Kernels<P::Scheme>,
    P: SchemePlan,
{
    let values: Vec<_> = pairs.iter().map(|&(_, value)| Some(value)).collect();
    answers(cpu, plan, image, &keys_of(pairs), &values);
}

/// Compares lookups of various numbers of these queries, the last ones, with and without a sentinel pair.
pub(in crate::cpu) fn lookups_agree<B, P>(cpus: &[B], plan: &P, image: &[u64], queries: &[u32])
where
    B: Kernels<P::Scheme>,
    P: SchemePlan,
{
    for plan in with_and_without_outside(plan) {
        let expected = find_all(&plan, image, queries);
        for cpu in cpus {
            for len in [0, 1, 31, 32, 33, 127, 128, 129, 5000, queries.len()] {
                let from = queries.len() - len.min(queries.len());
                answers(cpu, &plan, image, &queries[from..], &expected[from..]);
            }
        }
    }
}

/// Compares the decoded columns of an image with this number of pairs.
pub(in crate::cpu) fn decoded<B, P>(cpus: &[B], plan: &P, image: &[u64], pairs: usize)
where
    B: Kernels<P::Scheme>,
    P: SchemePlan,
{
    let taken = |&cell: &u64| P::Scheme::pair(plan, image, cell).is_some();
    assert_eq!((0..plan.cells()).filter(taken).count(), pairs, "{plan:?}");
    for cpu in cpus {
        scheme_tests::compare_decoded(cpu, plan, &cpu.upload(image).expect("memory")).expect("decoded");
    }
}

/// Overwrites values in an image of these pairs.
pub(in crate::cpu) fn assigned<B, P>(cpus: &[B], plan: &P, image: &[u64], pairs: &[(u32, u32)])
where
    B: Kernels<P::Scheme>,
    P: SchemePlan,
{
    for cpu in cpus {
        let mut image = cpu.upload(image).expect("memory");
        scheme_tests::compare_assigned(cpu, plan, &mut image, &keys_of(pairs)).expect("assigned");
    }
}

/// Reads and changes images that no build creates.
pub(in crate::cpu) fn arbitrary_images<B, P>(cpu: &B, plan: &P, pairs: &[(u32, u32)], queries: &[u32])
where
    B: Kernels<P::Scheme>,
    P: SchemePlan,
{
    let (keys, values): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    let images = scheme_tests::arbitrary_images(plan, 8);
    let done = scheme_tests::arbitrary_images_are_read_and_changed(cpu, plan, &images, (&keys, &values), queries);
    done.expect("read and changed");
}

/// Counts pairs of the sentinel key, and compares lookups in tables with and without them.
pub(in crate::cpu) fn sentinel_pairs<B, P>(cpu: &B, plan: &P)
where
    B: Kernels<P::Scheme>,
    P: SchemePlan,
{
    let lookups =
        |plan: &P, image: &B::Buffer<u64>, queries: &[u32]| scheme_tests::compare_lookups(cpu, plan, image, queries);
    scheme_tests::the_sentinel_pair_is_stored_outside(cpu, plan, &lookups).expect("placed and looked up");
}
