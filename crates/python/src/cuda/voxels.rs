//! `koel.voxelize` and `koel.neighbours` for CUDA arrays.

use koel::backend::Word;
use koel::opencl::cuda::{Cuda, Grid, Matrix, Memory, Strided, Voxels};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;

use super::argument::{GpuMatrix, matrix};
use super::{Array, Dtype, on_gpu};
use crate::error::Result;
use crate::tables::Type;

/// `koel.voxelize`; `None` if the points are not in CUDA memory. `grid` receives whether the points are float64.
pub(crate) fn voxelize(
    points: &Bound<'_, PyAny>,
    grid: impl FnOnce(bool) -> PyResult<Grid>,
    max_points: usize,
    max_voxels: usize,
    device: &str,
) -> PyResult<Option<Vec<Array>>> {
    let Some((points, owner)) = matrix("points", points, 'f')? else { return Ok(None) };
    if points.shape[1] < 3 {
        let text = format!("points have {} numbers each and need x, y, z at least", points.shape[1]);
        return Err(PyValueError::new_err(text));
    }
    let grid = grid(points.of == Dtype::Floats(64))?;
    let results = on_gpu(owner.py(), device, &[&points], |cuda, _| match points.of.bytes() {
        4 => voxels::<u32>(cuda, &points, &grid, max_points, max_voxels),
        _ => voxels::<u64>(cuda, &points, &grid, max_points, max_voxels),
    });
    results.map(Some)
}

fn voxels<W: Word>(
    cuda: &Cuda,
    points: &GpuMatrix,
    grid: &Grid,
    max_points: usize,
    max_voxels: usize,
) -> Result<Vec<Array>> {
    let memory = imported(cuda, points)?;
    let items = memory.buffer::<W>(memory.bytes() / size_of::<W>())?;
    let matrix = of_items(points, &items);
    let voxels = Voxels::of::<W>(cuda.device(), &matrix, grid, max_voxels)?;
    let (count, width) = (voxels.len(), points.shape[1]);
    let len = count.checked_mul(max_points).and_then(|len| len.checked_mul(width));
    let bytes = len.and_then(|len| len.checked_mul(size_of::<W>()));
    let (Some(len), Some(bytes)) = (len, bytes) else {
        let text = format!("{count} voxels of {max_points} points do not fit: pass fewer");
        return Err(PyMemoryError::new_err(text).into());
    };
    let (gathered, places, counts) = (cuda.allocate(bytes)?, cuda.allocate(12 * count)?, cuda.allocate(4 * count)?);
    voxels.points(&matrix, max_points, &mut gathered.buffer(len)?, &mut counts.buffer(count)?)?;
    voxels.places(&mut places.buffer(3 * count)?)?;
    Ok(vec![
        Array::shaped(gathered, vec![count, max_points, width], points.of),
        Array::shaped(places, vec![count, 3], INT32),
        Array::new(counts, count, INT32),
    ])
}

/// `koel.neighbours`; `None` if `places` is not in CUDA memory.
pub(crate) fn neighbours(places: &Bound<'_, PyAny>, kernel: u32, device: &str) -> PyResult<Option<Array>> {
    let Some((places, owner)) = matrix("places", places, 'i')? else { return Ok(None) };
    if places.shape[1] != 3 {
        let text = format!("places have {} numbers each and voxels have 3: z, y, x", places.shape[1]);
        return Err(PyValueError::new_err(text));
    }
    let mut results = on_gpu(owner.py(), device, &[&places], |cuda, _| match places.of.bytes() {
        4 => map::<u32>(cuda, &places, kernel),
        _ => map::<u64>(cuda, &places, kernel),
    })?;
    Ok(Some(results.remove(0)))
}

fn map<W: Word>(cuda: &Cuda, places: &GpuMatrix, kernel: u32) -> Result<Vec<Array>> {
    let (rows, columns) = (places.shape[0], kernel.pow(3) as usize);
    if rows > i32::MAX as usize {
        return Err(koel::Error::TooLarge { what: "voxels", requested: rows as u64, most: i32::MAX as u64 }.into());
    }
    let memory = imported(cuda, places)?;
    let items = memory.buffer::<W>(memory.bytes() / size_of::<W>())?;
    let to = cuda.allocate(rows.saturating_mul(columns).saturating_mul(4))?;
    let mut words = to.buffer(rows * columns)?;
    koel::opencl::cuda::neighbours::<W>(cuda.device(), &of_items(places, &items), kernel, &mut words)?;
    Ok(vec![Array::shaped(to, vec![rows, columns], INT32)])
}

const INT32: Dtype = Dtype::Integers(Type { bits: 32, is_signed: true });

/// Imports a matrix in its own memory order.
fn imported(cuda: &Cuda, matrix: &GpuMatrix) -> Result<Memory> {
    let ([rows, columns], item) = (matrix.shape, matrix.of.bytes());
    let (lines, len) = if matrix.by_column { (columns, rows) } else { (rows, columns) };
    // The address of an empty array may be null.
    let lines = if len == 0 { 0 } else { lines };
    #[expect(unsafe_code, reason = "the owner of the array guarantees that the address is valid")]
    // SAFETY: the protocol guarantees that the array lives as long as its owner, which the caller keeps alive.
    let mut memories = unsafe {
        cuda.import(&[Strided { address: matrix.address, len: lines, item: len * item, stride: matrix.stride }])?
    };
    Ok(memories.remove(0))
}

fn of_items<'a, W: Word>(matrix: &GpuMatrix, items: &'a koel::opencl::Buffer<W>) -> Matrix<'a, W> {
    let [rows, columns] = matrix.shape;
    let (row_step, column_step) = if matrix.by_column { (1, rows) } else { (columns, 1) };
    Matrix { items, rows, columns, row_step, column_step }
}
