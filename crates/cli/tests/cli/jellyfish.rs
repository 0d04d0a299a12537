//! Counts of k-mers, which `jellyfish` counts too: of the bundled genome, of reads and of a random genome.
//!
//! Where there is no jellyfish the tests say so and pass; with KOEL_REQUIRE_JELLYFISH they fail.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::process::Command;

use crate::folder::Folder;
use crate::sequences::gzip;

/// Whether there is a jellyfish to compare with.
fn is_there() -> bool {
    let there = Command::new("jellyfish").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        assert!(std::env::var_os("KOEL_REQUIRE_JELLYFISH").is_none(), "jellyfish is required, and it is not there");
        let _ = writeln!(std::io::stderr(), "skipped: counts as jellyfish has them: there is no `jellyfish`");
    }
    there
}

/// Runs jellyfish in a folder; its stdout.
fn jellyfish(folder: &Folder, arguments: &str) -> String {
    let output = Command::new("jellyfish").args(arguments.split_whitespace()).current_dir(folder.path("")).output();
    let output = output.expect("jellyfish was there");
    assert!(output.status.success(), "{arguments}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Rows of a k-mer and its count, in the order of k-mers.
fn counts(text: &str, delimiter: char) -> BTreeMap<&str, u64> {
    let rows = text.lines().map(|line| line.split_once(delimiter).expect("two columns"));
    rows.map(|(kmer, count)| (kmer, count.parse().expect("a count"))).collect()
}

/// Compares the counts of files, which koel may read packed.
fn compare(folder: &Folder, plain: &str, packed: &str, k: u32) {
    for (koels, theirs) in [("", ""), ("--canonical-kmers", "-C")] {
        jellyfish(folder, &format!("count -m {k} {theirs} -s 1M -t 1 -o counts.jf {plain}"));
        let theirs = jellyfish(folder, "dump -c counts.jf");
        let koels =
            folder.ok(&format!("unique {packed} --kmer {k} {koels} --counts --letters --device cpu --ids ascending"));
        let rows = koels.strip_prefix("key,count\n").expect("a header");
        let (ours, theirs) = (counts(rows, ','), counts(&theirs, ' '));
        assert_eq!(ours.len(), rows.lines().count(), "each k-mer once");
        assert!(!ours.is_empty() && rows.lines().is_sorted(), "the order of numbers is that of letters");
        let differ = ours.iter().find(|&(kmer, count)| theirs.get(kmer) != Some(count));
        assert!(differ.is_none() && ours.len() == theirs.len(), "{packed}, {k}: {differ:?}");
    }
}

/// Letters drawn from a seed.
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

/// Reads of several lines and of both strands, with 40 to 159 letters, some of them N, and any quality characters.
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
    // As bgzip packs them: in members that end anywhere.
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
