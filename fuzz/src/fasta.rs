//! `fasta`: the first byte selects the options, the others are FASTA.
//!
//! A second reader splits the text into lines and records, and checks every window of every record. Both must read the
//! same, or reject the input.

use koel_cli::input::{OtherLetters, ReadOptions, Want};
use koel_cli::number::Number;

use crate::input::{Read, is_detected_by_its_bytes, packed, read};

/// Reads the bytes as sequences.
pub fn fasta(data: &[u8]) {
    let Some((&bits, text)) = data.split_first() else { return };
    if is_detected_by_its_bytes(text) {
        return;
    }
    let k = u32::from(bits & 15) + 1 + if bits & 32 != 0 { 16 } else { 0 };
    let skip = bits & 16 != 0;
    let other_letters = skip.then_some(OtherLetters::Skip);
    let options = ReadOptions { kmer: Some(k), other_letters, ..ReadOptions::default() };
    let pairs = read("x.fa", text, &options, Want::Pairs);
    let keys = read("x.fa", text, &options, Want::Keys);
    assert_eq!(keys, pairs.as_ref().map(|pairs| pairs.iter().map(|&(key, _)| (key, 0)).collect()), "{options:?}: keys");
    assert_eq!(pairs, slowly(text, k as usize, skip), "{options:?}");
}

fn slowly(text: &[u8], k: usize, skip: bool) -> Read {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut records: Vec<Vec<u8>> = Vec::new();
    for line in text.split(|byte| b"\r\n".contains(byte)).map(<[u8]>::trim_ascii) {
        match (line.first(), records.last_mut()) {
            (None | Some(b';'), _) => {}
            (Some(b'>'), _) => records.push(Vec::new()),
            (_, None) => return None,
            (_, Some(record)) => record.extend(line.iter().filter(|byte| !byte.is_ascii_whitespace())),
        }
    }
    let known = |&letter: &u8| {
        let more = skip && (letter.is_ascii_alphabetic() || b"*.".contains(&letter));
        more || b"ACGTUNRYSWKMBDHV-".contains(&letter.to_ascii_uppercase())
    };
    if !records.iter().flatten().all(known) {
        return None;
    }
    let (mut pairs, mut place) = (Vec::new(), 0);
    for record in &records {
        let windows = record.windows(k).zip(place..);
        pairs.extend(windows.filter_map(|(window, place)| Some((packed(window)?, place))));
        place += record.len() as Number;
    }
    // Records without a key are an error, but an input without records is valid.
    Some(pairs).filter(|pairs| records.is_empty() || !pairs.is_empty())
}

/// Sequences of several records, of RNA, of several bases, and of protein.
pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let texts: [(u8, &str); 11] = [
        (2, ">r one\nACGT\n"),
        (2, ">r\r\nac\r\ngu\r\n"),
        (1, ">r\nACGNACG\nRYac-gt\n"),
        (2, ";comment\n>a\nAC\n>b\nGA CG\n"),
        (15, ">r\nTTTTTTTTTTTTTTTTACGT"),
        (0x2f, ">r\nTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTACGTN"),
        (0, "\n >r\rACGT\r;x\rA"),
        (2, ">p\nMKTAYIAKQR\n"),
        (0x12, ">p\nMKTAYIACGT*\n"),
        (3, ""),
        (2, "\u{feff}>r\nACGT\n"),
    ];
    let named = |(i, (bits, text)): (usize, (u8, &str))| (i.to_string(), [&[bits], text.as_bytes()].concat());
    texts.into_iter().enumerate().map(named).collect()
}
