//! What fits: never more pairs than the capacity, with the key 0xFFFFFFFF among them too.

use std::cell::Cell;

use koel::scheme::{Plan, Request};
use koel::workload::Workload;
use koel::{AnyScheme, Error, HashTable, Scheme};

use crate::common::{Check, devices, fitting, for_every_kind, label};

/// Slots of the tables.
const SLOTS: [u64; 2] = [16, 128];

/// Full tables, and as full as they get.
struct Full {
    /// Tables with more pairs than slots.
    beyond: Cell<u32>,
}

impl Check for Full {
    fn run(&self, scheme: &AnyScheme) {
        SLOTS.iter().for_each(|&slots| self.filled(scheme, slots));
    }
}

impl Full {
    fn filled(&self, scheme: &AnyScheme, slots: u64) {
        let slots = scheme.plan(Request { slots, pairs: slots, seed: 0, attempt: 0 }).unwrap().slots();
        let mut keys = Workload::new(slots as u32 + 1, 3).keys();
        keys.iter_mut().for_each(|key| *key &= scheme.limits().greatest_key());
        keys[0] = scheme.limits().greatest_key();
        let values: Vec<u32> = (0..).take(keys.len()).map(|value| fitting(scheme, value)).collect();
        for device in devices() {
            let at = label(scheme, &device);
            let mut fitted = 0;
            for pairs in [slots + 1, slots, slots - slots / 8, slots / 2] {
                let pairs = pairs as usize;
                // What does not fit is not tried for long.
                let attempts = if pairs as u64 > slots / 2 { 4 } else { 32 };
                let builder = HashTable::builder(scheme.clone()).capacity(slots).attempts(attempts);
                let table = match builder.build(&device, &keys[..pairs], &values[..pairs]) {
                    Ok(table) => table,
                    Err(Error::TooFull { .. } | Error::Crowded { .. }) => continue,
                    Err(error) => panic!("{at}, {pairs} pairs: {error}"),
                };
                fitted += 1;
                let (len, capacity) = (table.len(), table.capacity());
                assert!(len == pairs as u64 && len <= capacity, "{at}: {len} of {capacity}");
                assert!((0.0..=1.0).contains(&table.load_factor()), "{at}: load {}", table.load_factor());
                assert_eq!(table.slots(), slots, "{at}");
                let beside = table.plan().outside_key().is_some();
                assert_eq!(capacity, slots + u64::from(beside), "{at}");
                self.beyond.set(self.beyond.get() + u32::from(len > slots));
            }
            assert!(fitted > 0, "{at}: half full at least");
        }
    }
}

#[test]
fn no_table_holds_more_than_its_capacity() {
    let full = Full { beyond: Cell::new(0) };
    for_every_kind(&full);
    // Classic bucketized tables of 16 slots get there.
    assert!(full.beyond.get() > 0, "no table had its slots full and a pair beside them");
}
