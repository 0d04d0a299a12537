//! Writes text to a file, optionally compressed by gzip or zstd.
//!
//! Gzip is compressed block by block, each a member of its own, as `bgzip` does, so that several threads can compress.
//! zstd is compressed as one frame, because some programs do not read several.

use std::io::{self, BufWriter, Write};

pub(super) type Output = Box<dyn Write + Send>;

/// The compression of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Not,
    Gzip,
    Zstd,
}

pub(super) enum Packed {
    Plain(BufWriter<Output>),
    Gzip(BufWriter<Output>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<Output>>),
}

impl Packed {
    pub(super) fn new(output: Output, packing: Packing) -> io::Result<Packed> {
        let output = BufWriter::new(output);
        Ok(match packing {
            Packing::Not => Packed::Plain(output),
            Packing::Gzip => Packed::Gzip(output),
            Packing::Zstd => Packed::Zstd(zstd::stream::write::Encoder::new(output, 1)?),
        })
    }

    /// Writes a block of text, or for gzip the member that [`gzip`] compressed it to.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Packed::Plain(output) | Packed::Gzip(output) => output.write_all(bytes),
            Packed::Zstd(output) => output.write_all(bytes),
        }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Packed::Plain(mut output) | Packed::Gzip(mut output) => output.flush(),
            Packed::Zstd(output) => output.finish()?.flush(),
        }
    }
}

/// Compresses a block to a member of a gzip file.
pub(super) fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let packed = Vec::with_capacity(bytes.len() / 2);
    let mut encoder = flate2::write::GzEncoder::new(packed, flate2::Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}
