//! Builds and lookups of every scheme and kind on every device, device-resident, compared with maps that users would
//! use instead.
//!
//! Answers are checked before anything is timed. `koel-bench` measures the same with device timers, medians and the
//! machine's limits next to each row; this file is for criterion's comparisons between two versions of the code.

mod common;

use common::{HITS, QUERIES, SIZES, devices, workload};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use koel::backend::{DeviceBuffer, HashBackend, Runs, bitmap_words};
use koel::device::Any;
use koel::workload::Workload;
use koel::{HashTable, Kind, Scheme};

/// The workloads of all sizes that tables of this kind can contain.
fn loads<S: Scheme<Key = u32, Value = u32>>(kind: Kind) -> impl Iterator<Item = Workload> {
    let limits = S::of_kind(kind).limits();
    let held = SIZES.into_iter().filter(move |&n| u64::from(n) <= limits.pairs);
    held.map(move |n| workload(n).within(limits).expect("more keys than pairs"))
}

fn build<S: Scheme<Key = u32, Value = u32>>(criterion: &mut Criterion, kind: Kind, label: &str, device: &Any)
where
    Any: Runs<S>,
{
    let mut group = criterion.benchmark_group(format!("build/{}-{kind}/{label}", S::NAME));
    group.sample_size(10);
    for load in loads::<S>(kind) {
        let keys = device.upload(&load.keys()).expect("room for the keys");
        let values = device.upload(&load.values()).expect("room for the values");
        group.throughput(Throughput::Elements(keys.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(keys.len()), |bencher| {
            bencher.iter_batched(
                || HashTable::builder(S::of_kind(kind)),
                |builder| {
                    let table = builder.build_on(device, &keys, &values).expect("builds");
                    device.finish().expect("finishes");
                    table
                },
                BatchSize::PerIteration,
            );
        });
    }
}

fn lookup<S: Scheme<Key = u32, Value = u32>>(criterion: &mut Criterion, kind: Kind, label: &str, device: &Any)
where
    Any: Runs<S>,
{
    let mut group = criterion.benchmark_group(format!("lookup/{}-{kind}/{label}", S::NAME));
    group.sample_size(20);
    group.throughput(Throughput::Elements(QUERIES as u64));
    for load in loads::<S>(kind) {
        let table = HashTable::builder(S::of_kind(kind)).build(device, &load.keys(), &load.values()).expect("builds");
        for hits in HITS {
            let queries = load.queries(QUERIES, hits);
            let there = device.upload(&queries).expect("room for the queries");
            let mut values = device.filled(QUERIES, 0xdead_beef).expect("room for the answers");
            let mut found = device.filled(bitmap_words(QUERIES), 0).expect("room for the bitmap");
            table.get_on_into(&there, &mut values, &mut found).expect("answers");
            let answers = device.download(&values).expect("answers");
            let wrong = queries.iter().zip(&answers).filter(|(q, a)| load.answer(**q).unwrap_or(0) != **a).count();
            assert_eq!(wrong, 0, "wrong answers are not worth timing");
            group.bench_function(BenchmarkId::new(format!("{hits}%"), table.len()), |bencher| {
                bencher.iter(|| {
                    table.get_on_into(&there, &mut values, &mut found).expect("answers");
                    device.finish().expect("finishes");
                });
            });
        }
    }
}

fn tables(criterion: &mut Criterion) {
    for (label, device) in devices() {
        macro_rules! each_scheme {
            ($($module:ident, $scheme:ident, $name:literal;)*) => {
                $(for &kind in <koel::scheme::$scheme as Scheme>::KINDS {
                    build::<koel::scheme::$scheme>(criterion, kind, &label, &device);
                    lookup::<koel::scheme::$scheme>(criterion, kind, &label, &device);
                })*
            };
        }
        koel::for_each_scheme!(each_scheme);
    }
}

/// Maps that users would use instead, on one thread, with a given capacity, from the same arrays.
fn peers(criterion: &mut Criterion) {
    use std::hash::BuildHasher;

    fn map<H: BuildHasher + Default>(criterion: &mut Criterion, name: &str) {
        for n in SIZES {
            let load = workload(n);
            let (keys, values) = (load.keys(), load.values());
            let fill = || {
                let mut map = hashbrown::HashMap::with_capacity_and_hasher(keys.len(), H::default());
                map.extend(keys.iter().copied().zip(values.iter().copied()));
                map
            };
            let mut group = criterion.benchmark_group(format!("peer/{name}"));
            group.sample_size(10);
            group.throughput(Throughput::Elements(n.into()));
            group.bench_function(BenchmarkId::new("build", n), |bencher| bencher.iter(fill));
            let map = fill();
            group.throughput(Throughput::Elements(QUERIES as u64));
            for hits in HITS {
                let queries = load.queries(QUERIES, hits);
                let mut answers = vec![0; QUERIES];
                group.bench_function(BenchmarkId::new(format!("{hits}%"), n), |bencher| {
                    bencher.iter(|| {
                        for (answer, query) in answers.iter_mut().zip(&queries) {
                            *answer = map.get(query).copied().unwrap_or(0);
                        }
                        answers.last().copied()
                    });
                });
            }
        }
    }
    map::<hashbrown::DefaultHashBuilder>(criterion, "hashbrown-foldhash");
    map::<rustc_hash::FxBuildHasher>(criterion, "hashbrown-rustc-hash");
}

criterion_group!(benches, tables, peers);
criterion_main!(benches);
