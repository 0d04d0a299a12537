//! Detects formats: by the first bytes and, if these are ambiguous, by name.

use super::{BYTE_ORDER_MARK, Name};
use crate::failure::Result;
use crate::tables::read::foreign;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Npy,
    Fasta,
    Fastq,
    /// Parquet and Arrow IPC: named columns.
    Table,
    /// Columns.
    Text {
        delimiter: u8,
    },
}

impl Format {
    /// The format of a file that begins so; of a packed one, of what is in it.
    pub(super) fn of(head: &[u8], name: &Name) -> Result<Format> {
        if head.starts_with(b"\x93NUMPY") {
            return Ok(Format::Npy);
        }
        // Behind the last one, of a stream of Arrow, is the length of a message.
        if [&b"PAR1"[..], b"PARE", b"ARROW1", b"FEA1", b"\xff\xff\xff\xff"].iter().any(|begin| head.starts_with(begin))
        {
            return Ok(Format::Table);
        }
        if name.has_extension(&["npy"]) {
            return Err(name.fail("this is not an .npy file: it does not begin with \\x93NUMPY"));
        }
        if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
            return Err(name.fail("this is UTF-16: save it as UTF-8, e.g. with `iconv -f UTF-16 -t UTF-8`"));
        }
        if foreign::is_ndjson(head) {
            return Ok(Format::Table);
        }
        if let Some((what, advice)) = foreign::format_of(head) {
            return Err(name.fail(format!("this {what}, which koel does not read: {advice}")));
        }
        let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
        match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'>') => return Ok(Format::Fasta),
            Some(b'@') => return Ok(Format::Fastq),
            _ if name.has_extension(&["fa", "fasta", "fna"]) => return Ok(Format::Fasta),
            _ if name.has_extension(&["fq", "fastq"]) => return Ok(Format::Fastq),
            _ => {}
        }
        if head.contains(&0) {
            return Err(name.fail(
                "this is binary: koel reads CSV, TSV, .npy, Parquet, Arrow IPC, FASTA and FASTQ, also compressed by gzip or zstd",
            ));
        }
        let mut lines = text.split(|&byte| byte == b'\n');
        let line = lines.find(|line| !line.trim_ascii().is_empty()).unwrap_or(&[]);
        let tabs = name.has_extension(&["tsv", "tab"]) || line.contains(&b'\t');
        Ok(Format::Text { delimiter: if tabs { b'\t' } else { b',' } })
    }

    /// Whether keys are k-mers of its sequences.
    pub(super) fn has_sequences(self) -> bool {
        matches!(self, Format::Fasta | Format::Fastq)
    }

    pub(super) fn is_text(self) -> bool {
        matches!(self, Format::Text { .. })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Npy => ".npy",
            Format::Table => "a table",
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
        for (name, bytes, part) in [
            ("x.npy", &b"1,2\n"[..], "not an .npy"),
            ("x", b"\xff\xfe1\0", "UTF-16"),
            ("x", b"\x7fELF\0\0", "binary"),
            ("x.fa", b"ACGT\n", "FASTA"),
            ("x.FQ", b"ACGT\n", "FASTQ"),
        ] {
            let error = pairs(name, bytes, None).expect_err(name);
            assert!(error.contains(part), "{error}");
        }
        assert!(pairs("x", b"1,2\n", Some(3)).is_err(), "--kmer without FASTA");
    }
}
