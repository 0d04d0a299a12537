//! Files that are packed by gzip or zstd: unpacked into memory, all at once.

use std::io::{Cursor, Read};

use flate2::read::MultiGzDecoder;

use crate::failure::Result;
use crate::input::Name;

use super::Data;

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

    /// What is in it.
    pub(super) fn unpacked(self, packed: &Data, name: &Name) -> Result<Data> {
        let packed = Cursor::new(packed.whole().map_err(|error| name.io(&error))?);
        let mut bytes = Vec::new();
        let (read, what, check) = match self {
            Packing::Gzip => (MultiGzDecoder::new(packed).read_to_end(&mut bytes), "gzip", "gzip -t"),
            Packing::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(packed);
                (decoder.and_then(|mut decoder| decoder.read_to_end(&mut bytes)), "zstd", "zstd -t")
            }
        };
        match read {
            Ok(_) => Ok(bytes.into()),
            Err(error) if error.kind() == std::io::ErrorKind::OutOfMemory => Err(name.io(&error)),
            Err(error) => {
                let advice = format!("get the file anew; `{check}` checks it");
                Err(name.fail(format!("its {what} data are damaged or cut short ({error}): {advice}")))
            }
        }
    }
}
