//! Files that are packed by gzip or zstd: unpacked as a stream, or all at once, into memory or a temporary file.
//!
//! Several members or frames may follow each other, as `cat a.gz b.gz`, bgzip and pzstd write them.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::GzDecoder;

use crate::failure::Result;
use crate::input::Name;

use super::Data;

/// Packed bytes that are read at a time.
const PIECE: usize = 256 << 10;

/// What a file is packed by.
#[derive(Clone, Copy)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// That of a file which begins so.
    pub(crate) fn of(head: &[u8]) -> Option<Packing> {
        match head {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            // The second is a frame that decoders skip: pzstd begins with one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Packing::Zstd),
            _ => None,
        }
    }

    /// What is in it. Where it goes into a temporary file, neither it nor what is packed is ever in memory.
    pub(super) fn unpacked(self, packed: &Data, name: &Name, is_spooled: bool) -> Result<Data> {
        let packed: Box<dyn BufRead> = if is_spooled {
            Box::new(BufReader::with_capacity(PIECE, packed.reader(0)))
        } else {
            Box::new(Cursor::new(packed.whole().map_err(|error| name.io(&error))?))
        };
        let data = self.reader(packed).and_then(|reader| Data::read_once(reader, is_spooled));
        data.map_err(|error| name.io(&error))
    }

    /// What is in a stream.
    pub(crate) fn reader<'a>(self, packed: impl BufRead + 'a) -> io::Result<Unpacked<'a>> {
        let reader: Box<dyn Read + 'a> = match self {
            Packing::Gzip => Box::new(Members(GzDecoder::new(Box::new(packed)))),
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(packed)?),
        };
        Ok(Unpacked { packing: self, reader })
    }
}

/// A stream that is being unpacked.
pub(crate) struct Unpacked<'a> {
    packing: Packing,
    reader: Box<dyn Read + 'a>,
}

impl Read for Unpacked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // These are the decoders' kinds. Other errors are the file's own.
        use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
        self.reader.read(buffer).map_err(|error| match error.kind() {
            InvalidData | InvalidInput | Other | UnexpectedEof => {
                if error.to_string().contains("too much memory") {
                    let what = "its zstd data need a window of more than 128 MiB to unpack";
                    return io::Error::new(InvalidData, format!("{what}: unpack the file with `zstd -d --long=31`"));
                }
                let what = if matches!(self.packing, Packing::Gzip) { "gzip" } else { "zstd" };
                let advice = format!("get the file anew; `{what} -t` checks it");
                io::Error::new(InvalidData, format!("its {what} data are damaged or cut short ({error}): {advice}"))
            }
            _ => error,
        })
    }
}

/// The members of a gzip file, one after the other. Zeros may follow them, as blocks of tapes and some file systems
/// leave them: `gzip` ignores them too.
struct Members<'a>(GzDecoder<Box<dyn BufRead + 'a>>);

impl Read for Members<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.0.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            let packed = self.0.get_mut();
            let next = loop {
                let bytes = packed.fill_buf()?;
                let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
                match bytes.get(zeros) {
                    None if zeros > 0 => packed.consume(zeros),
                    next => {
                        let next = next.copied();
                        packed.consume(zeros);
                        break next;
                    }
                }
            };
            if next.is_none() {
                return Ok(0);
            }
            // Anything but another member is an error when its head is read.
            let packed = self.0.reset(Box::new(io::empty()));
            self.0.reset(packed);
        }
    }
}
