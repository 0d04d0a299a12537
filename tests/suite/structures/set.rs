//! Sets of every scheme and kind, on every device, compared with `BTreeSet`.

use std::collections::BTreeSet;

use crate::common::{Check, TRAILER, devices, for_every_kind, label, max_pairs, reseal, size, workload};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::{
    AnyScheme, CompactingTable, Cpu, Cuckoo, CuckooSet, Duplicates, Error, HashSet, HashTable, Kind, Scheme, SetBuilder,
};
use quickcheck::{Arbitrary, Gen, QuickCheck};

fn builder(scheme: &AnyScheme) -> SetBuilder<AnyScheme> {
    HashSet::builder(scheme.clone()).seed(11)
}

fn built(scheme: &AnyScheme, device: &Any, keys: &BTreeSet<u32>) -> HashSet<Any, AnyScheme> {
    builder(scheme).build(device, &keys.iter().copied().collect::<Vec<_>>()).unwrap()
}

/// Runs every query on a set.
fn holds_exactly(set: &HashSet<Any, AnyScheme>, model: &BTreeSet<u32>, at: &str) {
    assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()), "{at}");
    let keys: Vec<u32> = model.iter().copied().collect();
    assert!(!set.contains(&keys).unwrap().contains(&false), "{at}: hits");
    let absent: Vec<_> = keys.iter().flat_map(|k| [k.wrapping_add(1), !k]).filter(|k| !model.contains(k)).collect();
    assert!(!set.contains(&absent).unwrap().contains(&true), "{at}: misses");
    let listed = set.to_keys().unwrap();
    assert_eq!(listed.len(), model.len(), "{at}: each key once");
    assert_eq!(&listed.into_iter().collect::<BTreeSet<_>>(), model, "{at}: keys");
    set.audit().unwrap_or_else(|error| panic!("{at}: {error}"));
    let load = (model.len() as f64 / set.slots() as f64).min(1.0);
    assert!((set.load_factor() - load).abs() < 1e-12, "{at}");
}

struct Builds;
impl Check for Builds {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        for n in [0, 1, 2, 17, 33, size(3000, 120)] {
            let (keys, _, model) = workload(scheme, n);
            let model: BTreeSet<u32> = model.into_keys().collect();
            // Each key once; each key three times, not adjacent; the first key very often.
            let thrice: Vec<u32> = keys.iter().chain(keys.iter().rev()).chain(&keys).copied().collect();
            let often = keys.iter().take(1).flat_map(|&key| vec![key; size(20_000, 300) as usize]);
            let heavy: Vec<u32> = keys.iter().copied().chain(often).collect();
            let mut digests = BTreeSet::new();
            for device in devices() {
                for (duplicates, column) in [("once", &keys), ("thrice", &thrice), ("heavy", &heavy)] {
                    let at = format!("{}, n = {n}, {duplicates}", label(scheme, &device));
                    let set = builder(scheme).build(&device, column).unwrap_or_else(|e| panic!("{at}: {e}"));
                    holds_exactly(&set, &model, &at);
                    digests.insert(set.digest().unwrap().to_string());
                    let of_once = builder(scheme).build(&device, &keys).unwrap();
                    assert_eq!(set.capacity(), of_once.capacity(), "{at}: sized by the distinct keys");
                }
            }
            assert!(
                kind == Kind::Classic || digests.len() == 1,
                "{} {kind}, n = {n}: equal sets have one digest",
                scheme.name()
            );
        }
    }
}

#[test]
fn columns_with_duplicates_build_the_set_of_their_keys() {
    for_every_kind(&Builds);
}

struct Capacities;
impl Check for Capacities {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        // There are more rows than slots, but enough slots for the distinct keys.
        let (keys, _, model) = workload(scheme, 40);
        let model: BTreeSet<u32> = model.into_keys().collect();
        let rows: Vec<u32> = keys.iter().cycle().take(size(5000, 300) as usize).copied().collect();
        for device in devices() {
            let at = label(scheme, &device);
            let sized = builder(scheme).slots(60);
            let set = sized.build(&device, &rows).unwrap_or_else(|error| panic!("{at}: {error}"));
            holds_exactly(&set, &model, &at);
            let once = sized.build(&device, &keys).unwrap();
            assert_eq!(set.capacity(), once.capacity(), "{at}");
            assert!(kind == Kind::Classic || set.digest().unwrap() == once.digest().unwrap(), "{at}");
        }
    }
}

#[test]
fn capacities_count_keys_and_not_rows() {
    for_every_kind(&Capacities);
}

struct Changes;
impl Check for Changes {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        let (keys, _, all) = workload(scheme, size(600, 60));
        let all: BTreeSet<u32> = all.into_keys().collect();
        let (first, second) = keys.split_at(keys.len() / 2);
        for device in devices() {
            let at = label(scheme, &device);
            let mut set = builder(scheme).build(&device, first).unwrap();
            assert_eq!(set.insert(&[]).unwrap(), 0, "{at}");
            let batch: Vec<u32> = first[..5].iter().chain(second).chain(second).copied().collect();
            assert_eq!(set.insert(&batch).unwrap(), second.len(), "{at}: new keys are counted once");
            assert_eq!(set.insert(&batch).unwrap(), 0, "{at}: no key is new");
            holds_exactly(&set, &all, &format!("{at}, inserted"));
            if kind == Kind::Canonical {
                assert_eq!(set.digest().unwrap(), built(scheme, &device, &all).digest().unwrap(), "{at}");
            }
            let on_device = device.upload(&batch).unwrap();
            let gone = set.remove_on(&on_device).unwrap();
            assert_eq!(gone, second.len() + 5, "{at}: removed");
            assert_eq!(set.remove(&batch).unwrap(), 0, "{at}: no key is left to remove");
            let rest: BTreeSet<u32> = first[5..].iter().copied().collect();
            holds_exactly(&set, &rest, &format!("{at}, removed"));
            set.compact().unwrap();
            holds_exactly(&set, &rest, &format!("{at}, compacted"));
            set.rebuild().unwrap();
            holds_exactly(&set, &rest, &format!("{at}, rebuilt"));
            if kind == Kind::Canonical {
                assert_eq!(set.digest().unwrap(), built(scheme, &device, &rest).digest().unwrap(), "{at}");
            }
            assert_eq!(set.insert_on(&on_device).unwrap(), gone, "{at}: removed keys can be inserted again");
            holds_exactly(&set, &all, &format!("{at}, whole again"));
        }
    }
}

#[test]
fn keys_are_inserted_and_removed() {
    for_every_kind(&Changes);
}

/// Set operations on one device compared with those of ordered sets.
fn algebra_agrees(scheme: &AnyScheme, device: &Any, a: &BTreeSet<u32>, b: &BTreeSet<u32>) {
    let kind = scheme.kind();
    let at = format!("{}, {a:?}, {b:?}", label(scheme, device));
    let (here, there) = (built(scheme, device, a), built(scheme, device, b));
    let results = [
        ("union", here.union(&there), a | b),
        ("intersection", here.intersection(&there), a & b),
        ("difference", here.difference(&there), a - b),
        ("symmetric difference", here.symmetric_difference(&there), a ^ b),
    ];
    for (what, set, model) in results {
        let set = set.unwrap_or_else(|error| panic!("{what}: {error}: {at}"));
        holds_exactly(&set, &model, &format!("{what}: {at}"));
        if kind == Kind::Canonical {
            let whole = built(scheme, device, &model);
            assert_eq!(set.digest().unwrap(), whole.digest().unwrap(), "{what}: {at}");
        }
    }
    assert_eq!(here.is_subset(&there).unwrap(), a.is_subset(b), "{at}");
    assert_eq!(here.is_superset(&there).unwrap(), a.is_superset(b), "{at}");
    assert_eq!(here.is_disjoint(&there).unwrap(), a.is_disjoint(b), "{at}");
    let both = here.intersection(&there).unwrap();
    assert!(both.is_subset(&here).unwrap() && both.is_subset(&there).unwrap(), "{at}");
    assert!(here.difference(&there).unwrap().is_disjoint(&there).unwrap(), "{at}");
}

struct Algebra;
impl Check for Algebra {
    fn run(&self, scheme: &AnyScheme) {
        let keys: Vec<u32> = workload(scheme, size(400, 60)).2.into_keys().collect();
        let part = |from: usize, to: usize| keys[from * keys.len() / 8..to * keys.len() / 8].iter().copied().collect();
        for device in devices() {
            // Disjoint sets, overlapping ones, equal ones, and a subset. The extremes of keys are in the last part or
            // the first.
            for (a, b) in [((0, 4), (4, 8)), ((0, 5), (3, 8)), ((0, 8), (0, 8)), ((0, 8), (2, 5)), ((0, 0), (6, 8))] {
                algebra_agrees(scheme, &device, &part(a.0, a.1), &part(b.0, b.1));
                algebra_agrees(scheme, &device, &part(b.0, b.1), &part(a.0, a.1));
            }
        }
    }
}

#[test]
fn sets_combine_as_ordered_sets_do() {
    for_every_kind(&Algebra);
}

/// Sets of keys from a small range.
#[derive(Clone, Debug)]
struct Keys(BTreeSet<u32>);

impl Arbitrary for Keys {
    fn arbitrary(g: &mut Gen) -> Self {
        let len = usize::arbitrary(g) % 60;
        Keys((0..len).map(|_| g.choose(&[0, u32::MAX, 1 << 31]).unwrap() ^ (u32::arbitrary(g) & 0x1f)).collect())
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        Box::new(self.0.iter().copied().collect::<Vec<_>>().shrink().map(|keys| Keys(keys.into_iter().collect())))
    }
}

fn any_two_sets_agree(Keys(a): Keys, Keys(b): Keys) -> bool {
    thread_local!(static DEVICES: Vec<Any> = devices());
    DEVICES.with(|devices| {
        for device in devices {
            for &kind in CuckooSet::KINDS {
                algebra_agrees(&CuckooSet::of_kind(kind).into(), device, &a, &b);
            }
        }
    });
    true
}

#[test]
fn any_two_sets_combine_as_ordered_sets_do() {
    QuickCheck::new().tests(size(60, 3).into()).quickcheck(any_two_sets_agree as fn(Keys, Keys) -> bool);
}

/// Results have the first set's parameters: its seed, and its load or its capacity.
#[test]
fn results_have_the_parameters_of_the_first_set() {
    for device in devices() {
        let build = |builder: SetBuilder<CuckooSet>, keys: std::ops::Range<u32>| {
            builder.build(&device, &keys.collect::<Vec<_>>()).unwrap()
        };
        let plain = || HashSet::builder(CuckooSet::canonical(3));
        let other = build(plain().seed(99).load_factor(0.3), 50..150);
        for like in [plain().seed(5).load_factor(0.6), plain().seed(6).slots(700), plain()] {
            let set = build(like.clone(), 0..100);
            let expect = |set: HashSet<Any, CuckooSet>, keys: std::ops::Range<u32>| {
                assert_eq!(set.digest().unwrap(), build(like.clone(), keys).digest().unwrap(), "{like:?}");
            };
            expect(set.union(&other).unwrap(), 0..150);
            expect(set.intersection(&other).unwrap(), 50..100);
            expect(set.difference(&other).unwrap(), 0..50);
            expect(set.difference(&set).unwrap(), 0..0);
        }
    }
}

#[test]
fn sets_of_two_devices_are_not_combined() {
    let Some(gpu) = crate::common::opencl_devices().pop() else { return };
    let build = |device: &Any| HashSet::builder(CuckooSet::default()).build(device, &[1, 2, 3]).unwrap();
    let (here, there) = (build(&crate::common::one_thread()), build(&gpu));
    assert!(matches!(here.union(&there), Err(Error::WrongDevice)));
    assert!(matches!(there.intersection(&here), Err(Error::WrongDevice)));
    assert!(matches!(here.is_subset(&there), Err(Error::WrongDevice)));
    assert_eq!(here.union(&there.to_backend(here.backend()).unwrap()).unwrap().len(), 3);
}

struct Travels;
impl Check for Travels {
    fn run(&self, scheme: &AnyScheme) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.koel");
        let (keys, _, model) = workload(scheme, size(500, 80).min(max_pairs(scheme)));
        let model: BTreeSet<u32> = model.into_keys().collect();
        let devices = devices();
        for from in &devices {
            let set = builder(scheme).build(from, &keys).unwrap();
            let digest = set.save(&path).unwrap();
            for to in &devices {
                let at = format!("{} to {}", label(scheme, from), to.info());
                let moved = set.to_backend(to).unwrap();
                let opened = HashSet::<Any, AnyScheme>::open(to, &path).unwrap_or_else(|error| panic!("{at}: {error}"));
                assert_eq!((moved.digest().unwrap(), opened.digest().unwrap()), (digest, digest), "{at}");
                holds_exactly(&opened, &model, &at);
                assert_eq!(
                    opened.union(&moved).unwrap().len(),
                    set.len(),
                    "{at}: an opened set supports set operations"
                );
            }
        }
        let refused = HashTable::<Any, AnyScheme>::open(&devices[0], &path);
        assert!(matches!(&refused, Err(Error::BadFile { reason, .. }) if reason.contains("set")), "{refused:?}");
        let refused = CompactingTable::<Any, AnyScheme>::open(&devices[0], &path);
        assert!(matches!(&refused, Err(Error::BadFile { reason, .. }) if reason.contains("set")), "{refused:?}");
        assert_eq!(koel::table::read_info(&path).unwrap().contents, koel::table::Contents::Set);
        HashTable::builder(scheme.clone()).build(&devices[0], &[1], &[0]).unwrap().save(&path).unwrap();
        let refused = HashSet::<Any, AnyScheme>::open(&devices[0], &path);
        assert!(matches!(&refused, Err(Error::BadFile { reason, .. }) if reason.contains("map")), "{refused:?}");
    }
}

#[test]
fn files_and_devices_keep_the_set() {
    for_every_kind(&Travels);
}

/// A map's file changed to claim that it contains a set. If it opened, two sets of the same keys would have two
/// digests.
fn opened_as_a_set(path: &std::path::Path) -> koel::Result<HashSet<Cpu, Cuckoo>> {
    let mut bytes = std::fs::read(path).unwrap();
    let contents = bytes.len() - TRAILER + 12;
    bytes[contents] = 1;
    reseal(&mut bytes);
    std::fs::write(path, bytes).unwrap();
    HashSet::open(&Cpu::new(), path)
}

#[test]
fn a_set_whose_keys_have_values_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.koel");
    for values in [[0, 0, 0], [0, 7, 0]] {
        let map = HashTable::builder(Cuckoo::default()).duplicates(Duplicates::KeepFirst);
        map.build(&Cpu::new(), &[1, 2, 3], &values).unwrap().save(&path).unwrap();
        let opened = opened_as_a_set(&path);
        match values {
            [0, 0, 0] => assert_eq!(opened.unwrap().len(), 3),
            _ => assert!(
                matches!(&opened, Err(Error::BadFile { reason, .. }) if reason.contains("values")),
                "{opened:?}"
            ),
        }
    }
}

/// A file whose rule for duplicates would reject keys that the set already contains.
#[test]
fn sets_with_another_rule_for_duplicates_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.koel");
    HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[1, 2], &[0, 0]).unwrap().save(&path).unwrap();
    let opened = opened_as_a_set(&path);
    assert!(matches!(&opened, Err(Error::BadFile { reason, .. }) if reason.contains("contradict")), "{opened:?}");
}

#[test]
fn parameters_out_of_range_are_refused() {
    let builder = || HashSet::builder(CuckooSet::default());
    let cpu = Cpu::new();
    for bad in [builder().load_factor(0.0), builder().attempts(0), builder().load_factor(0.5).slots(9)] {
        assert!(matches!(bad.build(&cpu, &[1, 1]), Err(Error::InvalidParameter { .. })));
    }
    let keys: Vec<u32> = (0..1000).collect();
    let refused = builder().slots(500).build(&cpu, &keys);
    assert!(matches!(refused, Err(Error::TooFull { pairs: 1000, .. })), "{refused:?}");
    let mut set = builder().slots(500).build(&cpu, &keys[..300]).unwrap();
    let before = set.digest().unwrap();
    assert!(set.insert(&keys).is_err());
    assert_eq!((set.digest().unwrap(), set.len()), (before, 300), "a refused operation changes nothing");
}
