//! Tests of the two-level scheme: loads, tiny tables, skewed keys, buckets that are too full or cannot be placed, and
//! the errors of Sahu's listing, which must not occur.

use crate::common::{devices, size, sizes};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::scheme::Placing;
use koel::scheme::fks::{BUCKET_SLOTS, FksPlan, Functions, SAHU_PRIME, SAHU_SEEDS, canonical};
use koel::scheme::hash::{MixKeys, mix};
use koel::workload::Workload;
use koel::{Cpu, Error, Fks, FksFamily, HashTable, Kind, Scheme};

fn schemes() -> [Fks; 3] {
    [Fks::canonical(), Fks::classic(), Fks::classic().family(FksFamily::Sahu)]
}

fn holds(table: &HashTable<Any, Fks>, keys: &[u32], values: &[u32], at: &str) {
    assert_eq!(table.len(), keys.len(), "{at}");
    assert!(table.get(keys).unwrap().iter().zip(values).all(|(got, value)| *got == Some(*value)), "{at}: hits");
    let absent = Workload::new(0, 77).queries(2 * keys.len() + 50, 0);
    let known: std::collections::HashSet<_> = keys.iter().collect();
    let answers = table.get(&absent).unwrap();
    assert!(absent.iter().zip(answers).all(|(key, got)| got.is_some() == known.contains(key)), "{at}: misses");
    table.audit().unwrap_or_else(|error| panic!("{at}: {error}"));
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn tiny_tables_always_build() {
    for device in devices() {
        for scheme in schemes() {
            for n in 0..=64 {
                for seed in 0..u64::from(size(20, 1)) {
                    let load = Workload::new(n, seed ^ 0xabc);
                    let (keys, values) = (load.keys(), load.values());
                    let table = HashTable::builder(scheme.clone()).seed(seed).build(&device, &keys, &values).unwrap();
                    assert_eq!((table.restarts(), table.slots()), (0, 576));
                    if seed == 0 {
                        holds(&table, &keys, &values, &format!("{scheme:?}, n = {n}"));
                    }
                }
            }
        }
    }
}

/// From one bucket to twenty: no pair is lost at the borders of buckets, and seed numbers are packed correctly.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn a_few_buckets_build_at_the_default_load_and_a_little_above() {
    for device in devices() {
        for scheme in schemes() {
            for buckets in 1..=u64::from(size(20, 3)) {
                for per_bucket in [1, 200, 409, 425] {
                    let load = Workload::new((buckets * per_bucket) as u32, 5);
                    let (keys, values) = (load.keys(), load.values());
                    let builder = HashTable::builder(scheme.clone()).slots(buckets as usize * BUCKET_SLOTS as usize);
                    let table = builder.build(&device, &keys, &values).unwrap();
                    assert_eq!(u64::from(table.plan().buckets()), buckets);
                    holds(&table, &keys, &values, &format!("{scheme:?}, {buckets} buckets of {per_bucket}"));
                }
            }
        }
    }
}

/// Tables have the loads of the poster and of Sahu 2015 (1.42 N) and higher ones, with at most three reads per lookup
/// and 1.41 times the bytes of the pairs.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn tables_reach_the_papers_loads_and_reads() {
    let n = sizes(200_000, 40_000, 1000);
    let load = Workload::new(n, 3);
    let (keys, values) = (load.keys(), load.values());
    for device in devices() {
        for scheme in schemes() {
            for load_factor in [0.5, 0.71, 0.74] {
                let builder = HashTable::builder(scheme.clone()).load_factor(load_factor);
                let table = builder.build(&device, &keys, &values).unwrap();
                let stats = table.stats().unwrap();
                let at = format!("{scheme:?}, load {load_factor}: {stats:?}");
                assert!(stats.restarts < 4, "{at}");
                assert!(stats.reads_per_hit <= 1.9 && stats.reads_per_miss <= 3.0, "{at}");
                assert!(scheme.kind() == Kind::Classic || stats.reads_per_miss <= 2.1, "{at}");
                assert_eq!(stats.buckets.iter().map(|type_of| type_of.name).collect::<Vec<_>>(), ["slots", "seeds"]);
                if n > 10_000 && load_factor == 0.71 {
                    let bytes = stats.bytes as f64 / f64::from(n);
                    assert!((11.26..11.32).contains(&bytes), "{at}: {bytes} bytes a pair");
                }
                assert!(table.get(&keys).unwrap().iter().zip(&values).all(|(got, value)| *got == Some(*value)));
            }
        }
    }
}

type Pattern = fn(u32) -> u32;

#[test]
fn skewed_keys_are_split_as_well_as_random_ones() {
    let n = size(50_000, 500);
    let patterns: [(&str, Pattern); 8] = [
        ("counter", |i| i),
        ("stride 4096", |i| i.rotate_left(12)),
        ("reversed bits", u32::reverse_bits),
        ("equal halves", |i| i * 0x0001_0001),
        ("multiples of 576", |i| i * 576),
        ("multiples of p", |i| i.wrapping_mul(SAHU_PRIME)),
        ("grid", |i| (i % 256) << 16 | (i / 256)),
        ("from the top", |i| u32::MAX - 3 * i),
    ];
    let device = Cpu::new();
    for (name, pattern) in patterns {
        let mut keys: Vec<u32> = (0..n).map(pattern).collect();
        keys.sort_unstable();
        keys.dedup();
        for scheme in [Fks::canonical(), Fks::classic()] {
            for seed in 0..3 {
                let table = HashTable::builder(scheme.clone()).seed(seed).build(&device, &keys, &keys).unwrap();
                assert!(table.restarts() <= 1, "{name}: {} restarts", table.restarts());
            }
        }
    }
}

/// The seed number of a bucket is the smallest one under which all of its pairs have a slot.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn seed_numbers_are_the_smallest_that_work() {
    // Buckets are so full that one in seventy needs a second seed number.
    let buckets: u64 = 6;
    for device in devices() {
        let mut beyond_first = 0;
        for seed in 0..u64::from(size(40, 2)) {
            let plan = Fks::canonical().plan(koel::scheme::Request {
                slots: buckets * u64::from(BUCKET_SLOTS),
                pairs: 0,
                seed,
                attempt: 0,
            });
            let functions = plan.unwrap().functions();
            let keys: Vec<u32> = (0..6).flat_map(|bucket| of_bucket(&functions, bucket, 512)).collect();
            let builder =
                HashTable::builder(Fks::canonical()).slots(buckets as usize * BUCKET_SLOTS as usize).seed(seed);
            let table = builder.build(&device, &keys, &keys).unwrap();
            assert_eq!(table.restarts(), 0);
            let image = device.download(table.image()).unwrap();
            let mut scratch = vec![0; BUCKET_SLOTS as usize];
            for bucket in 0..6 {
                let pairs: Vec<_> = of_bucket(&functions, bucket, 512).map(|key| (key, key)).collect();
                let number = functions.seed(&image, bucket);
                let mut seats = |seed| canonical::accept(&functions, seed, &mut scratch, &pairs) != Placing::Unplaced;
                assert!(seats(number) && !(0..number).any(seats), "bucket {bucket}, seed number {number}");
                beyond_first += u32::from(number > 0);
            }
        }
        assert!(beyond_first > 0 || size(1, 0) == 0);
    }
}

/// Random keys of one bucket.
fn of_bucket(functions: &Functions, bucket: u32, count: usize) -> impl Iterator<Item = u32> {
    let random = (0..u32::MAX).map(|i| mix(i, MixKeys::default()));
    random.filter(move |&key| functions.bucket(key) == bucket).take(count)
}

fn first_plan(scheme: &Fks, slots: u64) -> FksPlan {
    let table = HashTable::builder(scheme.clone()).slots(slots as usize).seed(3).build(&Cpu::new(), &[], &[]).unwrap();
    *table.plan()
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn an_overfull_bucket_changes_the_first_level_function_or_is_named() {
    for scheme in schemes() {
        let slots = 20 * u64::from(BUCKET_SLOTS);
        let crowd: Vec<u32> = of_bucket(&first_plan(&scheme, slots).functions(), 7, 513).collect();
        let builder = HashTable::builder(scheme.clone()).slots(slots as usize).seed(3);
        let mut digests = Vec::new();
        for device in devices() {
            // As many keys as a bucket can hold are built at once.
            let table = builder.build(&device, &crowd[1..], &crowd[1..]).unwrap();
            assert_eq!(table.restarts(), 0, "{scheme:?}");
            let table = builder.build(&device, &crowd, &crowd).unwrap();
            assert_eq!(table.restarts(), 1, "{scheme:?}");
            holds(&table, &crowd, &crowd, &format!("{scheme:?}"));
            digests.push(table.digest().unwrap());
            match builder.clone().attempts(1).build(&device, &crowd, &crowd) {
                Err(Error::Crowded { attempts: 1, crowd }) => {
                    assert_eq!((crowd.keys, crowd.most), (513, 512));
                    assert_eq!(crowd.which, "in bucket 7 of 20 under the first-level function");
                }
                other => panic!("{scheme:?}: {other:?}"),
            }
        }
        assert!(scheme.kind() == Kind::Classic || digests.iter().all(|digest| *digest == digests[0]));
    }
}

/// At a load that no first-level function can reach, every attempt is made, and the error names the fullest bucket.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn a_load_beyond_all_buckets_is_a_typed_error() {
    let n = size(20_000, 2000);
    let load = Workload::new(n, 3);
    let (keys, values) = (load.keys(), load.values());
    for device in devices() {
        for scheme in schemes() {
            let refused = HashTable::builder(scheme).load_factor(0.88).build(&device, &keys, &values);
            match refused {
                Err(Error::Crowded { attempts: 32, crowd }) => assert!(crowd.keys > 512 && crowd.most == 512),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// With more than 512 pairs per bucket on average, no attempt is made, but duplicates are reported.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn more_pairs_than_all_buckets_hold_are_refused_at_once() {
    let (slots, room) = (3 * u64::from(BUCKET_SLOTS), 3 * 512);
    for device in devices() {
        for scheme in schemes() {
            let outside = u32::from(scheme.kind() == Kind::Classic);
            let keys: Vec<u32> = (0..room + outside + 1).collect();
            let builder = HashTable::builder(scheme.clone()).slots(slots as usize);
            match builder.build(&device, &keys, &keys) {
                Err(Error::TooFull { attempts: 0, unplaced: 1, slots: reported, .. }) => assert_eq!(reported, slots),
                other => panic!("{scheme:?}: {other:?}"),
            }
            let duplicates = [&keys[1..], &[7]].concat();
            let refused = builder.build(&device, &duplicates, &duplicates);
            assert!(matches!(refused, Err(Error::DuplicateKey { key: 7 })), "{refused:?}");
            let mut table = builder.build(&device, &keys[..1000], &keys[..1000]).unwrap();
            let refused = table.insert(&keys[1000..], &keys[1000..]);
            assert!(matches!(refused, Err(Error::TooFull { attempts: 0, unplaced: 1, .. })), "{refused:?}");
            holds(&table, &keys[..1000], &keys[..1000], "after a refused batch");
        }
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn too_few_rounds_are_a_typed_error() {
    let load = Workload::new(2000, 3);
    for device in devices() {
        let builder = HashTable::builder(Fks::classic().iterations(1)).attempts(2);
        let refused = builder.build(&device, &load.keys(), &load.values());
        assert!(matches!(refused, Err(Error::TooFull { attempts: 2, unplaced: 1.., .. })), "{refused:?}");
    }
}

/// The listing treated key 0xffff as empty, did not clear slots after a failed seed, and stored one bucket's seed.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn sahus_tables_hold_key_0xffff_and_every_other() {
    let sahu = Fks::classic().family(FksFamily::Sahu);
    let mut keys: Vec<u32> = (0xff00..0x1_0100).chain([0, u32::MAX, u32::MAX - 1, SAHU_PRIME]).collect();
    keys.extend(
        Workload::new(size(30_000, 700), 5).keys().iter().filter(|key| **key > 0x20_0000 && **key < 0xffff_fff0),
    );
    for device in devices() {
        let table = HashTable::builder(sahu.clone()).build(&device, &keys, &keys).unwrap();
        holds(&table, &keys, &keys, "with 0xffff");
        assert_eq!(table.get(&[0xffff]).unwrap(), [Some(0xffff)]);
        // Buckets so full that their first seeds fail.
        let functions = first_plan(&sahu, 3 * u64::from(BUCKET_SLOTS)).functions();
        let full: Vec<u32> = (0..3).flat_map(|bucket| of_bucket(&functions, bucket, 500)).collect();
        let builder = HashTable::builder(sahu.clone()).slots(3 * BUCKET_SLOTS as usize).seed(3);
        let table = builder.build(&device, &full, &full).unwrap();
        holds(&table, &full, &full, "full buckets");
    }
}

#[test]
fn sahus_buckets_are_not_more_than_his_prime() {
    let slots = SAHU_PRIME as usize * BUCKET_SLOTS as usize;
    let estimate =
        |slots| HashTable::<Cpu, _>::builder(Fks::classic().family(FksFamily::Sahu)).slots(slots).memory_estimate(9);
    assert!(estimate(slots).is_ok());
    assert!(matches!(estimate(slots + 1), Err(Error::TooLarge { .. })));
}

/// For each seed of Sahu's list there are four keys that share all of their slots, so no seed can place them. Another
/// attempt has another list.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn sets_that_sahus_list_cannot_hold_are_restarted_or_named() {
    let sahu = Fks::classic().family(FksFamily::Sahu);
    let functions = first_plan(&sahu, 576).functions();
    let random: Vec<u32> = (0..500_000u32).map(|i| mix(i, MixKeys::default())).collect();
    let of_seed = |seed: u32| {
        let code = |&key: &u32| (0..3).fold(0, |code, i| code * 192 + functions.location(i, seed, key));
        let mut keys: Vec<(u32, u32)> = random.iter().map(|key| (code(key), *key)).collect();
        keys.sort_unstable();
        let four = keys.windows(4).find(|four| four[0].0 == four[3].0).expect("four of 500,000");
        four.iter().map(|&(_, key)| key).collect::<Vec<_>>()
    };
    let mut keys: Vec<u32> = (0..SAHU_SEEDS as u32).flat_map(of_seed).collect();
    keys.sort_unstable();
    keys.dedup();
    for device in devices() {
        let builder = HashTable::builder(sahu.clone()).slots(576).seed(3);
        let table = builder.build(&device, &keys, &keys).unwrap();
        assert_eq!(table.restarts(), 1);
        holds(&table, &keys, &keys, "with another list");
        match builder.attempts(1).build(&device, &keys, &keys) {
            Err(Error::Crowded { attempts: 1, crowd }) => assert_eq!((crowd.keys, crowd.most), (4, 3)),
            other => panic!("{other:?}"),
        }
        let mixers = HashTable::builder(Fks::classic()).slots(576).seed(3).build(&device, &keys, &keys).unwrap();
        assert_eq!(mixers.restarts(), 0);
    }
}

/// Every change rebuilds the table from scratch.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn removals_and_insertions_rebuild_the_table() {
    let load = Workload::new(3000, 3);
    let (keys, values) = (load.keys(), load.values());
    for device in devices() {
        for scheme in schemes() {
            let builder = HashTable::builder(scheme.clone()).slots(8 * BUCKET_SLOTS as usize);
            let mut table = builder.build(&device, &keys[..2000], &values[..2000]).unwrap();
            assert!(table.insert(&keys[2000..], &values[2000..]).unwrap().rebuilt);
            assert_eq!(table.remove(&keys[..1000]).unwrap(), 1000);
            assert!(!table.has_tombstones());
            holds(&table, &keys[1000..], &values[1000..], &format!("{scheme:?}"));
            if scheme.kind() == Kind::Canonical {
                let fresh = builder.build(&device, &keys[1000..], &values[1000..]).unwrap();
                assert_eq!(table.digest().unwrap(), fresh.digest().unwrap());
            }
        }
    }
}
