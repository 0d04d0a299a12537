//! `koel.Array`: a result in GPU memory.

use std::sync::Arc;

use koel::opencl::cuda::Memory;
use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::dlpack::{self, BOOL, CUDA, DataType, Device, FLOAT, INT, UINT, refuse};
use crate::device::check_on_gpu;
use crate::output::Fresh;
use crate::run::detached;
use crate::tables::Type;

/// The type of a result's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dtype {
    Integers(Type),
    /// The number of bits: 32 or 64.
    Floats(u32),
    Flags,
}

impl Dtype {
    fn name(self) -> String {
        match self {
            Dtype::Integers(of) => of.name(),
            Dtype::Floats(bits) => format!("float{bits}"),
            Dtype::Flags => "bool".into(),
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Dtype::Integers(of) => of.bytes(),
            Dtype::Floats(bits) => bits as usize / 8,
            Dtype::Flags => 1,
        }
    }

    fn dlpack(self) -> DataType {
        let code = match self {
            Dtype::Integers(of) if of.is_signed => INT,
            Dtype::Integers(_) => UINT,
            Dtype::Floats(_) => FLOAT,
            Dtype::Flags => BOOL,
        };
        DataType { code, bits: 8 * self.bytes() as u8, lanes: 1 }
    }

    /// The `typestr` of `__cuda_array_interface__`.
    fn typestr(self) -> String {
        match self {
            Dtype::Integers(of) => format!("<{}{}", if of.is_signed { 'i' } else { 'u' }, self.bytes()),
            Dtype::Floats(_) => format!("<f{}", self.bytes()),
            Dtype::Flags => "|b1".into(),
        }
    }
}

/// A result in GPU memory. `torch.from_dlpack(array)`, `cupy.from_dlpack(array)` and
/// `numba.cuda.as_cuda_array(array)` use it in place; `array.numpy()` copies it to main memory.
///
/// The values are complete when the call that created the array returns: any stream can read
/// them without synchronisation.
///
/// >>> import koel, torch  # doctest: +SKIP
/// >>> keys, values = torch.tensor([3, 1, 2], device="cuda"), torch.tensor([1, 3], device="cuda")  # doctest: +SKIP
/// >>> torch.from_dlpack(koel.isin(keys, values))  # doctest: +SKIP
/// tensor([ True,  True, False], device='cuda:0')
#[pyclass(frozen, module = "koel")]
pub(crate) struct Array {
    memory: Arc<Memory>,
    shape: Vec<usize>,
    of: Dtype,
}

impl Array {
    pub(crate) fn new(memory: Memory, len: usize, of: Dtype) -> Self {
        Array::shaped(memory, vec![len], of)
    }

    /// An array with any number of dimensions, in row-major order.
    pub(super) fn shaped(memory: Memory, shape: Vec<usize>, of: Dtype) -> Self {
        Array { memory: Arc::new(memory), shape, of }
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    fn items(&self) -> usize {
        self.shape.iter().product()
    }

    fn on(&self) -> Device {
        Device { kind: CUDA, ordinal: self.memory.cuda().ordinal() }
    }
}

#[pymethods]
impl Array {
    /// Exports the array through DLPack without a copy. Consumers need not wait for any stream.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<Bound<'py, PyAny>>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // The protocol allows an unversioned capsule for any `max_version`.
        let _ = (stream, max_version);
        let device = self.on();
        if dl_device.is_some_and(|wanted| wanted != (device.kind, device.ordinal)) {
            return Err(refuse(
                "koel.Array can only be exported on its own device: use array.numpy() for a copy on the host",
            ));
        }
        if copy == Some(true) {
            return Err(refuse("koel.Array is always exported without a copy: copy the imported array instead"));
        }
        dlpack::capsule(py, self.memory.clone(), (self.memory.address(), &self.shape), device, self.of.dlpack())
    }

    /// The device for DLPack: (2, number of the CUDA device).
    fn __dlpack_device__(&self) -> (i32, i32) {
        let device = self.on();
        (device.kind, device.ordinal)
    }

    /// The CUDA array interface, version 3, which Numba and CuPy read.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", self.of.typestr())?;
        let address = if self.items() == 0 { 0 } else { self.memory.address() };
        interface.set_item("data", (address, false))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("stream", py.None())?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    /// Copies the array to main memory, as a NumPy array.
    ///
    /// >>> import koel, torch  # doctest: +SKIP
    /// >>> keys, values = torch.tensor([3, 1, 2], device="cuda"), torch.tensor([1, 3], device="cuda")  # doctest: +SKIP
    /// >>> koel.isin(keys, values).numpy()  # doctest: +SKIP
    /// array([ True,  True, False])
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        check_on_gpu("numpy()")?;
        let mut fresh = Fresh::<u8>::zeros(py, self.items() * self.of.bytes())?;
        let bytes = fresh.slice()?;
        detached(py, |_| Ok(self.memory.read(bytes)?))?;
        let items = fresh.into_array().call_method1("view", (self.dtype(py)?,))?;
        items.call_method1("reshape", (self.shape(py)?,))
    }

    /// The NumPy dtype.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDescr>> {
        PyArrayDescr::new(py, self.of.name())
    }

    /// The length of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The device, such as "cuda:0".
    #[getter]
    fn device(&self) -> String {
        format!("cuda:{}", self.on().ordinal)
    }

    fn __len__(&self) -> usize {
        self.shape[0]
    }

    fn __repr__(&self) -> String {
        let shape: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        format!("<koel.Array of {} {}, {}>", shape.join(" x "), self.of.name(), self.device())
    }
}
