//! Shared by the targets of inputs: reading bytes as the command does, and second readers that are too simple to be
//! wrong.

use koel_cli::input::{Input, Pairs, ReadOptions, Want};
use koel_cli::number::Number;

use crate::memory;

/// Keys and values, or `None` if the input is rejected.
pub(crate) type Read = Option<Vec<(Number, Number)>>;

/// What the command reads from a file of that name with these bytes.
pub(crate) fn read(name: &str, bytes: &[u8], options: &ReadOptions, want: Want) -> Read {
    memory::limited(|| {
        let mut pairs = Pairs::new(want, false);
        let input = Input::of(bytes, name.as_ref()).ok()?;
        options.check(&[&input]).ok()?;
        input.scan(options, want, &mut pairs).ok()?;
        Some(pairs.iter().collect())
    })
}

/// Whether the command reads a file of that name with these bytes as CSV or TSV.
pub(crate) fn is_text(name: &str, bytes: &[u8]) -> bool {
    Input::of(bytes, name.as_ref()).is_ok_and(|input| input.is_text())
}

/// Whether the format is detected from these first bytes, whatever the name. FASTQ is detected, FASTA is not.
pub(crate) fn is_detected_by_its_bytes(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    text.starts_with(b"@")
        || matches!(bytes, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
        || [&b"\x93NUMPY"[..], b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xff\xfe", b"\xfe\xff"]
            .iter()
            .any(|magic| bytes.starts_with(magic))
}

/// The two bits of a letter.
fn base(letter: u8) -> Option<u64> {
    [&b"Aa"[..], b"Cc", b"Gg", b"TtUu"]
        .iter()
        .zip(0..)
        .find(|(letters, _)| letters.contains(&letter))
        .map(|(_, bits)| bits)
}

/// The key of these letters, if all of them are bases.
pub(crate) fn packed(letters: &[u8]) -> Option<Number> {
    letters.iter().try_fold(0, |key, &letter| Some(key << 2 | Number::from(base(letter)?)))
}

/// Whether all numbers are of one type: signed 64-bit integers, or unsigned ones.
pub(crate) fn are_of_one_type(numbers: impl Iterator<Item = Number> + Clone) -> bool {
    numbers.clone().all(|number| i64::try_from(number).is_ok())
        || numbers.clone().all(|number| u64::try_from(number).is_ok())
}
