//! Copies input that can be read only once, such as stdin and decompressed data, to a temporary file, which can be read
//! at any position and repeatedly. The file has no name if the system allows that, so that it is removed however the
//! process ends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use super::Data;
use crate::text;

/// Bytes that are copied at a time.
const PIECE: usize = 256 << 10;

/// Copies all bytes of a reader to a file in the folder for temporary files.
///
/// # Errors
/// An error of the kind [`io::ErrorKind::StorageFull`] if the file cannot be written for any reason; all others are the
/// reader's.
pub(super) fn spooled(reader: &mut dyn Read) -> io::Result<Data> {
    let folder = std::env::temp_dir();
    let file = tempfile::tempfile_in(&folder).map_err(|error| unwritten(&folder, &error))?;
    copied(reader, file, &folder)
}

fn copied(reader: &mut dyn Read, mut file: File, folder: &Path) -> io::Result<Data> {
    let mut buffer = vec![0; PIECE];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Data::of_file(file),
            Ok(length) => file.write_all(&buffer[..length]).map_err(|error| unwritten(folder, &error))?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn unwritten(folder: &Path, error: &io::Error) -> io::Error {
    let (folder, advice) = (
        text::path(folder),
        "set TMPDIR to a folder with enough space for the whole uncompressed \
                                                 input",
    );
    io::Error::new(
        io::ErrorKind::StorageFull,
        format!("a temporary file in {folder} is needed, and could not be written ({error}): {advice}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spooled_is_read_anywhere() {
        let bytes: Vec<u8> = (0..3 * PIECE + 5).map(|i| (i % 251) as u8).collect();
        let data = spooled(&mut &bytes[..]).expect("memory");
        assert_eq!(data.length(), bytes.len() as u64);
        assert_eq!(data.whole().expect("a file"), bytes);
        assert_eq!(data.range(PIECE as u64 - 1, 10).expect("a file"), bytes[PIECE - 1..PIECE + 9]);
    }

    #[test]
    fn faults_of_the_reader_are_its_own() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::new(io::ErrorKind::InvalidData, "broken"))
            }
        }
        let error = spooled(&mut Broken).err().expect("a broken reader");
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::InvalidData, "broken"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_named() {
        let full = File::options().write(true).open("/dev/full").expect("Linux has it");
        let error = copied(&mut &[1, 2, 3][..], full, Path::new("/somewhere")).err().expect("out of memory");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let said = error.to_string();
        assert!(said.contains("/somewhere") && said.contains("No space left") && said.contains("TMPDIR"), "{said}");
    }
}
