//! The CPU's two-level tables compared with the sequential reference, on one thread and on more than the machine has.

use crate::backend::scheme_tests::{audited, counted, sequential};
use crate::backend::{HashBackend, Placed, Probe};
use crate::cpu::Cpu;
use crate::cpu::tests::schemes::{self, Pairs, built_over, keys_of, shuffled};
use crate::error::Result;
use crate::scheme::fks::FksPlan;
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Fks, FksFamily, Kind, Placing, Request, Scheme};

const SIZES: [usize; 11] = [0, 1, 2, 7, 127, 409, 512, 1000, 4095, 4097, 60_000];

fn distinct(count: usize) -> Pairs {
    (0..count as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) ^ 0x5555, !i)).collect()
}

fn all_schemes() -> [Fks; 3] {
    [Fks::canonical(), Fks::classic(), Fks::classic().family(FksFamily::Sahu)]
}

fn plan_of(scheme: &Fks, pairs: usize, seed: u64) -> FksPlan {
    let slots = if pairs == 512 { 576 } else { scheme.default_load().slots_for(pairs as u64) };
    scheme.plan(Request { slots, pairs: pairs as u64, seed, attempt: 0 }).expect("a plan")
}

fn cpus() -> [Cpu; 3] {
    schemes::with_threads([1, 2, 5])
}

/// The result of a build in an image of noise.
fn built(cpu: &Cpu, plan: &FksPlan, pairs: &[(u32, u32)]) -> (Vec<u64>, Placed) {
    built_over(cpu, 0x1234_5678_9abc_def0, plan, &[pairs])
}

#[test]
fn canonical_images_equal_the_reference() {
    let cpus = cpus();
    for size in SIZES {
        for seed in 0..3 {
            let plan = plan_of(&Fks::canonical(), size, seed);
            let pairs = distinct(size);
            let (expected, placing) = sequential(&plan, &pairs);
            assert_eq!(placing, Placing::Placed);
            for cpu in &cpus {
                let (image, placed) = built(cpu, &plan, &shuffled(pairs.clone(), seed));
                assert_eq!(placed, Placed::default());
                assert!(image == expected, "{size} pairs, {}", cpu.info().driver);
            }
        }
    }
}

#[test]
fn duplicates_are_counted_exactly_and_take_no_slot() {
    let mut stream = SplitMix64::new(1);
    let random: Pairs = (0..4000).map(|_| (stream.next_u32() % 1500 + 17, stream.next_u32() % 3)).collect();
    let equal: Pairs = (0..400).map(|i| (7, i * 3 % 400)).collect();
    let thrice: Pairs = distinct(130).repeat(3);
    for (pairs, slots) in [(random, 12_000), (equal, 576), (thrice, 576)] {
        let counts = counted(&pairs);
        for scheme in all_schemes() {
            let request = Request { slots, pairs: 1, seed: 5, attempt: 0 };
            let plan = scheme.plan(request).expect("a plan");
            let (expected, placing) = sequential(&plan, &pairs);
            assert_eq!(Some(placing), counts.least_duplicate.map(Placing::Duplicate));
            for cpu in cpus() {
                for seed in 0..3 {
                    let (image, placed) = built(&cpu, &plan, &shuffled(pairs.clone(), seed));
                    assert_eq!(placed, counts, "{scheme:?}");
                    assert_eq!(audited(&plan, &image).pairs, pairs.len() as u64 - counts.duplicates);
                    assert!(scheme.kind() == Kind::Classic || image == expected);
                }
            }
        }
    }
}

#[test]
fn overfull_buckets_are_counted_and_nothing_is_built() {
    for scheme in all_schemes() {
        let plan = scheme.plan(Request { slots: 5 * 576, pairs: 1, seed: 5, attempt: 0 }).expect("a plan");
        let functions = &plan.functions();
        let of_bucket = |bucket, count: usize| (0..).filter(move |&key| functions.bucket(key) == bucket).take(count);
        let crowd: Pairs =
            of_bucket(1, 520).chain(of_bucket(4, 513)).chain(of_bucket(2, 512)).map(|k| (k, 1)).collect();
        for cpu in cpus() {
            let (_, placed) = built(&cpu, &plan, &crowd);
            assert_eq!(placed, Placed { unplaced: 9, ..Placed::default() });
        }
    }
}

/// Too few rounds: the pairs that the last seed number leaves unplaced are reported.
#[test]
fn buckets_without_a_valid_seed_number_are_reported() {
    let scheme = Fks::classic().iterations(1);
    let plan = plan_of(&scheme, 512, 5);
    for cpu in cpus() {
        assert!(built(&cpu, &plan, &distinct(512)).1.unplaced > 0);
    }
}

#[test]
fn classic_builds_pass_the_audit_and_one_thread_repeats() {
    for scheme in all_schemes().into_iter().filter(|scheme| scheme.kind() == Kind::Classic) {
        for size in SIZES {
            let pairs = distinct(size);
            let plan = plan_of(&scheme, size, 2);
            for cpu in cpus() {
                let (image, placed) = built(&cpu, &plan, &pairs);
                assert_eq!(placed, Placed::default());
                assert_eq!(audited(&plan, &image).pairs, size as u64);
                if cpu.info().units == 1 {
                    assert!(built(&cpu, &plan, &pairs).0 == image);
                }
            }
        }
    }
}

#[test]
fn the_sentinel_pair_is_counted_and_stored_outside() {
    let mut pairs = distinct(3000);
    pairs.retain(|&(key, _)| key != u32::MAX);
    for scheme in all_schemes().into_iter().filter(|scheme| scheme.kind() == Kind::Classic) {
        let plan = plan_of(&scheme, 3000, 2);
        for cpu in cpus() {
            let mut marked = pairs.clone();
            marked.insert(17, (u32::MAX, 5));
            let (image, placed) = built(&cpu, &plan, &marked);
            assert_eq!(placed, Placed { outside: Some(5), ..Placed::default() });
            assert_eq!(audited(&plan, &image).pairs, pairs.len() as u64);
            schemes::sentinel_pairs(&cpu, &plan);
        }
    }
}

#[test]
fn lookups_agree_with_the_reference_on_hits_and_misses() {
    for scheme in all_schemes() {
        for size in [0, 1, 127, 128, 1000, 20_000] {
            let pairs = distinct(size);
            let plan = plan_of(&scheme, size, 4);
            let (image, _) = sequential(&plan, &pairs);
            let mut stream = SplitMix64::new(3);
            let mut queries = keys_of(&pairs);
            queries.extend((0..2 * size + 37).map(|_| stream.next_u32()));
            queries.extend([0, u32::MAX, 0]);
            schemes::lookups_agree(&cpus(), &plan, &image, &queries);
        }
    }
}

#[test]
fn assign_changes_values_and_nothing_else() {
    for scheme in all_schemes() {
        let pairs = distinct(10_000);
        let plan = plan_of(&scheme, pairs.len(), 4);
        schemes::assigned(&cpus(), &plan, &sequential(&plan, &pairs).0, &pairs);
    }
}

#[test]
fn decode_is_the_pair_of_each_word() {
    for scheme in all_schemes() {
        for size in [0, 1, 5000] {
            let plan = plan_of(&scheme, size, 4);
            schemes::decoded(&cpus(), &plan, &sequential(&plan, &distinct(size)).0, size);
        }
    }
}

#[test]
fn any_image_can_be_read() {
    let [cpu] = schemes::with_threads([2]);
    let pairs = distinct(2000);
    for scheme in all_schemes() {
        schemes::arbitrary_images(&cpu, &plan_of(&scheme, 2000, 4), &pairs, &keys_of(&pairs));
    }
}

#[test]
fn the_stages_are_those_of_the_poster() -> Result<()> {
    let cpu = Cpu::with_threads(2)?;
    let plan = plan_of(&Fks::canonical(), 5000, 4);
    cpu.ledger().take();
    let (_, times) = cpu.stages(|| {
        built(&cpu, &plan, &distinct(5000));
        Ok(())
    })?;
    let stages = ["fks_count", "fks_scan", "fks_shuffle", "fks_cuckoo"];
    assert_eq!(times[0].name, "set-up");
    assert_eq!(times[1..].iter().map(|stage| stage.name).collect::<Vec<_>>(), stages);
    let ledger = cpu.ledger().take();
    assert_eq!(ledger.iter().map(|stage| (stage.name, stage.host)).collect::<Vec<_>>(), stages.map(|name| (name, 0)));
    Ok(())
}
