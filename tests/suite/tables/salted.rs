//! Keys chosen so that attempts 0 to 7 fail and builds need salted attempts. These tables must behave like any others.

use std::collections::BTreeMap;

use crate::chosen::{
    Attack, SEED, bucketized_canonical, bucketized_classic, chosen, cuckoo, cuckoo_crowd, cuckoo_set, first, fks,
    horton_canonical, horton_classic, plan_of, quadratic,
};
use crate::common::{devices, holds_exactly, open_mapped, reference, reseal};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::scheme::{FIRST_SALTED, Plan, Salt, Updates};
use koel::{AnyScheme, Cpu, Cuckoo, CuckooSet, Duplicates, Error, Fks, HashSet, HashTable, Kind, RobinHood, Scheme};

fn built(attack: &Attack, device: &Any, model: &BTreeMap<u32, u32>) -> HashTable<Any, AnyScheme> {
    let (keys, values): (Vec<u32>, Vec<u32>) = model.iter().unzip();
    attack.builder().build(device, &keys, &values).unwrap()
}

fn check_all(attack: &Attack) {
    let Attack { scheme, keys, .. } = attack;
    let canonical = scheme.kind() == Kind::Canonical;
    let model: BTreeMap<u32, u32> = keys.iter().copied().zip(attack.values(keys, 77)).collect();
    let sorted: Vec<u32> = model.keys().copied().collect();
    let mut digests = Vec::new();
    for device in devices() {
        let at = format!("{scheme:?} on {}", device.info());
        let mut table = attack.builder().build(&device, keys, &attack.values(keys, 77)).unwrap();
        assert!(table.restarts() >= FIRST_SALTED, "{at}");
        assert_eq!(table.plan().salt(), Some(Salt::of(SEED, &sorted)), "{at}: the salt depends only on the keys");
        holds_exactly(&table, &model, &at);
        let digest = table.digest().unwrap();
        if canonical {
            digests.push(digest);
            assert_eq!(built(attack, &device, &model).digest().unwrap(), digest, "{at}: another order");
            let plan = table.plan().with_outside(None);
            let image = reference::<AnyScheme>(&plan, model.iter().map(|(&key, &value)| (key, value)));
            assert_eq!(image, Some(crate::common::image(&table)), "{at}: one key at a time");
        }
        files(attack, &table, &model, &at);
        changes(attack, &mut table, model.clone(), &at);
        batches(attack, &device, &model, digest, &at);
    }
    assert!(digests.windows(2).all(|two| two[0] == two[1]), "{scheme:?}: one digest on all devices");
}

/// A file has the new version and the salt, and equals the one saved on another device.
fn files(attack: &Attack, table: &HashTable<Any, AnyScheme>, model: &BTreeMap<u32, u32>, at: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let digest = table.save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let salt = table.plan().salt().unwrap().bytes();
    assert_eq!((bytes[8], &bytes[112..128]), (3, &salt[..]), "{at}");
    for device in devices() {
        let mut opened: HashTable<Any, AnyScheme> = HashTable::open(&device, &path).unwrap();
        assert_eq!((opened.digest().unwrap(), opened.plan()), (digest, table.plan()), "{at}");
        holds_exactly(&opened, model, at);
        let (key, value) = (0x1234_5678, attack.values(&[9], 1)[0]);
        assert!(opened.insert(&[key], &[value]).unwrap().rebuilt, "{at}: a new key, another salt");
        assert_eq!(opened.get(&[key]).unwrap(), [Some(value)], "{at}");
    }
    let mapped: HashTable<Cpu, AnyScheme> = open_mapped(&path).unwrap();
    let keys: Vec<u32> = model.keys().copied().collect();
    assert_eq!(mapped.get(&keys).unwrap(), model.values().map(|&value| Some(value)).collect::<Vec<_>>(), "{at}");
    // Contradictions are found in the header, so `open_mapped` rejects them too.
    let attempt = (48..112).step_by(4).rev().find(|&at| bytes[at..at + 4] == table.restarts().to_le_bytes()).unwrap();
    for (what, at_byte, with) in [
        ("the old version with a salt", 8, vec![2]),
        ("no salt", 112, vec![0; 16]),
        ("an early attempt", attempt, vec![7]),
        ("bytes before the salt", 111, vec![1]),
        ("another version", 8, vec![4]),
    ] {
        let mut forged = bytes.clone();
        forged[at_byte..at_byte + with.len()].copy_from_slice(&with);
        reseal(&mut forged);
        std::fs::write(&path, &forged).unwrap();
        let refused = HashTable::<Cpu, AnyScheme>::open(&Cpu::new(), &path);
        assert!(matches!(refused, Err(Error::BadFile { .. })), "{at}: {what}");
        let refused = open_mapped::<AnyScheme>(&path);
        assert!(matches!(refused, Err(Error::BadFile { .. })), "{at}: {what}, mapped");
    }
    // Another salt means other constants, under which the pairs are misplaced.
    let mut forged = bytes;
    forged[112] ^= 1;
    reseal(&mut forged);
    std::fs::write(&path, &forged).unwrap();
    assert!(
        matches!(HashTable::<Cpu, AnyScheme>::open(&Cpu::new(), &path), Err(Error::BadFile { .. })),
        "{at}: another salt"
    );
}

/// Values change in place, new keys rebuild the table, and removals keep the salt until the table is compacted.
fn changes(attack: &Attack, table: &mut HashTable<Any, AnyScheme>, mut model: BTreeMap<u32, u32>, at: &str) {
    let canonical = attack.scheme.kind() == Kind::Canonical;
    let device = table.backend().clone();
    let same = |table: &HashTable<Any, AnyScheme>, model: &BTreeMap<u32, u32>, what: &str| {
        holds_exactly(table, model, &format!("{at}: {what}"));
        if canonical {
            let expected = built(attack, &device, model).digest().unwrap();
            assert_eq!(table.digest().unwrap(), expected, "{at}: {what}");
        }
    };
    let salt = table.plan().salt();
    let some: Vec<u32> = attack.keys.iter().copied().step_by(3).collect();
    let done = table.upsert(&some, &attack.values(&some, 99)).unwrap();
    assert_eq!((done.added, done.rebuilt, table.plan().salt()), (0, false, salt), "{at}: changed values keep the salt");
    model.extend(some.iter().copied().zip(attack.values(&some, 99)));
    same(table, &model, "after values");

    let more = [(0xabcd_0000, 1), (0xabcd_0001, 0)].map(|(key, value)| (key, attack.values(&[value], 3)[0]));
    let (keys, new): (Vec<u32>, Vec<u32>) = more.into_iter().unzip();
    assert!(table.insert(&keys, &new).unwrap().rebuilt, "{at}: new keys rebuild the table");
    assert_ne!(table.plan().salt(), salt, "{at}: another salt");
    model.extend(more);
    same(table, &model, "after new keys");
    let copy = table.insert(&[0xabcd_0009, keys[1], keys[0]], &[0; 3]);
    assert!(matches!(copy, Err(Error::DuplicateKey { key }) if key == u64::from(keys[0])), "{at}: {copy:?}");
    same(table, &model, "after a refused batch");

    let (salt, digest) = (table.plan().salt(), table.digest().unwrap());
    assert_eq!(table.remove(&keys).unwrap(), 2, "{at}");
    keys.iter().for_each(|key| _ = model.remove(key));
    holds_exactly(table, &model, at);
    match attack.scheme.updates() {
        Updates::Tombstones => {
            assert_eq!((table.tombstones(), table.plan().salt()), (2, salt), "{at}: worn");
            assert_ne!(table.digest().unwrap(), digest, "{at}");
            // A batch into a table with tombstones begins with the first attempt, because the keys that failed it may
            // have been removed.
            let mut grown = table.to_backend(&device).unwrap();
            grown.insert(&keys, &new).unwrap();
            assert_eq!(
                (grown.digest().unwrap(), grown.has_tombstones()),
                (digest, false),
                "{at}: the table of one build"
            );
            table.compact().unwrap();
            assert_ne!(table.plan().salt(), salt, "{at}: compacted");
            same(table, &model, "compacted");
        }
        Updates::InPlace => assert_eq!(table.plan().salt(), salt, "{at}: in place"),
        Updates::Rebuild => same(table, &model, "removed"),
        other => panic!("{at}: {other:?}"),
    }
    // With half of the keys removed, early attempts may succeed again, and a rebuild uses the one that a build would
    // use.
    let half: Vec<u32> = attack.keys.iter().copied().step_by(2).collect();
    table.remove(&half).unwrap();
    half.iter().for_each(|key| _ = model.remove(key));
    table.rebuild().unwrap();
    same(table, &model, "rebuilt");
}

/// Checks that a table that grows in batches equals that of one build.
fn batches(attack: &Attack, device: &Any, model: &BTreeMap<u32, u32>, digest: koel::Digest, at: &str) {
    for (rule, pieces) in [(Duplicates::Error, 2), (Duplicates::KeepLast, 5)] {
        let mut grown = attack.builder().duplicates(rule).build(device, &[], &[]).unwrap();
        for piece in attack.keys.chunks(attack.keys.len() / pieces) {
            grown.insert(piece, &attack.values(piece, 77)).unwrap();
        }
        holds_exactly(&grown, model, at);
        if attack.scheme.kind() == Kind::Canonical {
            assert_eq!(grown.digest().unwrap(), digest, "{at}: {pieces} batches and more");
        }
    }
}

#[test]
fn cuckoo_tables_of_chosen_keys() {
    check_all(&cuckoo(Cuckoo::canonical(4), 80));
    check_all(&cuckoo(Cuckoo::canonical(3), 60));
    check_all(&cuckoo(Cuckoo::canonical(2), 90));
    check_all(&cuckoo(Cuckoo::classic(4), 80));
}

#[test]
fn cuckoo_sets_of_chosen_keys() {
    check_all(&cuckoo_set(CuckooSet::canonical(4), 81));
    check_all(&cuckoo_set(CuckooSet::classic(4), 81));
}

#[test]
fn bucketized_tables_of_chosen_keys() {
    check_all(&bucketized_canonical());
    check_all(&bucketized_classic());
}

#[test]
fn horton_tables_of_chosen_keys() {
    check_all(&horton_canonical());
    check_all(&horton_classic());
}

#[test]
fn two_level_tables_of_chosen_keys() {
    check_all(&fks(Fks::canonical()));
    check_all(&fks(Fks::classic()));
}

#[test]
fn quadratic_tables_of_chosen_keys() {
    check_all(&quadratic());
}

/// 160 keys at the default load and number of attempts. For each attempt, five of them crowd into four slots, so
/// without a salt every attempt would fail.
#[test]
fn keys_chosen_for_every_attempt_of_a_seed_make_a_table() {
    let scheme = Cuckoo::canonical(4);
    let keys = chosen(&scheme, 200, SEED, 0..32, |plan| cuckoo_crowd(&plan.functions()));
    for attempt in 0..32 {
        let plan = plan_of(&scheme, 200, SEED, attempt);
        assert_eq!((reference::<Cuckoo>(&plan, keys.iter().map(|&key| (key, 0))), plan.salt()), (None, None));
    }
    for device in devices() {
        let builder = HashTable::builder(scheme.clone()).seed(SEED).slots(200);
        let table = builder.build(&device, &keys, &keys).unwrap();
        assert_eq!(table.restarts(), FIRST_SALTED);
        assert_eq!(table.get(&keys).unwrap(), keys.iter().map(|&key| Some(key)).collect::<Vec<_>>());
        let rows = [&keys[..], &keys[..50]].concat();
        let set = HashSet::builder(CuckooSet::canonical(4)).seed(SEED).slots(200).build(&device, &rows).unwrap();
        assert_eq!((set.len(), set.table().restarts()), (160, FIRST_SALTED));
        // If only the attempts without a salt are allowed, the error says how to succeed.
        let refused = builder.clone().attempts(FIRST_SALTED).build(&device, &keys, &keys).err().unwrap();
        assert!(matches!(refused, Error::TooFull { attempts: 8, by_load: false, .. }), "{refused:?}");
        let text = refused.to_string();
        assert!(text.contains("another seed") && !text.contains("ower the load"), "{text}");
        builder.seed_at_random().unwrap().attempts(8).build(&device, &keys, &keys).unwrap();
    }
}

/// If hundreds of keys crowd at the first attempt, a build at half of the feasible load continues with other attempts.
#[test]
fn a_failed_attempt_does_not_end_the_build() {
    let scheme = Cuckoo::canonical(4);
    let plan = plan_of(&scheme, 1000, SEED, 0);
    let functions = plan.functions();
    let mut keys = first(250, |key| (0..4).all(|i| functions.probe(i, key).0 < 100));
    keys.extend((0..250).map(|i| 0x8000_0000 + i));
    for device in devices() {
        let builder = HashTable::builder(scheme.clone()).seed(SEED).slots(1000);
        assert_eq!(builder.build(&device, &keys, &keys).unwrap().restarts(), 1);
        // If the load is the reason, the first salted attempt reports it.
        let full: Vec<u32> = (0..900).collect();
        let builder = HashTable::builder(Cuckoo::canonical(2)).seed(SEED).slots(1000);
        let refused = builder.build(&device, &full, &full).err().unwrap();
        assert!(matches!(refused, Error::TooFull { attempts: 9, by_load: true, .. }), "{refused:?}");
        let text = refused.to_string();
        assert!(text.contains("Lower the load") && text.contains("another seed"), "{text}");
    }
}

/// Format 3 is for schemes with salts.
#[test]
fn a_scheme_without_salts_has_none_in_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let table = HashTable::builder(RobinHood::canonical()).build(&Cpu::new(), &[1, 2], &[3, 4]).unwrap();
    table.save(&path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 3;
    bytes[112..128].fill(7);
    reseal(&mut bytes);
    std::fs::write(&path, &bytes).unwrap();
    let refused = HashTable::<Cpu, RobinHood>::open(&Cpu::new(), &path);
    assert!(matches!(refused, Err(Error::BadFile { .. })), "{refused:?}");
}
