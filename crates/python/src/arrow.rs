//! Imports columns and tables through the Arrow C data interface.
//!
//! arrow-rs trusts these structures and panics if they are malformed. pyo3 raises a panic as an exception that
//! `except Exception` does not catch. Each structure is therefore checked first:
//!
//! ```text
//! schema    is not released, has a format and the stated number of children; the depth is limited
//! array     is not released, has no negative lengths, and has the buffers, children and dictionary of its type
//! ```
//!
//! The contents of buffers are trusted, except for the first and last offset of text, which determine the length of
//! another buffer.

use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader, make_array};
use arrow_data::layout;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

type Result<T> = std::result::Result<T, ArrowError>;

/// Limits on the nesting of types and on the fields of one type, far above those of real tables.
const MAX_DEPTH: usize = 64;
const MAX_FIELDS: i64 = 1 << 20;

/// Reads the chunks of an object with `__arrow_c_array__` or `__arrow_c_stream__`. Returns `None` if it has neither.
pub(crate) fn column(given: &Bound<'_, PyAny>) -> PyResult<Option<(Vec<ArrayRef>, FieldRef)>> {
    if given.hasattr("__arrow_c_array__")? {
        let pair = given.call_method0("__arrow_c_array__")?;
        let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.cast::<PyTuple>()?.extract()?;
        let (schema, array) = (pointer(&schema, c"arrow_schema")?, pointer(&array, c"arrow_array")?);
        // SAFETY: capsules of these names point to these structures, which live as long as the capsules. The array is
        // moved out of its capsule, which is left with a released array.
        #[expect(unsafe_code, reason = "the interface is one of pointers")]
        let (schema, array) =
            unsafe { (schema.cast::<FFI_ArrowSchema>().as_ref(), FFI_ArrowArray::from_raw(array.cast().as_ptr())) };
        let field = field_of(schema).map_err(of_type)?;
        return Ok(Some((vec![imported(array, field.data_type()).map_err(refused)?], field)));
    }
    if !given.hasattr("__arrow_c_stream__")? {
        return Ok(None);
    }
    let mut stream = Stream::of(given)?;
    let chunks = stream.by_ref().collect::<Result<Vec<_>>>().map_err(refused)?;
    Ok(Some((chunks, stream.field)))
}

/// Reads the batches of an object with `__arrow_c_stream__` or `__arrow_c_array__`, whose type must be a struct.
/// Returns `None` if it has neither.
pub(crate) fn table(given: &Bound<'_, PyAny>) -> PyResult<Option<Box<dyn RecordBatchReader + Send>>> {
    let (field, arrays): (FieldRef, Box<dyn Iterator<Item = Result<ArrayRef>> + Send>) =
        if given.hasattr("__arrow_c_stream__")? {
            let stream = Stream::of(given)?;
            (stream.field.clone(), Box::new(stream))
        } else if let Some((chunks, field)) = column(given)? {
            (field, Box::new(chunks.into_iter().map(Ok)))
        } else {
            return Ok(None);
        };
    let DataType::Struct(fields) = field.data_type() else {
        return Err(PyTypeError::new_err(format!("it is a column of type {}", field.data_type())));
    };
    let schema = Arc::new(Schema::new(fields.clone()).with_metadata(field.metadata().clone()));
    Ok(Some(Box::new(Rows { schema, arrays })))
}

fn refused(error: ArrowError) -> PyErr {
    PyTypeError::new_err(text(error))
}

fn of_type(error: ArrowError) -> PyErr {
    PyTypeError::new_err(format!("{}: cast it to another type", text(error)))
}

/// The message of an error, without arrow-rs's prefix if it is an error of the C data interface.
pub(crate) fn text(error: ArrowError) -> String {
    match error {
        ArrowError::CDataInterface(text) => text,
        other => other.to_string(),
    }
}

fn pointer(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<NonNull<c_void>> {
    let capsule = capsule.cast::<PyCapsule>();
    let capsule = capsule.map_err(|_| PyTypeError::new_err("its Arrow interface does not return capsules"))?;
    let wrong = |_| PyTypeError::new_err(format!("its Arrow interface does not return a capsule named {name:?}"));
    capsule.pointer_checked(Some(name)).map_err(wrong)
}

/// An iterator over the arrays of a stream. It can be read without the GIL.
struct Stream {
    stream: FFI_ArrowArrayStream,
    field: FieldRef,
}

impl Stream {
    fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = given.call_method0("__arrow_c_stream__")?;
        let stream = pointer(&capsule, c"arrow_array_stream")?;
        // SAFETY: a capsule of this name points to a stream, which is moved out of it and leaves a released stream.
        #[expect(unsafe_code, reason = "the interface is one of pointers")]
        let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.cast().as_ptr()) };
        let mut schema = FFI_ArrowSchema::empty();
        let (Some(_), Some(get), Some(_)) = (stream.release, stream.get_schema, stream.get_next) else {
            return Err(PyTypeError::new_err("its Arrow stream was already consumed: pass a new one"));
        };
        // SAFETY: the stream is not released, and the schema can be written to.
        #[expect(unsafe_code, reason = "the interface is one of pointers")]
        let code = unsafe { get(&mut stream, &mut schema) };
        if code != 0 {
            return Err(refused(last_error(&mut stream, code)));
        }
        let field = field_of(&schema).map_err(of_type)?;
        Ok(Stream { stream, field })
    }
}

impl Iterator for Stream {
    type Item = Result<ArrayRef>;

    fn next(&mut self) -> Option<Self::Item> {
        let get = self.stream.get_next?;
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the stream is not released, and the array can be written to.
        #[expect(unsafe_code, reason = "the interface is one of pointers")]
        let code = unsafe { get(&mut self.stream, &mut array) };
        if code != 0 {
            return Some(Err(last_error(&mut self.stream, code)));
        }
        // A released array marks the end of the stream.
        (!array.is_released()).then(|| imported(array, self.field.data_type()))
    }
}

fn last_error(stream: &mut FFI_ArrowArrayStream, code: i32) -> ArrowError {
    let text = stream.get_last_error.and_then(|get| {
        // SAFETY: the stream is not released. The text is valid until the next call, and is copied before that.
        #[expect(unsafe_code, reason = "the interface is one of pointers")]
        let text = unsafe {
            let text = get(stream);
            (!text.is_null()).then(|| CStr::from_ptr(text))
        };
        text.map(|text| text.to_string_lossy().into_owned())
    });
    ArrowError::CDataInterface(text.unwrap_or_else(|| format!("its Arrow stream failed with code {code}")))
}

/// Converts struct arrays to record batches.
struct Rows {
    schema: SchemaRef,
    arrays: Box<dyn Iterator<Item = Result<ArrayRef>> + Send>,
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let rows = |array: ArrayRef| {
            let rows = array.as_struct();
            if rows.null_count() > 0 {
                let text = "it contains null structs: pass its fields as the columns of a table";
                return Err(ArrowError::CDataInterface(text.into()));
            }
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            RecordBatch::try_new_with_options(self.schema.clone(), rows.columns().to_vec(), &options)
        };
        Some(self.arrays.next()?.and_then(rows))
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

fn wrong<T>(text: impl Into<String>) -> Result<T> {
    Err(ArrowError::CDataInterface(format!("its Arrow structure is invalid: {}", text.into())))
}

/// Runs arrow-rs code, and returns a panic as an error.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        wrong(text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default())
    })
}

fn field_of(schema: &FFI_ArrowSchema) -> Result<FieldRef> {
    check_schema(schema, MAX_DEPTH)?;
    guarded(|| Field::try_from(schema)).map(Arc::new)
}

fn check_schema(schema: &FFI_ArrowSchema, depth: usize) -> Result<()> {
    if schema.release.is_none() {
        return wrong("its schema was released");
    }
    if schema.format.is_null() {
        return wrong("its schema has no format");
    }
    if depth == 0 {
        return wrong(format!("its type has more than {MAX_DEPTH} levels"));
    }
    if !(0..=MAX_FIELDS).contains(&schema.n_children) || (schema.n_children > 0 && schema.children.is_null()) {
        return wrong(format!("a type has {} fields", schema.n_children));
    }
    for at in 0..schema.n_children as usize {
        // SAFETY: there are this many pointers, each to a schema or null.
        #[expect(unsafe_code, reason = "the interface is one of pointers")]
        let Some(child) = (unsafe { schema.children.add(at).read_unaligned().as_ref() }) else {
            return wrong(format!("field {at} of a type is missing"));
        };
        check_schema(child, depth - 1)?;
    }
    schema.dictionary().map_or(Ok(()), |values| check_schema(values, depth - 1))
}

/// Checks and imports an array.
fn imported(mut array: FFI_ArrowArray, of: &DataType) -> Result<ArrayRef> {
    guarded(|| {
        check_array(&mut array, of)?;
        // SAFETY: the structure was checked; the buffers are valid if the producer is correct.
        #[expect(unsafe_code, reason = "the interface is one of pointers")]
        let data = unsafe { from_ffi_and_data_type(array, of.clone()) }?;
        Ok(make_array(data))
    })
}

fn check_array(array: &mut FFI_ArrowArray, of: &DataType) -> Result<()> {
    if array.is_released() {
        return wrong(format!("its array of {of} was released"));
    }
    let FFI_ArrowArray { length, offset, null_count, n_buffers, n_children, .. } = *array;
    let end = length.checked_add(offset).filter(|_| length >= 0 && offset >= 0);
    // The widest values have 32 bytes, so sizes in bytes do not overflow.
    let Some(end) = end.filter(|end| end.checked_mul(32).is_some()) else {
        return wrong(format!("an array of {of} has length {length} and offset {offset}"));
    };
    if null_count > length {
        return wrong(format!("{null_count} of the {length} values of an array of {of} are null"));
    }
    if *of == DataType::Null {
        // Some libraries add a validity buffer, as older versions of Arrow required. arrow-rs expects none.
        array.n_buffers = 0;
    } else {
        let layout = layout(of);
        let needed = (layout.buffers.len() + usize::from(layout.can_contain_null_mask)) as i64;
        // Views have a variable number of data buffers, followed by a buffer with their lengths.
        let is_right = if layout.variadic { n_buffers > needed } else { n_buffers == needed };
        if !is_right || (n_buffers > 0 && array.buffers.is_null()) {
            return wrong(format!("an array of {of} has {n_buffers} buffers"));
        }
        if layout.variadic && n_buffers > needed + 1 && array.buffer(n_buffers as usize - 1).is_null() {
            return wrong(format!("an array of {of} lacks the lengths of its buffers"));
        }
    }
    check_offsets(array, of, end as usize)?;
    let children = children_of(of);
    if n_children != children.len() as i64 || (n_children > 0 && array.children.is_null()) {
        return wrong(format!("an array of {of} has {n_children} children"));
    }
    for (at, of) in children.into_iter().enumerate() {
        // SAFETY: there are this many pointers, each to an array or null.
        #[expect(unsafe_code, reason = "the interface is one of pointers")]
        let Some(child) = (unsafe { array.children.add(at).read_unaligned().as_mut() }) else {
            return wrong(format!("child {at} of an array is missing"));
        };
        check_array(child, of)?;
    }
    let DataType::Dictionary(_, values) = of else { return Ok(()) };
    // SAFETY: the pointer is null or points to an array.
    #[expect(unsafe_code, reason = "the interface is one of pointers")]
    match unsafe { array.dictionary.as_mut() } {
        Some(dictionary) => check_array(dictionary, values),
        None => wrong("a dictionary array has no dictionary"),
    }
}

/// The types of an array's children.
fn children_of(of: &DataType) -> Vec<&DataType> {
    match of {
        DataType::List(field)
        | DataType::FixedSizeList(field, _)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _) => vec![field.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        _ => Vec::new(),
    }
}

/// Checks the first and last offset of text and binary: arrow-rs derives the length of the data from the last one.
fn check_offsets(array: &FFI_ArrowArray, of: &DataType, end: usize) -> Result<()> {
    let is_wide = match of {
        DataType::Utf8 | DataType::Binary => false,
        DataType::LargeUtf8 | DataType::LargeBinary => true,
        _ => return Ok(()),
    };
    let offsets = array.buffer(1);
    // arrow-rs returns an error for a null pointer.
    if array.is_empty() || offsets.is_null() {
        return Ok(());
    }
    let offset = |at: usize| -> i64 {
        // SAFETY: an array of `end` values has `end` + 1 offsets.
        #[expect(unsafe_code, reason = "the interface is one of pointers")]
        unsafe {
            if is_wide {
                offsets.cast::<i64>().add(at).read_unaligned()
            } else {
                offsets.cast::<i32>().add(at).read_unaligned().into()
            }
        }
    };
    let (first, last) = (offset(array.offset()), offset(end));
    if first < 0 || last < first {
        return wrong(format!("an array of {of} has offsets from {first} to {last}"));
    }
    Ok(())
}
