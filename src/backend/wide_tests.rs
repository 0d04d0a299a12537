//! Cases for every backend: primitives on columns of 64 bits, and images of schemes of 64-bit keys or values, compared
//! with the scheme's own rule, byte for byte. Tables are checked in `wide_table_tests.rs`.

use std::collections::BTreeMap;

use super::erase_tests::{Erase, IntoAny};
use super::{Answers, ChunkOf, Decoded, DeviceBuffer, HashBackend as _, Kernels, Queries, Runs, Word, bitmap_words};
use crate::device::{Any, AnyBuffer};
use crate::error::Result;
use crate::layout::wide::{MORTON3_BITS, morton3, morton3_cell};
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Placing, Plan, Request, Scheme, Updates};
use crate::{
    Aggregate, Bucketized, CompactingTable, HashSet, HashTable, IdOrder, JoinIndex, JoinKind, MultiTable, group,
};

/// A check of schemes, for every pair of types that a scheme of 64-bit keys or values can have.
macro_rules! every_layout {
    ($check:path, $backend:expr, $scheme:expr $(, $argument:expr)*) => {{
        $check($backend, &$scheme.of::<u64, u64>() $(, $argument)*)?;
        $check($backend, &$scheme.of::<u64, u32>() $(, $argument)*)?;
        $check($backend, &$scheme.of::<u32, u64>() $(, $argument)*)?;
        $check($backend, &$scheme.of::<u64, ()>() $(, $argument)*)?;
    }};
}
pub(crate) use every_layout;

/// Pseudo-random integers.
pub(crate) fn noise<T: Word>(seed: u64, len: usize) -> Vec<T> {
    let mut stream = SplitMix64::new(seed);
    (0..len).map(|_| T::low(stream.next_u64())).collect()
}

/// Keys of 64 bits: random ones, some that differ in one half only, few distinct ones, sorted ones, and extremes.
fn keys_of_every_sort(len: usize) -> [(&'static str, Vec<u64>); 6] {
    let of = |key: fn(u64) -> u64| (0..len as u64).map(key).collect();
    let random: Vec<u64> = noise(len as u64, len);
    [
        ("across the halves", random.iter().map(|key| key >> 30 & 0xff_ff00_0000).collect()),
        ("in the upper half", random.iter().map(|key| key << 32).collect()),
        ("in the lower half", random.iter().map(|key| key >> 40 | 7 << 60).collect()),
        ("few", random.iter().map(|key| ((key % 5) << 62) | (key % 3)).collect()),
        ("in order", of(|i| i << 33)),
        ("random", random),
    ]
}

/// Sorts of the first `kinds` kinds of keys, for each combination of two widths.
pub(crate) fn sorts<B: Runs<Bucketized>>(backend: &B, lengths: &[usize], kinds: usize) -> Result<()> {
    for &len in lengths {
        for (name, keys) in keys_of_every_sort(len).into_iter().take(kinds) {
            let mut expected: Vec<(u64, u32)> = keys.iter().copied().zip(0..).collect();
            expected.sort_by_key(|&(key, _)| key);
            let said = format!("{len} keys, {name}");
            let on_device = backend.upload(&keys)?;
            let (sorted, rows) = backend.sort_pairs(&on_device, &backend.iota(len)?)?;
            let rows = backend.download(&rows)?;
            let found = backend.download(&sorted)?.into_iter().zip(rows.iter().copied());
            assert!(expected.iter().copied().eq(found), "{said}, values of 32 bits");
            let values: Vec<u64> = noise(3, len);
            let (sorted, moved) = backend.sort_pairs(&on_device, &backend.upload(&values)?)?;
            assert!(expected.iter().map(|&(key, _)| key).eq(backend.download(&sorted)?), "{said}");
            let in_order = rows.iter().map(|&row| values[row as usize]);
            assert!(in_order.eq(backend.download(&moved)?), "{said}, values of 64 bits");
            let short: Vec<u32> = keys.iter().map(|key| (key ^ key >> 32) as u32).collect();
            let mut expected: Vec<(u32, u64)> = short.iter().copied().zip(values).collect();
            expected.sort_by_key(|&(key, _)| key);
            let (sorted, moved) =
                backend.sort_pairs(&backend.upload(&short)?, &backend.upload(&noise::<u64>(3, len))?)?;
            let found = backend.download(&sorted)?.into_iter().zip(backend.download(&moved)?);
            assert!(expected.into_iter().eq(found), "{said}, keys of 32 bits");
        }
    }
    Ok(())
}

/// Passes that move elements and compare neighbours.
pub(crate) fn columns<B: Runs<Bucketized>>(backend: &B, lengths: &[usize]) -> Result<()> {
    for &len in lengths {
        let column: Vec<u64> = noise::<u64>(1, len).into_iter().map(|x| x >> 62 << 40).collect();
        let on_device = backend.upload(&column)?;
        let is_one = |bits: &[u32], i: usize| bits[i / 32] >> (i % 32) & 1 == 1;
        let heads = backend.download(&backend.heads(&on_device)?)?;
        assert!((0..len).all(|i| is_one(&heads, i) == (i == 0 || column[i] != column[i - 1])), "heads of {len}");
        let tails = backend.download(&backend.tails(&on_device)?)?;
        assert!((0..len).all(|i| is_one(&tails, i) == (i + 1 == len || column[i] != column[i + 1])), "tails of {len}");
        assert!((len..32 * heads.len()).all(|i| !is_one(&heads, i) && !is_one(&tails, i)));
        assert_eq!(backend.greatest(&on_device)?, column.iter().copied().max().unwrap_or(0));
        let index: Vec<u32> = (0..len as u32 + 3).rev().collect();
        let gathered = backend.download(&backend.gather(&on_device, &backend.upload(&index)?)?)?;
        assert!(index.iter().map(|&i| column.get(i as usize).copied().unwrap_or(0)).eq(gathered), "gather of {len}");
        let places: Vec<u32> = (0..len as u32).map(|i| 2 * i).collect();
        let moved = backend.download(&backend.scatter(&on_device, &backend.upload(&places)?, len)?)?;
        let expected = (0..len).map(|i| if i % 2 == 0 { column[i / 2] } else { 0 });
        assert!(expected.eq(moved), "scatter of {len}");
        let both = backend.download(&backend.concat(&on_device, &on_device)?)?;
        assert!(column.iter().chain(&column).copied().eq(both));
    }
    Ok(())
}

/// Queries and answers of either width, in chunks.
pub(crate) fn chunks<B: Runs<Bucketized>>(backend: &B, len: usize) -> Result<()> {
    let (wide, narrow) = (noise::<u64>(8, len), noise::<u32>(9, len));
    let mut to = vec![0; len];
    backend.in_chunks(Queries::Words(&wide), Answers::words([&mut to[..]]), |mut chunk: ChunkOf<B, u64, u64>| {
        chunk.words = vec![backend.clone_buffer(&chunk.queries)?];
        Ok(chunk)
    })?;
    assert!(to == wide);
    let (mut first, mut second) = (vec![0; len], vec![0; len]);
    backend.in_chunks(
        Queries::Words(&narrow),
        Answers::words([&mut first[..], &mut second]),
        |mut chunk: ChunkOf<B, u32, u64>| {
            let rows: Vec<u64> = (0..chunk.queries.len()).map(|i| (chunk.first + i) as u64).collect();
            let keys =
                backend.download(&chunk.queries)?.into_iter().map(|key| u64::from(key) << 32).collect::<Vec<_>>();
            chunk.words = vec![backend.upload(&rows)?, backend.upload(&keys)?];
            Ok(chunk)
        },
    )?;
    assert!(first.iter().copied().eq(0..len as u64));
    assert!(second.iter().zip(&narrow).all(|(&to, &from)| to == u64::from(from) << 32));
    Ok(())
}

pub(crate) type Columns<S> = (Vec<<S as Scheme>::Key>, Vec<<S as Scheme>::Value>);

/// Distinct keys in no particular order, including the extremes, and values.
pub(crate) fn pairs<S: Scheme>(scheme: &S, count: usize, seed: u64) -> Columns<S> {
    let key = |i: usize| S::Key::low((i as u64 + (seed << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(31));
    let mut keys: Vec<S::Key> = (1..=count).map(key).collect();
    if seed == 1 {
        keys.iter_mut().zip([0, u64::MAX]).for_each(|(key, extreme)| *key = S::Key::low(extreme));
    }
    let values = if scheme.limits().value_bits > 0 { noise(seed, count) } else { vec![S::Value::low(0); count] };
    (keys, values)
}

/// The plan with the stash that these pairs need.
pub(crate) fn stashed<S: Scheme>(plan: S::Plan, columns: &Columns<S>) -> S::Plan {
    let pairs: Vec<_> = columns.0.iter().copied().zip(columns.1.iter().copied()).collect();
    plan.with_stash(S::stash(&plan, &pairs))
}

/// The image of the rule, if all pairs are placed; the plan includes their stash.
pub(crate) fn reference<S: Scheme>(plan: &S::Plan, columns: &Columns<S>) -> Option<Vec<u64>> {
    let pairs: Vec<_> = columns.0.iter().copied().zip(columns.1.iter().copied()).collect();
    let mut image = vec![plan.empty_word(); plan.words() as usize];
    (S::place(plan, &mut image, &pairs) == Placing::Placed).then_some(image)
}

/// Builds, batches, lookups, removals and compaction of one scheme, at these numbers of pairs and loads.
pub(crate) fn images<S: Erase>(backend: &impl IntoAny, scheme: &S, sizes: &[(usize, f64)]) -> Result<()>
where
    Any: Runs<S::Any>,
{
    images_of(&backend.any(), &scheme.any(), sizes)
}

fn images_of<S: Scheme>(backend: &Any, scheme: &S, sizes: &[(usize, f64)]) -> Result<()>
where
    Any: Runs<S>,
{
    for &(count, load) in sizes {
        let said = format!("{} {count} at {load}", S::NAME);
        let all = pairs(scheme, count, 1);
        let plan = Request { slots: (count as f64 / load) as u64, pairs: count as u64, seed: 3, attempt: 0 };
        let plan = stashed::<S>(scheme.plan(plan)?, &all);
        let expected = reference::<S>(&plan, &all).expect("a place for each pair");
        let clean = |placed: super::PlacedOf<S>| assert_eq!((placed.unplaced, placed.duplicates), (0, 0));

        let (keys, values) = (backend.upload(&all.0)?, backend.upload(&all.1)?);
        let (image, placed) = Kernels::<S>::build(backend, &plan, &keys, &values)?;
        clean(placed);
        assert_eq!(plan.with_stash(placed.stash), plan, "{said}");
        assert!(backend.download(&image)? == expected, "{said}");
        answers::<S>(backend, scheme, &plan, &image, &expected, &all.0)?;
        if scheme.updates() == Updates::Tombstones {
            changes::<S>(backend, scheme, &plan, &image, &expected, &all)?;
        }

        let gone: Vec<_> = all.0.iter().copied().step_by(3).collect();
        let others = pairs(scheme, gone.len(), 5).1;
        let mut image = backend.clone_buffer(&image)?;
        let (keys, values) = (backend.upload(&gone)?, backend.upload(&others)?);
        Kernels::<S>::assign(backend, &plan, &mut image, &keys, &values)?;
        let image = backend.download(&image)?;
        assert!(gone.iter().zip(&others).all(|(&key, &value)| S::find(&plan, &image, key) == Some(value)));
        let rest = all.0.iter().zip(&all.1).enumerate().filter(|(i, _)| !i.is_multiple_of(3));
        assert!(rest.into_iter().all(|(_, (&key, &value))| S::find(&plan, &image, key) == Some(value)));
        S::audit(&plan, &image, 0..plan.cells()).expect("a sound image");
    }
    Ok(())
}

/// Two batches, removal and compaction, in tables that are changed in place; of an image that holds all pairs.
fn changes<S: Scheme>(
    backend: &Any,
    scheme: &S,
    plan: &S::Plan,
    image: &AnyBuffer<u64>,
    expected: &[u64],
    all: &Columns<S>,
) -> Result<()>
where
    Any: Runs<S>,
{
    let (count, half) = (all.0.len(), all.0.len() / 2);
    let said = format!("{} {count}", S::NAME);
    let clean = |placed: super::PlacedOf<S>| assert_eq!((placed.unplaced, placed.duplicates), (0, 0));
    // In two batches, of which the second displaces the first: values move with their keys.
    let (keys, values) = (backend.upload(&all.0[..half])?, backend.upload(&all.1[..half])?);
    let (one, placed) = Kernels::<S>::build(backend, plan, &keys, &values)?;
    clean(placed);
    let (keys, values) = (backend.upload(&all.0[half..])?, backend.upload(&all.1[half..])?);
    let (two, placed) = Kernels::<S>::extended(backend, plan, &one, &keys, &values)?;
    clean(placed);
    assert!(backend.download(&two)? == expected, "{said}, in two batches");

    let mut with_tombstones = backend.clone_buffer(image)?;
    let gone: Vec<_> = all.0.iter().copied().step_by(3).collect();
    let twice = [&gone[..], &gone[..gone.len() / 2]].concat();
    let removed = Kernels::<S>::remove(backend, plan, &mut with_tombstones, &backend.upload(&twice)?)?;
    assert_eq!(removed.pairs, gone.len() as u64);
    let mut expected_with_tombstones = expected.to_vec();
    assert_eq!(S::remove(plan, &mut expected_with_tombstones, &gone), gone.len() as u64);
    assert!(backend.download(&with_tombstones)? == expected_with_tombstones, "{said}, worn");
    answers::<S>(backend, scheme, plan, &with_tombstones, &expected_with_tombstones, &all.0)?;

    // After compaction, it is the table of the remaining keys.
    let lifted = Kernels::<S>::lift(backend, plan, &mut with_tombstones)?;
    let (keys, values) = backend.select_pairs(&lifted.taken, true, &lifted.keys, &lifted.values)?;
    clean(Kernels::<S>::place(backend, plan, &mut with_tombstones, &keys, &values)?);
    let left = (0..count).filter(|i| !i.is_multiple_of(3));
    let rest = left.map(|i| (all.0[i], all.1[i])).unzip();
    assert!(
        backend.download(&with_tombstones)? == reference::<S>(plan, &rest).expect("a place for each pair"),
        "{said}, compacted"
    );
    Ok(())
}

/// Compares lookups in an image on a device with those of the scheme in the same words.
fn answers<S: Scheme>(
    backend: &Any,
    scheme: &S,
    plan: &S::Plan,
    image: &AnyBuffer<u64>,
    words: &[u64],
    keys: &[S::Key],
) -> Result<()>
where
    Any: Runs<S>,
{
    let queries = [keys, &pairs(scheme, keys.len() / 2 + 9, 2).0].concat();
    let on_device = backend.upload(&queries)?;
    let mut values = backend.filled(queries.len(), S::Value::low(9))?;
    let mut found = backend.filled(queries.len().div_ceil(32), 9)?;
    Kernels::<S>::lookup(backend, plan, image, &on_device, &mut values, &mut found)?;
    let (values, found) = (backend.download(&values)?, backend.download(&found)?);
    let bits = Kernels::<S>::contains(backend, plan, image, &on_device)?;
    assert!(backend.download(&bits)? == found);
    for (i, &key) in queries.iter().enumerate() {
        let answer = (found[i / 32] >> (i % 32) & 1 == 1).then_some(values[i]);
        assert_eq!(answer, S::find(plan, words, key), "query {i}");
        assert!(answer.is_some() || values[i] == Word::low(0));
    }
    let decoded = Kernels::<S>::decode(backend, plan, image)?;
    let columns = (backend.download(&decoded.keys)?, backend.download(&decoded.values)?);
    let taken = backend.download(&decoded.taken)?;
    for cell in 0..plan.cells() as usize {
        let pair = (taken[cell / 32] >> (cell % 32) & 1 == 1).then_some((columns.0[cell], columns.1[cell]));
        assert_eq!(pair, S::pair(plan, words, cell as u64), "cell {cell}");
    }
    Ok(())
}

/// Duplicates are counted, and the greatest value of each key is kept, in schemes that tolerate duplicates.
pub(crate) fn duplicates<S: Erase<Any: Scheme<Key = u64, Value = u64>>>(
    backend: &impl IntoAny,
    scheme: &S,
    keys: u64,
) -> Result<()>
where
    Any: Runs<S::Any>,
{
    duplicates_of(&backend.any(), &scheme.any(), keys)
}

fn duplicates_of<S: Scheme<Key = u64, Value = u64>>(backend: &Any, scheme: &S, keys: u64) -> Result<()>
where
    Any: Runs<S>,
{
    let rows = 3 * keys + keys / 3;
    let column: Vec<u64> = (0..rows).map(|i| (i % keys) << 33 | 5).collect();
    let values: Vec<u64> = (0..rows).collect();
    let request = Request { slots: scheme.default_load().slots_for(keys), pairs: rows, seed: 1, attempt: 0 };
    let plan = scheme.plan(request)?;
    let (on_device, values) = (backend.upload(&column)?, backend.upload(&values)?);
    let (image, placed) = Kernels::<S>::build(backend, &plan, &on_device, &values)?;
    let plan = plan.with_stash(placed.stash);
    assert_eq!((placed.unplaced, placed.duplicates, placed.least_duplicate), (0, rows - keys, Some(5)));
    let image = backend.download(&image)?;
    let greatest = |i: u64| Some(i + keys * ((rows - 1 - i) / keys));
    assert!((0..keys).all(|i| S::find(&plan, &image, i << 33 | 5) == greatest(i)));
    Ok(())
}

/// A table of cells of a box with 2^21 cells per axis: a solid cube at a corner, all eight corners, and cells far
/// apart.
pub(crate) fn cells<S: Erase<Any: Scheme<Key = u64, Value = u64>>>(
    backend: &impl IntoAny,
    scheme: &S,
    side: u32,
) -> Result<()>
where
    Any: Runs<S::Any>,
{
    cells_of(&backend.any(), &scheme.any(), side)
}

fn cells_of<S: Scheme<Key = u64, Value = u64>>(backend: &Any, scheme: &S, side: u32) -> Result<()>
where
    Any: Runs<S>,
{
    let last = (1 << MORTON3_BITS) - 1;
    let key = |x, y, z| morton3(x, y, z).expect("inside");
    let mut keys: Vec<u64> = (0..side.pow(3)).map(|i| key(i % side, i / side % side, last - i / side / side)).collect();
    keys.extend((0..8).map(|corner| key(corner % 2 * last, corner / 2 % 2 * last, corner / 4 * last)));
    keys.extend(noise::<u32>(3, 3000).chunks(3).map(|x| key(x[0] & last, x[1] & last, x[2] & last)));
    keys.sort_unstable();
    keys.dedup();
    let values: Vec<u64> = keys.iter().map(|key| !key).collect();
    let table = HashTable::builder(scheme.clone()).load_factor(0.99).build(backend, &keys, &values)?;
    assert!(table.get(&keys)?.into_iter().eq(values.iter().copied().map(Some)));
    let beside: Vec<u64> = keys.iter().map(|key| key ^ 1 << 30).collect();
    let expected = beside.iter().map(|key| keys.binary_search(key).is_ok());
    assert!(table.contains(&beside)?.into_iter().eq(expected));
    let of_cells = |(key, value)| morton3_cell(key).is_some() && value == !key;
    assert!(table.to_pairs()?.into_iter().all(of_cells));
    table.audit()?;
    Ok(())
}

/// Of pairs with one key, only the one with the greatest value is kept; numbering in order of first occurrence relies
/// on it. Keys occur once, a few times, and one of them in a quarter of the rows.
pub(crate) fn greatest_of_duplicates<S: Erase<Any: Scheme<Key = u64, Value = u32>>>(
    backend: &impl IntoAny,
    scheme: &S,
    rows: usize,
) -> Result<()>
where
    Any: Runs<S::Any>,
{
    greatest_of_duplicates_of(&backend.any(), &scheme.any(), rows)
}

fn greatest_of_duplicates_of<S: Scheme<Key = u64, Value = u32>>(backend: &Any, scheme: &S, rows: usize) -> Result<()>
where
    Any: Runs<S>,
{
    let distinct = rows as u64 / 3 + 1;
    let key = |x: u64| if x.is_multiple_of(4) { 77 << 33 } else { ((x >> 8) % distinct) << 20 | 3 };
    let column: Vec<u64> = noise::<u64>(6, rows).into_iter().map(key).collect();
    let values: Vec<u32> = (0..rows as u32).map(|row| !row).collect();
    let mut greatest = BTreeMap::new();
    for (&key, &value) in column.iter().zip(&values) {
        greatest.entry(key).and_modify(|old: &mut u32| *old = value.max(*old)).or_insert(value);
    }
    let slots = scheme.default_load().slots_for(rows as u64);
    let plan = scheme.plan(Request { slots, pairs: rows as u64, seed: 1, attempt: 0 })?;
    let (keys, values) = (backend.upload(&column)?, backend.upload(&values)?);
    let (image, placed) = Kernels::<S>::build(backend, &plan, &keys, &values)?;
    let plan = plan.with_stash(placed.stash);
    assert!(placed.unplaced == 0 && placed.least_duplicate.is_some());
    let Decoded { keys: stored, values: of_stored, taken } = Kernels::<S>::decode(backend, &plan, &image)?;
    let (stored, of_stored) = backend.select_pairs(&taken, true, &stored, &of_stored)?;
    let pairs: Vec<_> = backend.download(&stored)?.into_iter().zip(backend.download(&of_stored)?).collect();
    assert!(pairs.iter().all(|(key, value)| greatest.get(key) == Some(value)), "a cell has another value");
    assert_eq!(pairs.len(), greatest.len(), "a key stands twice");
    let (mut answers, mut bits) = (backend.unwritten(rows)?, backend.unwritten(bitmap_words(rows))?);
    Kernels::<S>::lookup(backend, &plan, &image, &keys, &mut answers, &mut bits)?;
    assert!(backend.download(&answers)?.iter().zip(&column).all(|(value, key)| greatest[key] == *value));
    // Ids are below the number of keys.
    let (mut image, of_keys) = (image, greatest.keys().copied().collect::<Vec<u64>>());
    let ids: Vec<u32> = (0..of_keys.len() as u32).collect();
    Kernels::<S>::assign(backend, &plan, &mut image, &backend.upload(&of_keys)?, &backend.upload(&ids)?)?;
    Kernels::<S>::lookup(backend, &plan, &image, &keys, &mut answers, &mut bits)?;
    let right = |key: &u64| of_keys.binary_search(key).ok();
    assert!(backend.download(&answers)?.iter().zip(&column).all(|(&id, key)| Some(id as usize) == right(key)));
    Ok(())
}

/// Compares sets, ids, groups, multivalue tables and joins of 64-bit keys, in tables of these schemes, with those of
/// the standard library's collections.
pub(crate) fn structures<S, T>(backend: &impl IntoAny, of_rows: &S, of_keys: &T, rows: usize) -> Result<()>
where
    S: Erase<Any: Scheme<Key = u64, Value = u32>>,
    T: Erase<Any: Scheme<Key = u64>>,
    Any: Runs<S::Any> + Runs<T::Any>,
{
    structures_of(&backend.any(), &of_rows.any(), &of_keys.any(), rows)
}

fn structures_of<S, T>(backend: &Any, of_rows: &S, of_keys: &T, rows: usize) -> Result<()>
where
    S: Scheme<Key = u64, Value = u32>,
    T: Scheme<Key = u64>,
    Any: Runs<S> + Runs<T>,
{
    // A third as many keys as rows; many differ in only one half.
    let column: Vec<u64> = noise::<u64>(4, rows)
        .into_iter()
        .map(|x| match x % 3 {
            0 => (x % (rows as u64 / 3 + 1)) << 32,
            1 => x >> 8 & 0xff,
            _ => u64::MAX - x % 50,
        })
        .collect();
    let mut first_seen = Vec::new();
    let mut rows_of: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for (&key, row) in column.iter().zip(0..) {
        let rows = rows_of.entry(key).or_default();
        if rows.is_empty() {
            first_seen.push(key);
        }
        rows.push(row);
    }
    let ascending: Vec<u64> = rows_of.keys().copied().collect();

    for (order, expected) in [(IdOrder::FirstSeen, &first_seen), (IdOrder::Ascending, &ascending)] {
        assert!(group::wide::unique(backend, &column, order)? == *expected);
        let (unique, inverse) = group::wide::factorize(backend, &column, order)?;
        assert!(unique == *expected);
        assert!(inverse.iter().zip(&column).all(|(&id, key)| unique[id as usize] == *key));
        let values: Vec<u32> = noise(5, rows);
        let groups = group::wide::group_by(backend, &column, &values, &Aggregate::ALL, order)?;
        assert!(groups.keys == *expected);
        for (at, key) in groups.keys.iter().enumerate() {
            let of_key = || rows_of[key].iter().map(|&row| values[row as usize]);
            assert_eq!(groups.counts[at] as usize, rows_of[key].len());
            assert_eq!(groups.sums[at], of_key().map(u64::from).sum::<u64>());
            assert_eq!((Some(groups.mins[at]), Some(groups.maxs[at])), (of_key().min(), of_key().max()));
        }
        let counted = group::wide::group_by::<Any, u64, u32>(backend, &column, &[], &[Aggregate::Count], order)?;
        assert!(counted.counts == groups.counts);
    }

    let set = HashSet::builder(of_keys.clone()).build(backend, &column)?;
    assert_eq!(set.len(), ascending.len());
    let queried: Vec<u64> = column.iter().flat_map(|key| [*key, key ^ 1 << 40]).collect();
    assert!(set.contains(&queried)?.into_iter().eq(queried.iter().map(|key| rows_of.contains_key(key))));
    let other = HashSet::builder(of_keys.clone()).build(backend, &queried[..queried.len() / 2])?;
    let mut both = set.intersection(&other)?.to_keys()?;
    both.sort_unstable();
    let mut expected = other.to_keys()?;
    expected.retain(|key| rows_of.contains_key(key));
    expected.sort_unstable();
    assert!(both == expected);

    let table = CompactingTable::builder(of_rows.clone()).build(backend, &column)?;
    assert!(table.unique()? == first_seen);
    assert!(table.inverse(&column)? == group::wide::factorize(backend, &column, IdOrder::FirstSeen)?.1);
    let absent_key = u64::MAX / 3;
    let refused = table.inverse(&[column[0], absent_key]);
    assert!(matches!(refused, Err(crate::Error::UnknownKey { key, position: 1 }) if key == absent_key));

    let numbers: Vec<u32> = (0..rows as u32).collect();
    let multi = MultiTable::builder(of_rows.clone()).build(backend, &column, &numbers)?;
    assert!(multi.keys()? == ascending);
    let retrieved = multi.retrieve(&queried)?;
    assert!(
        queried.iter().enumerate().all(|(i, key)| retrieved.of(i) == rows_of.get(key).map_or(&[][..], |rows| rows))
    );

    let index = JoinIndex::builder(of_rows.clone()).build(backend, &column)?;
    let joined = index.join(&queried, JoinKind::Inner)?.collect()?;
    let expected = (0..)
        .zip(&queried)
        .flat_map(|(left, key)| rows_of.get(key).into_iter().flatten().map(move |&right| (Some(left), Some(right))));
    assert!(joined.iter().eq(expected));
    Ok(())
}
