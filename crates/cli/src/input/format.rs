//! Detects formats by the first bytes of a file and, if these are ambiguous, by its name.

use super::{BYTE_ORDER_MARK, Name};
use crate::failure::Result;
use crate::tables::read::foreign;

pub(super) const IS_BINARY: &str = "this is binary: koel reads CSV, TSV, NDJSON, .npy, Parquet, Arrow IPC, FASTA and \
                                    FASTQ, also compressed by gzip or zstd";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Parquet,
    IpcFile,
    IpcStream,
    Npy,
    Ndjson,
    Fasta,
    Fastq,
    /// CSV or TSV. If columns have no names, this byte separates them.
    Text {
        delimiter: u8,
    },
}

impl Format {
    /// Returns the format of a file that begins with these bytes, after decompression.
    ///
    /// # Errors
    /// If koel does not read this format.
    pub(super) fn of(head: &[u8], name: &Name) -> Result<Format> {
        match head {
            [b'P', b'A', b'R', b'1', ..] => Ok(Format::Parquet),
            [b'P', b'A', b'R', b'E', ..] => {
                Err(name.fail("this Parquet file is encrypted: decrypt it first, koel has no keys"))
            }
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Ok(Format::IpcFile),
            // Messages of a stream begin with these bytes, and text does not.
            [0xff, 0xff, 0xff, 0xff, ..] => Ok(Format::IpcStream),
            [b'F', b'E', b'A', b'1', ..] => {
                Err(name.fail("this is Feather of version 1: write it again as version 2, which is Arrow IPC"))
            }
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Ok(Format::Npy),
            _ => Format::of_text(head, name),
        }
    }

    fn of_text(head: &[u8], name: &Name) -> Result<Format> {
        if foreign::is_ndjson(head) {
            return Ok(Format::Ndjson);
        }
        if let Some((what, advice)) = foreign::format_of(head) {
            return Err(name.fail(format!("this {what}, which koel does not read: {advice}")));
        }
        for (extensions, format) in [
            (&["parquet", "pq"][..], "Parquet"),
            (&["arrow", "feather", "ipc", "arrows"], "Arrow IPC"),
            (&["npy"], ".npy"),
        ] {
            if name.has_extension(extensions) {
                let what = if head.is_empty() { "the file is empty" } else { "it does not begin as such files do" };
                return Err(name.fail(format!("this is not a valid {format} file: {what}")));
            }
        }
        if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
            return Err(name.fail("this is UTF-16: save it as UTF-8, e.g. with `iconv -f UTF-16 -t UTF-8`"));
        }
        let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
        let line = text.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or(&[]);
        Ok(match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
            _ if name.has_extension(&["ndjson", "jsonl"]) && !foreign::is_binary(head) => Format::Ndjson,
            // Names of sequences may have any bytes.
            Some(b'>') => Format::Fasta,
            Some(b'@') => Format::Fastq,
            _ if name.has_extension(&["fa", "fasta", "fna"]) => Format::Fasta,
            _ if name.has_extension(&["fq", "fastq"]) => Format::Fastq,
            _ if foreign::is_binary(head) => return Err(name.fail(IS_BINARY)),
            _ if name.has_extension(&["tsv", "tab"]) || line.contains(&b'\t') => Format::Text { delimiter: b'\t' },
            _ => Format::Text { delimiter: b',' },
        })
    }

    /// Whether keys are k-mers of the file's sequences.
    pub(super) fn has_sequences(self) -> bool {
        matches!(self, Format::Fasta | Format::Fastq)
    }

    pub(super) fn is_text(self) -> bool {
        matches!(self, Format::Text { .. })
    }

    /// Whether the file consists of lines, whose length is limited to that of the longest row.
    pub(super) fn has_lines(self) -> bool {
        self.has_sequences() || self.is_text() || self == Format::Ndjson
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Parquet => "Parquet",
            Format::IpcFile | Format::IpcStream => "Arrow IPC",
            Format::Npy => ".npy",
            Format::Ndjson => "NDJSON",
            Format::Fasta => "FASTA",
            Format::Fastq => "FASTQ",
            Format::Text { delimiter: b'\t' } => "TSV",
            Format::Text { .. } => "CSV",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pairs;

    #[test]
    fn formats_are_distinguished() {
        assert_eq!(pairs("x", b">r\nACGT\n", Some(2)), Ok(vec![(1, 0), (6, 1), (11, 2)]));
        assert_eq!(pairs("x", b"\n@r\nACGT\n+\nIIII\n", Some(2)), Ok(vec![(1, 0), (6, 1), (11, 2)]));
        assert_eq!(pairs("x", b"1\t2\n", None), Ok(vec![(1, 2)]));
        assert_eq!(pairs("x", b"\n \r\n1\t2\n", None), Ok(vec![(1, 2)]));
        assert_eq!(pairs("x.tsv", b"1\t2\n", None), Ok(vec![(1, 2)]));
        assert_eq!(pairs("x", b"\xef\xbb\xbf1,2\n", None), Ok(vec![(1, 2)]));
        for name in ["x", "x.fa"] {
            assert_eq!(pairs(name, b"\xef\xbb\xbf>r\nACG\n", Some(2)), Ok(vec![(1, 0), (6, 1)]), "{name}");
        }
        assert_eq!(pairs("x", b"\xef\xbb\xbf\n >r\nAC\n", Some(2)), Ok(vec![(1, 0)]));
        assert_eq!(pairs("x", b">r\0\xff\nACG\n", Some(2)), Ok(vec![(1, 0), (6, 1)]));
        for (name, bytes, part) in [
            ("x.npy", &b"1,2\n"[..], "not a valid .npy"),
            ("x", b"\xff\xfe1\0", "UTF-16"),
            ("x", b"\x7fELF\0\0", "binary"),
            ("x", b"1,2\n3,\0\n", "binary"),
            ("x.jsonl", b"\xff\xfe{\0", "UTF-16"),
            ("x.jsonl", b"\xfd7zXZ\0\0", "xz"),
            ("x.jsonl", b"\x7fELF\0\xff", "binary"),
            ("x.fa", b"ACGT\n", "FASTA"),
            ("x.FQ", b"ACGT\n", "FASTQ"),
        ] {
            let error = pairs(name, bytes, None).expect_err(name);
            assert!(error.contains(part), "{error}");
        }
        assert!(pairs("x", b"1,2\n", Some(3)).is_err(), "--kmer without FASTA");
    }
}
