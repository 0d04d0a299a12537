//! Tables never have more pairs than their capacity, including the key 0xFFFFFFFF.

use std::cell::Cell;

use koel::scheme::{Plan, Request};
use koel::workload::Workload;
use koel::{AnyScheme, Error, HashTable, Load, Scheme};

use crate::common::{Check, devices, fitting, for_every_kind, label, workload};

/// The numbers of slots of the tables.
const SLOTS: [u64; 2] = [16, 128];

/// Fills tables as far as possible.
struct Full {
    /// The number of tables with more pairs than slots.
    beyond: Cell<u32>,
}

impl Check for Full {
    fn run(&self, scheme: &AnyScheme) {
        SLOTS.iter().for_each(|&slots| self.filled(scheme, slots));
    }
}

impl Full {
    fn filled(&self, scheme: &AnyScheme, slots: u64) {
        let slots = scheme.plan(Request { slots, pairs: slots, seed: 0, attempt: 0 }).unwrap().slots() as usize;
        let mut keys = Workload::new(slots as u32 + 1, 3).keys();
        keys.iter_mut().for_each(|key| *key &= scheme.limits().greatest_key());
        keys[0] = scheme.limits().greatest_key();
        let values: Vec<u32> = (0..).take(keys.len()).map(|value| fitting(scheme, value)).collect();
        for device in devices() {
            let at = label(scheme, &device);
            let mut fitted = 0;
            for pairs in [slots + 1, slots, slots - slots / 8, slots / 2] {
                // Few attempts for numbers of pairs that may not fit.
                let attempts = if pairs > slots / 2 { 4 } else { 32 };
                let builder = HashTable::builder(scheme.clone()).slots(slots).attempts(attempts);
                let table = match builder.build(&device, &keys[..pairs], &values[..pairs]) {
                    Ok(table) => table,
                    Err(Error::TooFull { .. } | Error::Crowded { .. }) => continue,
                    Err(error) => panic!("{at}, {pairs} pairs: {error}"),
                };
                fitted += 1;
                let (len, capacity) = (table.len(), table.capacity());
                assert!(len == pairs && len <= capacity, "{at}: {len} of {capacity}");
                assert!((0.0..=1.0).contains(&table.load_factor()), "{at}: load {}", table.load_factor());
                assert_eq!(table.slots(), slots, "{at}");
                let beside = table.plan().outside_key().is_some();
                assert_eq!(capacity, slots + beside as usize, "{at}");
                self.beyond.set(self.beyond.get() + u32::from(len > slots));
            }
            assert!(fitted > 0, "{at}: no number of pairs fits");
        }
    }
}

#[test]
fn no_table_holds_more_than_its_capacity() {
    let full = Full { beyond: Cell::new(0) };
    for_every_kind(&full);
    // Classic bucketized tables of 16 slots can have more pairs than slots.
    assert!(full.beyond.get() > 0, "no table has more pairs than slots");
}

struct RequestedCapacity;
impl Check for RequestedCapacity {
    fn run(&self, scheme: &AnyScheme) {
        let (keys, values, _) = workload(scheme, 3000);
        for device in devices() {
            let at = label(scheme, &device);
            for load in [None, Some(0.4)] {
                let builder = HashTable::builder(scheme.clone()).capacity(keys.len());
                let (builder, slots) = match load {
                    None => (builder, scheme.default_load()),
                    Some(load) => (builder.load_factor(load), Load::new(load).unwrap()),
                };
                let mut table = builder.build(&device, &[], &[]).unwrap();
                let empty = table.plan().requested_slots();
                let plan = scheme
                    .plan(Request { slots: slots.slots_for(keys.len() as u64), pairs: 0, seed: 0, attempt: 0 })
                    .unwrap();
                assert_eq!(empty, plan.requested_slots(), "{at}, {load:?}");
                table.insert(&keys, &values).unwrap();
                assert_eq!((table.plan().requested_slots(), table.len()), (empty, keys.len()), "{at}, {load:?}");
            }
            // The later of the two settings applies, and a load in addition to slots is rejected.
            let table = HashTable::builder(scheme.clone()).capacity(10).slots(500).build(&device, &[], &[]).unwrap();
            let other = HashTable::builder(scheme.clone()).slots(500).build(&device, &[], &[]).unwrap();
            assert_eq!(table.slots(), other.slots(), "{at}");
            let refused = HashTable::builder(scheme.clone()).slots(50).load_factor(0.5).build(&device, &[], &[]);
            assert!(matches!(refused, Err(Error::InvalidParameter { what: "load factor", .. })), "{at}: {refused:?}");
        }
    }
}

#[test]
fn requested_capacities_fit() {
    for_every_kind(&RequestedCapacity);
}
