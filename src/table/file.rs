//! Tables as files: `save`, `open`, `open_mapped`.
//!
//! ```text
//! offset 0         magic "koeltabl", version u32, scheme u32, kind u32, bytes of the plan u32, pairs u64, words u64,
//!                  tombstones u64
//!        48        the plan, then zeros up to 128; in format 3, of salted tables, the salt from 112 on
//!        128       the image: 64-bit words
//!        the end   the settings: `settings.rs`
//! ```
//!
//! All numbers are little-endian; `docs/file-format.md` lists every field, including those of the plan.
//! [`HashTable::digest`] hashes everything before the settings. The settings determine how later batches are inserted,
//! and are not part of the table's identity.
//!
//! A file may be damaged or hostile, even with a correct checksum. `open` therefore checks sizes before it allocates,
//! then the checksum and the plan, field by field, and audits the image. `open_mapped` reads only the header. There, a
//! damaged image can give wrong answers, but every slot that a lookup computes is below the number of slots in the
//! file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::builder::{Contents, Settings};
use super::digest::{Digest, HEADER_BYTES, Header, SALT_AT, SALTED_VERSION, VERSION};
use super::settings::{Trailer, Widths};
use super::{HashTable, Image, KeyType, ValueType, inspect};
use crate::backend::{HashBackend, Runs};
use crate::cpu::{Cpu, Memory};
use crate::error::{Error, Result};
use crate::file::{Container, FileKind, Section, table_in, write_whole};
use crate::memory;
use crate::scheme::{Kind, Plan, Salt, Scheme, SchemeNumber};
use crate::threads;

/// The properties of a table file, read from its header and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileInfo {
    /// The scheme's number, [`Scheme::ID`].
    pub scheme: u32,
    /// Canonical or classic.
    pub kind: Kind,
    /// The structure that the table belongs to.
    pub contents: Contents,
    /// Bits of its keys, 32 or 64.
    pub key_bits: u32,
    /// Bits of its values, 32 or 64; 0 if there are none. The table of a compacting table has ids as its values.
    pub value_bits: u32,
    /// The type of its keys.
    pub key_type: KeyType,
    /// The type of its values.
    pub value_type: ValueType,
    /// The number of shards of a sharded table, which [`Sharded`](crate::Sharded) opens.
    pub shards: Option<u32>,
}

/// Reads what kind of table a file contains, so that it can be opened with the right type. For a structure that
/// contains a table, this describes that table; for a sharded table, the first shard, whose parameters all shards have.
///
/// Open tables of 32-bit keys and values with [`AnyScheme`](crate::AnyScheme), and others with
/// [`BucketizedOf`](crate::scheme::BucketizedOf) or the scheme with the returned number, for keys and values with the
/// returned bits.
///
/// # Errors
/// [`Error::Io`], or [`Error::BadFile`] if it is not a table, or its length contradicts its header.
pub fn read_info(path: impl AsRef<Path>) -> Result<FileInfo> {
    let (section, beside) = table_in(path.as_ref())?;
    let mut source = Source::open(section)?;
    let kind = Kind::from_code(source.header.kind).ok_or_else(|| source.bad("its kind is unknown"))?;
    let trailer = source.trailer()?;
    let contents = trailer.contents().map_err(|reason| source.bad(reason))?;
    let number = SchemeNumber::of(source.header.scheme).ok_or_else(|| source.of_unknown_scheme())?;
    let SchemeNumber { key_bits, value_bits, .. } = number;
    let widths = Widths { keys: key_bits, values: value_bits.max(u32::BITS) };
    let (key_type, value_type) = trailer.types(widths).map_err(|reason| source.bad(reason))?;
    let (value_bits, shards) = match (beside, contents) {
        (Container::Lists { value_bits }, Contents::Multi) => (value_bits, None),
        (Container::Shards { count, value_bits: None }, Contents::Map | Contents::Set) => (value_bits, Some(count)),
        (Container::Shards { count, value_bits: Some(bits) }, Contents::Multi) => (bits, Some(count)),
        (Container::Nothing, contents) if contents != Contents::Multi => (value_bits, None),
        _ => return Err(source.bad("its table belongs to another structure")),
    };
    let scheme = source.header.scheme;
    Ok(FileInfo { scheme, kind, contents, key_bits, value_bits, key_type, value_type, shards })
}

/// A table in a section of a file, whose header has been read and whose length agrees with it.
struct Source<'a> {
    section: Section<'a>,
    header: Header,
    start: [u8; HEADER_BYTES],
}

impl<'a> Source<'a> {
    fn open(mut section: Section<'a>) -> Result<Source<'a>> {
        let base = section.base;
        let length = section.bytes()?;
        section.file.seek(SeekFrom::Start(base)).map_err(|error| section.io(error))?;
        if length < (HEADER_BYTES + Trailer::SHORT_BYTES) as u64 {
            let is_behind_lists = base > 0 && section.end.is_none();
            let which = if is_behind_lists { " after the lists of values" } else { "" };
            return Err(section.bad(format!("{length} bytes{which} are too few for any table")));
        }
        let mut start = [0; HEADER_BYTES];
        section.file.read_exact(&mut start).map_err(|error| section.io(error))?;
        let header: Header = bytemuck::pod_read_unaligned(&start[..size_of::<Header>()]);
        match FileKind::of(header.magic) {
            Some(FileKind::Table) => {}
            Some(FileKind::Multi) if base == 0 || section.end.is_some() => {
                return Err(section.bad("it is a multivalue table: open it with `MultiTable`"));
            }
            Some(FileKind::Sharded) if base == 0 => {
                return Err(section.bad("it is a sharded table: open it with `Sharded`"));
            }
            None if header.magic == *b"koelside" => {
                return Err(section.bad("it is the right side of joins: `koel join --with` reads it"));
            }
            Some(FileKind::Multi | FileKind::Sharded) | None => {
                return Err(section.bad("it does not begin with `koeltabl`"));
            }
        }
        if ![VERSION, SALTED_VERSION].contains(&header.version) {
            let version = header.version;
            let read = format!("this koel reads formats {VERSION} and {SALTED_VERSION}");
            return Err(section.bad(format!("it has format {version}; {read}: build it again")));
        }
        let settings = header.words.checked_mul(8).and_then(|bytes| (length - HEADER_BYTES as u64).checked_sub(bytes));
        if !settings.is_some_and(Trailer::has_length) {
            let words = header.words;
            return Err(section.bad(format!(
                "the file is truncated: its header promises {words} words, but it has only {length} bytes"
            )));
        }
        Ok(Source { section, header, start })
    }

    fn bad(&self, reason: impl Into<String>) -> Error {
        self.section.bad(reason)
    }

    fn of_unknown_scheme(&self) -> Error {
        let number = self.header.scheme;
        self.bad(format!("it holds scheme number {number}, which this koel does not know: use a newer one"))
    }

    /// The position of the image in the file.
    fn image_at(&self) -> u64 {
        self.section.base + HEADER_BYTES as u64
    }

    /// The plan, checked field by field, and the parameters that it encodes.
    fn plan<S: Scheme>(&self) -> Result<(S::Plan, S)> {
        let header = &self.header;
        if !S::has_id(header.scheme) {
            return Err(match (SchemeNumber::of(header.scheme), SchemeNumber::of(S::ID)) {
                (Some(held), Some(wanted)) => self.bad(format!("it contains a {held}, not a {wanted}")),
                (Some(held), None) => self.bad(format!("it contains a {held}, not a table of 32-bit keys and values")),
                (None, _) => self.of_unknown_scheme(),
            });
        }
        let salted = header.version == SALTED_VERSION;
        let plan = &self.start[size_of::<Header>()..if salted { SALT_AT } else { HEADER_BYTES }];
        let (plan, zeros) = plan.split_at_checked(header.plan_bytes as usize).unwrap_or((&[], plan));
        if zeros.iter().any(|&byte| byte != 0) {
            return Err(self.bad("its plan has the wrong length"));
        }
        let mut plan = S::Plan::of_stored(header.scheme, plan).map_err(|reason| self.bad(reason))?;
        if salted {
            let mut salt = [0; Salt::BYTES];
            salt.copy_from_slice(&self.start[SALT_AT..]);
            plan = plan.with_salt(Salt::from_bytes(salt));
            if plan.salt().is_none() {
                return Err(self.bad("tables of this scheme, attempt and format have a salt, but this one has none"));
            }
        }
        let scheme = S::from_plan(&plan);
        if plan.words() != header.words
            || plan.kind().code() != header.kind
            || header.pairs.saturating_add(header.tombstones) > plan.cells()
        {
            return Err(self.bad("header and plan contradict each other"));
        }
        Ok((plan, scheme))
    }

    fn trailer(&mut self) -> Result<Trailer> {
        // Its length has been compared with the file's.
        let (at, image) = (self.image_at() + 8 * self.header.words, 8 * self.header.words);
        let left = self.section.bytes()?.saturating_sub(HEADER_BYTES as u64 + image);
        let left = left.min(Trailer::LONG_BYTES as u64);
        let Section { file, .. } = &mut self.section;
        let mut bytes = Vec::with_capacity(Trailer::LONG_BYTES);
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.take(left).read_to_end(&mut bytes));
        read.map_err(|error| self.section.io(error))?;
        Trailer::read(&bytes).map_err(|reason| self.bad(reason))
    }

    /// The settings for later batches, from the file.
    fn settings<P: Plan>(&self, trailer: &Trailer, plan: &P, contents: Contents) -> Result<Settings> {
        let pairs = self.header.pairs + u64::from(plan.outside().is_some());
        let settings = trailer.settings(plan, pairs).map_err(|reason| self.bad(reason))?;
        settings.expect(contents).map_err(|reason| self.bad(reason))?;
        Ok(settings)
    }

    /// The image with these words, and the counts in the file.
    fn image_of<B: HashBackend, S: Scheme>(&self, plan: S::Plan, buffer: B::Buffer<u64>) -> Image<B, S> {
        let Header { pairs, tombstones, .. } = self.header;
        Image { plan, buffer, pairs, tombstones }
    }

    fn words(&mut self, words: usize) -> Result<Vec<u64>> {
        let mut image = memory::zeroed(words)?;
        let at = self.image_at();
        let Section { file, .. } = &mut self.section;
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(bytemuck::cast_slice_mut(&mut image)));
        read.map_err(|error| self.section.io(error))?;
        Ok(image)
    }
}

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// Writes the table to a file, and returns its digest. The file appears under its name only when it is complete and
    /// on the disk. Pipes and devices are written directly.
    ///
    /// An existing file of this name is replaced by a new one with its mode and, if the system allows it, its owner.
    /// Links are followed and kept. Tables that are mapped from the old file, and its other hard links, keep the old
    /// contents.
    ///
    /// Cost: the image is read from the device in pieces of 8 MiB. The folder is listed once, to remove the temporary
    /// files of saves that were killed. Equal canonical tables give equal files, whatever their device and the order of
    /// their pairs.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("table.koel");
    /// let table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[1, 2], &[3, 4])?;
    /// let digest = table.save(&path)?;
    /// let again: HashTable<Cpu> = HashTable::open(&Cpu::new(), &path)?;
    /// assert_eq!(again.digest()?, digest);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`], or what the device reports. An existing file of this name is then unchanged.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Digest> {
        let path = path.as_ref();
        // Saved by itself, the table of a multivalue table is a map from keys to numbers.
        let contents = match self.settings.contents {
            Contents::Multi => Contents::Map,
            contents => contents,
        };
        write_whole(path, &mut |file| Ok(self.write_to(file, path, contents)?.0))
    }

    /// Appends the table to the file, whose path is for messages. Returns the digest and the number of bytes written.
    pub(crate) fn write_to(&self, file: &mut File, path: &Path, contents: Contents) -> Result<(Digest, u64)> {
        let io = |source| Error::Io { path: path.into(), source };
        threads::ready()?;
        let header = self.header();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&header);
        file.write_all(&header).map_err(io)?;
        self.read_image(|words| {
            let bytes = bytemuck::cast_slice(words);
            hasher.update_rayon(bytes);
            file.write_all(bytes).map_err(io)
        })?;
        let digest = hasher.finalize().into();
        let settings = Settings { contents, ..self.settings.clone() };
        let trailer = Trailer::new(&settings, self.scheme.default_load(), Widths::of::<S::Plan>(), digest);
        let trailer = trailer.bytes();
        file.write_all(&trailer).map_err(io)?;
        Ok((digest, (HEADER_BYTES + trailer.len()) as u64 + 8 * self.plan().words()))
    }

    /// Opens a file, checks everything in it, and puts the table on a device.
    ///
    /// Cost: the file is read once into this machine's memory, hashed and audited by all threads, and uploaded. The
    /// longest chain of a classic table (`Cuckoo::chain`) is not in the file; later batches use the default.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::BadFile`] for a file that is not a table of this scheme, is damaged, or contradicts
    /// itself; [`Error::OutOfMemory`] or what the device reports.
    pub fn open(backend: &B, path: impl AsRef<Path>) -> Result<Self> {
        Self::open_part(backend, Section::whole(path.as_ref())?, Contents::Map)
    }

    /// [`open`](Self::open) of a table that is a part of a structure.
    pub(crate) fn open_part(backend: &B, section: Section<'_>, contents: Contents) -> Result<Self> {
        Ok(Self::open_with_digest(backend, section, contents)?.0)
    }

    /// As [`open_part`](Self::open_part); also returns the digest.
    pub(crate) fn open_with_digest(backend: &B, section: Section<'_>, contents: Contents) -> Result<(Self, Digest)> {
        let mut source = Source::open(section)?;
        let (plan, scheme) = source.plan::<S>()?;
        let trailer = source.trailer()?;
        let settings = source.settings(&trailer, &plan, contents)?;
        threads::ready()?;
        let image = source.words(plan.word_count()?)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&source.start).update_rayon(bytemuck::cast_slice(&image));
        let digest = hasher.finalize().into();
        if !trailer.is_of(digest) {
            return Err(source.bad("its checksum is wrong: it was damaged after it was written"));
        }
        inspect::audit_image::<S>(&plan, &image, source.header.pairs, source.header.tombstones)?
            .map_err(|violation| source.bad(violation.to_string()))?;
        let image = source.image_of(plan, backend.upload(&image)?);
        Ok((HashTable { backend: backend.clone(), scheme, settings, image }, digest))
    }
}

impl<S: Scheme> HashTable<Cpu, S>
where
    Cpu: Runs<S>,
{
    /// Opens a file without reading it: the operating system loads pages of the image when lookups access them.
    ///
    /// Cost: opening is immediate; a lookup in a page that is not in memory waits for the disk.
    ///
    /// The header and the sizes are checked, but not the image: call [`audit`](Self::audit) for files from untrusted
    /// sources. Lookups stay in bounds whatever the image contains. Inserting works on a copy in memory; the file is
    /// never written.
    ///
    /// # Safety
    /// Until the table is dropped, no process may write to the file or truncate it: the compiler assumes that the image
    /// does not change, and reading past a new end terminates the process. Replacing the file with `save` is allowed,
    /// because that creates a new file. If you cannot guarantee this, use [`open`](Self::open).
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("table.koel");
    /// let table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[1, 2], &[3, 4])?;
    /// table.save(&path)?;
    /// // SAFETY: the file lies in a folder of this program's own, and only `save` writes there.
    /// let mapped: HashTable<Cpu> = unsafe { HashTable::open_mapped(&Cpu::new(), &path)? };
    /// assert_eq!(mapped.get(&[2])?, [Some(4)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::BadFile`] for a file whose header is not that of a table of this scheme.
    #[expect(unsafe_code, reason = "other processes may write to the file")]
    pub unsafe fn open_mapped(backend: &Cpu, path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: the caller guarantees this.
        unsafe { Self::open_mapped_part(backend, Section::whole(path.as_ref())?, Contents::Map) }
    }

    /// [`open_mapped`](Self::open_mapped) of a table that is a part of a structure.
    ///
    /// # Safety
    /// As [`open_mapped`](Self::open_mapped).
    #[expect(unsafe_code, reason = "other processes may write to the file")]
    pub(crate) unsafe fn open_mapped_part(backend: &Cpu, section: Section<'_>, contents: Contents) -> Result<Self> {
        let mut source = Source::open(section)?;
        let (plan, scheme) = source.plan::<S>()?;
        let trailer = source.trailer()?;
        let settings = source.settings(&trailer, &plan, contents)?;
        // SAFETY: the caller guarantees for the whole file what the image requires.
        let words = unsafe { Memory::map_file(&source.section.file, source.image_at(), plan.word_count()?)? };
        let image = source.image_of(plan, words);
        Ok(HashTable { backend: backend.clone(), scheme, settings, image })
    }
}
