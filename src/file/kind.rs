//! The kinds of koel files, which are identified by their first bytes. Only this module knows these bytes.
//!
//! ```text
//! koeltabl    a table, to the end of the file                             `table/file.rs`
//! koelmult    lists of values, then the table of their keys               `lists.rs`, `multi/file.rs`
//! koelshrd    a sequence of the above, one file per shard                 `shards.rs`, `sharded/file.rs`
//! ```
//!
//! Sets and compacting tables are stored as tables, with their kind in the settings (`table/settings.rs`). A join index
//! is stored as a multivalue table.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::lists::Lists;
use super::section::Section;
use super::shards::Shards;
use crate::error::Result;

/// The first bytes of a file.
pub(crate) type Magic = [u8; 8];

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A table and nothing else.
    Table,
    /// The lists of a multivalue table, and the table of their keys.
    Multi,
    /// The tables of all shards.
    Sharded,
}

impl FileKind {
    const ALL: [FileKind; 3] = [FileKind::Table, FileKind::Multi, FileKind::Sharded];

    pub(crate) const fn magic(self) -> Magic {
        match self {
            FileKind::Table => *b"koeltabl",
            FileKind::Multi => *b"koelmult",
            FileKind::Sharded => *b"koelshrd",
        }
    }

    /// The kind of files that begin with these bytes, if there is one.
    pub(crate) fn of(magic: Magic) -> Option<FileKind> {
        FileKind::ALL.into_iter().find(|kind| kind.magic() == magic)
    }

    /// Reads the first bytes of a section, and seeks back to them. `None` if the section is too short.
    fn sniffed(section: &mut Section<'_>) -> Result<Option<FileKind>> {
        let mut start = Vec::with_capacity(size_of::<Magic>());
        let from = SeekFrom::Start(section.base);
        let read = section.file.seek(from).and_then(|_| {
            (&mut section.file).take(size_of::<Magic>() as u64).read_to_end(&mut start)?;
            section.file.seek(from)
        });
        read.map_err(|error| section.io(error))?;
        Ok(Magic::try_from(start).ok().and_then(FileKind::of))
    }
}

/// The content of a file in addition to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    Nothing,
    /// Lists of values of this many bits.
    Lists {
        value_bits: u32,
    },
    /// The tables of all shards, of which the first was returned; each table of a multivalue table is preceded by lists
    /// of values of this many bits.
    Shards {
        count: u32,
        value_bits: Option<u32>,
    },
}

/// The table in a file, and the other contents. The table is the one after the lists of a multivalue table, the first
/// one of a sharded table, or otherwise the whole file, which may not be a table at all.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io), or [`Error::BadFile`](crate::Error::BadFile) if the file begins as a multivalue or
/// sharded table, but is not a valid one.
pub(crate) fn table_in(path: &Path) -> Result<(Section<'_>, Container)> {
    let mut section = Section::whole(path)?;
    match FileKind::sniffed(&mut section)? {
        Some(FileKind::Multi) => {
            let lists = Lists::open(section)?;
            let value_bits = lists.header.value_bits();
            Ok((lists.into_table(), Container::Lists { value_bits }))
        }
        Some(FileKind::Sharded) => {
            let (mut first, count) = Shards::open(section)?.into_first();
            if FileKind::sniffed(&mut first)? != Some(FileKind::Multi) {
                return Ok((first, Container::Shards { count, value_bits: None }));
            }
            let lists = Lists::open(first)?;
            let value_bits = Some(lists.header.value_bits());
            Ok((lists.into_table(), Container::Shards { count, value_bits }))
        }
        Some(FileKind::Table) | None => Ok((section, Container::Nothing)),
    }
}
