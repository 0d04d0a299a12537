//! Counts the words of a text with a compacting table over 32-bit hashes of the words.
//!
//! ```text
//! word -> hash of 32 bits -> id 0, 1, 2, .. in the order of first appearance
//! word of an id   the first word with that id; another word with the same id is a collision
//! ```
//!
//! Two words may have the same hash: of 100,000 words, one pair on average. Every word is therefore compared with the
//! first word of its id, and words that differ are counted separately and printed, so the counts are of words and not
//! of hashes. Fewer bits show the effect:
//!
//! ```sh
//! cargo run --release -p koel-examples -- unique-words text.txt --top 20 --bits 12
//! ```
//!
//! Without a text, the example reads koel's own documents. The counts are compared with those of a plain `HashMap`.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use koel::backend::HashBackend;
use koel::device::{Any, choose};
use koel::{Aggregate, CompactingTable, Cuckoo};

/// Count the words of a text through a compacting table
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Texts in UTF-8 [default: koel's documents]
    texts: Vec<PathBuf>,
    /// Print so many words, the most frequent first
    #[arg(long, default_value_t = 10)]
    top: usize,
    /// Bits of a word's hash, 1 to 32; fewer make collisions
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=32))]
    bits: u32,
    /// auto, cpu, opencl, opencl:N or opencl:NAME
    #[arg(long, default_value = "auto")]
    device: String,
}

/// Words with their counts.
struct Counted<'a> {
    words: Vec<(&'a str, u32)>,
    /// Words that share a hash with an earlier word.
    collided: usize,
}

pub(crate) fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let text = text(&args.texts)?;
    let words: Vec<&str> =
        text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let device = choose(&args.device, None)?.swap_remove(0);
    let started = Instant::now();
    let Counted { mut words, collided } = counted(&device, &words, args.bits)?;
    println!(
        "{} words, {} of them unique, {collided} of those share a hash of {} bits with an earlier one; {:.1} ms, {}",
        words.iter().map(|(_, count)| u64::from(*count)).sum::<u64>(),
        words.len(),
        args.bits,
        1e3 * started.elapsed().as_secs_f64(),
        device.info()
    );
    words.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    words.iter().take(args.top).for_each(|(word, count)| println!("{count:>8}  {word}"));

    let mut plain: HashMap<&str, u32> = HashMap::new();
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .for_each(|word| *plain.entry(word).or_default() += 1);
    if plain != words.iter().copied().collect() || plain.len() != words.len() {
        return Err("a plain map has other counts".into());
    }
    Ok(())
}

/// The unique words and their counts, in the order of first appearance, followed by collisions.
fn counted<'a>(device: &Any, words: &[&'a str], bits: u32) -> koel::Result<Counted<'a>> {
    let hashes: Vec<u32> = words.iter().map(|word| hash(word) >> (32 - bits)).collect();
    let table = CompactingTable::builder(Cuckoo::canonical(4)).build(device, &hashes)?;
    let (mut first, mut counts): (Vec<Option<&str>>, Vec<u32>) = (vec![None; table.len()], vec![0; table.len()]);
    let mut others: BTreeMap<&str, u32> = BTreeMap::new();
    for (&word, id) in words.iter().zip(table.inverse(&hashes)?) {
        let id = id as usize;
        match *first[id].get_or_insert(word) == word {
            true => counts[id] += 1,
            false => *others.entry(word).or_default() += 1,
        }
    }
    others.keys().take(5).for_each(|word| println!("collision: `{word}` has the hash of an earlier word"));
    let collided = others.len();
    let words = first.into_iter().flatten().zip(counts).chain(others).collect();
    Ok(Counted { words, collided })
}

/// FNV-1a in 64 bits, folded to 32.
fn hash(word: &str) -> u32 {
    let hash = word
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash >> 32) as u32 ^ hash as u32
}

/// The texts in lower case.
fn text(paths: &[PathBuf]) -> Result<String, Box<dyn Error>> {
    let documents = ["README.md", "CHANGELOG.md", "docs/architecture.md", "docs/canonical-layout.md", "docs/papers.md"];
    let documents = documents.map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name));
    let mut text = String::new();
    for path in if paths.is_empty() { &documents } else { paths } {
        let read = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        text.push_str(&read.to_lowercase());
        text.push('\n');
    }
    Ok(text)
}
