//! Equal contents have equal digests, whatever the order of the input, its split into batches, the number of threads
//! and the device.

use crate::common::{max_pairs, opencl_devices, size, sizes};
use koel::device::Any;
use koel::workload::Workload;
use koel::{
    AnyScheme, Bucketized, Cpu, Cuckoo, CuckooSet, Fks, HashTable, Horton, Perfect, Quadratic, RobinHood, Scheme,
    Sequence, Sorted,
};

/// Shuffles pairs.
fn shuffled(pairs: &[(u32, u32)], seed: u64) -> Vec<(u32, u32)> {
    let mut stream = koel::scheme::hash::SplitMix64::new(seed);
    let mut pairs = pairs.to_vec();
    for i in (1..pairs.len()).rev() {
        pairs.swap(i, (stream.next_u64() % (i as u64 + 1)) as usize);
    }
    pairs
}

fn split(pairs: &[(u32, u32)]) -> (Vec<u32>, Vec<u32>) {
    pairs.iter().copied().unzip()
}

fn only_the_contents_matter(scheme: impl Into<AnyScheme>, load_factor: f64) {
    one_digest(&scheme.into(), load_factor);
}

fn one_digest(scheme: &AnyScheme, load_factor: f64) {
    let n = sizes(40_000, 10_000, 300).min(max_pairs(scheme));
    let load = Workload::new(n, 21);
    let values = load.values().into_iter().map(|value| value & scheme.limits().greatest_value());
    let pairs: Vec<_> = load.keys().into_iter().zip(values).collect();
    let capacity = (f64::from(n) / load_factor) as u64;
    let builder = || HashTable::builder(scheme.clone()).slots(capacity as usize).seed(5);
    let (keys, values) = split(&pairs);
    let expected = builder().build(&Cpu::with_threads(1).unwrap(), &keys, &values).unwrap().digest().unwrap();
    let cpus = [1, 2, 3, 8].map(|threads| Any::Cpu(Cpu::with_threads(threads).unwrap()));
    for device in cpus.into_iter().chain(opencl_devices()) {
        for seed in 0..size(3, 1).into() {
            let (keys, values) = split(&shuffled(&pairs, seed));
            let whole = builder().build(&device, &keys, &values).unwrap();
            assert_eq!(whole.digest().unwrap(), expected, "{scheme:?}, order {seed}");
            let mut grown = builder().build(&device, &[], &[]).unwrap();
            let third = keys.len() / 3;
            for batch in [0..third, third..third + 1, third + 1..keys.len()] {
                grown.insert(&keys[batch.clone()], &values[batch]).unwrap();
            }
            assert_eq!(grown.digest().unwrap(), expected, "{scheme:?}, batches of order {seed}");
        }
    }
}

#[test]
fn order_batches_threads_and_devices_do_not_matter() {
    for (functions, load) in [(2, 0.45), (3, 0.90), (4, 0.95), (5, 0.98)] {
        only_the_contents_matter(Cuckoo::canonical(functions), load);
        only_the_contents_matter(CuckooSet::canonical(functions), load);
    }
    for (slots, load) in [(4, 0.97), (8, 0.985), (16, 0.985)] {
        only_the_contents_matter(Bucketized::canonical(slots), load);
    }
    for (slots, load) in [(4, 0.90), (8, 0.95), (16, 0.96)] {
        only_the_contents_matter(Horton::canonical(slots), load);
    }
    only_the_contents_matter(Fks::canonical(), 0.71);
    only_the_contents_matter(Quadratic, 1.0);
    only_the_contents_matter(Perfect::default(), 0.9);
    only_the_contents_matter(Perfect::volume(2048, 1024), 0.99);
    for load in [0.5, 1.0] {
        only_the_contents_matter(Sorted, load);
    }
    for (sequence, max_ages, load) in
        [(Sequence::Coherent, 0, 0.99), (Sequence::Random, 4, 0.98), (Sequence::PaperRandom, 3, 0.9)]
    {
        only_the_contents_matter(RobinHood::canonical().sequence(sequence).max_ages(max_ages), load);
    }
}

#[test]
fn places_do_not_depend_on_values() {
    let load = Workload::new(1000, 2);
    let builder = || HashTable::builder(Cuckoo::canonical(4));
    let one = builder().build(&Cpu::new(), &load.keys(), &load.values()).unwrap();
    let other = builder().build(&Cpu::new(), &load.keys(), &vec![7; 1000]).unwrap();
    let keys = |table: &HashTable<Cpu, Cuckoo>| table.iter().unwrap().map(|(key, _)| key).collect::<Vec<_>>();
    assert_eq!(keys(&one), keys(&other));
}
