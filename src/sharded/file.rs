//! One file for all shards.
//!
//! ```text
//! offset 0       magic "koelshrd", version u32, shards u32 (P), seed u64, zeros to 64
//!        64      the files of the shards' tables, one behind the other, each followed by zeros up to a multiple of 64
//!        then    P x u64: the bytes of each shard's table file
//!        the end 32 bytes: BLAKE3( digest, the lengths )
//! ```
//!
//! All numbers are little-endian. Header and shards' digests make the table's digest; where shards lay when it was saved
//! is not told. Lengths stand behind the shards, so that a file is written from front to end, into a pipe too.
//!
//! A file may be damaged or hostile: `open` compares all lengths with the file's before it reads a shard, opens shards as
//! table files are opened, and looks whether all are made alike and each key is in its shard.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use bytemuck::{Pod, Zeroable};

use super::Sharded;
use super::builder::some;
use super::which::{MOST_SHARDS, Which};
use crate::backend::Runs;
use crate::error::{Error, Result};
use crate::file::{FileKind, Magic, Section, write_whole};
use crate::memory;
use crate::scheme::{Plan as _, Scheme};
use crate::table::{Contents, Digest, HashTable};

const VERSION: u32 = 1;
const HEADER_BYTES: u64 = 64;
const ALIGNED: u64 = 64;
const CHECK_BYTES: u64 = 32;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Header {
    magic: Magic,
    version: u32,
    shards: u32,
    seed: u64,
    zeros: [u64; 5],
}
const _: () = assert!(size_of::<Header>() == HEADER_BYTES as usize);

impl<B: Runs<S>, S: Scheme> Sharded<B, S> {
    fn header(&self) -> Header {
        let Which { shards, seed, .. } = self.which;
        Header { magic: FileKind::Sharded.magic(), version: VERSION, shards: shards as u32, seed, zeros: [0; 5] }
    }

    /// The digest of a table whose shards have these.
    pub(super) fn digest_of(&self, shards: &[Digest]) -> Digest {
        let mut hasher = blake3::Hasher::new();
        hasher.update(bytemuck::bytes_of(&self.header()));
        shards.iter().for_each(|digest| _ = hasher.update(&digest.bytes()));
        hasher.finalize().into()
    }

    /// Writes all shards to one file, which another number of devices can open, and another kind of them; what it returns
    /// is the [`digest`](Self::digest). An old file is replaced when all is written.
    ///
    /// Cost: every shard's image is read to this machine, hashed and written, one after the other.
    ///
    /// # Errors
    /// [`Error::Io`] or what a device reports.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Digest> {
        let path = path.as_ref();
        let io = |source| Error::Io { path: path.into(), source };
        write_whole(path, |file| {
            file.write_all(bytemuck::bytes_of(&self.header())).map_err(io)?;
            let (mut digests, mut lengths) = (Vec::new(), Vec::new());
            for table in &self.tables {
                let (digest, bytes) = table.write_to(file, path, Contents::Map)?;
                let gap = bytes.next_multiple_of(ALIGNED) - bytes;
                file.write_all(&[0; ALIGNED as usize][..gap as usize]).map_err(io)?;
                digests.push(digest);
                lengths.push(bytes);
            }
            let digest = self.digest_of(&digests);
            file.write_all(bytemuck::cast_slice(&lengths)).map_err(io)?;
            file.write_all(check(digest, &lengths).as_bytes()).map_err(io)?;
            Ok(digest)
        })
    }

    /// Opens a file, checks everything in it, and puts the shards on these devices in turn.
    ///
    /// Cost: the file is read once into this machine's memory, shard by shard, hashed, audited and uploaded; and the keys of
    /// each shard are read back.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] for no device; [`Error::Io`]; [`Error::BadFile`] for a file that is no table in shards of
    /// this scheme, or is damaged; [`Error::OutOfMemory`] or what a device reports.
    pub fn open(devices: &[B], path: impl AsRef<Path>) -> Result<Self> {
        let (path, devices) = (path.as_ref(), some(devices)?);
        let mut section = Section::whole(path)?;
        let bytes = section.file_bytes()?;
        let header = header_of(&mut section, bytes)?;
        let which = Which::new(header.shards as usize, header.seed)?;
        let footer = 8 * u64::from(header.shards) + CHECK_BYTES;
        let wrong = "its lengths contradict each other";
        let end = bytes.checked_sub(footer).filter(|&end| end >= HEADER_BYTES).ok_or_else(|| section.bad(wrong))?;
        let mut lengths: Vec<u64> = memory::zeroed(which.shards)?;
        let mut found = [0; CHECK_BYTES as usize];
        let file = &mut section.file;
        let read = file.seek(SeekFrom::Start(end)).and_then(|_| {
            file.read_exact(bytemuck::cast_slice_mut(&mut lengths))?;
            file.read_exact(&mut found)
        });
        read.map_err(|error| section.io(error))?;
        let rounded = |sum: u64, &length: &u64| sum.checked_add(length.checked_next_multiple_of(ALIGNED)?);
        if lengths.iter().try_fold(HEADER_BYTES, rounded) != Some(end) {
            return Err(section.bad(wrong));
        }
        let (mut tables, mut digests, mut base) = (Vec::<HashTable<B, S>>::new(), Vec::new(), HEADER_BYTES);
        for (shard, &length) in lengths.iter().enumerate() {
            let next = base + length.next_multiple_of(ALIGNED);
            let device = &devices[shard % devices.len()];
            let in_shard = |error| match error {
                Error::BadFile { reason, .. } => section.bad(format!("shard {shard}: {reason}")),
                other => other,
            };
            let opened = HashTable::open_with_digest(device, section.part(base, length)?, Contents::Map);
            let (table, digest) = opened.map_err(in_shard)?;
            if table.plan().seed() != header.seed {
                return Err(section.bad(format!("shard {shard} has another seed than the table")));
            }
            if tables.first().is_some_and(|first| !table.is_made_as(first)) {
                return Err(section.bad(format!("shard {shard} has other parameters or settings than shard 0")));
            }
            digests.push(digest);
            tables.push(table);
            let mut gap = [0; ALIGNED as usize];
            let gap = &mut gap[..(next - base - length) as usize];
            let read = section.file.seek(SeekFrom::Start(base + length)).and_then(|_| section.file.read_exact(gap));
            read.map_err(|error| section.io(error))?;
            if gap.iter().any(|&byte| byte != 0) {
                return Err(section.bad("what stands between its shards is not zero"));
            }
            base = next;
        }
        let table = Sharded { which, devices: devices.len(), tables };
        if check(table.digest_of(&digests), &lengths).as_bytes() != &found {
            return Err(section.bad("its checksum is wrong: it was damaged after it was written"));
        }
        table.of_each(|shard, table_of| table.has_own_keys(shard, table_of)).map_err(|error| match error {
            Error::Damaged(violation) => section.bad(violation.to_string()),
            other => other,
        })?;
        Ok(table)
    }
}

/// The header, and that it can be one.
fn header_of(section: &mut Section<'_>, bytes: u64) -> Result<Header> {
    if bytes < HEADER_BYTES {
        return Err(section.bad(format!("{bytes} bytes are too few for any table in shards")));
    }
    let mut start = [0; HEADER_BYTES as usize];
    section.file.read_exact(&mut start).map_err(|error| section.io(error))?;
    let header: Header = bytemuck::pod_read_unaligned(&start);
    match FileKind::of(header.magic) {
        Some(FileKind::Sharded) => {}
        Some(_) => return Err(section.bad("it holds one table and not one in shards: open it as what it is")),
        None => return Err(section.bad("it does not begin with `koelshrd`")),
    }
    if header.version != VERSION {
        let version = header.version;
        return Err(section.bad(format!("it has format {version}, and this koel reads format {VERSION}")));
    }
    if !(1..=MOST_SHARDS as u32).contains(&header.shards) || header.zeros != [0; 5] {
        return Err(section.bad("its header says what no table in shards has"));
    }
    Ok(header)
}

fn check(digest: Digest, lengths: &[u64]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&digest.bytes());
    hasher.update(bytemuck::cast_slice(lengths));
    hasher.finalize()
}
