//! Point clouds: groups points into voxels, and finds the neighbours of voxels.
//!
//! Voxelization follows mmcv's deterministic `hard_voxelize`:
//!
//! ```text
//! cell    floor((point - minimum) / size) on each axis, computed in the precision of the points; points outside of
//!         the range and points with a NaN or an infinity have no cell
//! voxel   a cell with at least one point; voxels are numbered in the order of their first points, up to `max_voxels`
//! points  the first `max_points` points of each voxel, in the order of the input
//! ```
//!
//! The numbers of voxels are computed by factorizing the cells, so the result is the same on every device. One pass
//! over the points then copies them.

use koel::{Any, IdOrder, NO_ROW, group};
use numpy::{Element, PyArray1, PyArrayMethods, PyReadonlyArray2, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rayon::prelude::*;

use crate::arrays::{self, refuse_masked};
use crate::device::device as device_of;
use crate::error::Result;
use crate::memory;
use crate::run::{CHUNK, Stop, detached_on};

/// Bits of a cell's coordinate in a key. Without a range, coordinates are at least `-COORDINATE_LIMIT` and less than
/// `COORDINATE_LIMIT`.
const BITS: u32 = 21;
const COORDINATE_LIMIT: i64 = 1 << (BITS - 1);
/// The key of points without a cell. The top bit of a cell's key is 0.
const OUTSIDE: u64 = u64::MAX;

/// The type of coordinates: f32 or f64.
trait Coordinate: Element + Copy + Send + Sync + Default + PartialOrd + Into<f64> {
    fn of(value: f64) -> Self;
    /// Returns the distance of two coordinates in multiples of `size`, rounded.
    fn steps(from: Self, to: Self, size: Self) -> f64;
    /// Returns the cell of a coordinate, saturated to i64; `None` for NaN and infinities.
    fn cell(self, least: Self, size: Self) -> Option<i64>;
}

macro_rules! coordinate {
    ($float:ty) => {
        impl Coordinate for $float {
            fn of(value: f64) -> Self {
                value as $float
            }
            fn steps(from: Self, to: Self, size: Self) -> f64 {
                f64::from((to - from) / size).round()
            }
            fn cell(self, least: Self, size: Self) -> Option<i64> {
                let place = ((self - least) / size).floor();
                // `as` saturates.
                self.is_finite().then_some(place as i64)
            }
        }
    };
}
coordinate!(f32);
coordinate!(f64);

/// The grid of cells.
#[derive(Clone, Copy)]
struct Grid<T> {
    size: [T; 3],
    least: [T; 3],
    /// The number of cells on each axis; `None` without a range.
    cells: Option<[i64; 3]>,
}

impl<T: Coordinate> Grid<T> {
    fn of(size: [f64; 3], range: Option<[f64; 6]>) -> PyResult<Self> {
        let given = size;
        let size = size.map(T::of);
        if !size.iter().all(|size| *size > T::default() && *size < T::of(f64::INFINITY)) {
            return Err(PyValueError::new_err(format!("size is {given:?}: pass lengths above 0")));
        }
        let Some(range) = range.map(|range| range.map(T::of)) else {
            return Ok(Grid { size, least: [T::default(); 3], cells: None });
        };
        let mut cells = [0; 3];
        for axis in 0..3 {
            let count = T::steps(range[axis], range[3 + axis], size[axis]);
            if !(count >= 1.0 && count <= (1_u32 << BITS) as f64) {
                let text = format!(
                    "range and size result in {count} cells on an axis: pass a range (x, y, z, x, y, z) of 1 to 2^21 cells"
                );
                return Err(PyValueError::new_err(text));
            }
            cells[axis] = count as i64;
        }
        Ok(Grid { size, least: [range[0], range[1], range[2]], cells: Some(cells) })
    }

    #[cfg(feature = "opencl")]
    fn on_gpu(&self) -> koel::opencl::cuda::Grid {
        koel::opencl::cuda::Grid {
            size: self.size.map(Into::into),
            least: self.least.map(Into::into),
            cells: self.cells,
        }
    }

    /// Returns the key of a point's cell, or [`OUTSIDE`]; `None` if the cell is too far from 0 for a key.
    fn key(&self, point: &[T]) -> Option<u64> {
        let mut key = 0;
        for axis in (0..3).rev() {
            let place = point[axis].cell(self.least[axis], self.size[axis]);
            let place = match (self.cells, place) {
                (Some(cells), Some(place)) if (0..cells[axis]).contains(&place) => place,
                (None, Some(place)) if (-COORDINATE_LIMIT..COORDINATE_LIMIT).contains(&place) => {
                    place + COORDINATE_LIMIT
                }
                (None, Some(_)) => return None,
                _ => return Some(OUTSIDE),
            };
            key = key << BITS | place as u64;
        }
        Some(key)
    }

    /// Returns the coordinates of a key's cell, as z, y, x.
    fn places(&self, key: u64) -> [i32; 3] {
        let from = if self.cells.is_some() { 0 } else { COORDINATE_LIMIT };
        let place = |axis: u32| ((key >> (axis * BITS) & ((1 << BITS) - 1)) as i64 - from) as i32;
        [place(2), place(1), place(0)]
    }
}

/// Reads an argument of `COUNT` numbers. If `COUNT` is 3, a single number is used for all three.
fn numbers<const COUNT: usize>(name: &str, given: &Bound<'_, PyAny>, what: &str) -> PyResult<[f64; COUNT]> {
    if COUNT == 3
        && given.len().is_err()
        && let Ok(one) = given.extract::<f64>()
    {
        return Ok([one; COUNT]);
    }
    // The argument may be an array, or a tensor on the CPU.
    let array = arrays::array(name, given)?;
    let items = array.as_ref().map_or(given, |array| array.as_any());
    let numbers = items.try_iter().and_then(|items| items.map(|item| item?.extract()).collect::<PyResult<Vec<f64>>>());
    let wrong = PyTypeError::new_err(format!("{name} is a {}: pass {what}", given.get_type().name()?));
    numbers.ok().and_then(|numbers| numbers.try_into().ok()).ok_or(wrong)
}

/// The result of [`voxelize`].
struct Voxels<T> {
    points: Vec<T>,
    places: Vec<i32>,
    counts: Vec<i32>,
}

/// Groups points by voxel, like mmcv's deterministic voxelization.
///
/// Args:
///     points: an array of N points by C >= 3 numbers, float32 or float64. The first three
///         numbers of a point are x, y, z.
///     size: the size of a voxel along x, y, z, or one number for all axes.
///     max_points: the maximum number of points per voxel. Further points are dropped.
///     max_voxels: the maximum number of voxels. Further voxels are dropped. -1 for all.
///     range: (x, y, z, x, y, z), the minimum corner and the maximum corner. Points outside are
///         dropped. Without a range, voxel coordinates start at the origin and may be up to
///         2^20 voxels from it in each direction. Points with a NaN or an infinity are always
///         dropped. `range` and `size` are converted to the precision of the points.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// Returns:
///     The points of each voxel, of shape (M, max_points, C), padded with zeros; the coordinates
///     of the voxels as z, y, x, of shape (M, 3) and dtype int32; the number of points of each
///     voxel, of shape (M,) and dtype int32. For points in CUDA memory, these are `koel.Array`s
///     on the same GPU.
///
/// >>> import koel, numpy as np
/// >>> points = np.array([[0.1, 0, 0, 7], [5, 0, 0, 8], [0.2, 0, 0, 9]], np.float32)
/// >>> voxels, places, counts = koel.voxelize(points, (1, 1, 1), 2, 100)
/// >>> voxels[0, :, 3], places[1], counts
/// (array([7., 9.], dtype=float32), array([0, 0, 5], dtype=int32), array([2, 1], dtype=int32))
#[pyfunction]
#[pyo3(signature = (points, size, max_points, max_voxels, *, range=None, device="auto"))]
pub(crate) fn voxelize<'py>(
    points: &Bound<'py, PyAny>,
    size: &Bound<'py, PyAny>,
    max_points: i64,
    max_voxels: i64,
    range: Option<&Bound<'py, PyAny>>,
    device: &str,
) -> PyResult<Bound<'py, PyTuple>> {
    let size = numbers("size", size, "one length or three, for x, y, z")?;
    let range =
        range.map(|range| numbers("range", range, "six numbers, the minimum x, y, z and the maximum")).transpose()?;
    if max_points < 1 || max_voxels == 0 || max_voxels < -1 {
        return Err(PyValueError::new_err("max_points and max_voxels must be 1 or more (max_voxels: or -1 for all)"));
    }
    let [max_points, most] = [max_points, max_voxels].map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    #[cfg(feature = "opencl")]
    {
        let grid = |is_double: bool| match is_double {
            true => Ok(Grid::<f64>::of(size, range)?.on_gpu()),
            false => Ok(Grid::<f32>::of(size, range)?.on_gpu()),
        };
        if let Some(results) = crate::cuda::voxelize(points, grid, max_points, most, device)? {
            return PyTuple::new(points.py(), results);
        }
    }
    if let Some(array) = matrix("points", points)? {
        if let Ok(points) = array.extract::<PyReadonlyArray2<'_, f32>>() {
            return of_points(&points, Grid::of(size, range)?, max_points, most, device);
        }
        if let Ok(points) = array.extract::<PyReadonlyArray2<'_, f64>>() {
            return of_points(&points, Grid::of(size, range)?, max_points, most, device);
        }
    }
    let advice = "pass an array of N by C numbers, such as numpy.asarray(points, numpy.float32) or numpy.float64";
    Err(PyTypeError::new_err(format!("points is {}: {advice}", shown(points)?)))
}

/// Converts an argument to a NumPy array, as [`arrays::array`]. Rejects masked arrays.
fn matrix<'py>(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyUntypedArray>>> {
    refuse_masked(name, given)?;
    arrays::array(name, given)
}

/// Describes the type of an object, with the dtype and shape of an array.
fn shown(given: &Bound<'_, PyAny>) -> PyResult<String> {
    let of = given.get_type();
    Ok(match (given.getattr_opt("dtype")?, given.getattr_opt("shape")?) {
        (Some(dtype), Some(shape)) => format!("a {} of dtype {dtype} and shape {shape}", of.name()?),
        _ => format!("a {}", of.name()?),
    })
}

fn of_points<'py, T: Coordinate>(
    given: &PyReadonlyArray2<'py, T>,
    grid: Grid<T>,
    max_points: usize,
    max_voxels: usize,
    device: &str,
) -> PyResult<Bound<'py, PyTuple>> {
    let py = given.py();
    let width = given.shape()[1];
    if width < 3 {
        return Err(PyValueError::new_err(format!("points have {width} numbers each and need x, y, z at least")));
    }
    let copy;
    // `as_slice` also accepts arrays in Fortran order, which need a copy.
    let points = match given.as_slice().ok().filter(|_| given.is_c_contiguous()) {
        Some(points) => points,
        None => {
            copy = given.to_owned_array().into_iter().collect::<Vec<T>>();
            &copy
        }
    };
    let open = || device_of(device, points.len() / width);
    let voxels = detached_on(py, open, |device, _| voxels_of(points, width, grid, max_points, max_voxels, &device))?;
    let count = voxels.counts.len();
    let points = PyArray1::from_vec(py, voxels.points).reshape([count, max_points, width])?;
    let places = PyArray1::from_vec(py, voxels.places).reshape([count, 3])?;
    PyTuple::new(py, [points.into_any(), places.into_any(), PyArray1::from_vec(py, voxels.counts).into_any()])
}

fn voxels_of<T: Coordinate>(
    points: &[T],
    width: usize,
    grid: Grid<T>,
    max_points: usize,
    max_voxels: usize,
    device: &Any,
) -> Result<Voxels<T>> {
    let (requested, most) = ((points.len() / width) as u64, u32::MAX.into());
    if requested > most {
        return Err(koel::Error::TooLarge { what: "points", requested, most }.into());
    }
    memory::check_rows(points.len() / width, 0)?;
    let rows = points.par_chunks_exact(width).with_min_len(CHUNK);
    let keys: Option<Vec<u64>> = rows.map(|point| grid.key(point)).collect();
    let keys = keys.ok_or_else(|| {
        PyValueError::new_err(
            "a point is more than 2^20 voxels from 0: pass a range, larger voxels, or points nearer to 0",
        )
    })?;
    let (cells, ids) = group::wide::factorize(device, &keys, IdOrder::FirstSeen)?;
    // The points without a cell have an id too, which is skipped in the numbers of voxels.
    let outside = cells.iter().position(|&cell| cell == OUTSIDE);
    let number = |id: u32| {
        let id = id as usize;
        id - usize::from(outside.is_some_and(|outside| outside < id))
    };
    let voxels: Vec<u64> = cells.iter().copied().filter(|&cell| cell != OUTSIDE).take(max_voxels).collect();
    let size = voxels.len().checked_mul(max_points).and_then(|size| size.checked_mul(width));
    let out_of_memory =
        || PyMemoryError::new_err(format!("{} voxels of {max_points} points do not fit: pass fewer", voxels.len()));
    let size = size.ok_or_else(out_of_memory)?;
    let mut kept = Vec::new();
    kept.try_reserve_exact(size).map_err(|_| out_of_memory())?;
    kept.resize(size, T::default());
    let mut counts = vec![0_i32; voxels.len()];
    for (&id, point) in ids.iter().zip(points.chunks_exact(width)) {
        if Some(id as usize) == outside {
            continue;
        }
        let voxel = number(id);
        if let Some(count) = counts.get_mut(voxel)
            && (*count as usize) < max_points
        {
            let at = (voxel * max_points + *count as usize) * width;
            kept[at..at + width].copy_from_slice(point);
            *count += 1;
        }
    }
    let places = voxels.iter().flat_map(|&voxel| grid.places(voxel)).collect();
    Ok(Voxels { points: kept, places, counts })
}

/// Finds the neighbours of each voxel: the kernel map of a sparse convolution.
///
/// Args:
///     places: the coordinates of M voxels as z, y, x, of shape (M, 3), without duplicates, as
///         `voxelize` returns them.
///     kernel: the width of the kernel in voxels along each axis; odd, at most 15.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// Returns:
///     An int32 array of shape (M, kernel^3): for each voxel and each offset, the number of the
///     voxel there, or -1 if there is none. The offset along x changes fastest. The middle
///     column is the voxel itself. For places in CUDA memory, the result is a `koel.Array` on
///     the same GPU.
///
/// >>> import koel, numpy as np
/// >>> koel.neighbours(np.array([[0, 0, 0], [0, 0, 1]], np.int32))[:, 12:15]
/// array([[-1,  0,  1],
///        [ 0,  1, -1]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (places, kernel=3, *, device="auto"))]
pub(crate) fn neighbours<'py>(places: &Bound<'py, PyAny>, kernel: u32, device: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = places.py();
    if kernel.is_multiple_of(2) || kernel > 15 {
        return Err(PyValueError::new_err(format!("kernel is {kernel}: pass an odd number up to 15")));
    }
    #[cfg(feature = "opencl")]
    if let Some(result) = crate::cuda::neighbours(places, kernel, device)? {
        return Ok(Bound::new(py, result)?.into_any());
    }
    let array = matrix("places", places)?;
    let narrow = array.as_ref().and_then(|array| array.extract::<PyReadonlyArray2<'_, i32>>().ok());
    let wide = array.as_ref().and_then(|array| array.extract::<PyReadonlyArray2<'_, i64>>().ok());
    let Some(places) =
        narrow.map(|places| places.to_owned_array().mapv(i64::from)).or(wide.map(|places| places.to_owned_array()))
    else {
        let advice = "pass an array of M by 3 integers along z, y, x, such as numpy.asarray(places, numpy.int32)";
        return Err(PyTypeError::new_err(format!("places is {}: {advice}", shown(places)?)));
    };
    if places.ncols() != 3 {
        return Err(PyValueError::new_err(format!(
            "places have {} numbers each and voxels have 3: z, y, x",
            places.ncols()
        )));
    }
    let (count, columns) = (places.nrows(), kernel.pow(3) as usize);
    let places: Vec<i64> = places.into_iter().collect();
    let open = || device_of(device, places.len() / 3);
    let rows = detached_on(py, open, |device, stop| neighbours_of(&places, i64::from(kernel / 2), &device, stop))?;
    Ok(PyArray1::from_vec(py, rows).reshape([count, columns])?.into_any())
}

/// Returns the key of the place at `offset` from `place`; `None` if it is too far from 0.
fn key(place: &[i64], offset: [i64; 3]) -> Option<u64> {
    let mut key = 0;
    for (&place, offset) in place.iter().zip(offset) {
        let place = place.checked_add(offset)?;
        if !(-COORDINATE_LIMIT..COORDINATE_LIMIT).contains(&place) {
            return None;
        }
        key = key << BITS | (place + COORDINATE_LIMIT) as u64;
    }
    Some(key)
}

fn neighbours_of(places: &[i64], reach: i64, device: &Any, stop: &Stop) -> Result<Vec<i32>> {
    memory::check_rows(places.len() / 3, 0)?;
    let voxels = places.par_chunks_exact(3).with_min_len(CHUNK);
    let keys: Option<Vec<u64>> = voxels.clone().map(|place| key(place, [0; 3])).collect();
    let keys = keys.ok_or_else(|| PyValueError::new_err("places must be from -2^20 to 2^20 - 1"))?;
    if keys.len() > i32::MAX as usize {
        return Err(
            koel::Error::TooLarge { what: "voxels", requested: keys.len() as u64, most: i32::MAX as u64 }.into()
        );
    }
    let index = group::FirstRows::build(device, &keys)?;
    if index.distinct_len() < keys.len() {
        return Err(PyValueError::new_err("a voxel occurs more than once: pass each place once (koel.unique)").into());
    }
    let columns = (2 * reach + 1).pow(3) as usize;
    let size = keys.len().checked_mul(columns);
    let mut all = Vec::new();
    let out_of_memory =
        || PyMemoryError::new_err(format!("{} voxels have too many neighbours: pass fewer", keys.len()));
    all.try_reserve_exact(size.ok_or_else(out_of_memory)?).map_err(|_| out_of_memory())?;
    all.resize(keys.len() * columns, -1);
    let offsets = (-reach..=reach).flat_map(|z| (-reach..=reach).map(move |y| (z, y)));
    let offsets = offsets.flat_map(|(z, y)| (-reach..=reach).map(move |x| [z, y, x]));
    for (column, offset) in offsets.enumerate() {
        let requested: Vec<u64> = voxels.clone().map(|place| key(place, offset).unwrap_or(OUTSIDE)).collect();
        let found = index.find(&requested)?;
        for (row, found) in found.into_iter().enumerate().filter(|&(_, found)| found != NO_ROW) {
            all[row * columns + column] = found as i32;
        }
        stop.check()?;
    }
    Ok(all)
}
