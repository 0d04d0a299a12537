//! One suite for every backend, scheme and kind: tables compared with `std::collections::HashMap`, with the
//! one-key-at-a-time rule and with the audit.

use std::collections::{BTreeMap, HashMap};

use crate::common::{Check, devices, fitting, for_every_kind, holds_exactly, label, max_pairs, size, workload};
use koel::backend::{DeviceBuffer, HashBackend, Kernels};
use koel::scheme::{Plan, Request};
use koel::workload::Workload;
use koel::{AnyScheme, Duplicates, Error, HashTable, Kind, Scheme};

fn builder(scheme: &AnyScheme) -> koel::TableBuilder<AnyScheme> {
    HashTable::builder(scheme.clone()).seed(11)
}

struct Builds;
impl Check for Builds {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        // Simulators test an empty table, the border of a work-group, and several work-groups.
        let sizes = [0, 65, size(30_000, 300), 1, 2, 3, 16, 63, 64, 1000];
        for device in devices() {
            for &n in &sizes[..size(10, 3) as usize] {
                let at = format!("{}, n = {n}", label(scheme, &device));
                let (keys, values, model) = workload(scheme, n);
                let table = builder(scheme).build(&device, &keys, &values).unwrap_or_else(|e| panic!("{at}: {e}"));
                holds_exactly(&table, &model, &at);
                if kind == Kind::Canonical {
                    let expected = crate::common::reference::<AnyScheme>(table.plan(), model);
                    assert_eq!(Some(crate::common::image(&table)), expected, "{at}: the bytes");
                }
            }
        }
    }
}

#[test]
fn builds_of_every_size_contain_the_inserted_pairs() {
    for_every_kind(&Builds);
}

struct Buffers;
impl Check for Buffers {
    fn run(&self, scheme: &AnyScheme) {
        for device in devices() {
            let at = label(scheme, &device);
            let (keys, values, model) = workload(scheme, 777);
            let (keys_there, values_there) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
            let table = builder(scheme).build_on(&device, &keys_there, &values_there).unwrap();
            let counts = [0, 33, 1, 31, 32, 700];
            for &count in &counts[..size(6, 2) as usize] {
                let queries: Vec<u32> =
                    (0..count).map(|i| if i % 3 == 0 { i as u32 * 7 + 1 } else { keys[i % keys.len()] }).collect();
                let there = device.upload(&queries).unwrap();
                // Filled with a pattern, so that words that are not written are detected.
                let mut answers = device.filled(count, 0xdead_beef).unwrap();
                let mut found = device.filled(count.div_ceil(32), u32::MAX).unwrap();
                table.get_on_into(&there, &mut answers, &mut found).unwrap();
                let (answers, found) = (device.download(&answers).unwrap(), device.download(&found).unwrap());
                let alone = device.download(&table.contains_on(&there).unwrap()).unwrap();
                assert_eq!(alone, found, "{at}: bits alone");
                for (i, query) in queries.iter().enumerate() {
                    let bit = found[i / 32] >> (i % 32) & 1 == 1;
                    let expected = model.get(query);
                    assert_eq!((bit, answers[i]), (expected.is_some(), expected.copied().unwrap_or(0)), "{at}");
                }
                let tail = found.last().map_or(0, |word| if count % 32 == 0 { 0 } else { word >> (count % 32) });
                assert_eq!(tail, 0, "{at}: bits past the end");
                let mut short = device.filled::<u32>(count + 1, 0).unwrap();
                let mut bits = device.filled(count.div_ceil(32), 0).unwrap();
                let refused = table.get_on_into(&there, &mut short, &mut bits);
                assert!(matches!(refused, Err(Error::LengthMismatch { .. })), "{at}: {refused:?}");
                assert_eq!(there.len(), count);
            }
        }
    }
}

#[test]
fn device_buffers_are_answered_with_a_bitmap() {
    for_every_kind(&Buffers);
}

struct Duplicated;
impl Check for Duplicated {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        let n = size(5000, 70).min(max_pairs(scheme)) as usize;
        let (keys, values, _) = workload(scheme, n as u32);
        // Three distant pairs with one key; an identical pair; duplicates of both extremes.
        let mut copied = (keys.clone(), values.clone());
        let (a, b) = (keys[n / 2].max(1), keys[n / 3].max(1));
        for (key, value) in [(a, 1), (b, values[n / 3]), (a, 2), (u32::MAX, 3), (0, u32::MAX)] {
            copied.0.push(key);
            copied.1.push(fitting(scheme, value));
        }
        let fold = |keep_first: bool| {
            let mut model = BTreeMap::new();
            for (&key, &value) in copied.0.iter().zip(&copied.1) {
                if !(keep_first && model.contains_key(&key)) {
                    model.insert(key, value);
                }
            }
            model
        };
        for device in devices() {
            let at = label(scheme, &device);
            let build = |rule| builder(scheme).duplicates(rule).build(&device, &copied.0, &copied.1);
            assert!(matches!(build(Duplicates::Error), Err(Error::DuplicateKey { key: 0 })), "{at}");
            let without_extremes: Vec<_> =
                (0..copied.0.len() - 2).filter(|&i| copied.0[i] != 0 && copied.0[i] != u32::MAX).collect();
            let some: (Vec<_>, Vec<_>) = without_extremes.iter().map(|&i| (copied.0[i], copied.1[i])).unzip();
            let refused = builder(scheme).build(&device, &some.0, &some.1);
            assert!(
                matches!(&refused, Err(Error::DuplicateKey { key }) if *key == u64::from(a.min(b))),
                "{at}: {refused:?}"
            );
            let rules = [(Duplicates::KeepFirst, true), (Duplicates::KeepLast, false)];
            for &(rule, keep_first) in &rules[..size(2, 1) as usize] {
                let table = build(rule).unwrap_or_else(|e| panic!("{at}, {rule:?}: {e}"));
                let model = fold(keep_first);
                holds_exactly(&table, &model, &at);
                if kind == Kind::Canonical {
                    let (keys, values): (Vec<_>, Vec<_>) = model.into_iter().unzip();
                    let clean = builder(scheme).build(&device, &keys, &values).unwrap();
                    assert_eq!(
                        clean.digest().unwrap(),
                        table.digest().unwrap(),
                        "{at}: the table of the distinct keys"
                    );
                }
            }
        }
    }
}

#[test]
fn duplicates_follow_the_rule_and_the_error_names_the_smallest() {
    for_every_kind(&Duplicated);
}

struct OneKey;
impl Check for OneKey {
    fn run(&self, scheme: &AnyScheme) {
        let n = size(20_000, 100);
        for device in devices() {
            let at = label(scheme, &device);
            for key in [7, u32::MAX] {
                let values: Vec<u32> = (0..n).map(|value| fitting(scheme, value)).collect();
                let keys = vec![key; n as usize];
                let build = |rule| builder(scheme).duplicates(rule).build(&device, &keys, &values);
                assert!(
                    matches!(build(Duplicates::Error), Err(Error::DuplicateKey { key: k }) if k == u64::from(key)),
                    "{at}"
                );
                let last = fitting(scheme, n - 1);
                for (rule, value) in [(Duplicates::KeepFirst, 0), (Duplicates::KeepLast, last)] {
                    holds_exactly(&build(rule).unwrap(), &BTreeMap::from([(key, value)]), &at);
                }
            }
        }
    }
}

#[test]
fn n_duplicates_of_one_key_are_one_pair() {
    for_every_kind(&OneKey);
}

struct KeepsOne;
impl Check for KeepsOne {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        if !scheme.keeps_one() {
            return;
        }
        // Every key occurs several times, and one a hundred times more, in as many slots as the distinct keys need.
        let (keys, _, model) = workload(scheme, size(3000, 70));
        let many = [&keys[..], &keys[keys.len() / 2..], &keys[..], &[keys[7]; 100]].concat();
        for device in devices() {
            let at = label(scheme, &device);
            let (there, zeros) = (device.upload(&many).unwrap(), device.filled(many.len(), 0).unwrap());
            let slots = scheme.default_load().slots_for(keys.len() as u64);
            let attempt = |attempt| {
                let plan = scheme.plan(Request { slots, pairs: keys.len() as u64, seed: 3, attempt }).unwrap();
                let mut image = device.filled(plan.words() as usize, plan.empty_word()).unwrap();
                let placed = Kernels::<AnyScheme>::place(&device, &plan, &mut image, &there, &zeros).unwrap();
                (placed.unplaced == 0).then_some((plan, image, placed))
            };
            let (plan, image, placed) = (0..32).find_map(attempt).unwrap_or_else(|| panic!("{at}: no attempt"));
            assert_eq!(placed.duplicates, (many.len() - keys.len()) as u64, "{at}");
            assert_eq!(placed.least_duplicate, keys.iter().copied().min(), "{at}");
            let image = device.download(&image).unwrap();
            let audit =
                AnyScheme::audit(&plan, &image, 0..plan.cells()).unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(audit.pairs + u64::from(placed.outside.is_some()), keys.len() as u64, "{at}");
            let plan = plan.with_outside(placed.outside);
            assert!(keys.iter().all(|&key| AnyScheme::find(&plan, &image, key) == Some(0)), "{at}");
            if kind == Kind::Canonical {
                let distinct = model.keys().map(|&key| (key, 0));
                assert!(
                    crate::common::reference::<AnyScheme>(&plan, distinct) == Some(image),
                    "{at}: the table of the distinct keys"
                );
            }
        }
    }
}

#[test]
fn kinds_that_drop_duplicates_need_no_second_build() {
    for_every_kind(&KeepsOne);
}

struct Batches;
impl Check for Batches {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        let n = size(3000, 70).min(max_pairs(scheme)) as usize;
        let (keys, values, model) = workload(scheme, n as u32);
        for device in devices() {
            let at = label(scheme, &device);
            for by_capacity in [true, false].into_iter().take(size(2, 1) as usize) {
                let sized = || match by_capacity {
                    true => builder(scheme).slots(n * 5 / 4),
                    false => builder(scheme).load_factor(0.75),
                };
                let whole = sized().build(&device, &keys, &values).unwrap();
                let mut table = sized().build(&device, &[], &[]).unwrap();
                for chunk in [0..1, 1..n / 2, n / 2..n / 2, n / 2..n] {
                    let done = table.insert(&keys[chunk.clone()], &values[chunk.clone()]).unwrap();
                    assert_eq!((done.added, done.overwritten), (chunk.len(), 0), "{at}");
                }
                holds_exactly(&table, &model, &at);
                if kind == Kind::Canonical {
                    assert_eq!(table.digest().unwrap(), whole.digest().unwrap(), "{at}: the table of one build");
                }
                // A key of an earlier batch is rejected, and the table is unchanged.
                let before = table.digest().unwrap();
                let refused = table.insert(&[keys[3].wrapping_add(1), keys[5], keys[4]], &[0, 0, 0]);
                let least = keys[4].min(keys[5]);
                assert!(
                    matches!(&refused, Err(Error::DuplicateKey { key }) if *key == u64::from(least)),
                    "{at}: {refused:?}"
                );
                assert_eq!(table.digest().unwrap(), before, "{at}: a refused batch changes nothing");
                holds_exactly(&table, &model, &at);
            }
        }
    }
}

#[test]
fn batches_equal_one_build_and_a_refused_batch_changes_nothing() {
    for_every_kind(&Batches);
}

struct Across;
impl Check for Across {
    fn run(&self, scheme: &AnyScheme) {
        // An ordinary key and the sentinel key occur in three batches, with values that decrease and increase.
        let batches: [[(u32, u32); 3]; 3] =
            [[(5, 20), (6, 1), (u32::MAX, 20)], [(u32::MAX, 10), (7, 2), (5, 10)], [(5, 30), (u32::MAX, 30), (8, 3)]];
        let batches = batches.map(|batch| batch.map(|(key, value)| (key, fitting(scheme, value))));
        for device in devices() {
            let at = label(scheme, &device);
            for by_capacity in [true, false] {
                // Simulators test all rules with a given capacity, and only the last rule without one.
                let first = if by_capacity { 0 } else { size(0, 2) as usize };
                for &rule in &Duplicates::ALL[first..] {
                    let builder = builder(scheme).duplicates(rule);
                    let builder = if by_capacity { builder.slots(64) } else { builder };
                    let mut table = builder.build(&device, &[], &[]).unwrap();
                    let mut model = BTreeMap::new();
                    for batch in &batches {
                        let (keys, values): (Vec<_>, Vec<_>) = batch.iter().copied().unzip();
                        let inserted = table.insert(&keys, &values);
                        let duplicates = batch.iter().any(|(key, _)| model.contains_key(key));
                        if rule == Duplicates::Error && duplicates {
                            assert!(matches!(inserted, Err(Error::DuplicateKey { key: 5 })), "{at}: {inserted:?}");
                            continue;
                        }
                        inserted.unwrap();
                        for &(key, value) in batch {
                            match rule {
                                Duplicates::KeepFirst => _ = model.entry(key).or_insert(value),
                                _ => _ = model.insert(key, value),
                            }
                        }
                    }
                    holds_exactly(&table, &model, &format!("{at}, {rule:?}"));
                }
            }
        }
    }
}

#[test]
fn three_duplicates_in_three_batches_follow_the_rule() {
    for_every_kind(&Across);
}

struct Upserts;
impl Check for Upserts {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        let n = size(2000, 70).min(max_pairs(scheme) / 3) as usize;
        let (keys, values, mut model) = workload(scheme, n as u32);
        for device in devices() {
            let at = label(scheme, &device);
            let start = |rule| builder(scheme).duplicates(rule).slots(2 * n);
            let mut table = start(Duplicates::Error).build(&device, &keys, &values).unwrap();
            // Larger and smaller values, new keys, duplicates in the batch, both extremes.
            let mut batch: Vec<(u32, u32)> = keys.iter().step_by(3).map(|&k| (k, model[&k].wrapping_sub(9))).collect();
            batch.extend(keys.iter().step_by(5).map(|&k| (k, k)));
            batch.extend((0..n as u32 / 2).map(|i| (i * 3 + 1, i)));
            batch.extend([(0, 1), (u32::MAX, 2), (0, 3)]);
            batch.iter_mut().for_each(|(_, value)| *value = fitting(scheme, *value));
            let (batch_keys, batch_values): (Vec<_>, Vec<_>) = batch.iter().copied().unzip();
            let old = model.clone();
            let done = table.upsert(&batch_keys, &batch_values).unwrap();
            model.extend(batch.iter().copied());
            let touched: BTreeMap<_, _> = batch.iter().copied().collect();
            let known = touched.keys().filter(|k| old.contains_key(k)).count();
            assert_eq!(done.overwritten, known, "{at}");
            assert_eq!(done.added, (touched.len() - known), "{at}");
            holds_exactly(&table, &model, &at);
            if kind == Kind::Canonical {
                let (keys, values): (Vec<_>, Vec<_>) = model.iter().map(|(&k, &v)| (k, v)).unzip();
                let whole = start(Duplicates::Error).build(&device, &keys, &values).unwrap();
                assert_eq!(table.digest().unwrap(), whole.digest().unwrap(), "{at}");
            }
            // KeepFirst keeps existing pairs, and the first of several new pairs with one key.
            let mut first = start(Duplicates::KeepFirst).build(&device, &keys, &values).unwrap();
            first.insert(&batch_keys, &batch_values).unwrap();
            let mut expected: BTreeMap<_, _> = old.clone();
            batch.iter().for_each(|&(k, v)| _ = expected.entry(k).or_insert(v));
            holds_exactly(&first, &expected, &at);
            model = old;
        }
    }
}

#[test]
fn upsert_overwrites_and_keep_first_does_not() {
    for_every_kind(&Upserts);
}

struct Impossible;
impl Check for Impossible {
    fn run(&self, scheme: &AnyScheme) {
        // More than a bucket of any scheme can hold.
        let (keys, values, model) = workload(scheme, 700);
        let n = keys.len() as u64;
        for device in devices() {
            let at = label(scheme, &device);
            // Slots are rounded up to whole buckets or sides, so slightly fewer slots than pairs may suffice.
            for slots in [n / 7, n * 18 / 35] {
                let refused = builder(scheme).slots(slots as usize).build(&device, &keys, &values);
                assert!(matches!(refused, Err(Error::TooFull { pairs, .. }) if pairs == n), "{at}: {refused:?}");
            }
            // Duplicates are reported even if the pairs do not fit.
            let copied = [&keys[..], &[9, 9]].concat();
            let refused = builder(scheme).slots((n / 7) as usize).build(&device, &copied, &vec![0; copied.len()]);
            assert!(matches!(refused, Err(Error::DuplicateKey { key: 9 })), "{at}: {refused:?}");
            for bad in [0.0, -1.0, 1.01, f64::NAN, f64::INFINITY] {
                let refused = builder(scheme).load_factor(bad).build(&device, &keys, &values);
                assert!(matches!(refused, Err(Error::InvalidParameter { .. })), "{at}: {bad} {refused:?}");
            }
            let both = builder(scheme).load_factor(0.5).slots((n * 2) as usize).build(&device, &keys, &values);
            assert!(matches!(both, Err(Error::InvalidParameter { .. })), "{at}");
            let short = builder(scheme).build(&device, &keys, &values[1..]);
            assert!(matches!(short, Err(Error::LengthMismatch { .. })), "{at}");
            let vast = builder(scheme).slots(1 << 40).build(&device, &keys, &values);
            assert!(matches!(vast, Err(Error::TooLarge { .. })), "{at}: {vast:?}");
            // A batch that does not fit leaves the table unchanged.
            let mut table = builder(scheme).slots((n * 5 / 4) as usize).build(&device, &keys, &values).unwrap();
            let before = table.digest().unwrap();
            let more: Vec<u32> =
                (0..n as u32 * 6 / 7).map(|i| 0x8000_0001 + 5 * i).filter(|k| !model.contains_key(k)).collect();
            let refused = table.insert(&more, &vec![fitting(scheme, 1); more.len()]);
            assert!(matches!(refused, Err(Error::TooFull { .. })), "{at}: {refused:?}");
            assert_eq!(table.digest().unwrap(), before, "{at}");
            holds_exactly(&table, &model, &at);
        }
    }
}

#[test]
fn impossible_builds_end_in_typed_errors_and_nothing_is_lost() {
    for_every_kind(&Impossible);
}

struct Hashed;
impl Check for Hashed {
    fn run(&self, scheme: &AnyScheme) {
        for device in devices() {
            let (keys, values, model) = workload(scheme, size(100_000, 400));
            let map: HashMap<_, _> = model.into_iter().collect();
            let table = builder(scheme).build(&device, &keys, &values).unwrap();
            let queries = Workload::new(0, 99).queries(size(40_000, 400) as usize, 0);
            let answers = table.get(&queries).unwrap();
            let expected: Vec<_> = queries.iter().map(|query| map.get(query).copied()).collect();
            assert_eq!(answers, expected, "{}", label(scheme, &device));
            let stats = table.stats().unwrap();
            assert!(stats.reads_per_hit >= 1.0 && stats.reads_per_miss >= 0.9);
            assert_eq!(stats.pairs, table.len() as u64);
        }
    }
}

#[test]
fn random_queries_are_answered_as_by_a_map() {
    for_every_kind(&Hashed);
}
