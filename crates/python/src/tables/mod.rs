//! Structures that are built once and asked often: `Table`, `Set`, `Index`, `MultiTable`.
//!
//! ```text
//! integers.rs   keys and values as words of 32 or 64 bits, and back
//! table.rs, set.rs, index.rs, multi.rs    a class each: koel's structure of the same name, whichever width it has
//! ```
//!
//! All of them are behind a lock that many readers share, which is taken without the interpreter's: calls of several threads run at
//! once, and a change waits for those that read. Files are those of the command `koel` and of the library.

/// The body with the structure inside, whose keys are `$K`.
macro_rules! with_keys {
    ($held:expr, |$inner:ident, $K:ident| $body:expr) => {
        with_keys!(@ $held, $inner, $K, $body, (Narrow, u32), (Wide, u64))
    };
    (@ $held:expr, $inner:ident, $K:ident, $body:expr, $(($variant:ident, $key:ty)),*) => {
        match $held {
            $(Held::$variant($inner) => {
                #[allow(dead_code, reason = "not all that is done with keys names their type")]
                type $K = $key;
                $body
            })*
        }
    };
}

/// The same of a table whose values are `$V`.
macro_rules! with_table {
    ($held:expr, |$inner:ident, $K:ident, $V:ident| $body:expr) => {
        with_table!(
            @ $held, $inner, $K, $V, $body,
            (Narrow, u32, u32), (NarrowToWide, u32, u64), (WideToNarrow, u64, u32), (Wide, u64, u64)
        )
    };
    (@ $held:expr, $inner:ident, $K:ident, $V:ident, $body:expr, $(($variant:ident, $key:ty, $value:ty)),*) => {
        match $held {
            $(Held::$variant($inner) => {
                #[allow(dead_code, reason = "not all that is done with pairs names their types")]
                type $K = $key;
                #[allow(dead_code, reason = "not all that is done with pairs names their types")]
                type $V = $value;
                $body
            })*
        }
    };
}

mod index;
mod integers;
mod multi;
mod set;
mod table;

use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use koel::table::{Contents, FileInfo, read_info};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::{FileError, Result};
use integers::Type;

pub(crate) use index::Index;
pub(crate) use multi::MultiTable;
pub(crate) use set::Set;
pub(crate) use table::Table;

/// A lock whose holder may have panicked: the structure is then as it was before.
struct Shared<T>(RwLock<T>);

impl<T> Shared<T> {
    fn new(held: T) -> Self {
        Shared(RwLock::new(held))
    }

    fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a file holds, if it is what was asked for.
fn info(path: &PathBuf, wanted: Contents, class: &str) -> Result<(FileInfo, Type)> {
    let info = read_info(path)?;
    let keys = Type::of_file(info.key_bits, info.key_type);
    if info.contents != wanted {
        let class_of = match info.contents {
            Contents::Map => "koel.Table",
            Contents::Set => "koel.Set",
            Contents::Multi => "koel.MultiTable, or of koel.Index",
            _ => "the command koel",
        };
        let text = format!("{} is a file of {class_of}, and not of {class}", path.display());
        return Err(FileError::new_err(text).into());
    }
    Ok((info, keys))
}

/// Slots that are to be taken, of one.
fn check_load(load_factor: Option<f64>) -> PyResult<()> {
    match load_factor {
        Some(load) if !(load > 0.0 && load <= 1.0) => {
            Err(PyValueError::new_err(format!("load_factor {load} is not possible: give one above 0 and up to 1")))
        }
        _ => Ok(()),
    }
}

/// A builder with the settings that were given.
macro_rules! with_settings {
    ($builder:expr, $load:expr, $seed:expr, $type:expr) => {{
        let mut builder = $builder.key_type($type.key_type());
        if let Some(load) = $load {
            builder = builder.load_factor(load);
        }
        if let Some(seed) = $seed {
            builder = builder.seed(seed);
        }
        builder
    }};
}
use with_settings;
