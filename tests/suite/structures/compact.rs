//! Compacting tables of every scheme and kind whose values can be ids, on every device, compared with ordered lists.

use std::collections::{BTreeSet, HashMap};

use crate::common::{Check, TRAILER, devices, for_every_kind, label, reseal, size, skip, workload};
use koel::backend::{HashBackend, Runs};
use koel::device::Any;
use koel::{
    AnyScheme, CompactingBuilder, CompactingTable, Cpu, Cuckoo, CuckooSet, Error, HashSet, HashTable, IdOrder, Kind,
    Scheme,
};
use quickcheck::{Arbitrary, Gen, QuickCheck};

fn builder(scheme: &AnyScheme, order: IdOrder) -> CompactingBuilder<AnyScheme> {
    CompactingTable::builder(scheme.clone()).seed(3).ids(order)
}

/// The distinct keys in order of their ids.
fn list(column: &[u32], order: IdOrder) -> Vec<u32> {
    let mut seen = BTreeSet::new();
    let mut unique: Vec<u32> = column.iter().copied().filter(|&key| seen.insert(key)).collect();
    if order == IdOrder::Ascending {
        unique.sort_unstable();
    }
    unique
}

/// Whether tables of this kind have values wide enough for this many ids.
fn has_capacity(scheme: &AnyScheme, ids: usize) -> bool {
    let kind = scheme.kind();
    let room = ids == 0 || ids - 1 <= scheme.limits().greatest_value() as usize;
    if !room {
        skip(&format!("ids in {} {kind} tables", scheme.name()), "their values have too few bits");
    }
    room
}

/// Runs every query on a compacting table and compares the results with its list.
fn numbers<S: Scheme<Key = u32, Value = u32>>(table: &CompactingTable<Any, S>, unique: &[u32], column: &[u32], at: &str)
where
    Any: Runs<S>,
{
    let backend = table.backend();
    assert_eq!((table.len(), table.is_empty()), (unique.len(), unique.is_empty()), "{at}");
    assert!(table.unique().unwrap() == unique, "{at}: the list");
    assert!(backend.download(table.unique_on()).unwrap() == unique, "{at}: the list on the device");
    let ids: Vec<u32> = (0..unique.len() as u32).collect();
    assert!(table.ids(unique).unwrap() == ids.iter().copied().map(Some).collect::<Vec<_>>(), "{at}: ids");
    let mut queried = ids.clone();
    queried.extend([unique.len() as u32, u32::MAX]);
    let mut keys: Vec<_> = unique.iter().copied().map(Some).collect();
    keys.extend([None, None]);
    assert!(table.keys(&queried).unwrap() == keys, "{at}: keys");
    let known: HashMap<u32, u32> = unique.iter().copied().zip(0..).collect();
    let absent: Vec<u32> = unique.iter().flat_map(|k| [!k, k ^ 1]).filter(|key| !known.contains_key(key)).collect();
    assert!(table.ids(&absent).unwrap().iter().all(Option::is_none), "{at}: no ids");
    let inverse: Vec<u32> = column.iter().map(|key| known[key]).collect();
    assert!(table.inverse(column).unwrap() == inverse, "{at}: inverse");
    let on_device = backend.upload(column).unwrap();
    let ids_on_device = table.inverse_on(&on_device).unwrap();
    assert!(backend.download(&ids_on_device).unwrap() == inverse, "{at}: inverse on the device");
    let back = backend.download(&table.keys_on(&ids_on_device).unwrap()).unwrap();
    assert!(back == column, "{at}: keys of the ids");
    if let Some(&key) = absent.first() {
        for place in [0, column.len() / 2, column.len()] {
            let mut column = column.to_vec();
            column.splice(place..place, [key, key]);
            let refused = table.inverse(&column);
            let position = place as u64;
            assert!(
                matches!(refused, Err(Error::UnknownKey { key: k, position: p }) if (k, p) == (u64::from(key), position)),
                "{at}"
            );
        }
    }
    table.audit().unwrap_or_else(|error| panic!("{at}: {error}"));
}

struct Builds;
impl Check for Builds {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        for n in [0, 1, 2, 31, 33, size(2000, 100)] {
            let (keys, _, _) = workload(scheme, n);
            if !has_capacity(scheme, keys.len()) {
                continue;
            }
            let often = keys.last().map_or(Vec::new(), |&key| vec![key; size(10_000, 200) as usize]);
            let column: Vec<u32> = keys.iter().chain(&often).chain(keys.iter().rev()).copied().collect();
            for order in IdOrder::ALL {
                let unique = list(&column, order);
                let mut digests = BTreeSet::new();
                for device in devices() {
                    let at = format!("{}, n = {n}, {order:?}", label(scheme, &device));
                    let table = builder(scheme, order).build(&device, &column);
                    let table = table.unwrap_or_else(|error| panic!("{at}: {error}"));
                    numbers(&table, &unique, &column, &at);
                    digests.insert(table.digest().unwrap().to_string());
                    // It equals the table of its pairs, and does not depend on how often keys occurred.
                    let ids: Vec<u32> = (0..unique.len() as u32).collect();
                    let plain = HashTable::builder(scheme.clone()).seed(3).build(&device, &unique, &ids).unwrap();
                    assert_eq!(table.table().capacity(), plain.capacity(), "{at}: sized by the distinct keys");
                    if kind == Kind::Canonical {
                        assert_eq!(table.digest().unwrap(), plain.digest().unwrap(), "{at}");
                    }
                }
                assert!(kind == Kind::Classic || digests.len() == 1, "{} {kind}, n = {n}, {order:?}", scheme.name());
            }
        }
    }
}

#[test]
fn columns_are_numbered_in_both_orders() {
    for_every_kind(&Builds);
}

struct Travels;
impl Check for Travels {
    fn run(&self, scheme: &AnyScheme) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids.koel");
        let (keys, _, _) = workload(scheme, size(300, 60));
        if !has_capacity(scheme, keys.len()) {
            return;
        }
        let column: Vec<u32> = keys.iter().chain(keys.iter().rev()).copied().collect();
        let devices = devices();
        for (from, order) in devices.iter().zip(IdOrder::ALL.into_iter().cycle()) {
            let unique = list(&column, order);
            let table = builder(scheme, order).build(from, &column).unwrap();
            let digest = table.save(&path).unwrap();
            for to in &devices {
                let at = format!("{} to {}", label(scheme, from), to.info());
                let moved = table.to_backend(to).unwrap();
                let opened =
                    CompactingTable::<Any, AnyScheme>::open(to, &path).unwrap_or_else(|error| panic!("{at}: {error}"));
                for table in [moved, opened] {
                    assert_eq!(table.digest().unwrap(), digest, "{at}");
                    numbers(&table, &unique, &column, &at);
                }
            }
        }
        let wrong = HashTable::<Any, AnyScheme>::open(&devices[0], &path);
        assert!(matches!(&wrong, Err(Error::BadFile { reason, .. }) if reason.contains("compact")), "{wrong:?}");
        let wrong = HashSet::<Any, AnyScheme>::open(&devices[0], &path);
        assert!(matches!(&wrong, Err(Error::BadFile { reason, .. }) if reason.contains("compact")), "{wrong:?}");
        assert_eq!(koel::table::read_info(&path).unwrap().contents, koel::table::Contents::Compact);
    }
}

#[test]
fn files_and_devices_keep_the_ids() {
    for_every_kind(&Travels);
}

/// A map's file changed to claim that it contains a compacting table, with a valid checksum.
fn disguised(path: &std::path::Path, keys: &[u32], ids: &[u32]) {
    HashTable::builder(Cuckoo::default()).build(&Cpu::new(), keys, ids).unwrap().save(path).unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    let end = bytes.len() - TRAILER;
    bytes[end + 12] = 2;
    reseal(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn values_other_than_ids_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.koel");
    let keys: Vec<u32> = (0..40).map(|i| i * 77).collect();
    let right: Vec<u32> = (0..40).rev().collect();
    for device in devices() {
        disguised(&path, &keys, &right);
        let table = CompactingTable::<Any>::open(&device, &path).unwrap();
        numbers(&table, &keys.iter().rev().copied().collect::<Vec<_>>(), &keys, "disguised");
        for (at, id, least) in [(5, 40, 34), (5, u32::MAX, 34), (5, 0, 34), (39, 39, 0), (0, 1 << 31, 39)] {
            let mut ids = right.clone();
            ids[at] = id;
            disguised(&path, &keys, &ids);
            let refused = CompactingTable::<Any>::open(&device, &path);
            let says = format!("the key with id {least}");
            assert!(matches!(&refused, Err(Error::BadFile { reason, .. }) if reason.contains(&says)), "{refused:?}");
        }
    }
}

#[test]
fn a_damaged_file_is_refused_wherever_the_damage_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.koel");
    let column: Vec<u32> = (0..200).map(|i| i / 3).collect();
    CompactingTable::builder(Cuckoo::default()).build(&Cpu::new(), &column).unwrap().save(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(7) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x11;
        std::fs::write(&path, &bytes).unwrap();
        let opened = CompactingTable::<Cpu>::open(&Cpu::new(), &path);
        assert!(matches!(opened, Err(Error::BadFile { .. })), "byte {at}: {opened:?}");
    }
    for len in [0, 1, 127, good.len() - 1] {
        std::fs::write(&path, &good[..len]).unwrap();
        assert!(matches!(CompactingTable::<Cpu>::open(&Cpu::new(), &path), Err(Error::BadFile { .. })));
    }
}

/// Rows are sent to the device in chunks, but the reported position is relative to the first row of all.
#[test]
fn the_position_of_an_unknown_key_counts_all_rows() {
    let rows = size((1 << 20) + 100, 3000) as usize;
    let mut column: Vec<u32> = (0..rows as u32).map(|i| i % 50).collect();
    for device in devices() {
        let table = CompactingTable::builder(Cuckoo::default()).build(&device, &column[..50]).unwrap();
        assert_eq!(table.inverse(&column).unwrap(), column, "0, 1, .. as they first appear");
        for at in [rows - 1, rows - 40] {
            let right = std::mem::replace(&mut column[at], 99);
            let refused = table.inverse(&column);
            assert!(
                matches!(refused, Err(Error::UnknownKey { key: 99, position }) if position == at as u64),
                "{refused:?}"
            );
            let on_device = device.upload(&column).unwrap();
            let refused = table.inverse_on(&on_device);
            assert!(
                matches!(refused, Err(Error::UnknownKey { key: 99, position }) if position == at as u64),
                "{refused:?}"
            );
            column[at] = right;
        }
    }
}

/// Converts a set, without placing a key again, to the table of the pairs `key -> id`, with ids in table order.
#[test]
fn a_set_becomes_a_compacting_table() {
    let n = size(3000, 150);
    for device in devices() {
        for kind in Kind::ALL {
            // An odd and an even number of slots, and that of the load; a built set, one that grew, and one with
            // tombstones; with and without the sentinel key of the classic kind.
            for (slots, last) in [(None, u32::MAX), (Some(2 * n + 1), 5), (Some(2 * n), u32::MAX)] {
                for history in ["built", "grown", "with tombstones"] {
                    let at = format!("{kind}, {slots:?} slots, {history}, on {}", device.info());
                    let (mut keys, _, _) = workload(&CuckooSet::of_kind(kind).into(), n);
                    // The second key of the workload is the largest key.
                    keys[1] = last;
                    let sized = HashSet::builder(CuckooSet::of_kind(kind)).seed(8);
                    let sized = slots.map_or(sized.clone(), |slots| sized.clone().slots(slots as usize));
                    let column: Vec<u32> = keys.iter().chain(&keys).copied().collect();
                    let set = match history {
                        "built" => sized.build(&device, &column).unwrap(),
                        "grown" => {
                            let mut set = sized.build(&device, &column[..n as usize / 2]).unwrap();
                            set.insert(&column).unwrap();
                            set
                        }
                        _ => {
                            let more: Vec<u32> = (0..n / 10).map(|i| 0x5000_0000 + i).collect();
                            let mut set = sized.build(&device, &[&column[..], &more].concat()).unwrap();
                            assert_eq!(set.remove(&more).unwrap(), more.len(), "{at}");
                            set
                        }
                    };
                    let order = set.to_keys().unwrap();
                    let slots = set.slots();
                    let table = CompactingTable::from_set(set).unwrap();
                    // Compacting a set with tombstones may move keys.
                    let unique = if history == "with tombstones" { table.unique().unwrap() } else { order };
                    let distinct: BTreeSet<u32> = unique.iter().copied().collect();
                    assert_eq!(distinct, column.iter().copied().collect(), "{at}");
                    numbers(&table, &unique, &column, &at);
                    if kind == Kind::Canonical {
                        let ids: Vec<u32> = (0..unique.len() as u32).collect();
                        let plain = HashTable::builder(Cuckoo::of_kind(kind)).seed(8).slots(slots);
                        let plain = plain.build(&device, &unique, &ids).unwrap();
                        assert!(crate::common::image(table.table()) == crate::common::image(&plain), "{at}: the bytes");
                        assert_eq!(table.digest().unwrap(), plain.digest().unwrap(), "{at}");
                        assert_eq!(table.table().to_pairs().unwrap(), plain.to_pairs().unwrap(), "{at}");
                    }
                }
            }
        }
        let empty = HashSet::builder(CuckooSet::default()).build(&device, &[]).unwrap();
        assert!(CompactingTable::from_set(empty).unwrap().unique().unwrap().is_empty());
    }
}

/// Compacting a converted set results in the same file as a build.
#[test]
fn compacting_a_set_gives_the_file_of_a_built_table() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    let column: Vec<u32> = (0..500).map(|i| i * i).collect();
    let set = HashSet::builder(CuckooSet::canonical(3)).load_factor(0.7).seed(4).build(&Cpu::new(), &column).unwrap();
    let order = set.to_keys().unwrap();
    CompactingTable::from_set(set).unwrap().save(&one).unwrap();
    let built = CompactingTable::builder(Cuckoo::canonical(3)).load_factor(0.7).seed(4).build(&Cpu::new(), &order);
    built.unwrap().save(&other).unwrap();
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&other).unwrap());
    assert_eq!(CompactingTable::<Cpu>::open(&Cpu::new(), &one).unwrap().unique().unwrap(), order);
}

/// Ids that do not fit a scheme's values are rejected, not truncated.
struct TooManyIds;
impl Check for TooManyIds {
    fn run(&self, scheme: &AnyScheme) {
        if scheme.limits().value_bits > 10 {
            return;
        }
        let column: Vec<u32> = (0..=scheme.limits().greatest_value() + 1).collect();
        for device in devices() {
            let refused = CompactingTable::builder(scheme.clone()).build(&device, &column);
            assert!(matches!(refused, Err(Error::TooWide { what: "value", .. })), "{refused:?}");
        }
    }
}

#[test]
fn ids_that_do_not_fit_are_refused() {
    for_every_kind(&TooManyIds);
}

/// Rows whose keys are few and near the extremes.
#[derive(Clone, Debug)]
struct Column(Vec<u32>);

impl Arbitrary for Column {
    fn arbitrary(g: &mut Gen) -> Self {
        let len = usize::arbitrary(g) % 200;
        let mask = *g.choose(&[1, 15, u32::MAX]).unwrap();
        Column((0..len).map(|_| g.choose(&[0, u32::MAX]).unwrap() ^ (u32::arbitrary(g) & mask)).collect())
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        Box::new(self.0.shrink().map(Column))
    }
}

fn any_column_agrees(Column(column): Column) -> bool {
    thread_local!(static DEVICES: Vec<Any> = devices());
    DEVICES.with(|devices| {
        for device in devices {
            for (&kind, order) in Cuckoo::KINDS.iter().zip(IdOrder::ALL) {
                let table = builder(&Cuckoo::of_kind(kind).into(), order).build(device, &column).unwrap();
                numbers(&table, &list(&column, order), &column, &format!("{column:?}, {order:?}"));
            }
        }
    });
    true
}

#[test]
fn any_column_is_numbered() {
    QuickCheck::new().tests(size(100, 4).into()).quickcheck(any_column_agrees as fn(Column) -> bool);
}
