//! What the targets of inputs share: reading bytes as the command would, and other readers that are too simple to be
//! wrong.

use koel_cli::input::{Input, Pairs, ReadOptions, Want};
use koel_cli::number::Number;

use crate::memory;

/// Keys and values, or nothing where the input is refused.
pub(crate) type Read = Option<Vec<(Number, Number)>>;

/// What the command reads of the bytes of a file of that name.
pub(crate) fn read(name: &str, bytes: &[u8], options: &ReadOptions, want: Want) -> Read {
    memory::limited(|| {
        let mut pairs = Pairs::default();
        let input = Input::of(bytes, name.as_ref()).ok()?;
        options.check(&[&input]).ok()?;
        input.scan(options, want, &mut pairs).ok()?;
        Some(pairs.keys.iter().zip(pairs.values.iter()).collect())
    })
}

/// Whether the first bytes are those of a file that is told by them, whatever its name. FASTQ is one, and FASTA is not.
pub(crate) fn is_told_by_its_bytes(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    text.starts_with(b"@")
        || [&b"\x93NUMPY"[..], b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff"].iter().any(|magic| bytes.starts_with(magic))
}

/// A letter's two bits.
fn base(letter: u8) -> Option<u64> {
    [&b"Aa"[..], b"Cc", b"Gg", b"TtUu"]
        .iter()
        .zip(0..)
        .find(|(letters, _)| letters.contains(&letter))
        .map(|(_, bits)| bits)
}

/// The key of some letters, if all of them are bases.
pub(crate) fn packed(letters: &[u8]) -> Option<Number> {
    letters.iter().try_fold(0, |key, &letter| Some(key << 2 | Number::from(base(letter)?)))
}

/// Whether all of some numbers are of one type: of 64 bits with a sign, or of as many without.
pub(crate) fn are_of_one_type(numbers: impl Iterator<Item = Number> + Clone) -> bool {
    numbers.clone().all(|number| i64::try_from(number).is_ok())
        || numbers.clone().all(|number| u64::try_from(number).is_ok())
}
