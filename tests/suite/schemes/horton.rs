//! Tests of the Horton scheme: loads, costs compared with the paper's models, tiny tables, crowds of one bucket, rounds
//! of removing and inserting without a rebuild.

use std::collections::BTreeMap;

use crate::common::{holds_exactly, on_one_thread, one_thread, opencl_devices, size, sizes, tiny_tables};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::scheme::hash::SplitMix64;
use koel::scheme::horton::HortonFamily;
use koel::workload::Workload;
use koel::{Cpu, HashTable, Horton};

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn tiny_tables_always_build() {
    for slots in [4, 8, 16] {
        for scheme in [Horton::canonical(slots), Horton::classic(slots)] {
            on_one_thread(|cpu| tiny_tables(cpu, &scheme, u64::from(sizes(1000, 100, 1))));
            opencl_devices().iter().for_each(|gpu| tiny_tables(gpu, &scheme, 1));
        }
    }
    let jenkins = Horton::classic(8).family(HortonFamily::Jenkins);
    on_one_thread(|cpu| tiny_tables(cpu, &jenkins, u64::from(sizes(1000, 100, 1))));
}

/// All keys are placed at the paper's loads without a restart, and lookups read as few buckets as in the paper.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn canonical_tables_reach_the_papers_loads_and_costs() {
    let n = size(200_000, 600);
    for device in [Any::Cpu(Cpu::new())].into_iter().chain(opencl_devices()) {
        for (slots, load_factor, hit, miss) in
            [(4, 0.90, 1.31, 1.09), (8, 0.90, 1.145, 1.052), (8, 0.95, 1.17, 1.065), (16, 0.96, 1.12, 1.08)]
        {
            for seed in 0..2 {
                let load = Workload::new(n, seed);
                let (keys, values) = (load.keys(), load.values());
                let builder = HashTable::builder(Horton::canonical(slots)).load_factor(load_factor).seed(seed);
                let table = builder.build(&device, &keys, &values).unwrap();
                let at = format!("S = {slots}, load {load_factor} on {}", device.info());
                assert_eq!(table.restarts(), 0, "{at}");
                table.audit().unwrap();
                let stats = table.stats().unwrap();
                if n > 10_000 {
                    assert!(stats.reads_per_hit <= hit, "{at}: {} a hit", stats.reads_per_hit);
                    assert!(stats.reads_per_miss <= miss, "{at}: {} a miss", stats.reads_per_miss);
                    let model = stats.model.unwrap();
                    let near = |walked: f64, model: f64| (walked - model).abs() / (model - 1.0) < 0.08;
                    assert!(near(stats.reads_per_hit, model.reads_per_hit), "{at}: {stats:?}");
                    assert!(near(stats.reads_per_miss, model.reads_per_miss), "{at}: {stats:?}");
                }
                assert!(table.get(&keys).unwrap().iter().zip(&values).all(|(got, value)| *got == Some(*value)));
            }
        }
    }
}

/// Runs 100 rounds that remove half of the keys and insert as many, at load 0.8. The table is not rebuilt, and lookups
/// cost as much as in a new table.
#[test]
fn classic_tables_last_a_hundred_rounds_without_a_rebuild() {
    let n = size(20_000, 300);
    let device = one_thread();
    let slots = (f64::from(n) / 0.8) as u64;
    let builder = || HashTable::builder(Horton::classic(8)).slots(slots as usize).seed(4);
    // A bijection of the integers, so every key is new.
    let load = Workload::new(n + 100 * (n / 2), 9);
    let all = load.keys();
    let mut model: BTreeMap<u32, u32> = all[..n as usize].iter().map(|&key| (key, !key)).collect();
    let (keys, values): (Vec<u32>, Vec<u32>) = model.iter().unzip();
    let mut table = builder().build(&device, &keys, &values).unwrap();
    let mut draw = SplitMix64::new(1);
    let mut fresh = all[n as usize..].chunks(n as usize / 2);
    let mut rebuilds = 0;
    for round in 0..size(100, 5) {
        let mut order: Vec<u32> = model.keys().copied().collect();
        order.sort_by_cached_key(|key| key.wrapping_mul(draw.next_u32() | 1));
        let gone: Vec<u32> = order.into_iter().take(n as usize / 2).collect();
        assert_eq!(table.remove(&gone).unwrap(), gone.len(), "round {round}");
        gone.iter().for_each(|key| _ = model.remove(key));
        let new_pairs = fresh.next().unwrap();
        let values: Vec<u32> = new_pairs.iter().map(|key| !key).collect();
        rebuilds += u32::from(table.insert(new_pairs, &values).unwrap().rebuilt);
        model.extend(new_pairs.iter().map(|&key| (key, !key)));
    }
    assert_eq!(rebuilds, 0);
    holds_exactly(&table, &model, "after the rounds");
    let (keys, values): (Vec<u32>, Vec<u32>) = model.iter().unzip();
    let new = builder().build(&device, &keys, &values).unwrap().stats().unwrap();
    let old = table.stats().unwrap();
    if n > 10_000 {
        for (old, new, within) in
            [(old.reads_per_hit, new.reads_per_hit, 0.10), (old.reads_per_miss, new.reads_per_miss, 0.10)]
        {
            assert!(((old - 1.0) / (new - 1.0) - 1.0).abs() < within, "{old} after the rounds, {new} in a new table");
        }
    }
}

/// If a bucket has more keys than its remap entries can redirect, they are stored in the stash, and are found.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn a_crowd_of_one_bucket_is_built_and_found() {
    for device in [one_thread()].into_iter().chain(opencl_devices()) {
        let scheme = Horton::canonical(8);
        let builder = HashTable::builder(scheme).slots(8 * 200).seed(3);
        let empty = builder.build(&device, &[], &[]).unwrap();
        let functions = empty.plan().functions();
        let crowd: Vec<u32> = (0..u32::MAX).filter(|&key| functions.home(key).0 == 7).take(24).collect();
        let table = builder.build(&device, &crowd, &crowd).unwrap();
        assert_eq!(table.restarts(), 0);
        assert!(table.get(&crowd).unwrap().iter().zip(&crowd).all(|(got, key)| *got == Some(*key)));
        table.audit().unwrap();
        // A hundred keys of one bucket need other constants, which distribute them over several buckets.
        let crowd: Vec<u32> = (0..u32::MAX).filter(|&key| functions.home(key).0 == 7).take(100).collect();
        let table = builder.build(&device, &crowd, &crowd).unwrap();
        assert!(table.restarts() > 0);
        assert!(table.get(&crowd).unwrap().iter().zip(&crowd).all(|(got, key)| *got == Some(*key)));
    }
}

/// Sixty keys per home need a further attempt. The attempt and the digest must not depend on the device.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn crowds_are_built_equally_on_every_device() {
    let builder = HashTable::builder(Horton::canonical(8)).slots(1600).seed(3);
    let functions = builder.build(&one_thread(), &[], &[]).unwrap().plan().functions();
    let mut crowds = [0; 11];
    let takes = |&key: &u32| {
        let home = functions.home(key).0 as usize;
        let most = if home == 0 { 65 } else { 60 };
        home < crowds.len() && {
            crowds[home] += 1;
            crowds[home] <= most
        }
    };
    let crowd: Vec<u32> = (0..1_000_000).filter(takes).collect();
    assert_eq!(crowd.len(), 665);
    let digests: Vec<_> = [one_thread(), Any::Cpu(Cpu::new())]
        .into_iter()
        .chain(opencl_devices())
        .map(|device| builder.build(&device, &crowd, &crowd).unwrap())
        .map(|table| (table.restarts(), table.digest().unwrap()))
        .collect();
    assert!(digests[0].0 > 0 && digests.iter().all(|found| *found == digests[0]), "{digests:?}");
}

/// Tables with every accepted number and width of remap entries are built at their default loads.
#[test]
fn every_accepted_parameter_builds_at_its_default_load() {
    let load = Workload::new(size(30_000, 200), 4);
    let (keys, values) = (load.keys(), load.values());
    for slots in [4, 8, 16] {
        for (tags, bits) in (2..=32).flat_map(|tags| (2..=4).map(move |bits| (tags, bits))) {
            if tags * bits > 64 || ![2, 4, 8, 16, 21, 32].contains(&tags) {
                continue;
            }
            for scheme in [Horton::canonical(slots), Horton::classic(slots)] {
                let scheme = scheme.tags(tags).bits(bits);
                let built = HashTable::builder(scheme.clone()).build(&Cpu::new(), &keys, &values);
                let table = built.unwrap_or_else(|error| panic!("{scheme:?}: {error}"));
                assert!(table.restarts() <= 2, "{scheme:?}: {}", table.restarts());
            }
        }
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn every_width_of_remap_entry_builds_and_answers() {
    let load = Workload::new(size(20_000, 200), 4);
    let (keys, values) = (load.keys(), load.values());
    let queries = load.queries(2000, 50);
    let expected: Vec<_> = queries.iter().map(|&query| load.answer(query)).collect();
    for device in [Any::Cpu(Cpu::new())].into_iter().chain(opencl_devices()) {
        for (tags, bits) in [(21, 3), (16, 4), (32, 2), (9, 3)] {
            for scheme in [Horton::canonical(8), Horton::classic(8), Horton::classic(8).family(HortonFamily::Jenkins)] {
                let scheme = scheme.tags(tags).bits(bits);
                let table = HashTable::builder(scheme.clone()).load_factor(0.75).build(&device, &keys, &values);
                let table = table.unwrap_or_else(|error| panic!("{scheme:?}: {error}"));
                assert_eq!(table.get(&queries).unwrap(), expected, "{scheme:?} on {}", device.info());
                table.audit().unwrap();
            }
        }
    }
}
