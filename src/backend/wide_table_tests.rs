//! Tables of 64-bit keys or values, on every backend and of every scheme: built, queried, changed, saved and opened,
//! with keys that a faulty table would confuse.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::erase_tests::{Erase, IntoAny};
use super::{Runs, Word};
use crate::error::{Error, Result};
use crate::scheme::{Plan, Scheme};
use crate::{Any, Cpu, Cuckoo, Duplicates, HashTable, RobinHood, Sequence, Sorted};

/// Distinct keys: extremes first; then some that agree in their low half, in their high half, or in their upper 60
/// bits; then others. Keys of 32 bits are truncated.
fn keys<K: Word>(count: usize) -> Vec<K> {
    let extremes = [0, 1, 1 << 32, i64::MIN as u64, u64::MAX, u64::MAX - 1, u64::from(u32::MAX), 1 << 63 | 1];
    let of_kind = |i: u64| match i % 4 {
        0 => i << 32 | 0x1234_5678,
        1 => 0x1234_5678 << 32 | i,
        2 => 0x0fed_cba9_8765_4320 | (i / 4 % 16),
        _ => i.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    };
    let mut keys = Vec::with_capacity(count);
    let mut seen = std::collections::HashSet::new();
    for key in extremes.into_iter().chain((0..).map(of_kind)).map(K::low) {
        if keys.len() == count {
            break;
        }
        if seen.insert(key.into()) {
            keys.push(key);
        }
    }
    keys
}

/// Values: all ones for every third, 0 for every fifth; 0 if the scheme stores no values.
fn values<S: Scheme>(scheme: &S, keys: &[S::Key]) -> Vec<S::Value> {
    let some = |(i, &key): (u64, &S::Key)| match (scheme.limits().value_bits, i % 3, i % 5) {
        (0, ..) | (_, _, 0) => 0,
        (_, 0, _) => u64::MAX,
        _ => !key.into(),
    };
    (0..).zip(keys).map(some).map(Word::low).collect()
}

/// The life of a table: built, queried, changed, read back, moved, saved.
pub(crate) fn tables<S: Erase>(backend: &impl IntoAny, scheme: &S, count: usize) -> Result<()>
where
    Any: Runs<S::Any>,
{
    tables_of(&backend.any(), &scheme.any(), count)
}

fn tables_of<S: Scheme>(backend: &Any, scheme: &S, count: usize) -> Result<()>
where
    Any: Runs<S>,
{
    let all = keys::<S::Key>(count);
    let values = values(scheme, &all);
    let builder = HashTable::builder(scheme.clone()).seed(7).capacity(2 * count);
    let mut table = builder.build(backend, &all, &values)?;
    assert_eq!(table.len(), count);
    assert!(table.get(&all)?.into_iter().eq(values.iter().copied().map(Some)));
    let absent = S::Key::low(0x0fed_cba9_8765_4321 ^ 1 << 20);
    assert_eq!(table.contains(&[absent, all[1], all[4]])?, [false, true, true]);
    assert_eq!(table.get(&[absent])?, [None]);
    let whole = table.digest()?;
    let cpu = Any::Cpu(Cpu::new());
    assert_eq!(builder.build(&cpu, &all, &values)?.digest()?, whole, "as the CPU builds it");
    assert_eq!(table.to_backend(&cpu)?.digest()?, whole);

    let at = all.len() / 3;
    let mut in_two = builder.build(backend, &all[..at], &values[..at])?;
    in_two.insert(&all[at..], &values[at..])?;
    assert_eq!(in_two.digest()?, whole);
    let refused = in_two.insert(&all[5..6], &values[..1]);
    assert!(matches!(refused, Err(Error::DuplicateKey { key }) if key == all[5].into()), "{refused:?}");
    assert_eq!(in_two.upsert(&all[..2], &values[2..4])?.overwritten, 2);
    assert_eq!(in_two.get(&all[..2])?, [Some(values[2]), Some(values[3])]);

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("table.koel");
    assert_eq!(table.save(&path)?, whole);
    let opened = HashTable::<Any, S>::open(backend, &path)?;
    assert_eq!((opened.len(), opened.digest()?), (count, whole));
    assert!(opened.get(&all)?.into_iter().eq(values.iter().copied().map(Some)));

    assert_eq!(table.remove(&[&all[..7], &[absent][..]].concat())?, 7);
    assert_eq!(table.get(&all[..8])?, [&[None; 7][..], &[Some(values[7])]].concat());
    table.audit()?;
    table.compact()?;
    assert_eq!(table.digest()?, builder.build(backend, &all[7..], &values[7..])?.digest()?);
    table.audit()?;
    let mut listed = table.to_pairs()?;
    listed.sort_unstable();
    let mut expected: Vec<_> = all[7..].iter().copied().zip(values[7..].iter().copied()).collect();
    expected.sort_unstable();
    assert!(listed == expected);
    let stats = table.stats()?;
    assert!(stats.reads_per_hit >= 1.0);
    let bucket_bytes = table.slots() as u64 * stats.bucket_bytes / u64::from(table.plan().bucket_slots());
    // After the buckets there may be a few lines of a stash, and a table's signposts.
    assert!(
        bucket_bytes <= 8 * table.plan().words()
            && 8 * table.plan().words() <= bucket_bytes + bucket_bytes / 4 + 17 * 64
    );
    table.insert(&all[..7], &values[..7])?;
    table.rebuild()?;
    assert_eq!(table.digest()?, whole);
    rules(backend, scheme, &all, count)
}

/// The three rules for duplicates, and the resulting tables.
fn rules<S: Scheme>(backend: &Any, scheme: &S, keys: &[S::Key], count: usize) -> Result<()>
where
    Any: Runs<S>,
{
    let of = |i: usize| keys[i * 7 % (count / 2).max(1)];
    let rows: Vec<S::Key> = (0..count).map(of).collect();
    let number = |i: usize| if scheme.limits().value_bits == 0 { 0 } else { i as u64 };
    let numbers: Vec<S::Value> = (0..count).map(number).map(Word::low).collect();
    let (mut first, mut last) = (BTreeMap::new(), BTreeMap::new());
    let mut least = None;
    for (&key, &value) in rows.iter().zip(&numbers) {
        match first.entry(key) {
            Entry::Vacant(entry) => _ = entry.insert(value),
            Entry::Occupied(_) => least = Some(least.map_or(key, |least: S::Key| least.min(key))),
        }
        last.insert(key, value);
    }
    let build = |rule| HashTable::builder(scheme.clone()).duplicates(rule).build(backend, &rows, &numbers);
    let refused = build(Duplicates::Error);
    assert!(matches!(refused, Err(Error::DuplicateKey { key }) if Some(key) == least.map(Into::into)), "{refused:?}");
    for (rule, model) in [(Duplicates::KeepFirst, first), (Duplicates::KeepLast, last)] {
        let mut pairs = build(rule)?.to_pairs()?;
        pairs.sort_unstable();
        assert!(model.into_iter().eq(pairs), "{} {rule:?}", S::NAME);
    }
    Ok(())
}

/// Digests of tables with the default load, by the types of keys and values, so that a changed layout is noticed.
macro_rules! written_down {
    ($backend:expr, $scheme:expr, $digests:expr) => {{
        let [first, second, third, fourth] = $digests;
        $crate::backend::wide_table_tests::has_digest($backend, &$scheme.of::<u64, u64>(), first)?;
        $crate::backend::wide_table_tests::has_digest($backend, &$scheme.of::<u64, u32>(), second)?;
        $crate::backend::wide_table_tests::has_digest($backend, &$scheme.of::<u32, u64>(), third)?;
        $crate::backend::wide_table_tests::has_digest($backend, &$scheme.of::<u64, ()>(), fourth)?;
    }};
}

pub(crate) fn has_digest<S: Erase>(backend: &impl IntoAny, scheme: &S, written: &str) -> Result<()>
where
    Any: Runs<S::Any>,
{
    digest_is(&backend.any(), &scheme.any(), written)
}

fn digest_is<S: Scheme>(backend: &Any, scheme: &S, written: &str) -> Result<()>
where
    Any: Runs<S>,
{
    let key = |i: u64| if i < 1000 { i.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { u64::MAX };
    let keys: Vec<S::Key> = (0..=1000).map(key).map(Word::low).collect();
    let value = |(i, &key): (u64, &S::Key)| match (scheme.limits().value_bits, i % 3) {
        (0, _) => 0,
        (_, 0) => u64::MAX,
        _ => !key.into(),
    };
    let values: Vec<S::Value> = (0..).zip(&keys).map(value).map(Word::low).collect();
    let table = HashTable::builder(scheme.clone()).seed(2026).build(backend, &keys, &values)?;
    assert_eq!(table.digest()?.to_string(), written, "{scheme:?}");
    Ok(())
}

/// These digests, those of Robin Hood tables and those of sorted ones were computed by a Python program of a hundred
/// lines that implements `docs/canonical-layout.md` and `docs/file-format.md` and places one key at a time.
pub(crate) fn digests_of_cuckoo_tables(backend: &impl IntoAny) -> Result<()> {
    written_down!(
        backend,
        Cuckoo::canonical(4),
        [
            "17da42ef7d1c603bd35adefb9e8d499d7ab0575be3075463a5fb6a6b5d1201f4",
            "3b7163665e93f479cd34ebb8edfd6bcd744bce381beade4b1219542f8542ede3",
            "f162c3930dee92e1f25da4da06fd5b5dfcc4b0c738faf767b3e2eee775639fa8",
            "21567f44fcf9f2c088aa3dc400ab210b263ce39c2257e249eac01ae8670d63b1",
        ]
    );
    written_down!(
        backend,
        Cuckoo::canonical(5),
        [
            "5317fdff24c9506d5ddb0820d407ce60f3ff259e0fc2b713c98fc6a84cce53ee",
            "118f4930176521f3623785c492af681b6564562cacdd6600ad956ee58e47bb53",
            "0be56ded112ead07965b73b500b4c428e6a667c49f1a22eaef2cbed0ead8157e",
            "755ccf534b9faf1a4d0a15f4dbdb9654c276dd7985508058a9063e266bdb685c",
        ]
    );
    Ok(())
}

pub(crate) fn digests_of_robin_hood_tables(backend: &impl IntoAny) -> Result<()> {
    for (sequence, digests) in [
        (
            Sequence::Coherent,
            [
                "8567fa2bcc8ff2d6d5f929fd7756f62b235ed81d93ca1af2bd851f45deceb29c",
                "986116d45ecc76a8f1f662266562d18efa6d96acf3480bdda7133a9301fd5d4f",
                "eb7c00653d6942ab3c978aa550dc69bf8907b204a45c3001ceb20fc255a89e1b",
                "d0d92e17d3a8aa1ff27393fff737f1baf0b48df434dc60dd128c5f41ebf91fe2",
            ],
        ),
        (
            Sequence::Random,
            [
                "2cae3b1977b07664c8b5a4df95bbd36772fa262f70635a6e2e6f604b76844027",
                "efd7f92aa9d72284cb03b48a51c4600be5d77b47a9e6264b19f7c1e4b00a8041",
                "ce0b29abb8bc06735ab6c488b304e48f24f3ec7d468b514d233e8a48f5ca1e74",
                "83e4c31ee1117eb42f616ba5d006180ce68744ec271ac8fa10cf6a663413be35",
            ],
        ),
        (
            Sequence::PaperRandom,
            [
                "89aa80cee949fc29a1c376ff8ad7c4f14f28161635096aca66228468d775ea92",
                "e6d47aeeaa80efc6435ddf95385c48f1b7141a9ff44feb80a7fb146c603a8c42",
                "198156c5440a9786e9fcb6fd0c0d2c493c0964144ed02c58e160304c4d07685b",
                "80942312f721a6b692dfe1fd9930e3c024e4a4d10f4eb9ce6e59ddb27a608aa9",
            ],
        ),
    ] {
        written_down!(backend, RobinHood::canonical().sequence(sequence), digests);
    }
    Ok(())
}

pub(crate) fn digests_of_sorted_tables(backend: &impl IntoAny) -> Result<()> {
    written_down!(
        backend,
        Sorted,
        [
            "4fed386ad08aaa27f211eb443e1343dcdbdb9d0f9669fc2db681ee002a1692ff",
            "850004440cef31aa9f4fc619dc91e0044f94e8cde96091cf9f3e240393812013",
            "6860d71b94f8463255f27262c5969e624e9964a28f1be45fcb11192278082ab8",
            "5721d0e23ad6672e0b8d91a528f7ae1e030a48e8f527fabfd0076b54a8cf4eda",
        ]
    );
    Ok(())
}
