//! The header that defines the meaning of an image, and the digest of both.
//!
//! ```text
//! digest = BLAKE3( header, padded to HEADER_BYTES | image, 64-bit words, little-endian )
//! ```
//!
//! A file begins with exactly these bytes, so the digest of a table is also the checksum of its file.

use std::fmt;

use bytemuck::{Pod, Zeroable};

use super::{HashTable, Image};
use crate::backend::{DeviceBuffer, Runs};
use crate::error::Result;
use crate::file::{FileKind, Magic};
use crate::memory;
use crate::scheme::{Plan, Salt, Scheme};
use crate::threads;

/// Header and plan with their padding; the image that follows is aligned for any vector load.
pub(super) const HEADER_BYTES: usize = 128;
/// The format's version. It changes with any change of header, plan or slot.
pub(super) const VERSION: u32 = 2;
/// The version of salted tables: the header ends with the salt, and all else is as before.
pub(super) const SALTED_VERSION: u32 = 3;
/// The offset of the salt.
pub(super) const SALT_AT: usize = HEADER_BYTES - Salt::BYTES;
/// Words that pass through the host at a time when an image is read for its digest or a file: 8 MiB.
pub(super) const CHUNK_WORDS: usize = 1 << 20;

/// The header of a stored table, before its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Header {
    pub(super) magic: Magic,
    pub(super) version: u32,
    pub(super) scheme: u32,
    pub(super) kind: u32,
    pub(super) plan_bytes: u32,
    /// Pairs in the image.
    pub(super) pairs: u64,
    /// 64-bit words of the image.
    pub(super) words: u64,
    /// Tombstones in the image.
    pub(super) tombstones: u64,
}

const _: () = assert!(size_of::<Header>() == 48);

/// The BLAKE3 hash of a table's header and image. Tables with equal digests are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The 32 bytes.
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Digest(*hash.as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// The digest of header and image; the image is read from the device.
    ///
    /// For canonical tables without tombstones it is a function of scheme, parameters, seed, number of slots and
    /// contents. It does not matter whether the number of slots resulted from a load or a capacity.
    ///
    /// Cost: the image is read from the device once, in pieces of 8 MiB, and hashed by all threads.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let build = |keys: &[u32]| HashTable::builder(Cuckoo::default()).build(&Cpu::new(), keys, keys);
    /// assert_eq!(build(&[1, 2, 3])?.digest()?, build(&[3, 1, 2])?.digest()?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or what the device reports.
    pub fn digest(&self) -> Result<Digest> {
        threads::ready()?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.header());
        self.read_image(|words| {
            hasher.update_rayon(bytemuck::cast_slice(words));
            Ok(())
        })?;
        Ok(hasher.finalize().into())
    }

    /// Header and plan, padded with zeros, and the salt if there is one.
    pub(super) fn header(&self) -> [u8; HEADER_BYTES] {
        let Image { ref plan, pairs, tombstones, .. } = self.image;
        let (stored, salt) = (plan.stored(), plan.salt());
        let header = Header {
            magic: FileKind::Table.magic(),
            version: if salt.is_some() { SALTED_VERSION } else { VERSION },
            scheme: self.scheme.id(),
            kind: plan.kind().code(),
            plan_bytes: stored.len() as u32,
            pairs,
            words: plan.words(),
            tombstones,
        };
        let mut bytes = [0; HEADER_BYTES];
        let header = bytemuck::bytes_of(&header);
        bytes[..header.len()].copy_from_slice(header);
        bytes[header.len()..header.len() + stored.len()].copy_from_slice(stored);
        if let Some(salt) = salt {
            bytes[SALT_AT..].copy_from_slice(&salt.bytes());
        }
        bytes
    }

    /// Passes the image to `sink` in pieces, in order.
    pub(super) fn read_image(&self, mut sink: impl FnMut(&[u64]) -> Result<()>) -> Result<()> {
        let image = self.image();
        let mut piece = memory::zeroed(CHUNK_WORDS.min(image.len()))?;
        let mut at = 0;
        while at < image.len() {
            let len = CHUNK_WORDS.min(image.len() - at);
            self.backend.read(image, at, &mut piece[..len])?;
            sink(&piece[..len])?;
            at += len;
        }
        Ok(())
    }
}
