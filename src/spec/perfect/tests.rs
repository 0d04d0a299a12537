use super::*;
use crate::spec::{Plan, Request, Scheme};
use crate::workload::Workload;
use std::time::Instant;

#[test]
#[ignore]
fn measure() {
    let n = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(1u32 << 20);
    let plane = |w: u32, h: u32, width: u32, f: &dyn Fn(i64, i64) -> bool| -> Vec<u32> {
        (0..h).flat_map(|y| (0..w).filter(move |&x| f(x as i64, y as i64)).map(move |x| x + width * y)).collect()
    };
    let random = Workload::new(n, 3).keys();
    let disc = plane(2048, 2048, 2048, &|x, y| (x - 1024).pow(2) + (y - 1024).pow(2) < 700 * 700);
    let sphere: Vec<u32> = (0..256i64 * 256 * 256)
        .filter(|i| {
            let (x, y, z) = (i % 256 - 128, i / 256 % 256 - 128, i / 65536 - 128);
            let r = x * x + y * y + z * z;
            (119 * 119..=120 * 120).contains(&r)
        })
        .map(|i| i as u32)
        .collect();
    let sets: Vec<(&str, Perfect, Vec<u32>)> = vec![
        ("random", Perfect::default(), random.clone()),
        ("random3", Perfect::volume(2048, 1024), random.clone()),
        ("random100k", Perfect::default(), random[..100_000.min(random.len())].to_vec()),
        ("random1000", Perfect::default(), random[..1000].to_vec()),
        ("disc", Perfect::plane(2048), disc),
        ("sphere", Perfect::volume(256, 256), sphere),
        ("counters", Perfect::default(), (0..n).collect()),
        ("line1000", Perfect::default(), (0..1000).collect()),
        ("line5000", Perfect::default(), (0..5000).collect()),
        ("line30000x3", Perfect::default(), (0..20000).map(|i| 3 * i).collect()),
        ("line300", Perfect::default(), (0..300).collect()),
        ("line37", Perfect::default(), (0..37).collect()),
        ("line100k", Perfect::plane(1 << 20), (0..100_000).collect()),
        ("line1M", Perfect::plane(1 << 20), (0..1_000_000).collect()),
        ("columns", Perfect::default(), plane(50, 4000, 65536, &|x, _| x % 2 == 0)),
        ("line3d", Perfect::volume(1 << 16, 1), (0..50_000).collect()),
        ("counters3d8", Perfect::volume(8, 8), (0..50_000).collect()),
        ("counters60k", Perfect::default(), (0..60_000).collect()),
        ("counters3d", Perfect::volume(256, 256), (0..n).collect()),
        ("strip 8x8192", Perfect::default(), plane(8, 8192, 65536, &|_, _| true)),
        ("column 8192", Perfect::default(), plane(1, 8192, 65536, &|_, _| true)),
        ("strip 8192x8", Perfect::plane(8192), plane(8192, 8, 8192, &|_, _| true)),
        ("checker", Perfect::plane(1024), plane(1024, 1024, 1024, &|x, y| (x + y) % 2 == 0)),
        ("stride 4096", Perfect::default(), (0..50_000u32).map(|i| i << 12).collect()),
        ("reversed", Perfect::default(), (0..50_000u32).map(|i| i.reverse_bits()).collect()),
        ("checker64", Perfect::default(), plane(1024, 1024, 65536, &|x, y| (x / 64 + y / 64) % 2 == 0)),
    ];
    let only = std::env::var("ONLY").ok();
    for (name, scheme, keys) in sets {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        for load in [0.8, 0.85, 0.9, 0.95, 0.99] {
            let slots = (keys.len() as f64 / load).ceil() as u64;
            let start = Instant::now();
            let mut log = Vec::new();
            let mut end = None;
            for attempt in 0..32 {
                let t = Instant::now();
                let plan = scheme.plan(Request { slots, pairs: 0, seed: 7, attempt }).unwrap();
                let mut image = vec![0; plan.words() as usize];
                let placed = build::place(&plan.functions(), &mut image, false, &keys, &keys).unwrap();
                log.push(format!("{}:{}:{:.0}", plan.offset_side(), placed.unplaced, t.elapsed().as_secs_f64() * 1e3));
                if placed.unplaced == 0 {
                    end = Some((plan, image, t.elapsed()));
                    break;
                }
                if start.elapsed().as_secs() > 60 {
                    break;
                }
            }
            let Some((plan, image, last)) = end else {
                println!("{name} n={} load {load}: FAILED {:?}", keys.len(), &log[..10]);
                continue;
            };
            let f = plan.functions();
            let set: std::collections::HashSet<_> = keys.iter().copied().collect();
            let near = keys.iter().filter(|&&k| set.contains(&(k + 1)));
            let total = near.clone().count();
            let line = near
                .filter(|&&k| {
                    let (a, b) = (f.location(&image, k), f.location(&image, k + 1));
                    a.abs_diff(b) <= 16
                })
                .count();
            println!(
                "{name} n={} load {load} (real {:.3}) M={} R={} attempts {} total {:.3}s last {:.3}s near {:.3} bytes/key {:.2} {}",
                keys.len(),
                keys.len() as f64 / plan.slots() as f64,
                plan.side(),
                plan.offset_side(),
                log.len(),
                start.elapsed().as_secs_f64(),
                last.as_secs_f64(),
                line as f64 / total.max(1) as f64,
                plan.words() as f64 * 8.0 / keys.len() as f64,
                if log.len() > 1 { log.join(" ") } else { String::new() }
            );
        }
    }
}
