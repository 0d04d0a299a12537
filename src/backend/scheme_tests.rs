//! Cases for every backend and every scheme of 32-bit keys and values: passes compared with the scheme's own rule. For
//! keys or values of 64 bits see `wide_tests.rs`.

use std::collections::HashMap;

use super::{Decoded, HashBackend, Kernels, Placed, Removed, bitmap_words};
use crate::error::Result;
use crate::for_each_scheme;
use crate::scheme::{self, Audit, Placing, Plan, Scheme, Updates};

/// A plan, and its scheme: a function of a plan needs no type arguments.
pub(crate) trait SchemePlan: Plan<Key = u32, Value = u32> {
    type Scheme: Scheme<Key = u32, Value = u32, Plan = Self>;
}

macro_rules! plans {
    ($($module:ident, $scheme:ident, $name:literal;)*) => {
        $(impl SchemePlan for <scheme::$scheme as Scheme>::Plan {
            type Scheme = scheme::$scheme;
        })*
    };
}
for_each_scheme!(plans);

/// What an image contains before a build that overwrites all of it.
pub(crate) const POISON: u64 = 0xdead_beef_dead_beef;

/// Pairs of columns.
pub(crate) fn zipped(keys: &[u32], values: &[u32]) -> Vec<(u32, u32)> {
    keys.iter().copied().zip(values.iter().copied()).collect()
}

/// The bitmap of the answers that are hits.
pub(crate) fn bitmap(answers: &[Option<u32>]) -> Vec<u32> {
    let mut bits = vec![0; bitmap_words(answers.len())];
    answers.iter().enumerate().for_each(|(i, answer)| bits[i / 32] |= u32::from(answer.is_some()) << (i % 32));
    bits
}

/// The counts of a build that places all of these pairs.
pub(crate) fn counted(pairs: &[(u32, u32)]) -> Placed {
    let mut keys: Vec<u32> = pairs.iter().map(|&(key, _)| key).collect();
    keys.sort_unstable();
    let mut duplicates = keys.windows(2).filter(|two| two[0] == two[1]).map(|two| two[0]);
    let least_duplicate = duplicates.next();
    let count = duplicates.count() as u64 + u64::from(least_duplicate.is_some());
    Placed { duplicates: count, least_duplicate, ..Placed::default() }
}

/// The image of the rule, and its result.
pub(crate) fn sequential<P: SchemePlan>(plan: &P, pairs: &[(u32, u32)]) -> (Vec<u64>, Placing) {
    let mut image = vec![plan.empty_word(); plan.words() as usize];
    let placing = P::Scheme::place(plan, &mut image, pairs);
    (image, placing)
}

/// The image of the rule, if all pairs fit.
pub(crate) fn reference<P: SchemePlan>(plan: &P, keys: &[u32], values: &[u32]) -> Option<Vec<u64>> {
    let (image, placing) = sequential(plan, &zipped(keys, values));
    (placing != Placing::Unplaced).then_some(image)
}

/// The value of each key, by the rule.
pub(crate) fn find_all<P: SchemePlan>(plan: &P, image: &[u64], queries: &[u32]) -> Vec<Option<u32>> {
    queries.iter().map(|&query| P::Scheme::find(plan, image, query)).collect()
}

/// The audit of an image that must be sound.
pub(crate) fn audited<P: SchemePlan>(plan: &P, image: &[u64]) -> Audit {
    P::Scheme::audit(plan, image, 0..plan.cells()).unwrap_or_else(|error| panic!("{plan:?}: {error}"))
}

/// The plan without a sentinel pair, and with several ones if there is a sentinel key.
pub(crate) fn with_and_without_outside<P: SchemePlan>(plan: &P) -> Vec<P> {
    let values = [None, Some(0), Some(u32::MAX)];
    let values = values.into_iter().filter(|value| value.is_none() || plan.outside_key().is_some());
    values.map(|value| plan.with_outside(value)).collect()
}

/// Images that no build creates: noise, and constants.
pub(crate) fn arbitrary_images(plan: &impl Plan, seed: u64) -> [Vec<u64>; 5] {
    let words = plan.words() as usize;
    let [zeros, ones, tops, lows] = [0, u64::MAX, 1 << 63, 1].map(|word| vec![word; words]);
    [super::wide_tests::noise(seed, words), zeros, ones, tops, lows]
}

pub(crate) fn empty<B: HashBackend>(backend: &B, plan: &impl Plan) -> Result<B::Buffer<u64>> {
    backend.filled(plan.words() as usize, plan.empty_word())
}

pub(crate) fn place<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    plan: &P,
    image: &mut B::Buffer<u64>,
    keys: &[u32],
    values: &[u32],
) -> Result<Placed> {
    Kernels::<P::Scheme>::place(backend, plan, image, &backend.upload(keys)?, &backend.upload(values)?)
}

pub(crate) fn assign<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    plan: &P,
    image: &mut B::Buffer<u64>,
    keys: &[u32],
    values: &[u32],
) -> Result<()> {
    Kernels::<P::Scheme>::assign(backend, plan, image, &backend.upload(keys)?, &backend.upload(values)?)
}

pub(crate) fn remove<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    plan: &P,
    image: &mut B::Buffer<u64>,
    keys: &[u32],
) -> Result<Removed> {
    Kernels::<P::Scheme>::remove(backend, plan, image, &backend.upload(keys)?)
}

/// Places pairs in an image with this word everywhere.
pub(crate) fn place_over<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    word: u64,
    plan: &P,
    keys: &[u32],
    values: &[u32],
) -> Result<(B::Buffer<u64>, Placed)> {
    let mut image = backend.filled(plan.words() as usize, word)?;
    let placed = place(backend, plan, &mut image, keys, values)?;
    Ok((image, placed))
}

/// Places pairs in an empty image.
pub(crate) fn place_in_empty<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    plan: &P,
    keys: &[u32],
    values: &[u32],
) -> Result<(B::Buffer<u64>, Placed)> {
    let mut image = empty(backend, plan)?;
    let placed = place(backend, plan, &mut image, keys, values)?;
    Ok((image, placed))
}

/// The plan, the image and the counts of a build.
pub(crate) type Built<B, P> = (P, <B as HashBackend>::Buffer<u64>, Placed);

/// The first attempt that places all pairs.
pub(crate) fn build<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    plan: &dyn Fn(u32) -> P,
    keys: &[u32],
    values: &[u32],
) -> Result<Built<B, P>> {
    for plan in (0..40).map(plan) {
        let (image, placed) = place_in_empty(backend, &plan, keys, values)?;
        if placed.unplaced == 0 {
            return Ok((plan, image, placed));
        }
    }
    panic!("{:?}: no attempt places {} pairs", plan(0), keys.len());
}

/// As [`build`]; attempts fail exactly if they fail by the rule, and the image is that of the rule.
pub(crate) fn build_as_by_the_rule<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    plan: &dyn Fn(u32) -> P,
    keys: &[u32],
    values: &[u32],
) -> Result<Built<B, P>> {
    let built = build(backend, plan, keys, values)?;
    let of_rule = (0..40).map(plan).find_map(|plan| Some((plan, reference(&plan, keys, values)?)));
    let (plan, image) = of_rule.expect("an attempt that succeeds by the rule");
    assert_eq!(built.0, plan, "{} pairs: the first attempt that places them", keys.len());
    assert!(backend.download(&built.1)? == image, "{plan:?}, {} pairs", keys.len());
    Ok(built)
}

/// A lookup of queries, into values and a bitmap.
pub(crate) type Lookup<'a, B> = &'a dyn Fn(
    &<B as HashBackend>::Buffer<u32>,
    &mut <B as HashBackend>::Buffer<u32>,
    &mut <B as HashBackend>::Buffer<u32>,
) -> Result<()>;

/// Runs a lookup into buffers with other contents, and compares the values and the bitmap with the expected answers.
pub(crate) fn compare_answers<B: HashBackend>(
    backend: &B,
    what: &str,
    queries: &[u32],
    expected: &[Option<u32>],
    lookup: Lookup<'_, B>,
) -> Result<()> {
    let mut values = backend.filled(queries.len(), POISON as u32)?;
    let mut found = backend.filled(bitmap_words(queries.len()), POISON as u32)?;
    lookup(&backend.upload(queries)?, &mut values, &mut found)?;
    for ((query, value), expected) in queries.iter().zip(backend.download(&values)?).zip(expected) {
        assert_eq!(value, expected.unwrap_or(0), "{what}: value of {query}");
    }
    assert_eq!(backend.download(&found)?, bitmap(expected), "{what}");
    Ok(())
}

/// Compares lookups with the expected answers: values with a bitmap, and the bitmap alone.
pub(crate) fn compare_lookups_with<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    what: &str,
    plan: &P,
    image: &B::Buffer<u64>,
    queries: &[u32],
    expected: &[Option<u32>],
) -> Result<()> {
    let what = format!("{plan:?}, {what}");
    compare_answers(backend, &what, queries, expected, &|queries, values, found| {
        Kernels::<P::Scheme>::lookup(backend, plan, image, queries, values, found)
    })?;
    let bits = Kernels::<P::Scheme>::contains(backend, plan, image, &backend.upload(queries)?)?;
    assert_eq!(backend.download(&bits)?, bitmap(expected), "{what}, bits alone");
    Ok(())
}

/// Compares each answer with that of the rule in the same image.
pub(crate) fn compare_lookups<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    plan: &P,
    image: &B::Buffer<u64>,
    queries: &[u32],
) -> Result<()> {
    let expected = find_all(plan, &backend.download(image)?, queries);
    compare_lookups_with(backend, "lookups", plan, image, queries, &expected)
}

/// Compares columns of pairs with the expected pair of each cell.
pub(crate) fn compare_columns<B: HashBackend>(
    backend: &B,
    plan: &impl Plan,
    columns: &Decoded<B::Buffer<u32>>,
    expected: &dyn Fn(u64) -> Option<(u32, u32)>,
) -> Result<()> {
    let (keys, values) = (backend.download(&columns.keys)?, backend.download(&columns.values)?);
    let (taken, cells) = (backend.download(&columns.taken)?, plan.cells() as usize);
    assert_eq!((keys.len(), values.len(), taken.len()), (cells, cells, bitmap_words(cells)));
    for at in 0..taken.len() * 32 {
        let pair = if at < cells { expected(at as u64) } else { None };
        assert_eq!(taken[at / 32] >> (at % 32) & 1 == 1, pair.is_some(), "{plan:?}, cell {at}");
        if at < cells {
            assert_eq!((keys[at], values[at]), pair.unwrap_or((0, 0)), "{plan:?}, cell {at}");
        }
    }
    Ok(())
}

/// Decodes an image, and compares with the pair in each cell.
pub(crate) fn compare_decoded<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    plan: &P,
    image: &B::Buffer<u64>,
) -> Result<()> {
    let words = backend.download(image)?;
    let columns = Kernels::<P::Scheme>::decode(backend, plan, image)?;
    compare_columns(backend, plan, &columns, &|at| P::Scheme::pair(plan, &words, at))
}

/// Overwrites the values of two thirds of `keys`, all keys of the table, and tries to overwrite those of absent keys.
/// Nothing else in the image changes.
pub(crate) fn compare_assigned<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    plan: &P,
    image: &mut B::Buffer<u64>,
    keys: &[u32],
) -> Result<()> {
    let (before, limits) = (backend.download(image)?, P::Scheme::from_plan(plan).limits());
    let noise: Vec<u32> = super::wide_tests::noise(5, 200);
    let candidates = noise.into_iter().chain(2_000_000_000..2_000_000_050).chain([3, u32::MAX]);
    let absent: Vec<u32> = candidates.filter(|&key| P::Scheme::find(plan, &before, key).is_none()).collect();
    assert!(absent.len() > 200, "{plan:?}: absent keys");
    let chosen = keys.iter().copied().enumerate().filter(|(i, _)| i % 3 != 0).map(|(_, key)| key);
    let changed: Vec<u32> = absent.into_iter().chain(chosen).collect();
    let new: Vec<u32> = changed.iter().map(|key| !key & limits.greatest_value()).collect();
    assign(backend, plan, image, &changed, &new)?;
    let after = backend.download(image)?;

    let new: HashMap<u32, u32> = changed.into_iter().zip(new).collect();
    for &key in keys {
        let old = P::Scheme::find(plan, &before, key);
        let expected = if Some(key) == plan.outside_key() { old } else { new.get(&key).copied().or(old) };
        assert_eq!(P::Scheme::find(plan, &after, key), expected, "{plan:?}: value of {key}");
    }
    let mut pairs_changed = 0;
    for at in 0..plan.cells() {
        let (old, found) = (P::Scheme::pair(plan, &before, at), P::Scheme::pair(plan, &after, at));
        assert_eq!(found, old.map(|(key, value)| (key, *new.get(&key).unwrap_or(&value))), "{plan:?}, cell {at}");
        pairs_changed += usize::from(found != old);
    }
    let words = || before.iter().zip(&after);
    assert!(words().all(|(&old, &new)| old >> limits.value_bits == new >> limits.value_bits), "{plan:?}: keys");
    assert_eq!(words().filter(|(old, new)| old != new).count(), pairs_changed, "{plan:?}: words without a pair");
    let audit = P::Scheme::audit(plan, &before, 0..plan.cells());
    assert_eq!(P::Scheme::audit(plan, &after, 0..plan.cells()), audit, "{plan:?}");
    let in_image = keys.iter().filter(|&&key| Some(key) != plan.outside_key()).count() as u64;
    assert!(audit.is_ok_and(|audit| audit.pairs == in_image) || plan.kind() == scheme::Kind::Classic, "{plan:?}");
    Ok(())
}

/// Images that no build creates are read as by the rule, and changing them ends without harm.
pub(crate) fn arbitrary_images_are_read_and_changed<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    plan: &P,
    images: &[Vec<u64>],
    (keys, values): (&[u32], &[u32]),
    queries: &[u32],
) -> Result<()> {
    let updates = P::Scheme::from_plan(plan).updates();
    for words in images {
        let mut image = backend.upload(words)?;
        compare_lookups(backend, plan, &image, queries)?;
        compare_decoded(backend, plan, &image)?;
        assign(backend, plan, &mut image, keys, values)?;
        compare_decoded(backend, plan, &image)?;
        place(backend, plan, &mut image, keys, values)?;
        if updates != Updates::Rebuild {
            remove(backend, plan, &mut image, keys)?;
        }
        if updates == Updates::Tombstones {
            Kernels::<P::Scheme>::lift(backend, plan, &mut image)?;
        }
        compare_decoded(backend, plan, &image)?;
    }
    Ok(())
}

/// The pair of the sentinel key is counted and returned, and is not in the image. `lookups` compares those of its
/// queries in one of the images.
pub(crate) fn the_sentinel_pair_is_stored_outside<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    plan: &P,
    lookups: &dyn Fn(&P, &B::Buffer<u64>, &[u32]) -> Result<()>,
) -> Result<()> {
    let key = plan.outside_key().expect("a sentinel key");
    let placed = |plan: &P, keys: &[u32], values: &[u32]| place_in_empty(backend, plan, keys, values);
    let (image, counts) = placed(plan, &[key, 5], &[3, 1])?;
    assert_eq!(counts, Placed { outside: Some(3), ..Placed::default() });
    assert!(backend.download(&image)? == sequential(plan, &[(5, 1)]).0, "{plan:?}");
    for (outside, duplicates) in [(None, 2), (Some(1), 3)] {
        let expected = Placed { duplicates, least_duplicate: Some(key), outside: Some(8), ..Placed::default() };
        let before = plan.with_outside(outside);
        assert_eq!(placed(&before, &[key, key, key], &[3, 8, 1])?.1, expected);
        let (image, counts) = placed(&before, &[key, 5, key, key], &[3, 1, 8, 4])?;
        assert_eq!(counts, expected);
        for plan in [*plan, plan.with_outside(counts.outside), plan.with_outside(Some(0))] {
            lookups(&plan, &image, &[key, 5, 6, key])?;
        }
    }
    // It is not a duplicate if it is not in the batch.
    let present = plan.with_outside(Some(1));
    assert_eq!(placed(&present, &[1], &[1])?.1, Placed::default());
    assert_eq!(placed(&present, &[], &[])?.1, Placed::default());
    Ok(())
}

/// A batch of duplicates only: reporting them must not be the bottleneck, and nothing may be lost. Duplicates of pairs
/// of an earlier batch are counted too.
pub(crate) fn a_batch_of_duplicates_is_counted<B: Kernels<P::Scheme>, P: SchemePlan>(
    backend: &B,
    plan: &P,
    many: usize,
) -> Result<()> {
    let values: Vec<u32> = super::wide_tests::noise(1, many);
    let (mut image, placed) = place_in_empty(backend, plan, &vec![3; many], &values)?;
    assert_eq!(placed, Placed { duplicates: many as u64 - 1, least_duplicate: Some(3), ..Placed::default() });
    let placed = place(backend, plan, &mut image, &[3, 4, 3], &[0, 0, 0])?;
    assert_eq!((placed.duplicates, placed.least_duplicate), (2, Some(3)));
    Ok(())
}
