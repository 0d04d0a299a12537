//! Tests of two-level tables, one key at a time: parameters, functions, both rules, and the audit.

use quickcheck::quickcheck;

use super::*;
use crate::error::Error;
use crate::scheme::hash::{MixKeys, SplitMix64, mix};
use crate::scheme::{Audit, Kind, Placing, Plan, Request, Scheme, Violation, slot};

type Pairs = Vec<(u32, u32)>;

fn plan_of(scheme: &Fks, slots: u64, seed: u64) -> FksPlan {
    scheme.plan(Request { slots, pairs: slots / 2, seed, attempt: 0 }).expect("a plan")
}

fn distinct(count: u32) -> Pairs {
    (0..count).map(|i| (i.wrapping_mul(0x9e37_79b9) ^ 0x5555, !i)).collect()
}

fn placed(plan: &FksPlan, pairs: &[(u32, u32)]) -> (Vec<u64>, Placing) {
    let mut image = vec![plan.empty_word(); plan.words() as usize];
    let placing = Fks::place(plan, &mut image, pairs);
    (image, placing)
}

fn built(plan: &FksPlan, pairs: &[(u32, u32)]) -> Vec<u64> {
    let (image, placing) = placed(plan, pairs);
    assert_eq!(placing, Placing::Placed, "{plan:?}");
    image
}

fn audited(plan: &FksPlan, image: &[u64]) -> Result<Audit, Violation> {
    Fks::audit(plan, image, 0..plan.words())
}

fn all_schemes() -> [Fks; 3] {
    [Fks::canonical(), Fks::classic(), Fks::classic().family(FksFamily::Sahu)]
}

#[test]
fn parameters_out_of_range_are_refused() {
    assert!(Fks::canonical().family(FksFamily::Sahu).check().is_err());
    assert!(Fks::classic().iterations(0).check().is_err());
    assert!(Fks::classic().iterations(MAX_ITERATIONS + 1).check().is_err());
    assert!(Fks::classic().iterations(MAX_ITERATIONS).check().is_ok());
    let most = u64::from(MAX_BUCKETS) * 576;
    let request = |slots| Request { slots, pairs: 1, seed: 0, attempt: 0 };
    assert!(Fks::canonical().plan(request(most)).expect("a plan").words() <= u64::from(u32::MAX));
    for slots in [most + 1, 1 << 40, u64::MAX] {
        assert!(matches!(Fks::canonical().plan(request(slots)), Err(Error::TooLarge { .. })));
    }
    let sahu = Fks::classic().family(FksFamily::Sahu);
    assert!(sahu.plan(request(576 * u64::from(SAHU_PRIME))).is_ok());
    assert!(matches!(sahu.plan(request(576 * u64::from(SAHU_PRIME) + 1)), Err(Error::TooLarge { .. })));
}

/// The plan alone is rejected: for 2^29 pairs Sahu's p has 1.4 residues per bucket, so nine buckets in twenty would get
/// twice as many keys as the others.
#[test]
fn sahus_shares_are_refused_where_they_overfill_buckets() {
    let sahu = Fks::classic().family(FksFamily::Sahu);
    let plan = |scheme: &Fks, pairs: u64, slots: u64| scheme.plan(Request { slots, pairs, seed: 0, attempt: 0 });
    for power in [10, 20, 24, 26, 28] {
        assert!(plan(&sahu, 1 << power, sahu.default_load().slots_for(1 << power)).is_ok(), "2^{power}");
    }
    let slots = sahu.default_load().slots_for(1 << 29);
    let refused = plan(&sahu, 1 << 29, slots);
    let most = 468 * u64::from(SAHU_PRIME) / 2;
    let Err(Error::TooLarge { requested, most: reported, what }) = refused else { panic!("{refused:?}") };
    assert_eq!((requested, reported), (1 << 29, most));
    assert!(what.contains("mixer"), "{what}");
    assert!(plan(&sahu, most, slots).is_ok() && plan(&sahu, most + 1, slots).is_err());
    // Mixers work for this number of buckets. An unknown number of pairs is not checked, and neither is a load that
    // even equal shares could not hold.
    assert!(plan(&Fks::classic(), 1 << 29, slots).is_ok());
    assert!(plan(&sahu, 0, slots).is_ok() && plan(&sahu, u64::MAX, slots).is_ok());
    // With few buckets the shares are nearly equal, and single buckets may be filled completely.
    for buckets in [1, 3, 20, 1000] {
        assert!((1..=512).all(|mean| plan(&sahu, mean * buckets, 576 * buckets).is_ok()), "{buckets}");
    }
    // If one bucket has two of p - 1 residues, it is overfull sometimes, but not always.
    let nearly = u64::from(SAHU_PRIME) - 1;
    assert!(plan(&sahu, 300 * nearly, 576 * nearly).is_ok());
}

#[test]
fn sizes_are_whole_buckets_and_their_seed_numbers_follow_them() {
    for (slots, buckets, words) in [(0, 1, 577), (576, 1, 577), (577, 2, 1153), (8 * 576, 8, 4609), (9 * 576, 9, 5186)]
    {
        let plan = plan_of(&Fks::canonical(), slots, 1);
        assert_eq!((plan.buckets(), plan.slots(), plan.words()), (buckets, u64::from(buckets) * 576, words));
    }
    assert_eq!(plan_of(&Fks::canonical(), 576, 1).stored().len(), 40);
    // 409 pairs per bucket on average.
    let plan = plan_of(&Fks::canonical(), Fks::canonical().default_load().slots_for(409_000), 1);
    assert!((1000..=1001).contains(&plan.buckets()));
}

#[test]
fn a_stored_plan_gives_its_parameters_back() {
    let schemes = [Fks::canonical(), Fks::classic().iterations(7), Fks::classic().family(FksFamily::Sahu)];
    for scheme in schemes {
        assert_eq!(Fks::from_plan(&plan_of(&scheme, 10_000, 1)), scheme);
    }
    let (good, classic) = (plan_of(&Fks::canonical(), 10_000, 1), plan_of(&Fks::classic(), 10_000, 1));
    assert!(classic.with_outside(Some(3)).checked().is_ok());
    for bad in [
        FksPlan { kind: 9, ..good },
        FksPlan { kind: 1, ..good },
        FksPlan { family: 1, ..good },
        FksPlan { family: 2, ..good },
        FksPlan { buckets: 0, ..good },
        FksPlan { buckets: u32::MAX, ..good },
        FksPlan { iterations: 1, ..good },
        FksPlan { outside: 1, ..good },
        FksPlan { outside_value: 1, ..good },
        FksPlan { reserved: 1, ..good },
        FksPlan { iterations: 0, ..classic },
        FksPlan { iterations: u32::MAX, ..classic },
        FksPlan { outside: 2, ..classic },
        FksPlan { family: 1, buckets: SAHU_PRIME + 1, ..classic },
    ] {
        assert!(bad.checked().is_err(), "{bad:?}");
    }
}

quickcheck! {
    fn a_slot_gives_its_key_back(key: u32, seed: u8, constants: u64) -> bool {
        let functions = plan_of(&Fks::canonical(), 5000, constants).functions();
        let seed = u32::from(seed);
        (0..SUBTABLES).all(|i| {
            let (at, remainder) = functions.probe(i, tweak(seed), key);
            at == functions.location(i, seed, key) && functions.key_at(i, seed, at, remainder) == key
        })
    }

    /// The listing's lines in wider arithmetic, with the `short` sign-extended by hand.
    fn sahus_functions_are_those_of_the_listing(key: u32, constants: u64, number: u8) -> bool {
        let functions = plan_of(&Fks::classic().family(FksFamily::Sahu), 5000, constants).functions();
        let number = u32::from(number) % SAHU_SEEDS as u32;
        let short = functions.list[number as usize] & 0xffff;
        let extended = if short >= 0x8000 { short | 0xffff_0000 } else { short };
        let index = |c: u32, d: u32| {
            let sum = (u64::from(extended ^ c) * u64::from(key) + u64::from(extended ^ d)) % (1 << 32);
            (sum % 1_900_813 % 192) as u32
        };
        functions.list[number as usize] == extended
            && functions.location(0, number, key) == index(0xffff, 0xcba9)
            && functions.location(1, number, key) == index(0x7531, 0xbeef)
            && functions.location(2, number, key) == index(0xd9f1, 0x337a)
            && functions.bucket(key) < functions.buckets
    }

    fn any_image_can_be_read(noise: u64, key: u32) -> bool {
        let mut stream = SplitMix64::new(noise);
        for scheme in all_schemes() {
            let plan = plan_of(&scheme, 1200, noise);
            let image: Vec<u64> = (0..plan.words()).map(|_| stream.next_u64()).collect();
            Fks::find(&plan, &image, key);
            let reads = Fks::reads(&plan, &image, key);
            assert!(reads <= 3 && (reads > 0 || Some(key) == plan.outside_key()));
            for word in 0..plan.words() + 2 {
                let _ = (Fks::pair(&plan, &image, word), Fks::age(&plan, &image, word));
            }
            assert!(audited(&plan, &image).is_err());
        }
        true
    }
}

#[test]
fn no_multiplier_of_sahus_is_blind_to_half_of_a_key() {
    let scheme = Fks::classic().family(FksFamily::Sahu);
    let mut negative = 0;
    for seed in 0..2000 {
        let functions = plan_of(&scheme, 576, seed).functions();
        assert_eq!(functions.keys[0].before % 2, 1);
        for number in functions.list {
            negative += u32::from(number >= 0x8000);
            assert!([0xffff, 0x7531, 0xd9f1].iter().all(|xor| (number ^ xor) & 0xffff != 0));
        }
    }
    assert!((18_000..22_000).contains(&negative), "{negative} of 40,000 seeds are negative");
}

#[test]
fn tables_contain_exactly_the_inserted_pairs() {
    for scheme in all_schemes() {
        for n in [0, 1, 2, 3, 64, 300, 409, 2000, 5000] {
            let plan = plan_of(&scheme, scheme.default_load().slots_for(n), 7);
            let pairs = distinct(n as u32);
            let image = built(&plan, &pairs);
            assert_eq!(audited(&plan, &image).map(|audit| audit.pairs), Ok(n), "{scheme:?}");
            assert!(pairs.iter().all(|&(key, value)| Fks::find(&plan, &image, key) == Some(value)));
            let absent = (0..10_000u32).map(|i| (n as u32 + i).wrapping_mul(0x9e37_79b9) ^ 0x5555);
            assert_eq!(absent.filter(|&key| Fks::find(&plan, &image, key).is_some()).count(), 0);
            let decoded: std::collections::BTreeSet<_> =
                (0..plan.words()).filter_map(|word| Fks::pair(&plan, &image, word)).collect();
            assert_eq!(decoded, pairs.into_iter().collect());
        }
    }
}

#[test]
fn canonical_bytes_depend_on_neither_order_nor_previous_contents() {
    let pairs = distinct(3000);
    let plan = plan_of(&Fks::canonical(), 4200, 7);
    let image = built(&plan, &pairs);
    let backwards: Pairs = pairs.iter().rev().copied().collect();
    assert_eq!(built(&plan, &backwards), image);
    let mut noise = vec![u64::MAX; image.len()];
    assert_eq!(Fks::place(&plan, &mut noise, &pairs), Placing::Placed);
    assert_eq!(noise, image);
}

/// One bucket of 512 in seventy needs a second seed number, because the first fails.
#[test]
fn full_buckets_are_built_and_their_seed_numbers_are_the_least() {
    let pairs = distinct(512);
    let mut beyond_first = 0;
    for seed in 0..200 {
        let plan = plan_of(&Fks::canonical(), 576, seed);
        let image = built(&plan, &pairs);
        let functions = plan.functions();
        let number = functions.seed(&image, 0);
        let mut bucket = [0; BUCKET_SLOTS as usize];
        for lesser in 0..number {
            assert_eq!(canonical::accept(&functions, lesser, &mut bucket, &pairs), Placing::Unplaced);
        }
        beyond_first += u32::from(number > 0);
        assert!(audited(&plan, &image).is_ok());
    }
    assert!((1..20).contains(&beyond_first), "{beyond_first} of 200");
    let plan = plan_of(&Fks::canonical(), 576, 1);
    assert_eq!(placed(&plan, &distinct(513)).1, Placing::Unplaced);
}

#[test]
fn one_duplicate_is_kept_and_the_least_key_is_reported() {
    let mut pairs = distinct(400);
    let (a, b) = (pairs[10].0, pairs[300].0);
    pairs.extend([(a, 5), (b, u32::MAX), (a, 7), (a, 6), (b, 1)]);
    let backwards: Pairs = pairs.iter().rev().copied().collect();
    for scheme in all_schemes() {
        let plan = plan_of(&scheme, 576, 3);
        for pairs in [&pairs, &backwards] {
            let (image, placing) = placed(&plan, pairs);
            assert_eq!(placing, Placing::Duplicate(a.min(b)), "{scheme:?}");
            assert_eq!(audited(&plan, &image).map(|audit| audit.pairs), Ok(400));
        }
        if scheme.kind() == Kind::Canonical {
            let (image, _) = placed(&plan, &pairs);
            assert_eq!(Fks::find(&plan, &image, a), Some(!10));
            assert_eq!(Fks::find(&plan, &image, b), Some(u32::MAX));
            assert_eq!(placed(&plan, &backwards).0, image);
        }
    }
}

#[test]
fn the_sentinel_key_never_enters_a_classic_image() {
    let plan = plan_of(&Fks::classic(), 576, 3);
    let (image, placing) = placed(&plan, &[(1, 2), (u32::MAX, 3)]);
    assert_eq!(placing, Placing::Duplicate(u32::MAX));
    assert_eq!(audited(&plan, &image).map(|audit| audit.pairs), Ok(1));
    assert_eq!(Fks::find(&plan, &image, u32::MAX), None);
    let outside = plan.with_outside(Some(9));
    assert_eq!((Fks::find(&outside, &image, u32::MAX), Fks::reads(&outside, &image, u32::MAX)), (Some(9), 0));
}

/// One round is enough for a few pairs, but not for a full bucket.
#[test]
fn rounds_are_limited_by_the_parameter() {
    let once = plan_of(&Fks::classic().iterations(1), 576, 3);
    assert_eq!(placed(&once, &distinct(3)).1, Placing::Placed);
    assert_eq!(placed(&once, &distinct(512)).1, Placing::Unplaced);
    let often = plan_of(&Fks::classic(), 576, 3);
    assert_eq!(placed(&often, &distinct(512)).1, Placing::Placed);
}

#[test]
fn the_audit_detects_every_kind_of_damage_in_canonical_tables() {
    let plan = plan_of(&Fks::canonical(), 1200, 5);
    let (functions, pairs) = (plan.functions(), distinct(800));
    let image = built(&plan, &pairs);
    let damaged = |changes: &[(usize, u64)]| {
        let mut copy = image.clone();
        changes.iter().for_each(|&(at, word)| copy[at] = word);
        audited(&plan, &copy)
    };
    assert!(damaged(&[]).is_ok());
    // A pair of age 1 whose slot in the second sub-table is free.
    let (at, key, second) = (0..plan.slots())
        .find_map(|at| {
            let (key, _) = Fks::pair(&plan, &image, at)?;
            let bucket = functions.bucket(key);
            let second = Functions::word(bucket, 1, functions.location(1, functions.seed(&image, bucket), key));
            (slot::age(image[at as usize]) == 1 && image[second] == slot::EMPTY).then_some((at as usize, key, second))
        })
        .expect("such a pair");
    assert!(matches!(damaged(&[(at, 5)]), Err(Violation::Word { .. })), "age 0, but not empty");
    assert!(matches!(damaged(&[(at, slot::TOMBSTONE)]), Err(Violation::Word { .. })), "none is removed");
    assert!(matches!(damaged(&[(at, slot::word(2, 0, 0))]), Err(Violation::Word { .. })), "another sub-table's age");
    let tweak = tweak(functions.seed(&image, functions.bucket(key)));
    let copy = slot::word(2, functions.probe(1, tweak, key).1, 0);
    assert!(matches!(damaged(&[(second, copy)]), Err(Violation::Twice { .. })));
    let moved = damaged(&[(second, copy), (at, slot::EMPTY)]);
    assert!(matches!(moved, Err(Violation::Blocking { age: 2, earlier: 1, .. })), "{moved:?}");
    let stray = (0..64).find(|r| {
        let word = slot::word(1, r << 20 | 1, 0);
        matches!(damaged(&[(at, word)]), Err(Violation::Misplaced { .. }))
    });
    assert!(stray.is_some(), "most remainders are those of keys of another bucket");
    // Seed numbers: another bucket's functions, a word with nonzero padding, and a set that a lesser number can place.
    let seeds = plan.slots() as usize;
    assert!(damaged(&[(seeds, image[seeds] ^ 1)]).is_err());
    assert!(matches!(damaged(&[(seeds, image[seeds] | 1 << 24)]), Err(Violation::Word { .. })), "three buckets");
    let mut reseeded = image.clone();
    let of_first: Pairs = pairs.iter().copied().filter(|&(key, _)| functions.bucket(key) == 0).collect();
    let next = functions.seed(&image, 0) + 1;
    let seated = canonical::accept(&functions, next, &mut reseeded[..BUCKET_SLOTS as usize], &of_first);
    assert_eq!(seated, Placing::Placed);
    functions.set_seed(&mut reseeded, 0, next);
    assert!(matches!(audited(&plan, &reseeded), Err(Violation::Bucket { bucket: 0, .. })));
}

#[test]
fn the_audit_detects_every_kind_of_damage_in_classic_tables() {
    for family in FksFamily::ALL {
        let plan = plan_of(&Fks::classic().family(family), 1200, 5);
        let functions = plan.functions();
        let image = built(&plan, &distinct(800));
        let damaged = |changes: &[(usize, u64)]| {
            let mut copy = image.clone();
            changes.iter().for_each(|&(at, word)| copy[at] = word);
            audited(&plan, &copy)
        };
        assert!(damaged(&[]).is_ok());
        let free = (0..576).find(|&at| image[at] == classic::EMPTY).expect("a free slot");
        assert!(matches!(damaged(&[(free, classic::EMPTY + 1)]), Err(Violation::Word { .. })));
        let (key, other) = (0..576)
            .find_map(|at| {
                let (key, _) = Fks::pair(&plan, &image, at)?;
                let of_key = |i| Functions::word(0, i, functions.location(i, functions.seed(&image, 0), key));
                let other = (0..3).map(of_key).find(|&other| image[other] == classic::EMPTY)?;
                Some((key, other))
            })
            .expect("a pair with a free slot");
        assert!(matches!(damaged(&[(other, classic::entry(key, 0))]), Err(Violation::Twice { .. })));
        let stranger = (0..100).find(|&key| functions.bucket(key) != 0).expect("of another bucket");
        assert!(matches!(damaged(&[(free, classic::entry(stranger, 0))]), Err(Violation::Misplaced { .. })));
        let seeds = plan.slots() as usize;
        assert!(matches!(damaged(&[(seeds, image[seeds] | 1 << 24)]), Err(Violation::Word { .. })));
        if family == FksFamily::Sahu {
            assert!(damaged(&[(seeds, image[seeds] | 20)]).is_err());
            let empty = built(&plan, &[]);
            let mut past = empty.clone();
            functions.set_seed(&mut past, 2, 20);
            assert!(audited(&plan, &empty).is_ok());
            assert!(matches!(audited(&plan, &past), Err(Violation::Bucket { bucket: 2, .. })));
        }
    }
}

#[test]
fn crowds_are_described() {
    for scheme in all_schemes() {
        let plan = plan_of(&scheme, 4000, 3);
        let functions = plan.functions();
        let crowded: Vec<u32> = (0..u32::MAX).filter(|&key| functions.bucket(key) == 2).take(513).collect();
        let crowd = Fks::crowd(&plan, &crowded).expect("a crowd");
        assert_eq!((crowd.keys, crowd.most), (513, 512));
        assert_eq!(crowd.which, "in bucket 2 of 7 under the first-level function");
        assert_eq!(Fks::crowd(&plan, &crowded[1..]), None);
        assert_eq!(Fks::crowd(&plan, &[]), None);
    }
}

/// For each seed of Sahu's list, four keys that share all of their slots.
pub(crate) fn defeating(plan: &FksPlan) -> Vec<u32> {
    let functions = plan.functions();
    let of_seed = |seed: u32| {
        let code = |key| (0..SUBTABLES).fold(0, |code, i| code * 192 + functions.location(i, seed, key));
        let random = (0..500_000u32).map(|i| mix(i, MixKeys::default()));
        let mut keys: Vec<(u32, u32)> = random.map(|key| (code(key), key)).collect();
        keys.sort_unstable();
        let four = keys.windows(4).find(|four| four[0].0 == four[3].0).expect("four of 500,000 keys");
        four.iter().map(|&(_, key)| key).collect::<Vec<_>>()
    };
    let mut keys: Vec<u32> = (0..SAHU_SEEDS as u32).flat_map(of_seed).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[test]
#[ignore = "slow: a search for such keys; CI runs it"]
fn chosen_keys_defeat_sahus_list_and_are_reported_as_a_crowd() {
    let plan = plan_of(&Fks::classic().family(FksFamily::Sahu), 576, 3);
    let keys = defeating(&plan);
    assert!(keys.len() <= 80);
    let pairs: Pairs = keys.iter().map(|&key| (key, 1)).collect();
    assert_eq!(placed(&plan, &pairs).1, Placing::Unplaced);
    let crowd = Fks::crowd(&plan, &keys).expect("a crowd");
    assert_eq!((crowd.keys, crowd.most), (4, 3));
    assert_eq!(crowd.which, "in bucket 0 of 1 and share all of their slots under the last of its 20 seeds");
    assert_eq!(Fks::crowd(&plan, &keys[8..]), None, "some seed does for the others");
    let mixed = plan_of(&Fks::classic(), 576, 3);
    assert_eq!(placed(&mixed, &pairs).1, Placing::Placed);
}
