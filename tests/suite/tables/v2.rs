//! Files that earlier releases wrote, in `tests/files/v2`: one of each scheme, kind and structure, with the rows that
//! they were built from. They must open, and support lookups and changes, as long as koel reads format 2.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use koel::device::Any;
use koel::table::{Contents, FileInfo, read_info};
use koel::{AnyScheme, CompactingTable, CuckooSet, HashSet, HashTable, KeyType, Kind, MultiTable, Scheme, Signpost};

use crate::common::{devices, holds_exactly, label, mapped_compact, mapped_multi, mapped_set, open_mapped};

/// Keys that occur in no row, and are small enough for every scheme.
const NEW: [u32; 3] = [200_000_001, 200_000_003, 200_000_007];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/v2")
}

fn text(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

/// The name and the digest of each file.
fn listed() -> BTreeMap<String, String> {
    text("digests.txt").lines().map(|line| line.split_once(' ').unwrap()).map(|(a, b)| (a.into(), b.into())).collect()
}

/// The rows `key,value` of a file in that folder.
fn rows(name: &str) -> Vec<(u32, u32)> {
    let row = |line: &str| line.split_once(',').map(|(key, value)| (key.parse().unwrap(), value.parse().unwrap()));
    text(name).lines().map(|line| row(line).unwrap()).collect()
}

/// The windows of `k` letters of the only record in `part.fa`, and their positions.
fn windows(k: usize) -> Vec<(u32, u32)> {
    let letters: String = text("part.fa").lines().skip(1).collect();
    let codes: Vec<u32> = letters.chars().map(|letter| "ACGT".find(letter).unwrap() as u32).collect();
    codes.windows(k).map(|window| window.iter().fold(0, |key, code| key << 2 | code)).zip(0..).collect()
}

/// A file, and the rows that it was built from.
struct Old {
    name: String,
    path: PathBuf,
    digest: String,
    rows: Vec<(u32, u32)>,
}

impl Old {
    fn new(name: String, digest: String) -> Old {
        let rows = match name.as_str() {
            "kmers-4-map.koel" => windows(4),
            "kmers-cuckoo-canonical.koel" => windows(8),
            // Values of 28 bits.
            "map-robin_hood-classic.koel" => rows("small.csv"),
            _ if name.contains("-quadratic-") => rows("forty.csv"),
            _ => rows("pairs.csv"),
        };
        Old { path: folder().join(&name), name, digest, rows }
    }

    /// Each key with its first value.
    fn first(&self) -> BTreeMap<u32, u32> {
        self.rows.iter().rev().copied().collect()
    }

    fn keys(&self) -> Vec<u32> {
        self.first().into_keys().collect()
    }

    /// Some of the keys: the extremes, and every fourth key in between.
    fn some(&self) -> Vec<u32> {
        let keys = self.keys();
        keys.iter().step_by(4).chain(keys.last()).copied().collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn absent(&self) -> Vec<u32> {
        let keys: BTreeSet<u32> = self.keys().into_iter().collect();
        let near = keys.iter().flat_map(|key| [key.wrapping_add(1), !key]);
        near.chain(NEW).filter(|key| !keys.contains(key)).collect()
    }

    fn is_rewritten(&self, saved: &Path) {
        assert!(std::fs::read(saved).unwrap() == std::fs::read(&self.path).unwrap(), "{}: other bytes", self.name);
    }

    fn map(&self, device: &Any, again: &Path, at: &str) {
        let mut model = self.first();
        let mut table = HashTable::<Any, AnyScheme>::open(device, &self.path).unwrap();
        assert_eq!((table.digest().unwrap().to_string(), table.key_type()), (self.digest.clone(), KeyType::Numbers));
        holds_exactly(&table, &model, at);
        table.save(again).unwrap();
        self.is_rewritten(again);
        let mapped = open_mapped::<AnyScheme>(&self.path).unwrap();
        assert_eq!(mapped.digest().unwrap().to_string(), self.digest, "{at}");
        assert!(mapped.get(&self.keys()).unwrap().into_iter().eq(model.values().map(|&value| Some(value))), "{at}");
        assert!(mapped.get(&self.absent()).unwrap().iter().all(Option::is_none), "{at}");
        // Half of the removed keys are added again with other values, together with new keys.
        let gone = self.some();
        assert_eq!(table.remove(&gone).unwrap(), gone.len(), "{at}");
        gone.iter().for_each(|key| _ = model.remove(key));
        holds_exactly(&table, &model, at);
        let known = *model.keys().next().unwrap();
        let batch: Vec<u32> = gone.iter().step_by(2).copied().chain([known, NEW[0], NEW[1]]).collect();
        let values: Vec<u32> = (3..).take(batch.len()).collect();
        assert_eq!(table.upsert(&batch, &values).unwrap().overwritten, 1, "{at}");
        model.extend(batch.into_iter().zip(values));
        assert_eq!(table.insert(&NEW[2..], &[77]).unwrap().added, 1, "{at}");
        model.insert(NEW[2], 77);
        table.save(again).unwrap();
        holds_exactly(&HashTable::<Any, AnyScheme>::open(device, again).unwrap(), &model, at);
    }

    fn set(&self, device: &Any, again: &Path, at: &str) {
        let keys = self.keys();
        let mut set = HashSet::<Any, AnyScheme>::open(device, &self.path).unwrap();
        assert_eq!((set.digest().unwrap().to_string(), set.len()), (self.digest.clone(), keys.len()), "{at}");
        let holds = |set: &HashSet<Any, AnyScheme>, model: &BTreeSet<u32>| {
            assert!(set.to_keys().unwrap().into_iter().collect::<BTreeSet<_>>() == *model, "{at}");
            assert!(set.contains(&Vec::from_iter(model.clone())).unwrap().iter().all(|&found| found), "{at}");
            let absent: Vec<u32> = self.absent().into_iter().filter(|key| !model.contains(key)).collect();
            assert!(!set.contains(&absent).unwrap().contains(&true), "{at}");
            set.audit().unwrap();
        };
        let mut model: BTreeSet<u32> = keys.into_iter().collect();
        holds(&set, &model);
        set.save(again).unwrap();
        self.is_rewritten(again);
        let mapped = mapped_set(&self.path).unwrap();
        assert_eq!((mapped.digest().unwrap().to_string(), mapped.len()), (self.digest.clone(), model.len()), "{at}");
        assert!(mapped.contains(&Vec::from_iter(model.clone())).unwrap().iter().all(|&found| found), "{at}");
        assert!(!mapped.contains(&self.absent()).unwrap().contains(&true), "{at}");
        let gone = self.some();
        assert_eq!(set.remove(&gone).unwrap(), gone.len(), "{at}");
        gone.iter().for_each(|key| _ = model.remove(key));
        holds(&set, &model);
        let known = *model.first().unwrap();
        let batch = [known, NEW[0], gone[0], NEW[1], NEW[0]];
        assert_eq!(set.insert(&batch).unwrap(), 3, "{at}");
        model.extend(batch);
        set.save(again).unwrap();
        holds(&HashSet::<Any, AnyScheme>::open(device, again).unwrap(), &model);
    }

    /// Compacting tables cannot be changed.
    fn compact(&self, device: &Any, again: &Path, at: &str) {
        let table = CompactingTable::<Any, AnyScheme>::open(device, &self.path).unwrap();
        assert_eq!(table.digest().unwrap().to_string(), self.digest, "{at}");
        let unique = table.unique().unwrap();
        let mut column: Vec<u32> = self.rows.iter().map(|&(key, _)| key).collect();
        assert!(table.ids(&unique).unwrap().into_iter().eq((0..unique.len() as u32).map(Some)), "{at}");
        assert!(table.ids(&self.absent()).unwrap().iter().all(Option::is_none), "{at}");
        if self.name.contains(CuckooSet::NAME) {
            // Ids in the order of the slots.
            let sorted: BTreeSet<u32> = unique.iter().copied().collect();
            column = unique.clone();
            assert!(sorted.into_iter().eq(self.keys()), "{at}");
        }
        assert_eq!(unique, column, "{at}");
        table.audit().unwrap();
        let mapped = mapped_compact(&self.path).unwrap();
        assert!(
            mapped.unique().unwrap() == unique && mapped.ids(&unique).unwrap() == table.ids(&unique).unwrap(),
            "{at}"
        );
        mapped.audit().unwrap();
        table.save(again).unwrap();
        self.is_rewritten(again);
    }

    fn multi(&self, device: &Any, again: &Path, at: &str) {
        let mut table = MultiTable::<Any, AnyScheme>::open(device, &self.path).unwrap();
        assert_eq!(table.digest().unwrap().to_string(), self.digest, "{at}");
        let mut model = BTreeMap::<u32, Vec<u32>>::new();
        self.rows.iter().for_each(|&(key, value)| model.entry(key).or_default().push(value));
        let holds = |table: &MultiTable<Any, AnyScheme>, model: &BTreeMap<u32, Vec<u32>>| {
            let (all, queries) = (table.values().unwrap(), Vec::from_iter(model.keys().copied()));
            let found = table.get(&queries).unwrap();
            assert!(found.into_iter().map(|run| all[run].to_vec()).eq(model.values().cloned()), "{at}");
            let absent: Vec<u32> = self.absent().into_iter().filter(|key| !model.contains_key(key)).collect();
            assert!(table.count(&absent).unwrap().iter().all(|&count| count == 0), "{at}");
            assert_eq!(table.len(), model.values().map(|values| values.len()).sum::<usize>(), "{at}");
            table.audit().unwrap();
        };
        holds(&table, &model);
        let mapped = mapped_multi(&self.path).unwrap();
        assert_eq!(mapped.to_pairs().unwrap(), table.to_pairs().unwrap(), "{at}");
        assert_eq!(mapped.get(&self.keys()).unwrap(), table.get(&self.keys()).unwrap(), "{at}");
        mapped.audit().unwrap();
        // The file of one structure is not a file of another.
        assert!(mapped_set(&self.path).is_err() && mapped_compact(&self.path).is_err(), "{at}");
        table.save(again).unwrap();
        self.is_rewritten(again);
        let gone = self.some();
        let removed: usize = gone.iter().map(|key| model.remove(key).unwrap().len()).sum();
        assert_eq!(table.remove(&gone).unwrap(), removed, "{at}");
        table.save(again).unwrap();
        holds(&MultiTable::<Any, AnyScheme>::open(device, again).unwrap(), &model);
    }

    fn check(&self, info: &FileInfo) {
        let name = AnyScheme::name_of(info.scheme).unwrap();
        let scheme = AnyScheme::by_name(name, info.kind).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let again = scratch.path().join("again.koel");
        for device in devices() {
            let at = format!("{}, {}", self.name, label(&scheme, &device));
            match info.contents {
                Contents::Map => self.map(&device, &again, &at),
                Contents::Set => self.set(&device, &again, &at),
                Contents::Compact => self.compact(&device, &again, &at),
                Contents::Multi => self.multi(&device, &again, &at),
                other => panic!("{at}: {other:?}"),
            }
        }
    }
}

/// The names of the files that must exist.
fn wanted() -> BTreeSet<String> {
    let mut names = BTreeSet::from(["kmers-4-map.koel".into(), "kmers-cuckoo-canonical.koel".into()]);
    // Signpost tables were added later.
    let names_then = AnyScheme::NAMES.iter().filter(|name| **name != Signpost::NAME);
    for (scheme, kind) in names_then.flat_map(|name| Kind::ALL.map(|kind| (name, kind))) {
        let Ok(limits) = AnyScheme::by_name(scheme, kind).map(|scheme| scheme.limits()) else { continue };
        for contents in Contents::ALL {
            // Schemes without values have only sets, and compacting tables.
            if limits.value_bits > 0 || matches!(contents, Contents::Set | Contents::Compact) {
                names.insert(format!("{}-{scheme}-{kind}.koel", contents.name()));
            }
        }
    }
    names
}

#[test]
fn every_name_exists() {
    let there = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = there.filter(|name| name.ends_with(".koel")).collect();
    assert_eq!(there, wanted());
    assert_eq!(there, listed().into_keys().collect());
}

#[test]
fn each_opens_answers_and_changes_on_every_device() {
    for (name, digest) in listed() {
        let old = Old::new(name, digest);
        let info = read_info(&old.path).unwrap();
        assert_eq!(info.key_type, KeyType::Numbers, "{}", old.name);
        assert!(old.name.contains(&format!("-{}", info.kind)) || info.kind == Kind::Canonical, "{}", old.name);
        old.check(&info);
    }
}
