//! `multi`: the bytes are a file of a set, a compacting table, a multivalue table or a join index.
//!
//! An opened structure must agree with its own columns: the same results and stable digests, also after a change, a
//! save and an open. Files of plain tables are tested by `table`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use koel::table::{Contents, FileInfo, read_info};
use koel::{AnyScheme, CompactingTable, Cpu, Error, HashSet, JoinIndex, JoinKind, MultiTable, NO_ROW};

use crate::file::{Scratch, absent_keys, cpu, may_refuse, reseal};
use crate::memory;

/// Opens the bytes as the structure that their header names.
pub fn multi(data: &[u8]) {
    let mut bytes = data.to_vec();
    reseal(&mut bytes);
    let file = Scratch::holding(&bytes);
    memory::limited(|| match read_info(file.path()) {
        Ok(info) => of_its_contents(&info, &file),
        Err(error) => assert!(matches!(error, Error::BadFile { .. }), "{error}"),
    });
}

fn of_its_contents(info: &FileInfo, file: &Scratch) {
    match info.contents {
        Contents::Set => {
            if let Some(set) = opened(HashSet::<Cpu, AnyScheme>::open(&cpu(), file.path())) {
                check_set(set);
            }
        }
        Contents::Compact => {
            if let Some(table) = opened(CompactingTable::<Cpu, AnyScheme>::open(&cpu(), file.path())) {
                check_compacting(&table);
            }
        }
        Contents::Multi => {
            if let Some(table) = opened(MultiTable::<Cpu, AnyScheme>::open(&cpu(), file.path())) {
                check_multi(table);
            }
            if let Some(index) = opened(JoinIndex::<Cpu, AnyScheme>::open(&cpu(), file.path())) {
                check_index(&index);
            }
        }
        // A plain table.
        _ => {}
    }
}

fn opened<T>(result: koel::Result<T>) -> Option<T> {
    result.map_err(|error| assert!(matches!(error, Error::BadFile { .. }), "{error}")).ok()
}

/// Saves a structure, opens it again, and compares digests.
fn reopened<T, D: PartialEq + Debug>(
    save: impl FnOnce(&Scratch) -> koel::Result<D>,
    open: impl FnOnce(&Scratch) -> koel::Result<T>,
    digest: impl FnOnce(&T) -> koel::Result<D>,
) -> T {
    let file = Scratch::new();
    let saved = save(&file).expect("space for a small file");
    let again = open(&file).expect("a file that was just saved");
    assert_eq!(digest(&again).expect("a digest"), saved);
    again
}

fn check_set(mut set: HashSet<Cpu, AnyScheme>) {
    let holds_exactly = |set: &HashSet<Cpu, AnyScheme>, model: &BTreeSet<u32>| {
        memory::used(8 * koel::DeviceBuffer::len(set.table().image()));
        let keys: Vec<u32> = model.iter().copied().collect();
        let mut held = set.to_keys().expect("keys");
        held.sort_unstable();
        assert_eq!(held, keys, "each key occurs once");
        assert_eq!(set.len(), keys.len());
        assert!(!set.contains(&keys).expect("an answer").contains(&false), "hits");
        let absent = absent_keys(|key| model.contains(&key), keys.into_iter());
        assert!(!set.contains(&absent).expect("an answer").contains(&true), "misses");
        set.audit().expect("a sound set");
        absent
    };
    let mut model: BTreeSet<u32> = set.to_keys().expect("keys").into_iter().collect();
    let absent = holds_exactly(&set, &model);
    set = reopened(|to| set.save(to.path()), |from| HashSet::open(&cpu(), from.path()), HashSet::digest);
    let news: Vec<u32> = absent.into_iter().take(7).collect();
    match set.insert(&news) {
        Ok(added) => {
            assert_eq!(added, news.len());
            model.extend(news);
        }
        Err(error) => assert!(may_refuse(&error), "insert: {error}"),
    }
    holds_exactly(&set, &model);
    let gone: Vec<u32> = model.iter().copied().step_by(2).take(20).collect();
    match set.remove(&gone) {
        Ok(removed) => {
            assert_eq!(removed, gone.len());
            model.retain(|key| !gone.contains(key));
        }
        Err(error) => assert!(may_refuse(&error), "remove: {error}"),
    }
    holds_exactly(&set, &model);
    for restore in [HashSet::compact, HashSet::rebuild] {
        if let Err(error) = restore(&mut set) {
            assert!(may_refuse(&error), "compact, rebuild: {error}");
        }
        holds_exactly(&set, &model);
    }
}

fn check_compacting(table: &CompactingTable<Cpu, AnyScheme>) {
    let unique = table.unique().expect("keys");
    let ids: Vec<u32> = (0..unique.len() as u32).collect();
    let some = |numbers: &[u32]| numbers.iter().copied().map(Some).collect::<Vec<_>>();
    assert_eq!(table.ids(&unique).expect("ids"), some(&ids), "ids of keys");
    assert_eq!(table.keys(&ids).expect("keys"), some(&unique), "keys of ids");
    assert_eq!(table.keys(&[ids.len() as u32, u32::MAX]).expect("keys"), [None, None]);
    assert_eq!(table.inverse(&unique).expect("ids"), ids);
    let held: BTreeSet<u32> = unique.iter().copied().collect();
    assert_eq!(held.len(), unique.len(), "a key occurs twice");
    let absent = absent_keys(|key| held.contains(&key), unique.iter().copied());
    assert!(table.ids(&absent).expect("ids").iter().all(Option::is_none), "misses");
    table.audit().expect("a sound table");
    let again = reopened(
        |to| table.save(to.path()),
        |from| CompactingTable::<Cpu, AnyScheme>::open(&cpu(), from.path()),
        CompactingTable::digest,
    );
    assert_eq!(again.unique().expect("keys"), unique);
}

fn check_multi(mut table: MultiTable<Cpu, AnyScheme>) {
    let holds_exactly = |table: &MultiTable<Cpu, AnyScheme>, model: &BTreeMap<u32, Vec<u32>>| {
        memory::used(8 * koel::DeviceBuffer::len(table.table().image()));
        let keys: Vec<u32> = model.keys().copied().collect();
        let counts: Vec<u32> = model.values().map(|values| values.len() as u32).collect();
        assert_eq!((table.keys_len(), table.len()), (keys.len(), counts.iter().map(|&n| n as usize).sum()));
        assert_eq!(table.count(&keys).expect("an answer"), counts, "counts");
        let retrieved = table.retrieve(&keys).expect("an answer");
        for (i, values) in model.values().enumerate() {
            assert_eq!(retrieved.of(i), values, "values of key {}", keys[i]);
        }
        let absent = absent_keys(|key| model.contains_key(&key), keys.into_iter());
        assert!(table.get(&absent).expect("an answer").iter().all(|run| run.is_empty()), "misses");
        table.audit().expect("a sound table");
    };
    let mut model: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (key, value) in table.to_pairs().expect("pairs") {
        model.entry(key).or_default().push(value);
    }
    holds_exactly(&table, &model);
    table = reopened(|to| table.save(to.path()), |from| MultiTable::open(&cpu(), from.path()), MultiTable::digest);
    let gone: Vec<u32> = model.keys().copied().step_by(3).take(20).collect();
    match table.remove(&gone) {
        Ok(_) => model.retain(|key, _| !gone.contains(key)),
        Err(error) => assert!(may_refuse(&error), "remove: {error}"),
    }
    holds_exactly(&table, &model);
    reopened(
        |to| table.save(to.path()),
        |from| MultiTable::<Cpu, AnyScheme>::open(&cpu(), from.path()),
        MultiTable::digest,
    );
}

/// Checks that the row numbers of an index are 0, 1, .., each at one key, in ascending order per key.
fn check_index(index: &JoinIndex<Cpu, AnyScheme>) {
    let rows = index.join(&[], JoinKind::Right).expect("a join").collect().expect("few rows");
    assert_eq!(rows.left, vec![NO_ROW; index.len()]);
    assert!(rows.right.iter().copied().eq(0..index.len() as u32), "each row occurs once, in order");
    let pairs = index.table().to_pairs().expect("keys");
    let keys: Vec<u32> = pairs.iter().map(|&(key, _)| key).collect();
    let rows = index.join(&keys, JoinKind::Full).expect("a join").collect().expect("few rows");
    assert_eq!((rows.left.len(), rows.left.contains(&NO_ROW)), (index.len(), false), "each left row has matches");
    assert!(rows.left.iter().zip(&rows.right).is_sorted(), "by left row, then right row");
    let absent = absent_keys(|key| keys.contains(&key), keys.iter().copied());
    assert!(index.join(&absent, JoinKind::Semi).expect("a join").is_empty(), "misses");
    index.audit().expect("a sound index");
    reopened(
        |to| index.save(to.path()),
        |from| JoinIndex::<Cpu, AnyScheme>::open(&cpu(), from.path()),
        JoinIndex::digest,
    );
}
