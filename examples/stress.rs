//! Builds random tables on every device, and compares them with each other and with maps of the standard library.
//!
//! ```text
//! case = seed and number:  scheme, parameters, size, load, pattern of keys, duplicates, order, batches, keys to remove
//! for each device (the CPU with 1, 2 and 3 threads, every OpenCL device):
//!     one build                  canonical: one digest on all devices      both kinds: a map's answers, and an audit
//!     another order, batches     canonical: the same digest
//!     removal, compaction        canonical: one digest on all devices      both kinds: the answers of a map
//!     rebuild                    canonical: the digest of a new table of the remaining pairs
//! ```
//!
//! A difference is printed with the command that reproduces it, and the program exits with 1.
//!
//! ```sh
//! cargo run --release -p koel-examples -- stress --minutes 10
//! cargo run --release -p koel-examples -- stress --builds 300 --seed 5
//! cargo run --release -p koel-examples -- stress --scheme signpost --builds 100000
//! cargo run --release -p koel-examples -- stress --seed 5 --first 1234 --cases 1
//! ```

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::time::{Duration, Instant};

use koel::backend::HashBackend;
use koel::device::{self, Any};
use koel::layout::morton2;
use koel::scheme::hash::SplitMix64;
use koel::scheme::{Kind, Plan, Request, Scheme, Sequence};
use koel::table::Duplicates;
use koel::{AnyScheme, Bucketized, Cpu, Cuckoo, CuckooSet, Error, HashTable, Horton, RobinHood, TableBuilder};

/// Compare random tables between devices, orders and batches
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Stop after so many minutes
    #[arg(long)]
    minutes: Option<f64>,
    /// Stop after so many builds
    #[arg(long)]
    builds: Option<u64>,
    /// Stop after so many cases
    #[arg(long)]
    cases: Option<u64>,
    /// Only tables of this scheme
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(AnyScheme::NAMES))]
    scheme: Option<String>,
    /// Of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of the first case
    #[arg(long, default_value_t = 0)]
    first: u64,
}

/// The counts of builds and comparisons.
#[derive(Default)]
struct Tally {
    builds: u64,
    operations: u64,
    refused: u64,
    by_scheme: BTreeMap<String, u64>,
}

/// A scheme with random parameters.
fn varied(name: &str, kind: Kind, random: &mut Random) -> koel::Result<AnyScheme> {
    let (functions, slots) = (2 + random.below(4) as u32, 4 << random.below(3));
    Ok(match (name, kind) {
        (Cuckoo::NAME, Kind::Canonical) => Cuckoo::canonical(functions).into(),
        (Cuckoo::NAME, Kind::Classic) => Cuckoo::classic(functions).into(),
        (CuckooSet::NAME, Kind::Canonical) => CuckooSet::canonical(functions).into(),
        (Bucketized::NAME, Kind::Canonical) => Bucketized::canonical(slots).into(),
        (Horton::NAME, Kind::Canonical) => Horton::canonical(slots).into(),
        (RobinHood::NAME, Kind::Canonical) => {
            let sequence = [Sequence::Coherent, Sequence::Random, Sequence::PaperRandom][random.below(3) as usize];
            let bits = [0, 2, 3, 4][random.below(4) as usize];
            RobinHood::canonical().sequence(sequence).max_ages(bits).into()
        }
        _ => AnyScheme::by_name(name, kind)?,
    })
}

/// The random numbers of one case.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0.next_u64() % most.max(1)
    }

    fn key(&mut self) -> u32 {
        self.0.next_u32()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

const PATTERNS: [&str; 9] =
    ["random", "dense", "strided", "bit-reversed", "equal halves", "Morton", "clustered", "extremes", "few distinct"];

/// This many keys of a pattern; some may be equal.
fn keys_of(pattern: &str, len: usize, random: &mut Random) -> Vec<u32> {
    let start = random.key();
    let stride = random.key() >> random.below(32);
    let half = random.below(1 << 16) as u32;
    (0..len as u32)
        .map(|i| match pattern {
            "dense" => start.wrapping_add(i),
            "strided" => start.wrapping_add(i.wrapping_mul(stride)),
            "bit-reversed" => i.reverse_bits(),
            "equal halves" if start.is_multiple_of(2) => half << 16 | i & 0xffff,
            "equal halves" => i << 16 | half,
            "Morton" => morton2((i % 317) as u16, (i / 317) as u16),
            "clustered" => (random.below(16) as u32).wrapping_mul(0x1357_9bdf).wrapping_add(random.below(4096) as u32),
            "extremes" if random.below(4) == 0 => [0, u32::MAX, 1, u32::MAX - 1][random.below(4) as usize],
            "few distinct" => start.wrapping_add(random.below(1 + len as u64 / 8) as u32),
            _ => random.key(),
        })
        .collect()
}

/// The maximum number of pairs for which default tables of these parameters have a small image.
fn most_pairs(scheme: &AnyScheme) -> u64 {
    let words = |pairs: u64| {
        let slots = scheme.default_load().slots_for(pairs);
        scheme.plan(Request { slots, pairs, seed: 0, attempt: 0 }).map_or(u64::MAX, |plan| plan.words())
    };
    let most = scheme.limits().pairs.min(1 << 18);
    (0..32).map(|halvings| most >> halvings).find(|&pairs| words(pairs) <= 1 << 20).unwrap_or(0)
}

/// Runs one case of a scheme. An error describes the difference.
fn case(scheme: &AnyScheme, random: &mut Random, devices: &[Any], tally: &mut Tally) -> Result<(), String> {
    let most = [64, 64, 64, 3_000, 3_000, 10_000, 10_000, 100_000][random.below(8) as usize];
    let len = random.below(most + 1).min(most_pairs(scheme)) as usize;
    let pattern = PATTERNS[random.below(PATTERNS.len() as u64) as usize];
    let keys = keys_of(pattern, len, random);
    let greatest = scheme.limits().greatest_value();
    let values: Vec<u32> = keys.iter().map(|_| random.key() & greatest).collect();
    let rule = if random.below(2) == 0 { Duplicates::KeepFirst } else { Duplicates::KeepLast };
    let seed = if random.below(2) == 0 { 0 } else { random.0.next_u64() };
    let mut model = BTreeMap::new();
    for (&key, &value) in keys.iter().zip(&values) {
        match rule {
            Duplicates::KeepFirst => _ = model.entry(key).or_insert(value),
            _ => _ = model.insert(key, value),
        }
    }
    // From nearly empty tables to slightly more than the scheme's default load.
    let load = scheme.default_load().get() * (0.2 + 0.82 * random.below(1001) as f64 / 1000.0);
    let capacity = ((model.len() as f64 / load.min(1.0)).ceil() as u64).max(1);
    let builder = HashTable::builder(scheme.clone()).slots(capacity as usize).seed(seed).duplicates(rule);
    let about = format!(
        "{scheme:?}, {len} pairs ({} keys), {pattern}, capacity {capacity}, seed {seed}, {rule:?}",
        model.len()
    );
    let mut pairs: Vec<(u32, u32)> = model.iter().map(|(&key, &value)| (key, value)).collect();
    random.shuffle(&mut pairs);
    let gone: Vec<u32> = {
        let share = random.below(5);
        let some = pairs.iter().filter(|_| random.0.next_u64() % 4 < share).map(|&(key, _)| key).collect::<Vec<_>>();
        some.into_iter().chain([7, u32::MAX].into_iter().filter(|_| share == 2)).collect()
    };
    let cut = [random.below(pairs.len() as u64 + 1) as usize, random.below(pairs.len() as u64 + 1) as usize];
    let batches = [0, cut[0].min(cut[1]), cut[0].max(cut[1]), pairs.len()];
    let canonical = scheme.kind() == Kind::Canonical;
    let (mut whole_digest, mut less_digest, mut error) = (None, None, None);
    for device in devices {
        let at = |what: &str| format!("{about}, on {}: {what}", device.info());
        tally.builds += 1;
        *tally.by_scheme.entry(format!("{} {}", scheme.name(), scheme.kind())).or_default() += 1;
        let mut table = match builder.build(device, &keys, &values) {
            Ok(table) => table,
            // Quadratic tables have a maximum number of slots.
            Err(failure @ (Error::TooFull { .. } | Error::Crowded { .. } | Error::TooLarge { .. })) => {
                let kind = discriminant(&failure);
                if canonical && (whole_digest.is_some() || *error.get_or_insert(kind) != kind) {
                    return Err(at(&format!("this device alone refuses: {failure}")));
                }
                tally.refused += 1;
                continue;
            }
            Err(failure) => return Err(at(&failure.to_string())),
        };
        if canonical && error.is_some() {
            return Err(at("this device alone builds it"));
        }
        agrees(&table, &model, random, tally).map_err(|what| at(&what))?;
        let digest = |table: &HashTable<Any, AnyScheme>, first: &mut Option<koel::Digest>, what: &str| {
            let digest = table.digest().map_err(|failure| at(&failure.to_string()))?;
            if canonical && *first.get_or_insert(digest) != digest {
                return Err(at(&format!("another digest {what}")));
            }
            Ok(())
        };
        digest(&table, &mut whole_digest, "of one build")?;

        // Without duplicates, in another order, in batches.
        let grown = in_batches(&builder, device, &pairs, &batches, tally);
        match grown {
            Ok(grown) => {
                digest(&grown, &mut whole_digest, "of batches")?;
                agrees(&grown, &model, random, tally).map_err(|what| at(&format!("in batches: {what}")))?;
            }
            Err(Error::TooFull { .. } | Error::Crowded { .. }) if !canonical => tally.refused += 1,
            Err(failure) => return Err(at(&format!("in batches: {failure}"))),
        }

        let mut left = model.clone();
        let removed = gone.iter().filter(|key| left.remove(key).is_some()).count();
        let outcome = table.remove(&gone);
        match outcome {
            Ok(count) if count == removed => {}
            Ok(count) => return Err(at(&format!("{count} pairs were removed instead of {removed}"))),
            Err(Error::TooFull { .. } | Error::Crowded { .. }) if !canonical => {
                tally.refused += 1;
                continue;
            }
            Err(failure) => return Err(at(&format!("removing: {failure}"))),
        }
        agrees(&table, &left, random, tally).map_err(|what| at(&format!("after removal: {what}")))?;
        table.compact().map_err(|failure| at(&format!("compacting: {failure}")))?;
        agrees(&table, &left, random, tally).map_err(|what| at(&format!("compacted: {what}")))?;
        digest(&table, &mut less_digest, "of a compacted table")?;
        tally.operations += 2;
        match table.rebuild() {
            Ok(()) => {}
            Err(Error::TooFull { .. } | Error::Crowded { .. }) if !canonical => {
                tally.refused += 1;
                continue;
            }
            Err(failure) => return Err(at(&format!("rebuilding: {failure}"))),
        }
        tally.builds += 1 + u64::from(canonical);
        let (keys, values): (Vec<u32>, Vec<u32>) = left.iter().map(|(&key, &value)| (key, value)).unzip();
        let failed = |failure: Error| at(&format!("of what is left: {failure}"));
        if canonical {
            let new = builder.build(device, &keys, &values).map_err(failed)?;
            if new.digest().map_err(failed)? != table.digest().map_err(failed)? {
                return Err(at("a rebuilt table is not a new one of its pairs"));
            }
        }
        agrees(&table, &left, random, tally).map_err(|what| at(&format!("rebuilt: {what}")))?;
    }
    Ok(())
}

/// A table of these pairs, built in batches.
fn in_batches(
    builder: &TableBuilder<AnyScheme>,
    device: &Any,
    pairs: &[(u32, u32)],
    batches: &[usize],
    tally: &mut Tally,
) -> koel::Result<HashTable<Any, AnyScheme>> {
    tally.builds += 1;
    let mut table = builder.build(device, &[], &[])?;
    for batch in batches.windows(2) {
        let (keys, values): (Vec<u32>, Vec<u32>) = pairs[batch[0]..batch[1]].iter().copied().unzip();
        table.insert(&keys, &values)?;
        tally.operations += 1;
    }
    Ok(table)
}

/// Whether a table contains the pairs of a map, and passes the audit.
fn agrees(
    table: &HashTable<Any, AnyScheme>,
    model: &BTreeMap<u32, u32>,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), String> {
    tally.operations += 3;
    let reported = |failure: Error| failure.to_string();
    if table.len() != model.len() {
        return Err(format!("{} pairs instead of {}", table.len(), model.len()));
    }
    let mut queries: Vec<u32> = model.keys().copied().collect();
    queries.extend((0..50).map(|_| random.key()));
    queries.extend(model.keys().take(500).map(|key| key ^ 1 << random.below(32)));
    queries.extend([0, u32::MAX]);
    for (query, answer) in queries.iter().zip(table.get(&queries).map_err(reported)?) {
        if answer != model.get(query).copied() {
            return Err(format!("key {query} has {answer:?} instead of {:?}", model.get(query)));
        }
    }
    let pairs = table.to_pairs().map_err(reported)?;
    if pairs.len() != model.len() || pairs.iter().any(|(key, value)| model.get(key) != Some(value)) {
        return Err("other pairs than the map's".into());
    }
    table.audit().map(drop).map_err(reported)
}

pub(crate) fn run(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    let minutes = args.minutes.or(if args.builds.or(args.cases).is_none() { Some(1.0) } else { None });
    let cpus = [1, 2, 3].map(|threads| Cpu::with_threads(threads).map(Any::Cpu));
    let mut devices: Vec<Any> = cpus.into_iter().collect::<Result<_, _>>()?;
    println!("{}", device::opencl_status());
    for listed in device::devices().iter().filter(|listed| listed.info.id != "cpu") {
        let chosen = match &listed.refused {
            Some(reason) => Err(reason.clone()),
            None => device::choose(&listed.info.id, None).map_err(|error| error.to_string()),
        };
        match chosen {
            Ok(device) => devices.extend(device),
            Err(reason) => println!("not used: {}: {reason}", listed.info),
        }
    }
    devices.iter().for_each(|device| println!("{}, {}", device.info(), device.info().driver));
    let (start, mut said) = (Instant::now(), Instant::now());
    let mut tally = Tally::default();
    let mut number = args.first;
    let goes_on = |tally: &Tally, number: u64| {
        args.builds.is_none_or(|most| tally.builds < most)
            && args.cases.is_none_or(|most| number - args.first < most)
            && minutes.is_none_or(|most| start.elapsed().as_secs_f64() < 60.0 * most)
    };
    while goes_on(&tally, number) {
        let mut random = Random(SplitMix64::new(args.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let which = AnyScheme::NAMES[random.below(AnyScheme::NAMES.len() as u64) as usize];
        let which = args.scheme.as_deref().unwrap_or(which);
        let kinds: Vec<_> = AnyScheme::all().filter(|scheme| scheme.name() == which).collect();
        let kind = kinds[random.below(kinds.len() as u64) as usize].kind();
        let scheme = varied(which, kind, &mut random)?;
        if let Err(difference) = case(&scheme, &mut random, &devices, &mut tally) {
            let scheme = args.scheme.iter().map(|scheme| format!(" --scheme {scheme}")).collect::<String>();
            return Err(format!(
                "case {number} differs: {difference}\nto reproduce: cargo run --release -p koel-examples -- \
                 stress{scheme} --seed {} --first {number} --cases 1",
                args.seed
            )
            .into());
        }
        number += 1;
        if said.elapsed() > Duration::from_secs(10) {
            said = Instant::now();
            println!("{} s: {number} cases, {} builds", start.elapsed().as_secs(), tally.builds);
        }
    }
    let cases = number - args.first;
    println!("no difference: {cases} cases, {} builds, {} further operations", tally.builds, tally.operations);
    println!("{} builds and changes were refused as too full, alike on all devices where canonical", tally.refused);
    tally.by_scheme.iter().for_each(|(scheme, builds)| println!("  {scheme}: {builds} first builds"));
    Ok(())
}
