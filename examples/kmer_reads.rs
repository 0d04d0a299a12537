//! Finds where reads of a genome come from, by the k-mers that they share with it.
//!
//! A multivalue table maps each k-mer of the genome to its positions. The k-mers of many reads are looked up in one
//! batch. Each position votes for a start of the read, and the start with the most votes wins. Reads may be from either
//! strand.
//!
//! ```text
//! genome   ..GATTACAGATTA..        GATT -> 2 9 ..      ATTA -> 3 10 ..
//! read        TACAGA               TACA -> 5, at offset 0: a vote for 5; ACAG -> 6, at offset 1: a vote for 5; ..
//! ```
//!
//! ```sh
//! cargo run --release -p koel-examples -- kmer-reads --genome genome.fa.gz --reads reads.fastq.gz -k 16
//! ```
//!
//! Input is FASTA or FASTQ, plain or gzip. Without reads, the example draws some from the genome, with errors, and
//! checks that they are found where they were drawn. Without a genome, it uses that of the phage lambda.

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::sequences::{Record, read, reverse_complement, windows};
use koel::backend::HashBackend;
use koel::device::{Any, choose};
use koel::{Cuckoo, MultiTable};

/// Find the places of reads in a genome by their k-mers
#[derive(clap::Args)]
pub(crate) struct Args {
    /// FASTA, plain or gzip [default: the phage lambda]
    #[arg(long)]
    genome: Option<PathBuf>,
    /// FASTA or FASTQ, plain or gzip [default: 10000 reads of 100 letters drawn from the genome]
    #[arg(long)]
    reads: Option<PathBuf>,
    /// Letters of a k-mer, 4 to 16
    #[arg(short, default_value_t = 12, value_parser = clap::value_parser!(u8).range(4..=16))]
    k: u8,
    /// Leave out k-mers that stand in more places
    #[arg(long, default_value_t = 1000)]
    most: u32,
    /// auto, cpu, opencl, opencl:N or opencl:NAME
    #[arg(long, default_value = "auto")]
    device: String,
    /// Print the place of each read
    #[arg(long)]
    list: bool,
}

/// The number of k-mers that are looked up at once.
const BATCH: usize = 1 << 22;

/// The place that a read probably comes from.
#[derive(Clone, Copy, Default)]
struct Placed {
    /// The number of its k-mers that occur in the genome, on the strand with the more votes.
    hits: u32,
    /// The number of votes for its place.
    votes: u32,
    /// Its position, counted through all records of the genome.
    place: i64,
    /// Whether it is from the other strand.
    reversed: bool,
}

pub(crate) fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let lambda = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/cli/data/lambda_phage.fa");
    let genome = read(args.genome.as_deref().unwrap_or(lambda.as_ref()))?;
    let device = choose(&args.device, None)?.swap_remove(0);
    let k = usize::from(args.k);

    let started = Instant::now();
    let (table, begins) = index(&device, &genome, k)?;
    let built = started.elapsed();
    println!(
        "{} letters in {} records: {} places of {} {k}-mers, indexed in {:.1} ms, {}",
        begins.last().copied().unwrap_or(0),
        genome.len(),
        table.len(),
        table.keys_len(),
        ms(built),
        device.info()
    );
    let (reads, truth) = match &args.reads {
        Some(path) => (read(path)?, None),
        None => {
            let (reads, truth) = drawn(&genome, 10_000, 100)?;
            (reads, Some(truth))
        }
    };
    let started = Instant::now();
    let placed = place(&table, &reads, k, args.most)?;
    let took = started.elapsed();
    report(&reads, &placed, took);
    if args.list {
        list(&genome, &begins, &reads, &placed);
    }
    if let Some(truth) = truth {
        let right = placed.iter().zip(&truth).filter(|(found, truth)| (found.place, found.reversed) == **truth).count();
        println!("{right} of {} drawn reads are where they were drawn", truth.len());
        if args.genome.is_none() && k >= 10 && right * 100 < truth.len() * 99 {
            return Err("fewer than 99 of 100 found their places".into());
        }
    }
    Ok(())
}

/// The positions of every k-mer in the genome, and the positions where each record begins and the last one ends.
fn index(device: &Any, genome: &[Record], k: usize) -> Result<(MultiTable<Any>, Vec<u32>), Box<dyn Error>> {
    let mut begins = vec![0u32];
    let (mut keys, mut places) = (Vec::new(), Vec::new());
    for record in genome {
        let begin = begins[begins.len() - 1];
        let end = u32::try_from(record.letters.len()).ok().and_then(|len| begin.checked_add(len));
        begins.push(end.ok_or("a genome of 2^32 letters or more")?);
        for (key, at) in windows(&record.letters, k) {
            keys.push(key);
            places.push(begin + at);
        }
    }
    Ok((MultiTable::builder(Cuckoo::canonical(4)).build(device, &keys, &places)?, begins))
}

/// The place of each read, many reads at a time.
fn place(table: &MultiTable<Any>, reads: &[Record], k: usize, most: u32) -> koel::Result<Vec<Placed>> {
    let mut placed = Vec::with_capacity(reads.len());
    let mut rest = reads;
    while !rest.is_empty() {
        let mut letters = 0;
        let fits = rest.iter().take_while(|read| {
            letters += 2 * read.letters.len();
            letters <= BATCH
        });
        let (batch, others) = rest.split_at(fits.count().max(1));
        place_batch(table, batch, k, most, &mut placed)?;
        rest = others;
    }
    Ok(placed)
}

fn place_batch(
    table: &MultiTable<Any>,
    reads: &[Record],
    k: usize,
    most: u32,
    placed: &mut Vec<Placed>,
) -> koel::Result<()> {
    // Both strands of each read, one after the other, and the positions where the k-mers of each begin.
    let (mut queries, mut offsets, mut begins) = (Vec::new(), Vec::new(), vec![0]);
    for read in reads {
        for strand in [read.letters.clone(), reverse_complement(&read.letters)] {
            for (key, at) in windows(&strand, k) {
                queries.push(key);
                offsets.push(at);
            }
            begins.push(queries.len());
        }
    }
    // K-mers with many positions are not informative, and would be most of all values.
    let wanted: Vec<bool> = table.count(&queries)?.iter().map(|count| (1..=most).contains(count)).collect();
    let kept = |i: &usize| wanted[*i];
    let queried: Vec<u32> = (0..queries.len()).filter(kept).map(|i| queries[i]).collect();
    let found = table.retrieve(&queried)?;

    let mut next = 0;
    let mut strand = |number: usize| {
        let mut hits = 0;
        let mut starts: Vec<i64> = Vec::new();
        for i in (begins[number]..begins[number + 1]).filter(kept) {
            hits += 1;
            starts.extend(found.of(next).iter().map(|&place| i64::from(place) - i64::from(offsets[i])));
            next += 1;
        }
        let (place, votes) = most_frequent(starts);
        Placed { hits, votes, place, reversed: number % 2 == 1 }
    };
    for read in 0..reads.len() {
        let (forward, reverse) = (strand(2 * read), strand(2 * read + 1));
        placed.push(if reverse.votes > forward.votes { reverse } else { forward });
    }
    Ok(())
}

/// The place with the most votes, and their number; the least of several places, so that results are reproducible.
fn most_frequent(mut starts: Vec<i64>) -> (i64, u32) {
    starts.sort_unstable();
    let runs = starts.chunk_by(|a, b| a == b);
    let most = runs.max_by_key(|run| (run.len(), std::cmp::Reverse(run[0])));
    most.map_or((0, 0), |run| (run[0], run.len() as u32))
}

fn report(reads: &[Record], placed: &[Placed], took: Duration) {
    let there = placed.iter().filter(|read| read.votes > 0).count();
    let sum = |of: fn(&Placed) -> u32| placed.iter().map(|read| f64::from(of(read))).sum::<f64>();
    let each = |sum: f64| sum / reads.len().max(1) as f64;
    println!(
        "{} reads in {:.1} ms: {there} have a place; a read has {:.1} k-mers of the genome and {:.1} votes for its place",
        reads.len(),
        ms(took),
        each(sum(|read| read.hits)),
        each(sum(|read| read.votes))
    );
}

/// A line for each read: name, record, place in it from 1, strand, votes, k-mers found.
fn list(genome: &[Record], begins: &[u32], reads: &[Record], placed: &[Placed]) {
    for (read, found) in reads.iter().zip(placed) {
        let Placed { hits, votes, place, reversed } = *found;
        let record = begins.partition_point(|&begin| i64::from(begin) <= place).clamp(1, genome.len().max(1)) - 1;
        match genome.get(record) {
            Some(Record { name, .. }) if votes > 0 => {
                let at = place - i64::from(begins[record]) + 1;
                println!("{}\t{name}\t{at}\t{}\t{votes}\t{hits}", read.name, if reversed { '-' } else { '+' });
            }
            _ => println!("{}\t*\t0\t*\t0\t{hits}", read.name),
        }
    }
}

/// Reads drawn from the genome's records, with every hundredth letter replaced, and the position of each.
#[allow(clippy::type_complexity, reason = "it is taken apart at once")]
fn drawn(genome: &[Record], count: usize, len: usize) -> Result<(Vec<Record>, Vec<(i64, bool)>), Box<dyn Error>> {
    let record = genome.iter().position(|record| record.letters.len() >= len);
    let record = record.ok_or(format!("no record of the genome has {len} letters to draw reads from"))?;
    let before: usize = genome[..record].iter().map(|record| record.letters.len()).sum();
    let letters = &genome[record].letters;
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |n: usize| {
        // Xorshift64: reads that are the same in every run.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n as u64) as usize
    };
    let read = |number: usize| {
        let at = below(letters.len() - len + 1);
        let mut read: Vec<u8> = letters[at..at + len].to_vec();
        for letter in &mut read {
            if below(100) == 0 {
                *letter = b"ACGT"[below(4)];
            }
        }
        let reversed = below(2) == 1;
        let letters = if reversed { reverse_complement(&read) } else { read };
        (Record { name: format!("read{number}"), letters }, ((before + at) as i64, reversed))
    };
    Ok((0..count).map(read).unzip())
}

fn ms(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}
