//! Files that are packed by gzip or zstd: unpacked all at once, into memory or into a temporary file.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::GzDecoder;

use crate::failure::Result;
use crate::input::Name;

use super::Data;

/// Packed bytes that are read at a time.
const PIECE: usize = 256 << 10;

/// What a file is packed by.
#[derive(Clone, Copy)]
pub(super) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// That of a file which begins so.
    pub(super) fn of(head: &[u8]) -> Option<Packing> {
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
        let (read, what, check) = match self {
            Packing::Gzip => (Data::read_once(Members(GzDecoder::new(packed)), is_spooled), "gzip", "gzip -t"),
            Packing::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(packed);
                (decoder.and_then(|decoder| Data::read_once(decoder, is_spooled)), "zstd", "zstd -t")
            }
        };
        read.map_err(|error| match error.kind() {
            // Of where it goes or what is in it, and not of how it is packed.
            io::ErrorKind::OutOfMemory | io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge => name.io(&error),
            _ => {
                let advice = format!("get the file anew; `{check}` checks it");
                name.fail(format!("its {what} data are damaged or cut short ({error}): {advice}"))
            }
        })
    }
}

/// The members of a gzip file, one after the other. Zeros may follow them, as blocks of tapes and some file systems
/// leave them: `gzip` ignores them too.
struct Members(GzDecoder<Box<dyn BufRead>>);

impl Read for Members {
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
