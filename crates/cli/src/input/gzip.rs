//! Files compressed by gzip, detected by their first two bytes, whatever their names.
//!
//! A file may have several members one behind the other, as `cat a.gz b.gz` and bgzip write them. What is unpacked is a
//! stream like any other: damage is an error of the system's kind, which ends the reading where it is found. The line
//! of progress counts the packed bytes, because only their number is known.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Packed bytes that are read at a time.
const PIECE: usize = 64 << 10;

/// How many packed bytes were read.
pub(super) type Position = Rc<Cell<u64>>;

/// Whether a file that begins so is packed.
pub(super) fn is_packed(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// What is packed in a stream, and how far the stream was read.
pub(super) fn unpacked<R: Read>(packed: R) -> (Unpacked<R>, Position) {
    let position = Position::default();
    let counted = Counted { reader: packed, position: position.clone() };
    (Unpacked(MultiGzDecoder::new(BufReader::with_capacity(PIECE, counted))), position)
}

/// A stream that is being unpacked.
pub(super) struct Unpacked<R>(MultiGzDecoder<BufReader<Counted<R>>>);

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // These are the decoder's kinds. Other errors are the file's own.
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        self.0.read(buffer).map_err(|error| match error.kind() {
            UnexpectedEof => {
                io::Error::new(InvalidData, "its gzip data end too early: is the file cut short? `gzip -t` checks it")
            }
            InvalidData | InvalidInput => {
                let advice = "get the file again; `gzip -t` checks it";
                io::Error::new(InvalidData, format!("its gzip data are damaged ({error}): {advice}"))
            }
            _ => error,
        })
    }
}

/// A reader, and how many bytes it gave.
struct Counted<R> {
    reader: R,
    position: Position,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.position.set(self.position.get() + read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::tests::pairs;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(text).and_then(|()| writer.finish()).expect("memory")
    }

    #[test]
    fn packed_files_are_read_as_what_they_hold() {
        assert_eq!(pairs("x.gz", &packed(b"1,2\n3,4\n"), None), Ok(vec![(1, 2), (3, 4)]));
        assert_eq!(pairs("x.tsv.gz", &packed(b"1\n2\n"), None), Ok(vec![(1, 0), (2, 1)]));
        assert_eq!(pairs("x.fa.gz", &packed(b""), Some(3)), Ok(vec![]), "the name inside counts");
        assert_eq!(pairs("reads", &packed(b"@r\nACG\n+\nIII\n"), Some(3)), Ok(vec![(6, 0)]));
        let members = [packed(b">r\nAC"), packed(b""), packed(b"GT\n"), packed(b"")].concat();
        assert_eq!(pairs("x", &members, Some(3)), Ok(vec![(6, 0), (27, 1)]), "as bgzip writes them");
        let error = pairs("x.npy.gz", &packed(b"1,2\n"), None).expect_err("text");
        assert!(error.contains("not an .npy file"), "{error}");
    }

    #[test]
    fn damage_is_an_error_wherever_it_is() {
        // Long enough for its head to be read before the damage is.
        let text: String = (0..200_000u32).map(|i| format!("{},{i}\n", i.wrapping_mul(0x9e37_79b9))).collect();
        let whole = packed(text.as_bytes());
        assert_eq!(pairs("x.csv.gz", &whole, None).map(|rows| rows.len()), Ok(200_000));
        for length in [3, 10, 11, 100, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
            let error = pairs("x.csv.gz", &whole[..length], None).expect_err("cut short");
            assert!(error.starts_with("x.csv.gz: ") && error.contains("cut short"), "{length}: {error}");
        }
        // The method, and the sum at the end; a length that is another; what follows the last member.
        for (at, xor) in [(2, 1), (whole.len() - 5, 1), (whole.len() - 1, 1)] {
            let mut damaged = whole.clone();
            damaged[at] ^= xor;
            let error = pairs("x.csv.gz", &damaged, None).expect_err("damaged");
            assert!(error.starts_with("x.csv.gz: its gzip data are damaged"), "{at}: {error}");
        }
        let error = pairs("x.csv.gz", &[&whole[..], b"more than nothing"].concat(), None).expect_err("more");
        assert!(error.contains("damaged") || error.contains("cut short"), "{error}");
        let error = pairs("x.gz", &packed(&whole), None).expect_err("packed twice");
        assert!(error.contains("twice"), "{error}");
    }
}
