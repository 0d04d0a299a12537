//! Images compared word for word with those of the reference, and answers.

use super::super::Cpu;
use crate::backend::wide_table_tests::tables;
use crate::backend::wide_tests::{every_layout, structures};
use crate::backend::{DeviceBuffer, HashBackend, Kernels, Runs, Word};
use crate::error::Result;
use crate::scheme::bucketized::wide::{Column, Layout, SlotKey};
use crate::scheme::hash::SplitMix64;
use crate::scheme::signpost::{Posted, SignpostPlan, rule};
use crate::scheme::{Plan, Request, Scheme, Signpost, SignpostOf};
use crate::table::HashTable;

type Pairs<S> = Vec<(<S as Scheme>::Key, <S as Scheme>::Value)>;

fn random<S: Scheme>(count: usize, seed: u64) -> Pairs<S> {
    let mut stream = SplitMix64::for_attempt(seed, 0);
    let value =
        |i: usize| if S::of_kind(Default::default()).limits().value_bits > 0 { i as u64 ^ 1 << 40 | 1 } else { 0 };
    (0..count).map(|i| (Word::low(stream.next_u64()), Word::low(value(i)))).collect()
}

fn agrees<K: Column, V: Column>(count: usize, slots: u64, duplicates: bool) -> Result<()>
where
    (K, V): Posted,
    Cpu: Runs<SignpostOf<K, V>>,
    <SignpostOf<K, V> as Scheme>::Key: SlotKey,
    SignpostOf<K, V>: Scheme<Plan = SignpostPlan<<(K, V) as Posted>::Layout>>,
    <(K, V) as Posted>::Layout:
        Layout<Key = <SignpostOf<K, V> as Scheme>::Key, Value = <SignpostOf<K, V> as Scheme>::Value>,
{
    let scheme = Signpost::new().of::<K, V>();
    let mut pairs = random::<SignpostOf<K, V>>(count, 7);
    pairs.sort_unstable();
    pairs.dedup_by_key(|pair| pair.0);
    if duplicates {
        // A tenth of the keys are duplicates with other values, some before and some after; and a crowd of one home.
        let functions = scheme.plan(Request { slots, pairs: 1, seed: 3, attempt: 0 })?.functions();
        let crowd = (0..(count / 20) as u64).map(|i| (functions.key_of(5, Word::low(i << 3)), pairs[0].1));
        let again: Vec<_> =
            pairs.iter().zip(pairs.iter().rev()).step_by(10).map(|(key, value)| (key.0, value.1)).collect();
        pairs.extend(crowd.collect::<Vec<_>>());
        pairs.splice(0..0, again.iter().copied().step_by(2));
        pairs.extend(again);
        let mut distinct: Vec<_> = pairs.iter().map(|pair| pair.0).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(count < 100 || distinct.len() < pairs.len());
    }
    let (keys, values): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
    let plan = scheme.plan(Request { slots, pairs: pairs.len() as u64, seed: 3, attempt: 0 })?;
    let plan = plan.with_stash(rule::stashed(&plan, &pairs));
    let mut expected = vec![0; plan.word_count()?];
    rule::place(&plan, &mut expected, &pairs);
    for cpu in [1, 2, 5].map(|threads| Cpu::with_threads(threads).expect("threads")) {
        let columns = (cpu.upload(&keys)?, cpu.upload(&values)?);
        let (image, placed) = Kernels::<SignpostOf<K, V>>::build(&cpu, &plan, &columns.0, &columns.1)?;
        assert_eq!(plan.with_stash(placed.stash), plan);
        assert!(cpu.download(&image)? == expected, "{count} of {slots}");
        assert_eq!((placed.unplaced, placed.duplicates > 0), (0, placed.least_duplicate.is_some()));
        let queried: Vec<_> =
            keys.iter().copied().chain(random::<SignpostOf<K, V>>(9000, 8).iter().map(|pair| pair.0)).collect();
        let queries = cpu.upload(&queried)?;
        let mut answers = cpu.filled(queried.len(), Word::low(9))?;
        let mut found = cpu.filled(queried.len().div_ceil(32), 0u32)?;
        Kernels::<SignpostOf<K, V>>::lookup(&cpu, &plan, &image, &queries, &mut answers, &mut found)?;
        let there = Kernels::<SignpostOf<K, V>>::contains(&cpu, &plan, &image, &queries)?;
        assert_eq!(cpu.download(&there)?, cpu.download(&found)?);
        for (i, &key) in queried.iter().enumerate() {
            let expected = SignpostOf::<K, V>::find(&plan, &expected, key);
            let hit = found.words()[i / 32] >> (i % 32) & 1 == 1;
            assert_eq!(hit.then(|| answers.words()[i]), expected, "{key}");
            assert!(hit || answers.words()[i] == Word::low(0));
        }
        let decoded = Kernels::<SignpostOf<K, V>>::decode(&cpu, &plan, &image)?;
        assert_eq!(decoded.keys.len() as u64, plan.cells());
    }
    Ok(())
}

#[test]
fn images_equal_the_reference() -> Result<()> {
    for (count, slots) in [(0, 1), (1, 1), (100, 128), (128, 128), (3000, 3500), (30_000, 33_000), (60_000, 60_000)] {
        for duplicates in [false, true] {
            agrees::<u32, u32>(count, slots, duplicates)?;
            agrees::<u64, u64>(count, slots, duplicates)?;
            agrees::<u64, u32>(count, slots, duplicates)?;
            agrees::<u32, u64>(count, slots, duplicates)?;
            agrees::<u64, ()>(count, slots, duplicates)?;
            agrees::<u32, ()>(count, slots, duplicates)?;
        }
    }
    // Several parts, the last one short; of one line.
    agrees::<u32, u32>(100_000, 105_000, false)?;
    agrees::<u32, u32>(100_000, 105_000, true)?;
    agrees::<u32, u32>(8 * 4097 - 900, 8 * 4097, false)?;
    agrees::<u64, u64>(70_000, 72_000, false)?;
    agrees::<u64, u64>(4 * 4097 - 900, 4 * 4097, true)?;
    // Signposts of sets within their words.
    agrees::<u32, ()>(16 * 4097 - 4000, 16 * 4097, false)?;
    agrees::<u32, ()>(90_000, 16 * 6000, true)
}

#[test]
fn tables_are_queried_and_changed() -> Result<()> {
    let (cpu, scheme) = (Cpu::with_threads(2)?, Signpost::new());
    every_layout!(tables, &cpu, scheme, 10_001);
    tables(&cpu, &scheme, 10_001)?;
    tables(&cpu, &scheme.of::<u32, ()>(), 10_001)?;
    structures(&cpu, &scheme.of::<u64, u32>(), &scheme.of::<u64, ()>(), 9000)
}

#[test]
fn tables_accept_batches_and_removals() -> Result<()> {
    let cpu = Cpu::with_threads(2)?;
    let keys: Vec<u64> = (0..50_000u64).map(|i| i * i + 1).collect();
    let values: Vec<u64> = keys.iter().map(|key| key ^ 5).collect();
    let scheme = Signpost::new().of::<u64, u64>();
    let whole = HashTable::builder(scheme.clone()).build(&cpu, &keys, &values)?;
    let mut grown = HashTable::builder(scheme).capacity(50_000).build(&cpu, &keys[..20_000], &values[..20_000])?;
    grown.insert(&keys[20_000..], &values[20_000..])?;
    assert_eq!(grown.digest()?, whole.digest()?);
    assert_eq!(grown.get(&[keys[3], 3, keys[49_999]])?, [Some(values[3]), None, Some(values[49_999])]);
    assert_eq!(grown.remove(&keys[..100])?, 100);
    assert_eq!((grown.len(), grown.get(&[keys[3], keys[100]])?), (49_900, vec![None, Some(values[100])]));
    grown.audit()?;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("table.koel");
    grown.save(&path)?;
    let opened = HashTable::<Cpu, SignpostOf<u64, u64>>::open(&cpu, &path)?;
    assert_eq!(opened.digest()?, grown.digest()?);
    assert_eq!(crate::table::read_info(&path)?.scheme, SignpostOf::<u64, u64>::ID);
    let other = HashTable::<Cpu, Signpost>::open(&cpu, &path).map(|_| ()).expect_err("of other keys");
    assert!(other.to_string().contains("signpost table of u64 keys and u64 values"), "{other}");
    Ok(())
}
