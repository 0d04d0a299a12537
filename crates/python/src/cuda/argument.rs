//! CUDA arrays as arguments, read through DLPack or `__cuda_array_interface__`.

use std::sync::{Arc, Mutex, PoisonError};

use koel::opencl::cuda::{Cuda, Memory, Strided};
use numpy::PyUntypedArray;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use super::array::Dtype;
use super::dlpack::{self, BFLOAT, CUDA, CUDA_MANAGED, FLOAT, INT, UINT};
use crate::device::check_on_gpu;
use crate::error::{KoelError, Result};
use crate::tables::Type;

/// A column of integers in CUDA memory.
pub(crate) struct GpuColumn {
    pub(crate) name: String,
    pub(crate) of: Type,
    pub(crate) len: usize,
    address: u64,
    /// Bytes from one item to the next.
    stride: usize,
    ordinal: Option<i32>,
    /// The memory that OpenCL reads; set while a call uses the column.
    imported: Mutex<Option<Arc<Memory>>>,
}

/// A matrix of numbers in CUDA memory that is contiguous along at least one axis.
pub(crate) struct GpuMatrix {
    pub(crate) name: String,
    pub(crate) of: Dtype,
    /// Rows and columns.
    pub(crate) shape: [usize; 2],
    pub(super) address: u64,
    /// Whether the matrix is in column-major order.
    pub(super) by_column: bool,
    /// Bytes from one row to the next; from one column to the next if `by_column`.
    pub(super) stride: usize,
    ordinal: Option<i32>,
}

/// An argument that is in the memory of a device.
pub(crate) trait Placed {
    fn name(&self) -> &str;
    /// The CUDA ordinal of its device; `None` for an empty array of unknown device, which any device accepts.
    fn ordinal(&self) -> Result<Option<i32>>;
    /// The array, if it is a column.
    fn column(&self) -> Option<&GpuColumn>;
}

macro_rules! placed {
    ($($type:ty: $column:expr),*) => {$(
        impl Placed for $type {
            fn name(&self) -> &str {
                &self.name
            }

            fn ordinal(&self) -> Result<Option<i32>> {
                match self.ordinal {
                    Some(ordinal) => Ok(Some(ordinal)),
                    None if self.is_empty() => Ok(None),
                    None => Ok(Some(Cuda::device_of(self.address)?)),
                }
            }

            fn column(&self) -> Option<&GpuColumn> {
                let column: fn(&Self) -> Option<&GpuColumn> = $column;
                column(self)
            }
        }
    )*};
}
placed!(GpuColumn: |column| Some(column), GpuMatrix: |_| None);

impl GpuColumn {
    fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Imports several columns at once. Their owners must be alive until the columns are released.
    pub(super) fn import(cuda: &Cuda, columns: &[&GpuColumn]) -> Result<()> {
        let arrays: Vec<Strided> = columns.iter().map(|column| column.strided()).collect();
        #[expect(unsafe_code, reason = "the owners of the arrays guarantee that the addresses are valid")]
        // SAFETY: the protocol guarantees that an array lives as long as its owner, which the caller keeps alive.
        let memories = unsafe { cuda.import(&arrays)? };
        for (column, memory) in columns.iter().zip(memories) {
            *column.imported.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(memory));
        }
        Ok(())
    }

    /// Returns the memory of the column, and imports it first if necessary.
    pub(super) fn memory(&self, cuda: &Cuda) -> Result<Arc<Memory>> {
        let known = || self.imported.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(memory) = known() {
            return Ok(memory);
        }
        GpuColumn::import(cuda, &[self])?;
        known().ok_or_else(|| KoelError::new_err("koel did not import a column; please report it").into())
    }

    /// Releases the imported memory.
    pub(super) fn release(&self) {
        *self.imported.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn strided(&self) -> Strided {
        Strided { address: self.address, len: self.len, item: self.of.bytes(), stride: self.stride }
    }
}

impl GpuMatrix {
    fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }
}

/// The description of an array by its protocol.
struct Described {
    name: String,
    letter: char,
    bits: u32,
    shape: Vec<i64>,
    /// In bytes.
    strides: Option<Vec<i64>>,
    address: u64,
    ordinal: Option<i32>,
}

/// Reads a column of integers in CUDA memory. Returns the column and the owner of its memory, or `None` if the argument
/// is not in CUDA memory.
///
/// # Errors
/// TypeError or ValueError if it is not a column of integers; any exception of its `__dlpack__`.
pub(crate) fn column<'py>(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Option<(GpuColumn, Bound<'py, PyAny>)>> {
    let Some((array, owner)) = described(name, given)? else { return Ok(None) };
    let of = of_integers(name, array.letter, array.bits)?;
    Ok(Some((one_dimension(array, of)?, owner)))
}

/// As [`column`], for a column of a tuple, which may also have 8-bit or 16-bit integers.
pub(super) fn part<'py>(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Option<(GpuColumn, Bound<'py, PyAny>)>> {
    let Some((array, owner)) = described(name, given)? else { return Ok(None) };
    let of = match (array.letter, array.bits) {
        (letter @ ('i' | 'u'), bits @ (8 | 16)) => Type { bits, is_signed: letter == 'i' },
        (letter, bits) => of_integers(name, letter, bits)?,
    };
    Ok(Some((one_dimension(array, of)?, owner)))
}

/// As [`column`], for integers or floats. Floats are returned as a column of their bits, as unsigned integers.
pub(super) fn numbers<'py>(
    name: &str,
    given: &Bound<'py, PyAny>,
) -> PyResult<Option<(GpuColumn, Dtype, Bound<'py, PyAny>)>> {
    let Some((array, owner)) = described(name, given)? else { return Ok(None) };
    let (of, dtype) = match (array.letter, array.bits) {
        ('f', bits @ (32 | 64)) => (Type { bits, is_signed: false }, Dtype::Floats(bits)),
        ('f', bits) => {
            let text = format!(
                "{name} has {bits}-bit floats in GPU memory: pass float32 or float64, such as tensor.float(), which \
                 converts them exactly"
            );
            return Err(PyTypeError::new_err(text));
        }
        (letter @ ('i' | 'u'), bits) => {
            let of = of_integers(name, letter, bits)?;
            (of, Dtype::Integers(of))
        }
        _ => {
            let text = format!(
                "{name} is in GPU memory (CUDA), where koel accepts int32, int64, uint32, uint64, float32 and float64: \
                 convert it to one of these types, or pass a copy in main memory, such as tensor.cpu()"
            );
            return Err(PyTypeError::new_err(text));
        }
    };
    Ok(Some((one_dimension(array, of)?, dtype, owner)))
}

fn one_dimension(array: Described, of: Type) -> PyResult<GpuColumn> {
    let Described { name, shape, strides, address, ordinal, .. } = array;
    let &[len] = &shape[..] else {
        let text = format!("{name} has {} dimensions, but a column has one: pass {name}.ravel()", shape.len());
        return Err(PyValueError::new_err(text));
    };
    let len = checked_rows(&name, len)?;
    let stride = checked_stride(&name, strides.map(|strides| strides[0]), len, of.bytes())?;
    Ok(GpuColumn { name, of, len, address, stride, ordinal, imported: Mutex::default() })
}

/// Reads a matrix in CUDA memory: of floats if `letter` is `f`, of signed integers if it is `i`. Returns `None` if the
/// argument is not in CUDA memory.
///
/// # Errors
/// TypeError or ValueError if it is not such a matrix; any exception of its `__dlpack__`.
pub(crate) fn matrix<'py>(
    name: &str,
    given: &Bound<'py, PyAny>,
    letter: char,
) -> PyResult<Option<(GpuMatrix, Bound<'py, PyAny>)>> {
    let Some((array, owner)) = described(name, given)? else { return Ok(None) };
    let of = match (array.letter, array.bits) {
        ('f', 32 | 64) if letter == 'f' => Dtype::Floats(array.bits),
        ('i', 32 | 64) if letter == 'i' => Dtype::Integers(Type { bits: array.bits, is_signed: true }),
        _ => {
            let wanted = if letter == 'f' { "float32 or float64" } else { "int32 or int64" };
            let text = format!("{name} is in GPU memory (CUDA), where koel accepts {wanted}: convert it");
            return Err(PyTypeError::new_err(text));
        }
    };
    let &[rows, columns] = &array.shape[..] else {
        let text = format!("{name} has {} dimensions: pass an array with two", array.shape.len());
        return Err(PyValueError::new_err(text));
    };
    let (rows, columns, item) = (checked_rows(name, rows)?, checked_rows(name, columns)?, of.bytes() as i64);
    let [row, column] = match array.strides.as_deref() {
        Some(&[row, column]) => [row, column],
        _ => [columns as i64 * item, item],
    };
    let (by_column, stride) = if (columns <= 1 || column == item) && (rows <= 1 || row >= columns as i64 * item) {
        (false, if rows <= 1 { columns as i64 * item } else { row })
    } else if (rows <= 1 || row == item) && column >= rows as i64 * item {
        (true, column)
    } else {
        let text = format!("{name} has strides of {row} and {column} bytes in GPU memory: pass a contiguous copy");
        return Err(PyValueError::new_err(text));
    };
    let Described { name, address, ordinal, .. } = array;
    let shape = [rows, columns];
    Ok(Some((GpuMatrix { name, of, shape, address, by_column, stride: stride as usize, ordinal }, owner)))
}

/// Describes an array in CUDA memory, and returns the owner of its memory; `None` if it is not in CUDA memory.
fn described<'py>(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Option<(Described, Bound<'py, PyAny>)>> {
    if given.cast::<PyUntypedArray>().is_ok() {
        return Ok(None);
    }
    if let Some(device) = given.getattr_opt("__dlpack_device__")?
        && given.hasattr("__dlpack__")?
        // Some versions of pyarrow crash in `__dlpack_device__` of an array of type null.
        && !given.hasattr("__arrow_c_array__")?
    {
        let (kind, _): (i32, i32) = device.call0()?.extract()?;
        if !matches!(kind, CUDA | CUDA_MANAGED) {
            return Ok(None);
        }
        // `__dlpack__` uses the CUDA driver.
        check_on_gpu(name)?;
        return match by_dlpack(name, given) {
            // PyTorch exports only tensors on the current device through DLPack. The other protocol has no such limit.
            Err(error) if error.is_instance_of::<PyBufferError>(given.py()) => {
                match given.getattr_opt("__cuda_array_interface__") {
                    Ok(Some(interface)) => Ok(Some((by_interface(name, &interface)?, given.clone()))),
                    _ => Err(error),
                }
            }
            done => done.map(Some),
        };
    }
    if !given.hasattr("__cuda_array_interface__").unwrap_or(true) {
        return Ok(None);
    }
    check_on_gpu(name)?;
    Ok(Some((by_interface(name, &given.getattr("__cuda_array_interface__")?)?, given.clone())))
}

fn by_dlpack<'py>(name: &str, given: &Bound<'py, PyAny>) -> PyResult<(Described, Bound<'py, PyAny>)> {
    // Stream 1 is CUDA's legacy default stream. The producer makes it wait for its pending work.
    let stream = [("stream", 1)].into_py_dict(given.py())?;
    let capsule = given.call_method("__dlpack__", (), Some(&stream))?;
    let array = dlpack::read(name, &capsule)?;
    if !matches!(array.device.kind, CUDA | CUDA_MANAGED) {
        let kind = array.device.kind;
        let text = format!("{name}: its __dlpack_device__ is CUDA, but its array has device type {kind}: pass a copy");
        return Err(PyTypeError::new_err(text));
    }
    let letter = match (array.dtype.code, array.dtype.lanes) {
        (INT, 1) => 'i',
        (UINT, 1) => 'u',
        (FLOAT | BFLOAT, 1) => 'f',
        _ => '?',
    };
    let bytes = i64::from(array.dtype.bits) / 8;
    let strides = array.strides.map(|strides| strides.into_iter().map(|stride| stride.saturating_mul(bytes)).collect());
    let (bits, shape, address) = (array.dtype.bits.into(), array.shape, array.address);
    let (name, ordinal) = (name.into(), Some(array.device.ordinal));
    Ok((Described { name, letter, bits, shape, strides, address, ordinal }, capsule))
}

fn by_interface(name: &str, interface: &Bound<'_, PyAny>) -> PyResult<Described> {
    let interface: &Bound<'_, PyDict> = interface.cast()?;
    let missing = |key: &str| PyTypeError::new_err(format!("{name}: its __cuda_array_interface__ has no {key}"));
    let item = |key: &str| interface.get_item(key)?.ok_or_else(|| missing(key));
    let typestr: String = item("typestr")?.extract()?;
    let mut letters = typestr.chars();
    let (order, letter) = (letters.next(), letters.next().unwrap_or('?'));
    let bytes: u32 = letters.as_str().parse().unwrap_or(0);
    if order == Some('>') {
        return Err(PyTypeError::new_err(format!("{name} is big-endian: pass a little-endian copy")));
    }
    if interface.get_item("mask")?.is_some_and(|mask| !mask.is_none()) {
        return Err(PyTypeError::new_err(format!(
            "{name} has a mask, which would be ignored: fill or drop missing values"
        )));
    }
    let shape: Vec<i64> = item("shape")?.extract()?;
    let strides: Option<Vec<i64>> = match interface.get_item("strides")? {
        Some(strides) if !strides.is_none() => Some(strides.extract()?),
        _ => None,
    };
    if strides.as_ref().is_some_and(|strides| strides.len() != shape.len()) {
        return Err(missing("stride for each dimension"));
    }
    let (address, _): (u64, bool) = item("data")?.extract()?;
    let (name, bits) = (name.into(), bytes.saturating_mul(8));
    // The address determines the device.
    Ok(Described { name, letter, bits, shape, strides, address, ordinal: None })
}

fn of_integers(name: &str, letter: char, bits: u32) -> PyResult<Type> {
    match (letter, bits) {
        ('i' | 'u', 32 | 64) => Ok(Type { bits, is_signed: letter == 'i' }),
        ('i' | 'u', _) => Err(PyTypeError::new_err(format!(
            "{name} has {bits}-bit integers in GPU memory: convert it to int32 or int64"
        ))),
        _ => Err(PyTypeError::new_err(format!(
            "{name} is in GPU memory (CUDA), where koel accepts int32, int64, uint32 and uint64: pass integers, or a \
             copy in main memory, such as tensor.cpu()"
        ))),
    }
}

fn checked_rows(name: &str, len: i64) -> PyResult<usize> {
    match u32::try_from(len) {
        Ok(len) if len < u32::MAX => Ok(len as usize),
        _ => Err(PyValueError::new_err(format!(
            "{name} has {len} rows, and a call accepts at most 2^32 - 2: pass it in parts"
        ))),
    }
}

fn checked_stride(name: &str, stride: Option<i64>, len: usize, item: usize) -> PyResult<usize> {
    match stride {
        None => Ok(item),
        Some(_) if len <= 1 => Ok(item),
        Some(stride) => match usize::try_from(stride) {
            Ok(stride) if stride >= item => Ok(stride),
            _ => {
                let text = format!("{name} has a stride of {stride} bytes in GPU memory: pass a contiguous copy");
                Err(PyValueError::new_err(text))
            }
        },
    }
}
