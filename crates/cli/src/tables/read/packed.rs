//! Decompresses gzip and zstd files as streams.
//!
//! Several members or frames may follow each other, as `cat a.gz b.gz`, bgzip and pzstd write them.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// A part of zstd's error message for frames whose window is longer than 2^27 bytes, its default limit. Such frames are
/// not read, because they would take up to 2 GiB of memory regardless of `--memory`.
const WINDOW_TOO_LONG: &str = "requires too much memory";

/// The compression of a file.
#[derive(Clone, Copy)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// The compression of a file that begins with these bytes.
    pub(crate) fn of(head: &[u8]) -> Option<Packing> {
        match head {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            // The second pattern is a skippable frame: pzstd begins with one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Packing::Zstd),
            _ => None,
        }
    }

    /// Returns a reader of the decompressed bytes.
    pub(crate) fn reader<'a>(self, packed: impl BufRead + 'a) -> io::Result<Unpacked<'a>> {
        let reader: Box<dyn Read + 'a> = match self {
            Packing::Gzip => Box::new(Members(GzDecoder::new(Box::new(packed)))),
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(packed)?),
        };
        Ok(Unpacked { packing: self, reader })
    }
}

/// A reader of decompressed bytes.
pub(crate) struct Unpacked<'a> {
    packing: Packing,
    reader: Box<dyn Read + 'a>,
}

impl Read for Unpacked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The decoders return errors of these kinds. Other errors are those of reading the file.
        use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
        self.reader.read(buffer).map_err(|error| match error.kind() {
            _ if error.to_string().contains(WINDOW_TOO_LONG) => {
                let advice = "unpack it by `zstd -d --long=31`, and give the file that it writes";
                io::Error::new(InvalidData, format!("its zstd data need a window of more than 128 MiB: {advice}"))
            }
            InvalidData | InvalidInput | Other | UnexpectedEof => {
                let what = if matches!(self.packing, Packing::Gzip) { "gzip" } else { "zstd" };
                let advice = format!("get the file again; `{what} -t` checks it");
                io::Error::new(InvalidData, format!("its {what} data are damaged or cut short ({error}): {advice}"))
            }
            _ => error,
        })
    }
}

/// The members of a gzip file, one after the other. Zeros may follow them, as on tapes and in some file systems: `gzip`
/// ignores them too.
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
            // Anything that is not another member is an error when its header is read.
            let packed = self.0.reset(Box::new(io::empty()));
            self.0.reset(packed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of `text` with a window of 2^`log` bytes.
    fn frame(log: u8, text: &[u8]) -> Vec<u8> {
        let magic = [0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3];
        // One uncompressed block, marked as the last one.
        let block = ((text.len() as u32) << 3 | 1).to_le_bytes();
        [&magic[..], &block[..3], text].concat()
    }

    #[test]
    fn long_windows_of_zstd_are_distinguished_from_damage() {
        let read = |bytes: &[u8]| {
            let mut text = String::new();
            let mut reader = Packing::Zstd.reader(bytes).expect("a decoder");
            reader.read_to_string(&mut text).map(|_| text).map_err(|error| error.to_string())
        };
        assert_eq!(read(&frame(27, b"id\n1\n")), Ok("id\n1\n".into()));
        for log in [28, 31] {
            let long = frame(log, b"id\n1\n");
            assert!(read(&long).is_err_and(|error| error.contains("zstd -d --long=31")), "{log}");
            // The effect of `--long=31`.
            let mut decoder = zstd::stream::read::Decoder::with_buffer(&long[..]).expect("a decoder");
            decoder.window_log_max(31).expect("a limit");
            assert_eq!(io::read_to_string(decoder).expect("text"), "id\n1\n");
        }
        assert!(read(&frame(27, b"id\n1\n")[..12]).is_err_and(|error| error.contains("damaged or cut short")));
    }
}
