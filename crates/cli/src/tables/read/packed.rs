//! Files that are packed by gzip or zstd: unpacked all at once, into memory or into a temporary file.

use std::io::{self, BufRead, BufReader, Cursor};

use flate2::bufread::MultiGzDecoder;

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
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
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
            Packing::Gzip => (Data::read_once(MultiGzDecoder::new(packed), is_spooled), "gzip", "gzip -t"),
            Packing::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(packed);
                (decoder.and_then(|decoder| Data::read_once(decoder, is_spooled)), "zstd", "zstd -t")
            }
        };
        read.map_err(|error| match error.kind() {
            // Of where it goes, and not of what it is.
            io::ErrorKind::OutOfMemory | io::ErrorKind::StorageFull => name.io(&error),
            _ => {
                let advice = format!("get the file anew; `{check}` checks it");
                name.fail(format!("its {what} data are damaged or cut short ({error}): {advice}"))
            }
        })
    }
}
