//! FASTA and FASTQ, also compressed by gzip.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

/// A named sequence of letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) letters: Vec<u8>,
}

/// All records of a file, whose format is detected from its first bytes.
pub(crate) fn read(path: &Path) -> Result<Vec<Record>, Box<dyn Error>> {
    let mut file = BufReader::new(File::open(path).map_err(|error| format!("{}: {error}", path.display()))?);
    let parsed = if file.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        parse(BufReader::new(MultiGzDecoder::new(file)))
    } else {
        parse(file)
    };
    parsed.map_err(|error| format!("{}: {error}", path.display()).into())
}

fn parse(mut reader: BufReader<impl Read>) -> Result<Vec<Record>, Box<dyn Error>> {
    match reader.fill_buf()?.first() {
        None => Ok(Vec::new()),
        Some(b'>') => fasta(reader),
        Some(b'@') => fastq(reader),
        Some(_) => Err("neither FASTA (`>name`) nor FASTQ (`@name`)".into()),
    }
}

/// Records that consist of a name and any number of lines of letters.
fn fasta(reader: impl BufRead) -> Result<Vec<Record>, Box<dyn Error>> {
    let mut records: Vec<Record> = Vec::new();
    for line in reader.lines() {
        let line = line?;
        match line.strip_prefix('>') {
            Some(name) => records.push(Record { name: first_word(name), letters: Vec::new() }),
            None => {
                let record = records.last_mut().ok_or("letters before any `>name`")?;
                record.letters.extend(line.bytes().filter(|letter| !letter.is_ascii_whitespace()));
            }
        }
    }
    Ok(records)
}

/// Records of four lines: `@name`, letters, `+`, qualities.
fn fastq(reader: impl BufRead) -> Result<Vec<Record>, Box<dyn Error>> {
    let mut records = Vec::new();
    let mut lines = reader.lines();
    while let Some(name) = lines.next().transpose()? {
        if name.is_empty() {
            continue;
        }
        let mut next = || lines.next().unwrap_or_else(|| Ok(String::new()));
        let (letters, plus, qualities) = (next()?, next()?, next()?);
        let name = name.strip_prefix('@').map(first_word);
        match name {
            Some(name) if plus.starts_with('+') && qualities.trim_end().len() == letters.trim_end().len() => {
                records.push(Record { name, letters: letters.trim_end().into() });
            }
            _ => return Err(format!("record {} is none of four lines of FASTQ", records.len() + 1).into()),
        }
    }
    Ok(records)
}

fn first_word(text: &str) -> String {
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

/// The windows of `k` letters, at most 16, as numbers, each with the position of its first letter. Windows with a
/// letter other than A, C, G and T are omitted.
pub(crate) fn windows(letters: &[u8], k: usize) -> impl Iterator<Item = (u32, u32)> {
    let mask = u32::MAX >> (32 - 2 * k.clamp(1, 16));
    let (mut word, mut known) = (0u32, 0);
    (0u32..).zip(letters).filter_map(move |(at, letter)| {
        let code = b"ACGT".iter().position(|known| *known == letter.to_ascii_uppercase());
        known = if code.is_some() { known + 1 } else { 0 };
        word = (word << 2 | code.unwrap_or(0) as u32) & mask;
        (known >= k).then(|| (word, at + 1 - k as u32))
    })
}

/// The other strand, read in its direction.
pub(crate) fn reverse_complement(letters: &[u8]) -> Vec<u8> {
    let other = |letter: &u8| match letter.to_ascii_uppercase() {
        b'A' => b'T',
        b'C' => b'G',
        b'G' => b'C',
        b'T' => b'A',
        _ => b'N',
    };
    letters.iter().rev().map(other).collect()
}
