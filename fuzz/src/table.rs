//! `table`: the bytes are a table file.
//!
//! ```text
//! mapped    header and plan are checked, the image is not: results are arbitrary, but nothing crashes
//! opened    checked and audited. From here on the table must be a map of the pairs it decodes to:
//!           lookups, digest, save and open, upsert, insert, remove, compact, rebuild
//! ```

use std::collections::BTreeMap;

use koel::scheme::Scheme as _;
use koel::table::read_info;
use koel::{AnyScheme, Cpu, Error, HashTable};

use crate::file::{Scratch, absent_keys, cpu, may_refuse, reseal};
use crate::memory;

/// Opens the bytes as a table of any scheme.
pub fn table(data: &[u8]) {
    let mut bytes = data.to_vec();
    reseal(&mut bytes);
    let file = Scratch::holding(&bytes);
    memory::limited(|| match read_info(file.path()) {
        Ok(_) => {
            mapped(&file);
            opened(&file);
        }
        Err(error) => assert!(matches!(error, Error::BadFile { .. }), "{error}"),
    });
}

fn mapped(file: &Scratch) {
    // SAFETY: no other process knows the file, and this one does not change it while it is mapped.
    let Ok(mut table) = (unsafe { HashTable::<Cpu, AnyScheme>::open_mapped(&cpu(), file.path()) }) else { return };
    let queries: Vec<u32> = (0..200).chain((0..32).map(|bit| 1 << bit)).chain([u32::MAX]).collect();
    let _ = table.get(&queries);
    let _ = table.contains(&queries);
    let _ = table.to_pairs();
    let _ = table.audit();
    let _ = table.digest();
    let _ = table.upsert(&queries[..20], &queries[..20]);
    let _ = table.remove(&queries[10..30]);
    let _ = table.compact();
    memory::used(8 * koel::DeviceBuffer::len(table.image()));
}

fn opened(file: &Scratch) {
    let table = match HashTable::<Cpu, AnyScheme>::open(&cpu(), file.path()) {
        Ok(table) => table,
        Err(error) => return assert!(matches!(error, Error::BadFile { .. }), "{error}"),
    };
    let pairs = table.to_pairs().expect("pairs of an audited table");
    let model: BTreeMap<u32, u32> = pairs.iter().copied().collect();
    assert_eq!(model.len(), pairs.len(), "a key occurs twice");
    let mut known = Known { table, model };
    known.check("opened");
    known.reopen();
    let news = absent_keys(|key| known.model.contains_key(&key), known.model.keys().copied());
    let some = &news[..news.len().min(9)];
    known.change("upsert", some.iter().chain(known.keys(2).iter()).copied().collect(), 7);
    // If the table was empty, all of these keys have been inserted by now, and the rule of its file may be to keep the
    // first duplicate.
    let others = news.iter().rev().copied().filter(|key| !known.model.contains_key(key)).take(5).collect();
    known.change("insert", others, 1);
    known.remove(known.keys(3));
    known.restore("compact", HashTable::compact);
    known.remove(known.keys(1));
    known.restore("rebuild", HashTable::rebuild);
    known.reopen();
}

/// A table, and the pairs that it must contain.
struct Known {
    table: HashTable<Cpu, AnyScheme>,
    model: BTreeMap<u32, u32>,
}

impl Known {
    /// Every `step`-th key of the table, 20 at most.
    fn keys(&self, step: usize) -> Vec<u32> {
        self.model.keys().copied().step_by(step).take(20).collect()
    }

    fn check(&self, at: &str) {
        memory::used(8 * koel::DeviceBuffer::len(self.table.image()));
        let (table, model) = (&self.table, &self.model);
        assert_eq!(table.len(), model.len(), "{at}: pairs");
        let keys: Vec<u32> = model.keys().copied().collect();
        let values: Vec<Option<u32>> = model.values().map(|&value| Some(value)).collect();
        assert_eq!(table.get(&keys).expect("an answer"), values, "{at}: hits");
        let absent = absent_keys(|key| model.contains_key(&key), keys.into_iter());
        assert!(table.get(&absent).expect("an answer").iter().all(Option::is_none), "{at}: misses");
        assert!(!table.contains(&absent).expect("an answer").contains(&true), "{at}: contains");
        let pairs: BTreeMap<u32, u32> = table.iter().expect("pairs").collect();
        assert_eq!(&pairs, model, "{at}: pairs");
        table.audit().unwrap_or_else(|error| panic!("{at}: {error}"));
    }

    /// Adds new keys, or overwrites the values of existing ones.
    fn change(&mut self, what: &str, keys: Vec<u32>, value: u32) {
        let value = value.min(self.table.scheme().limits().greatest_value());
        let values = vec![value; keys.len()];
        let changed = match what {
            "upsert" => self.table.upsert(&keys, &values),
            _ => self.table.insert(&keys, &values),
        };
        match changed {
            Ok(_) => self.model.extend(keys.into_iter().map(|key| (key, value))),
            Err(error) => assert!(may_refuse(&error), "{what}: {error}"),
        }
        self.check(what);
    }

    fn remove(&mut self, keys: Vec<u32>) {
        match self.table.remove(&keys) {
            Ok(removed) => {
                assert_eq!(removed, keys.len(), "removed");
                self.model.retain(|key, _| !keys.contains(key));
            }
            Err(error) => assert!(may_refuse(&error), "remove: {error}"),
        }
        self.check("remove");
    }

    /// Runs a compaction or rebuild, which must not change any pair.
    fn restore(&mut self, what: &str, restore: impl FnOnce(&mut HashTable<Cpu, AnyScheme>) -> koel::Result<()>) {
        match restore(&mut self.table) {
            Ok(()) => assert!(!self.table.has_tombstones(), "{what}"),
            Err(error) => assert!(may_refuse(&error), "{what}: {error}"),
        }
        self.check(what);
    }

    /// Saves the table and opens the saved file.
    fn reopen(&self) {
        let saved = Scratch::new();
        let digest = self.table.save(saved.path()).expect("space for a small file");
        let again = HashTable::<Cpu, AnyScheme>::open(&cpu(), saved.path()).expect("a file that was just saved");
        assert_eq!((again.digest().expect("a digest"), self.table.digest().expect("a digest")), (digest, digest));
        assert_eq!(again.to_pairs().expect("pairs"), self.table.to_pairs().expect("pairs"));
    }
}
