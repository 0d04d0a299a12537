//! Keys of one or several columns in CUDA memory.
//!
//! ```text
//! one column         its words, which sort like its integers
//! a tuple            the columns packed into one word, the first column in the highest bits
//! ```

use koel::DeviceBuffer as _;
use koel::HashBackend as _;
use koel::backend::Word;
use koel::device::AnyBuffer;
use koel::opencl::cuda::{Cuda, Part, append_column, column_of};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::argument::{GpuColumn, Placed, column, part};
use super::keys::{self, Imported, opencl_buffer};
use super::{Array, Dtype, mixed};
use crate::error::Result;
use crate::tables::Type;

/// The maximum number of bits of a key.
const MOST_BITS: u32 = 64;

/// The columns of a key.
pub(crate) struct Keys {
    columns: Vec<GpuColumn>,
    /// Whether the argument was a tuple. Results are then tuples too.
    is_tuple: bool,
}

/// Keys, and the owners of their memory.
pub(crate) type OwnedKeys<'py> = (Keys, Vec<Bound<'py, PyAny>>);

impl Keys {
    /// Reads the argument with this name; `None` if it is not in CUDA memory.
    ///
    /// # Errors
    /// TypeError if it has more than 64 bits or columns in main memory; ValueError if its columns differ in length.
    pub(crate) fn of<'py>(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Option<OwnedKeys<'py>>> {
        let Ok(tuple) = given.cast::<PyTuple>() else {
            let found = column(name, given)?;
            return Ok(found.map(|(column, owner)| (Keys { columns: vec![column], is_tuple: false }, vec![owner])));
        };
        let (mut columns, mut owners, mut on_host) = (Vec::<GpuColumn>::new(), Vec::new(), None);
        for (i, item) in tuple.iter().enumerate() {
            let name = format!("{name}[{i}]");
            match part(&name, &item)? {
                Some((column, owner)) => {
                    columns.push(column);
                    owners.push(owner);
                }
                None => on_host = Some(name),
            }
        }
        let Some(first) = columns.first() else { return Ok(None) };
        if let Some(on_host) = on_host {
            return Err(mixed(&first.name, &on_host));
        }
        if let Some(other) = columns.iter().find(|column| column.len != first.len) {
            let (name, len, other, rows) = (&first.name, first.len, &other.name, other.len);
            let text = format!("{name} has {len} rows and {other} has {rows}: pass columns of the same length");
            return Err(PyValueError::new_err(text));
        }
        let keys = Keys { columns, is_tuple: true };
        if keys.all_bits() > MOST_BITS {
            let (bits, types) = (keys.all_bits(), keys.types());
            return Err(PyTypeError::new_err(format!(
                "{name} has {types}, {bits} bits in total, and keys on a GPU have at most {MOST_BITS}: pass narrower \
                 types, codes of koel.factorize as int32, or copies in main memory, such as tensor.cpu()"
            )));
        }
        Ok(Some((keys, owners)))
    }

    fn all_bits(&self) -> u32 {
        self.columns.iter().map(|column| column.of.bits).sum()
    }

    /// The number of bits of a word: 32 or 64.
    pub(super) fn bits(&self) -> u32 {
        if self.all_bits() > u32::BITS { u64::BITS } else { u32::BITS }
    }

    pub(crate) fn len(&self) -> usize {
        self.columns[0].len
    }

    /// The name of the argument, or of its first column.
    pub(super) fn name(&self) -> &str {
        &self.columns[0].name
    }

    /// The types of the columns, for error messages.
    fn types(&self) -> String {
        let types: Vec<String> = self.columns.iter().map(|column| column.of.name()).collect();
        if self.is_tuple { format!("({})", types.join(", ")) } else { types.join("") }
    }

    /// The columns, for selecting the device.
    pub(super) fn placed(&self) -> impl Iterator<Item = &(dyn Placed + Sync)> {
        self.columns.iter().map(|column| column as &(dyn Placed + Sync))
    }

    /// Converts the keys to words, which sort like the keys. The owners of the columns must be alive.
    pub(super) fn words<K: Word>(&self, cuda: &Cuda) -> Result<AnyBuffer<K>> {
        if let ([column], false) = (&self.columns[..], self.is_tuple) {
            return Imported::of(cuda, column)?.words::<K>(column.of, K::low(0));
        }
        let (device, mut words) = (cuda.device(), cuda.device().unwritten::<K>(self.len())?);
        for (i, column) in self.columns.iter().enumerate() {
            let memory = Imported::of(cuda, column)?;
            append_column(device, &memory.bytes()?, part_of(column.of), i == 0, &mut words)?;
        }
        Ok(AnyBuffer::OpenCl(words))
    }

    /// Converts words back to keys: one array per column.
    pub(super) fn arrays<K: Word>(&self, cuda: &Cuda, words: &AnyBuffer<K>) -> Result<Vec<Array>> {
        if let ([column], false) = (&self.columns[..], self.is_tuple) {
            return Ok(vec![keys::keys(cuda, words, column.of)?]);
        }
        let (words, mut shift) = (opencl_buffer(words)?, self.all_bits());
        let column = |column: &GpuColumn| {
            let bytes = words.len() * column.of.bytes();
            let memory = cuda.allocate(bytes)?;
            shift -= column.of.bits;
            let mut items = memory.buffer(bytes.div_ceil(size_of::<u32>()))?;
            column_of(cuda.device(), words, shift, part_of(column.of), &mut items)?;
            Ok(Array::new(memory, words.len(), Dtype::Integers(column.of)))
        };
        self.columns.iter().map(column).collect()
    }

    /// Formats the key of a word for error messages.
    pub(super) fn shown(&self, word: u64) -> String {
        let mut shift = self.all_bits();
        let column = |column: &GpuColumn| {
            shift -= column.of.bits;
            column.of.shown(word >> shift & u64::MAX >> (MOST_BITS - column.of.bits))
        };
        let shown: Vec<String> = self.columns.iter().map(column).collect();
        if self.is_tuple { format!("({})", shown.join(", ")) } else { shown.join("") }
    }

    /// Returns the arrays of the columns in the form of the argument: an array or a tuple.
    pub(crate) fn result<'py>(&self, py: Python<'py>, mut arrays: Vec<Array>) -> PyResult<Bound<'py, PyAny>> {
        match self.is_tuple {
            true => Ok(PyTuple::new(py, arrays)?.into_any()),
            false => Ok(Bound::new(py, arrays.remove(0))?.into_any()),
        }
    }
}

/// Reads the keys of two named arguments, which must have the same types; `None` if neither is in CUDA memory.
///
/// # Errors
/// TypeError if only one of them is in CUDA memory, or if their types differ.
pub(crate) fn key_pair<'py>(
    (name, first): (&str, &Bound<'py, PyAny>),
    (other_name, second): (&str, &Bound<'py, PyAny>),
) -> PyResult<Option<(OwnedKeys<'py>, OwnedKeys<'py>)>> {
    match (Keys::of(name, first)?, Keys::of(other_name, second)?) {
        (None, None) => Ok(None),
        (Some(first), Some(second)) => {
            let types = |keys: &Keys| keys.columns.iter().map(|column| column.of).collect::<Vec<_>>();
            if types(&first.0) != types(&second.0) {
                let (of, other) = (first.0.types(), second.0.types());
                let text = format!("{name} has {of} and {other_name} has {other}: pass the same types on the GPU");
                return Err(PyTypeError::new_err(text));
            }
            Ok(Some((first, second)))
        }
        (Some(_), None) => Err(mixed(name, other_name)),
        (None, Some(_)) => Err(mixed(other_name, name)),
    }
}

fn part_of(of: Type) -> Part {
    Part { bits: of.bits, is_signed: of.is_signed }
}
