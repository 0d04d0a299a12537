//! Tables built on one device and read on another, which must have the same image.

use crate::common::{Check, devices, fitting, for_every_kind, max_pairs, size, workload};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::workload::Workload;
use koel::{AnyScheme, Error, HashTable, Kind, MultiTable, Scheme};

struct Exchange;
impl Check for Exchange {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        let load = Workload::new(size(50_000, 400).min(max_pairs(scheme)), 8);
        let values: Vec<u32> = load.values().into_iter().map(|value| fitting(scheme, value)).collect();
        let keys = load.keys();
        let queries = load.queries(size(100_000, 800) as usize, 50);
        let answer = |&query| load.answer(query).map(|value| fitting(scheme, value));
        let expected: Vec<_> = queries.iter().map(answer).collect();
        let devices = devices();
        let tables: Vec<_> = devices
            .iter()
            .map(|device| HashTable::builder(scheme.clone()).build(device, &keys, &values).unwrap())
            .collect();
        for (table, from) in tables.iter().zip(&devices) {
            if kind == Kind::Canonical {
                assert_eq!(
                    crate::common::image(table),
                    crate::common::image(&tables[0]),
                    "the bytes of {}",
                    from.info()
                );
                assert_eq!(table.digest().unwrap(), tables[0].digest().unwrap());
                assert_eq!(table.to_pairs().unwrap(), tables[0].to_pairs().unwrap(), "the order of {}", from.info());
            }
            for to in &devices {
                let moved = table.to_backend(to).unwrap();
                assert_eq!(moved.digest().unwrap(), table.digest().unwrap());
                assert!(moved.get(&queries).unwrap() == expected, "{} to {}", from.info(), to.info());
            }
        }
    }
}

#[test]
fn every_device_reads_what_every_other_built() {
    for_every_kind(&Exchange);
}

struct Batches;
impl Check for Batches {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        // A table that grows on several devices in turn equals that of one build.
        let (keys, values, _) = workload(scheme, 900);
        let builder = || HashTable::builder(scheme.clone()).slots(keys.len() * 4 / 3);
        let devices = devices();
        let mut table = builder().build(&devices[0], &[], &[]).unwrap();
        let part = keys.len().div_ceil(9);
        for ((keys, values), device) in keys.chunks(part).zip(values.chunks(part)).zip(devices.iter().cycle()) {
            table = table.to_backend(device).unwrap();
            table.insert(keys, values).unwrap();
        }
        let whole = builder().build(&devices[0], &keys, &values).unwrap();
        assert_eq!(table.len(), whole.len());
        assert!(kind == Kind::Classic || table.digest().unwrap() == whole.digest().unwrap());
    }
}

#[test]
fn tables_can_move_between_devices_while_they_grow() {
    for_every_kind(&Batches);
}

#[test]
fn a_buffer_of_another_device_is_refused() {
    let Some(gpu) = crate::common::opencl_devices().pop() else { return };
    let cpu = Any::Cpu(koel::Cpu::new());
    let there = gpu.upload(&[1u32, 2]).unwrap();
    assert!(matches!(cpu.download(&there), Err(Error::WrongDevice)));
    let table = HashTable::builder(koel::Cuckoo::default()).build(&cpu, &[1], &[2]).unwrap();
    let (mut values, mut found) = (cpu.filled(2, 0).unwrap(), cpu.filled(1, 0).unwrap());
    assert!(matches!(table.get_on_into(&there, &mut values, &mut found), Err(Error::WrongDevice)));
    let mut lists = MultiTable::builder(koel::Cuckoo::default()).build(&cpu, &[1, 1], &[2, 3]).unwrap();
    let here = cpu.upload(&[1u32, 2]).unwrap();
    for (keys, values) in [(&there, &here), (&here, &there)] {
        assert!(matches!(lists.insert_on(keys, values), Err(Error::WrongDevice)));
    }
    assert_eq!(lists.to_pairs().unwrap(), [(1, 2), (1, 3)]);
    // The advice: upload the buffer to the device of the table.
    table.get_on_into(&here, &mut values, &mut found).unwrap();
    assert_eq!((cpu.download(&values).unwrap(), cpu.download(&found).unwrap()), (vec![2, 0], vec![1]));
}
