//! Removal on every backend, for every scheme and kind: `remove`, `compact` and `rebuild` compared with a map, and with
//! tables that never contained the removed pairs.

use std::collections::BTreeMap;

use crate::common::{Check, devices, fitting, for_every_kind, holds_exactly, image, label, max_pairs, size, workload};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::scheme::{Plan, Updates};
use koel::{AnyScheme, Cpu, Duplicates, Error, HashTable, Kind, Quadratic, Scheme, TableBuilder};

fn builder(scheme: &AnyScheme, slots: u64) -> TableBuilder<AnyScheme> {
    HashTable::builder(scheme.clone()).seed(23).slots(slots as usize)
}

/// The slots for the pairs that [`workload`] returns for `pairs`, at the scheme's default load.
fn slots_for(scheme: &AnyScheme, pairs: u32) -> u64 {
    scheme.default_load().slots_for(pairs.min(max_pairs(scheme)).into())
}

/// Builds a table from a map, in the map's order.
fn built(scheme: &AnyScheme, slots: u64, device: &Any, model: &BTreeMap<u32, u32>) -> HashTable<Any, AnyScheme> {
    let (keys, values): (Vec<u32>, Vec<u32>) = model.iter().unzip();
    builder(scheme, slots).build(device, &keys, &values).unwrap()
}

struct Removes;
impl Check for Removes {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        // Simulators test a few pairs, and more than two work-groups of them.
        let sizes = [17, size(5000, 130), 1, 2, 64];
        for device in devices() {
            for &n in &sizes[..size(5, 2) as usize] {
                let at = format!("{}, n = {n}", label(scheme, &device));
                let (keys, values, mut model) = workload(scheme, n);
                let slots = slots_for(scheme, n);
                let mut table = builder(scheme, slots).build(&device, &keys, &values).unwrap();
                assert_eq!(table.remove(&[]).unwrap(), 0, "{at}: no keys to remove, no change");
                let absent: Vec<u32> = (1..100).filter(|key| !model.contains_key(key)).collect();
                let untouched = table.digest().unwrap();
                assert_eq!(table.remove(&absent).unwrap(), 0, "{at}: absent keys");
                if kind == Kind::Canonical {
                    assert_eq!(table.digest().unwrap(), untouched, "{at}: absent keys change nothing");
                }

                // Every third key, each three times, among absent ones. The extremes are among them.
                let gone: Vec<u32> = keys.iter().copied().step_by(3).collect();
                let batch: Vec<u32> = gone.iter().chain(&gone).chain(&absent).chain(&gone).copied().collect();
                assert_eq!(table.remove(&batch).unwrap(), gone.len(), "{at}: each removed key counts once");
                gone.iter().for_each(|key| _ = model.remove(key));
                holds_exactly(&table, &model, &at);
                assert_eq!(table.remove(&batch).unwrap(), 0, "{at}: no key is left to remove");

                let has_tombstones = scheme.updates() == Updates::Tombstones;
                assert_eq!(table.has_tombstones(), has_tombstones, "{at}");
                assert_eq!(table.tombstones() > 0, has_tombstones, "{at}");
                assert_eq!(table.audit().unwrap().tombstones, table.tombstones() as u64, "{at}");
                assert_eq!(table.stats().unwrap().tombstones, table.tombstones() as u64, "{at}");

                table.compact().unwrap();
                assert!(!table.has_tombstones(), "{at}: compacted");
                holds_exactly(&table, &model, &format!("{at}, compacted"));
                let fresh = built(scheme, slots, &device, &model);
                if kind == Kind::Canonical && table.restarts() == fresh.restarts() {
                    assert_eq!(
                        table.digest().unwrap(),
                        fresh.digest().unwrap(),
                        "{at}: the table of the remaining pairs"
                    );
                    let expected = crate::common::reference::<AnyScheme>(table.plan(), model.clone());
                    assert_eq!(Some(image(&table)), expected, "{at}: the bytes of the table of the remaining pairs");
                }
                table.rebuild().unwrap();
                holds_exactly(&table, &model, &format!("{at}, rebuilt"));
                if kind == Kind::Canonical {
                    assert_eq!(table.digest().unwrap(), fresh.digest().unwrap(), "{at}: the table of one build");
                }

                let rest: Vec<u32> = model.keys().copied().collect();
                assert_eq!(table.remove(&rest).unwrap(), rest.len(), "{at}: all remaining keys");
                holds_exactly(&table, &BTreeMap::new(), &format!("{at}, emptied"));
                table.compact().unwrap();
                table.insert(&keys, &values).unwrap();
                holds_exactly(&table, &workload(scheme, n).2, &format!("{at}, filled again"));
                if kind == Kind::Canonical && table.restarts() == 0 {
                    let fresh = builder(scheme, slots).build(&device, &keys, &values).unwrap();
                    assert_eq!(table.digest().unwrap(), fresh.digest().unwrap(), "{at}: filled again");
                }
            }
        }
    }
}

#[test]
fn removing_counts_keys_and_compacts_to_the_table_of_the_remaining_pairs() {
    for_every_kind(&Removes);
}

struct Rounds;
impl Check for Rounds {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        for device in devices() {
            let n = size(2000, 120).min(max_pairs(scheme) / 2);
            let (keys, values, _) = workload(scheme, 2 * n);
            let n = n as usize;
            let mut model: BTreeMap<u32, u32> = keys[..n].iter().copied().zip(values[..n].iter().copied()).collect();
            // At half the default load, because slots with tombstones remain occupied from round to round.
            let slots = 2 * slots_for(scheme, n as u32);
            let mut table = built(scheme, slots, &device, &model);
            for round in 0..size(6, 3) as usize {
                let at = format!("{}, round {round}", label(scheme, &device));
                // A moving window of keys: some are removed, some are added, and some are removed and added again
                // within the round.
                let pick = |step: usize| (0..n / 4).map(move |i| (round * n / 4 + i * step) % (2 * n));
                let gone: Vec<u32> = pick(1).map(|i| keys[i]).collect();
                let expected = gone.iter().filter(|key| model.remove(key).is_some()).count();
                assert_eq!(table.remove(&gone).unwrap(), expected, "{at}");
                let new_pairs: Vec<usize> = pick(3).filter(|&i| !model.contains_key(&keys[i])).collect();
                let mut new_pairs: Vec<(u32, u32)> =
                    new_pairs.into_iter().map(|i| (keys[i], fitting(scheme, values[i] ^ round as u32))).collect();
                new_pairs.sort_unstable();
                new_pairs.dedup_by_key(|pair| pair.0);
                let (new_keys, new_values): (Vec<u32>, Vec<u32>) = new_pairs.iter().copied().unzip();
                assert_eq!(table.insert(&new_keys, &new_values).unwrap().added, new_pairs.len(), "{at}");
                model.extend(new_pairs);
                let again = &new_keys[..new_keys.len() / 2];
                let other: Vec<u32> = again.iter().map(|&key| fitting(scheme, key)).collect();
                assert_eq!(table.upsert(again, &other).unwrap().overwritten, again.len(), "{at}");
                model.extend(again.iter().copied().zip(other));
                holds_exactly(&table, &model, &at);
            }
            table.compact().unwrap();
            let at = label(scheme, &device);
            holds_exactly(&table, &model, &at);
            if kind == Kind::Canonical && table.restarts() == 0 {
                let fresh = built(scheme, slots, &device, &model);
                assert_eq!(table.digest().unwrap(), fresh.digest().unwrap(), "{at}: the table of the remaining pairs");
            }
        }
    }
}

#[test]
fn rounds_of_removing_and_inserting_equal_those_of_a_map() {
    for_every_kind(&Rounds);
}

struct TombstonesEverywhere;
impl Check for TombstonesEverywhere {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        if kind != Kind::Canonical {
            return;
        }
        let (keys, values, _) = workload(scheme, size(3000, 150));
        let gone: Vec<u32> = keys.iter().copied().step_by(4).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut digests = Vec::new();
        for device in devices() {
            let at = label(scheme, &device);
            let slots = slots_for(scheme, keys.len() as u32);
            let mut table = builder(scheme, slots).build(&device, &keys, &values).unwrap();
            table.remove(&gone).unwrap();
            digests.push(table.digest().unwrap());
            let path = folder.path().join("worn");
            assert_eq!(table.save(&path).unwrap(), digests[0], "{at}");
            let mut again: HashTable<Any, AnyScheme> = HashTable::open(&device, &path).unwrap();
            assert_eq!(
                (again.tombstones(), again.len()),
                (table.tombstones(), table.len()),
                "{at}: the file stores the tombstones"
            );
            again.compact().unwrap();
            table.compact().unwrap();
            assert_eq!(again.digest().unwrap(), table.digest().unwrap(), "{at}");
        }
        assert!(
            digests.iter().all(|digest| *digest == digests[0]),
            "{}: the same tombstones on every device",
            scheme.name()
        );
    }
}

#[test]
fn tables_with_tombstones_are_equal_on_every_device_and_in_files() {
    for_every_kind(&TombstonesEverywhere);
}

struct Refills;
impl Check for Refills {
    fn run(&self, scheme: &AnyScheme) {
        // Tombstones occupy slots, so a batch may not fit into a table that has some. The table is then rebuilt with
        // all pairs.
        for device in devices() {
            let at = label(scheme, &device);
            let n = size(1000, 100);
            let (keys, values, model) = workload(scheme, n);
            let slots = slots_for(scheme, n);
            let mut table = builder(scheme, slots).build(&device, &keys, &values).unwrap();
            for _ in 0..size(3, 2) {
                let half = keys.len() / 2;
                assert_eq!(table.remove(&keys[..half]).unwrap(), half, "{at}");
                table.insert(&keys[..half], &values[..half]).unwrap();
                holds_exactly(&table, &model, &at);
            }
        }
    }
}

#[test]
fn tables_with_tombstones_accept_batches_that_fit_without_them() {
    for_every_kind(&Refills);
}

struct Refuses;
impl Check for Refuses {
    fn run(&self, scheme: &AnyScheme) {
        // A displaced key is stored in one of its later slots, and most pairs in its earlier slots are removed: a
        // duplicate must not be placed in these.
        let tombstones = scheme.updates() == Updates::Tombstones;
        for device in devices() {
            let at = label(scheme, &device);
            let (keys, values, mut model) = workload(scheme, size(240, 16));
            // The fewest slots for which the first attempt succeeds, so that many keys are displaced.
            let (n, usual) = (keys.len() as u64, slots_for(scheme, keys.len() as u32));
            let has_lists = tombstones && scheme.name() != Quadratic::NAME;
            let sizes = (0..50).map(|i| n + i * n / 50).filter(|&slots| has_lists && slots < usual);
            let builds = |slots: &u64| builder(scheme, *slots).attempts(1).build(&device, &keys, &values).is_ok();
            let slots = sizes.chain([usual]).find(builds).unwrap_or(usual);
            let mut table = builder(scheme, slots).build(&device, &keys, &values).unwrap();
            let greatest = table.stats().unwrap().ages.len() as u32 - 1;
            assert!(!has_lists || size(greatest, 3) >= 3, "{at}: {greatest} in {slots} slots");
            let (stay, gone): (Vec<_>, Vec<_>) = (0..keys.len()).map(|i| (i, keys[i])).partition(|(i, _)| i % 3 == 0);
            let [stay, gone] = [stay, gone].map(|keys| keys.into_iter().map(|(_, key)| key).collect::<Vec<u32>>());
            assert_eq!(table.remove(&gone).unwrap(), gone.len(), "{at}");
            gone.iter().for_each(|key| _ = model.remove(key));
            assert_eq!(table.has_tombstones(), tombstones, "{at}");
            // If a batch would rebuild the table, a few keys are enough.
            let each = if tombstones { stay.len() } else { 6 };
            for (i, (&key, &new)) in stay.iter().zip(gone.iter().cycle()).take(each).enumerate() {
                // The key alone, and together with a new key.
                let batch = &[key, new][..1 + i % 2];
                let refused = table.insert(batch, &[0, 0][..batch.len()]);
                let right = matches!(refused, Err(Error::DuplicateKey { key: reported }) if reported == u64::from(key));
                assert!(right, "{at}: {key}: {refused:?}");
            }
            let refused = table.insert(&stay, &vec![0; stay.len()]);
            let least = stay.iter().min().copied();
            assert!(
                matches!(refused, Err(Error::DuplicateKey { key }) if Some(key) == least.map(u64::from)),
                "{at}: {refused:?}"
            );
            holds_exactly(&table, &model, &at);
        }
    }
}

#[test]
fn duplicates_of_pairs_in_a_table_with_tombstones_are_errors() {
    for_every_kind(&Refuses);
}

struct Chains;
impl Check for Chains {
    fn run(&self, scheme: &AnyScheme) {
        // In a tiny table at its default load nearly every key is in a candidate slot of other keys. The keys are
        // removed one by one, from either end of the order of insertion, and all others must remain. A few keys are
        // enough for tables that a removal rebuilds, which have no such chains, and for simulators, which are slow.
        let few = if scheme.updates() == Updates::Rebuild { 3 } else { 8 };
        let (keys, values, whole) = workload(scheme, size(40, few));
        for device in devices() {
            for from_the_end in [false, true] {
                let at = format!("{}, from the {}", label(scheme, &device), if from_the_end { "end" } else { "start" });
                let slots = slots_for(scheme, keys.len() as u32);
                let mut table = builder(scheme, slots).build(&device, &keys, &values).unwrap();
                let mut model = whole.clone();
                for i in 0..keys.len() {
                    let key = keys[if from_the_end { keys.len() - 1 - i } else { i }];
                    assert_eq!(table.remove(&[key]).unwrap(), 1, "{at}: {key}");
                    model.remove(&key);
                    holds_exactly(&table, &model, &at);
                }
            }
        }
    }
}

#[test]
fn keys_of_one_chain_are_removed_from_either_end() {
    for_every_kind(&Chains);
}

struct WithALoad;
impl Check for WithALoad {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        for device in devices() {
            let at = label(scheme, &device);
            let n = size(4000, 200).min(max_pairs(scheme));
            let (keys, values, mut model) = workload(scheme, n);
            let builder = || HashTable::builder(scheme.clone()).seed(7).duplicates(Duplicates::KeepLast);
            let mut table = builder().build(&device, &keys, &values).unwrap();
            let full = table.capacity();
            let gone = &keys[..keys.len() * 3 / 4];
            table.remove(gone).unwrap();
            gone.iter().for_each(|key| _ = model.remove(key));
            assert_eq!(table.capacity(), full, "{at}: removing keeps the slots");
            let (known, _) = model.iter().next().unwrap();
            let done = table.upsert(&[*known], &[fitting(scheme, 5)]).unwrap();
            assert_eq!((done.overwritten, done.rebuilt, table.capacity()), (1, false, full), "{at}: no rebuild");
            table.upsert(&[*known], &[model[known]]).unwrap();
            table.rebuild().unwrap();
            // A table that already has as few slots as that of one pair cannot release any.
            let least = builder().build(&device, &[*known], &[fitting(scheme, 5)]).unwrap().capacity();
            let shrinks = if full == least { table.capacity() == full } else { table.capacity() < full };
            assert!(shrinks, "{at}: a rebuild fits the slots to the load");
            holds_exactly(&table, &model, &at);
            let (rest, values): (Vec<u32>, Vec<u32>) = model.iter().unzip();
            let fresh = builder().build(&device, &rest, &values).unwrap();
            assert_eq!(fresh.plan().slots(), table.plan().slots(), "{at}");
            if kind == Kind::Canonical {
                assert_eq!(fresh.digest().unwrap(), table.digest().unwrap(), "{at}");
            }
        }
    }
}

#[test]
fn rebuilds_fit_the_slots_to_the_load() {
    for_every_kind(&WithALoad);
}

struct Mapped;
impl Check for Mapped {
    fn run(&self, scheme: &AnyScheme) {
        let (keys, values, mut model) = workload(scheme, 500);
        let cpu = Any::Cpu(Cpu::new());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let mut table = builder(scheme, slots_for(scheme, 500)).build(&cpu, &keys, &values).unwrap();
        table.save(&path).unwrap();
        let before = std::fs::read(&path).unwrap();
        let mut opened: HashTable<Any, AnyScheme> = HashTable::open(&cpu, &path).unwrap();
        let part = keys.len() / 5..keys.len() * 2 / 5;
        let gone = cpu.upload(&keys[part.clone()]).unwrap();
        assert_eq!(opened.remove_on(&gone).unwrap(), part.len());
        assert_eq!(table.remove_on(&gone).unwrap(), part.len());
        keys[part].iter().for_each(|key| _ = model.remove(key));
        holds_exactly(&opened, &model, &label(scheme, &cpu));
        assert_eq!(std::fs::read(&path).unwrap(), before, "the file is unchanged");
    }
}

#[test]
fn an_opened_table_changes_and_its_file_does_not() {
    for_every_kind(&Mapped);
}
