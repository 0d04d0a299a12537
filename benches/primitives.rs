//! The primitives that all schemes share, and the random-access limit of each device.

mod common;

use common::{devices, workload};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use koel::backend::{HashBackend, Probe, bitmap_words};

const ITEMS: usize = 1 << 20;

fn primitives(criterion: &mut Criterion) {
    for (label, device) in devices() {
        let mut group = criterion.benchmark_group(format!("primitive/{label}"));
        group.sample_size(10).throughput(Throughput::Elements(ITEMS as u64));
        let column = device.upload(&workload(ITEMS as u32).keys()).expect("memory");
        let bits = device.upload(&workload(bitmap_words(ITEMS) as u32).keys()).expect("memory");
        let index = device.iota(ITEMS).expect("memory");
        group.bench_function("select", |bencher| {
            bencher.iter(|| device.select_pairs(&bits, true, &column, &column).expect("selects"));
        });
        group.bench_function("sort pairs", |bencher| {
            bencher.iter(|| {
                let sorted = device.sort_pairs(&column, &index).expect("sorts");
                device.finish().expect("finishes");
                sorted
            });
        });
        group.bench_function("gather", |bencher| {
            bencher.iter(|| {
                let gathered = device.gather(&column, &index).expect("gathers");
                device.finish().expect("finishes");
                gathered
            });
        });
        for words in [1 << 16, 1 << 23] {
            let mut buffer = device.filled(words, 1u64).expect("memory");
            group.bench_function(BenchmarkId::new("random reads", words), |bencher| {
                bencher.iter(|| device.random_reads(&buffer, ITEMS).expect("reads"));
            });
            group.bench_function(BenchmarkId::new("random updates", words), |bencher| {
                bencher.iter(|| {
                    device.random_updates(&mut buffer, ITEMS).expect("updates");
                    device.finish().expect("finishes");
                });
            });
        }
    }
}

criterion_group!(benches, primitives);
criterion_main!(benches);
