//! Random sequences of operations compared with `std::collections::HashMap`.

use std::collections::HashMap;

use koel::device::Any;
use koel::{AnyScheme, Cpu, Duplicates, Error, HashTable, Kind, Scheme};
use quickcheck::{Arbitrary, Gen, QuickCheck};

/// One operation. Keys are from a small range, so that they are often equal.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<(u32, u32)>),
    Upsert(Vec<(u32, u32)>),
    Remove(Vec<u32>),
    Compact,
    Get(Vec<u32>),
    Move,
    Save,
}

fn key(g: &mut Gen) -> u32 {
    *g.choose(&[0, 1, 2, 3, 5, 8, 13, 1 << 31, u32::MAX - 1, u32::MAX]).unwrap() ^ (u32::arbitrary(g) & 0x31)
}

fn pairs(g: &mut Gen) -> Vec<(u32, u32)> {
    let len = usize::arbitrary(g) % 40;
    (0..len).map(|_| (key(g), u32::arbitrary(g))).collect()
}

impl Arbitrary for Step {
    fn arbitrary(g: &mut Gen) -> Self {
        match u8::arbitrary(g) % 11 {
            0..=2 => Step::Insert(pairs(g)),
            3 | 4 => Step::Upsert(pairs(g)),
            5 | 6 => Step::Remove((0..usize::arbitrary(g) % 30).map(|_| key(g)).collect()),
            7 => Step::Compact,
            8 => Step::Get((0..50).map(|_| key(g)).collect()),
            9 => Step::Move,
            _ => Step::Save,
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        match self {
            Step::Insert(pairs) => Box::new(pairs.shrink().map(Step::Insert)),
            Step::Upsert(pairs) => Box::new(pairs.shrink().map(Step::Upsert)),
            Step::Remove(keys) => Box::new(keys.shrink().map(Step::Remove)),
            _ => quickcheck::empty_shrinker(),
        }
    }
}

/// The effect of `insert` on a map under a rule; the smallest offending key under `Error`.
fn insert(model: &mut HashMap<u32, u32>, batch: &[(u32, u32)], rule: Duplicates) -> Result<(), u32> {
    if rule == Duplicates::Error {
        let mut next = model.clone();
        let duplicates = batch.iter().filter(|(key, value)| next.insert(*key, *value).is_some());
        if let Some(least) = duplicates.map(|(key, _)| *key).min() {
            return Err(least);
        }
        *model = next;
        return Ok(());
    }
    for &(key, value) in batch {
        match rule {
            Duplicates::KeepFirst => _ = model.entry(key).or_insert(value),
            _ => _ = model.insert(key, value),
        }
    }
    Ok(())
}

fn agrees(scheme: &AnyScheme, devices: &[Any], rule: Duplicates, fixed: bool, steps: &[Step]) -> bool {
    let kind = scheme.kind();
    let builder = HashTable::builder(scheme.clone()).duplicates(rule);
    let builder = if fixed { builder.slots(600) } else { builder };
    let mut table = builder.build(&devices[0], &[], &[]).unwrap();
    let mut model = HashMap::new();
    let folder = tempfile::tempdir().unwrap();
    let fit = |batch: &[(u32, u32)]| -> Vec<_> {
        batch.iter().map(|&(key, value)| (key, crate::common::fitting(scheme, value))).collect()
    };
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Insert(batch) => {
                let batch = &fit(batch);
                let (keys, values): (Vec<_>, Vec<_>) = batch.iter().copied().unzip();
                match (table.insert(&keys, &values), insert(&mut model, batch, rule)) {
                    (Ok(_), Ok(())) => {}
                    (Err(Error::DuplicateKey { key }), Err(least)) => assert_eq!(key, u64::from(least)),
                    (got, want) => panic!("{got:?} where the model has {want:?}"),
                }
            }
            Step::Upsert(batch) => {
                let batch = &fit(batch);
                let (keys, values): (Vec<_>, Vec<_>) = batch.iter().copied().unzip();
                table.upsert(&keys, &values).unwrap();
                insert(&mut model, batch, Duplicates::KeepLast).unwrap();
            }
            Step::Remove(keys) => {
                let gone = keys.iter().filter(|key| model.remove(key).is_some()).count();
                assert_eq!(table.remove(keys).unwrap(), gone);
            }
            Step::Compact => table.compact().unwrap(),
            Step::Get(queries) => {
                let expected: Vec<_> = queries.iter().map(|query| model.get(query).copied()).collect();
                assert_eq!(table.get(queries).unwrap(), expected);
            }
            Step::Move => table = table.to_backend(&devices[number % devices.len()]).unwrap(),
            Step::Save => {
                let path = folder.path().join("table");
                table.save(&path).unwrap();
                table = HashTable::open(&devices[number % devices.len()], &path).unwrap();
            }
        }
        assert_eq!(table.len(), model.len());
    }
    let pairs: HashMap<_, _> = table.iter().unwrap().collect();
    assert_eq!(pairs, model);
    table.audit().unwrap();
    table.compact().unwrap();
    // If removed pairs caused a restart, the first constants may suffice for the remaining pairs.
    let removed = steps.iter().any(|step| matches!(step, Step::Remove(_)));
    if kind == Kind::Canonical && (!removed || table.restarts() == 0) {
        let (keys, values): (Vec<_>, Vec<_>) = model.into_iter().unzip();
        let whole = HashTable::builder(scheme.clone()).slots(table.slots());
        let whole = whole.build(&devices[0], &keys, &values).unwrap();
        assert_eq!(whole.digest().unwrap(), table.digest().unwrap(), "the table of one build");
    }
    true
}

/// Runs this many random sequences per rule for duplicates, on growing and on fixed tables.
struct Sequences(u32);
impl crate::common::Check for Sequences {
    fn run(&self, scheme: &AnyScheme) {
        let mut devices = vec![Any::Cpu(Cpu::with_threads(2).unwrap())];
        devices.extend(crate::common::opencl_devices());
        for rule in Duplicates::ALL {
            for fixed in [true, false] {
                let devices = devices.clone();
                // quickcheck takes function pointers, so the setting is passed through a thread-local.
                SETTING.with(|setting| *setting.borrow_mut() = Some((scheme.clone(), devices, rule, fixed)));
                QuickCheck::new().tests(self.0.into()).quickcheck(run_one as fn(Vec<Step>) -> bool);
            }
        }
    }
}

/// Scheme, devices, rule for duplicates, and whether the capacity is fixed.
type Setting = (AnyScheme, Vec<Any>, Duplicates, bool);

thread_local! {
    static SETTING: std::cell::RefCell<Option<Setting>> = const { std::cell::RefCell::new(None) };
}

fn run_one(steps: Vec<Step>) -> bool {
    let (scheme, devices, rule, fixed) = SETTING.with(|setting| setting.borrow().clone()).unwrap();
    agrees(&scheme, &devices, rule, fixed, &steps[..steps.len().min(12)])
}

#[test]
fn sequences_of_operations_agree_with_a_map() {
    crate::common::for_every_kind(&Sequences(crate::common::size(3, 2)));
}

#[test]
#[ignore = "slow: more sequences for every scheme; CI runs it"]
fn many_sequences_of_operations_agree_with_a_map() {
    crate::common::for_every_kind(&Sequences(crate::common::sizes(25, 8, 2)));
}
