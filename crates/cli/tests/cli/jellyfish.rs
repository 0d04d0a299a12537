//! Compares counts of k-mers with those of `jellyfish`: for the bundled genome, reads and a random genome.
//!
//! Without jellyfish, the tests print a message and pass; if KOEL_REQUIRE_JELLYFISH is set, they fail.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::process::Command;

use crate::folder::Folder;
use crate::sequences::gzip;

/// Whether jellyfish is installed.
fn is_there() -> bool {
    let there = Command::new("jellyfish").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        assert!(
            std::env::var_os("KOEL_REQUIRE_JELLYFISH").is_none(),
            "KOEL_REQUIRE_JELLYFISH is set, but jellyfish is not installed"
        );
        let _ = writeln!(std::io::stderr(), "skipped: counts compared with jellyfish: `jellyfish` is not installed");
    }
    there
}

/// Runs jellyfish in a folder, and returns its stdout.
fn jellyfish(folder: &Folder, arguments: &str) -> String {
    let output = Command::new("jellyfish").args(arguments.split_whitespace()).current_dir(folder.path("")).output();
    let output = output.expect("jellyfish has just been found");
    assert!(output.status.success(), "{arguments}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Parses rows of a k-mer and its count.
fn counts(text: &str, delimiter: char) -> BTreeMap<&str, u64> {
    let rows = text.lines().map(|line| line.split_once(delimiter).expect("two columns"));
    rows.map(|(kmer, count)| (kmer, count.parse().expect("a count"))).collect()
}

/// Compares koel's counts with jellyfish's. koel reads `packed`, which may be compressed; jellyfish reads `plain`.
fn compare(folder: &Folder, plain: &str, packed: &str, k: u32) {
    for (koels, theirs) in [("", ""), ("--canonical-kmers", "-C")] {
        jellyfish(folder, &format!("count -m {k} {theirs} -s 1M -t 1 -o counts.jf {plain}"));
        let theirs = jellyfish(folder, "dump -c counts.jf");
        let koels =
            folder.ok(&format!("unique {packed} --kmer {k} {koels} --counts --letters --device cpu --ids ascending"));
        let rows = koels.strip_prefix("key,count\n").expect("a header");
        let (ours, theirs) = (counts(rows, ','), counts(&theirs, ' '));
        assert_eq!(ours.len(), rows.lines().count(), "each k-mer occurs once");
        assert!(
            !ours.is_empty() && rows.lines().is_sorted(),
            "the order of the k-mers as numbers is their order as text"
        );
        let differ = ours.iter().find(|&(kmer, count)| theirs.get(kmer) != Some(count));
        assert!(differ.is_none() && ours.len() == theirs.len(), "{packed}, {k}: {differ:?}");
    }
}

/// Random bases, determined by the seed.
fn drawn(seed: u64, length: usize) -> impl Iterator<Item = u8> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        b"ACGT"[(word >> 62) as usize]
    })
    .take(length)
}

#[test]
fn the_phage_has_the_counts_of_jellyfish() {
    if !is_there() {
        return;
    }
    let folder = Folder::new();
    let phage = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/data/lambda_phage.fa")).expect("bundled");
    folder.file("phage.fa", &phage);
    folder.file("phage.fa.gz", gzip(&phage));
    for k in [5, 16, 17, 31, 32] {
        compare(&folder, "phage.fa", "phage.fa", k);
    }
    compare(&folder, "phage.fa", "phage.fa.gz", 31);
    compare(&folder, "phage.fa phage.fa", "phage.fa.gz phage.fa", 31);
}

/// Reads over several lines, from both strands, of 40 to 159 letters, some of them N, with all quality characters.
#[test]
fn reads_have_the_counts_of_jellyfish() {
    if !is_there() {
        return;
    }
    let folder = Folder::new();
    let genome: Vec<u8> = drawn(1, 20_000).collect();
    let mut reads = String::new();
    for i in 0..2_000_usize {
        let (from, length) = (i * 7919 % 19_000, 40 + i * 31 % 120);
        let mut letters: Vec<char> = genome[from..from + length].iter().copied().map(char::from).collect();
        if i % 2 == 1 {
            letters = letters
                .iter()
                .rev()
                .map(|letter| "TGCA".as_bytes()["ACGT".find(*letter).expect("a base")].into())
                .collect();
        }
        if i % 5 == 0 {
            letters[i % length] = 'N';
        }
        let letters: String = letters.into_iter().collect();
        let quality: String = (0..length).map(|at| char::from(b'!' + ((i + at * 13) % 94) as u8)).collect();
        writeln!(reads, "@read{i} x\n{letters}\n+\n{quality}").expect("memory");
    }
    folder.file("reads.fq", &reads);
    let (first, second) = reads.split_at(reads.find("@read1000 ").expect("a read"));
    // Several gzip members that end at arbitrary positions, as bgzip writes them.
    folder.file("reads.fq.gz", [gzip(first.as_bytes()), gzip(second.as_bytes()), gzip(b"")].concat());
    for k in [5, 17, 31, 32] {
        compare(&folder, "reads.fq", "reads.fq.gz", k);
    }
}

#[test]
#[ignore = "slow: a longer sequence; CI runs it"]
fn a_random_genome_has_the_counts_of_jellyfish() {
    if !is_there() {
        return;
    }
    let folder = Folder::new();
    let mut text = b">random\n".to_vec();
    for (i, letter) in drawn(2, 500_000).enumerate() {
        text.push(letter);
        if i % 80 == 79 {
            text.push(b'\n');
        }
    }
    folder.file("random.fa", text);
    compare(&folder, "random.fa", "random.fa", 31);
}
