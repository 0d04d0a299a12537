//! Voxels of points in device memory, and their neighbours: the host side of cl/voxels.cl.
//!
//! ```text
//! voxels:      keys = cells of points;   (cells, ids) = factorize(keys that are inside), by first occurrence
//!              rows = the rows of these keys, sorted by id; the points of voxel v begin at starts[v]
//! neighbours:  an index of the keys of all places, and a lookup of the keys around each place
//! ```
//!
//! The sort is stable, so the points of a voxel keep the order of the input.

use ocl::prm::{Double4, Long4};

use crate::IdOrder;
use crate::backend::{DeviceBuffer as _, HashBackend as _, Relational as _, Word, bitmap_words};
use crate::error::{Error, Result};
use crate::group::{self, FirstRows};
use crate::opencl::runtime::program::VOXELS;
use crate::opencl::{Buffer, OpenCl};

/// The greatest distance from 0 of unbounded places, on each axis.
const FAR: i64 = 1 << 20;
/// The maximum number of neighbour queries that are looked up at once.
const PIECE: usize = 1 << 25;

/// A matrix in device memory, in row-major or column-major order.
pub struct Matrix<'a, W: Word> {
    /// The items: floats or integers, given as bits.
    pub items: &'a Buffer<W>,
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub columns: usize,
    /// The distance in items from one row to the next.
    pub row_step: usize,
    /// The distance in items from one column to the next.
    pub column_step: usize,
}

impl<W: Word> std::fmt::Debug for Matrix<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matrix").field("rows", &self.rows).field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// A grid of cells. Sizes and bounds have the precision of the points.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// The lengths of a cell on the three axes.
    pub size: [f64; 3],
    /// The least corner of the grid.
    pub least: [f64; 3],
    /// The number of cells on each axis, at most 2^21; `None` if the grid is unbounded.
    pub cells: Option<[i64; 3]>,
}

/// The cells that have points, in the order of their first points.
#[derive(Debug)]
pub struct Voxels {
    device: OpenCl,
    cells: Buffer<u64>,
    /// The start of the rows of each cell.
    starts: Buffer<u32>,
    /// The rows of points, by cell.
    rows: Buffer<u32>,
    len: usize,
    /// The least coordinate of a key's place, negated.
    from: i64,
}

impl<W: Word> Matrix<'_, W> {
    /// Returns an error if an item is not in the buffer.
    fn check(&self, columns: usize) -> Result<()> {
        Error::check_rows("rows", self.rows)?;
        if self.columns < columns {
            let (found, expected) = (self.columns as u64, columns as u64);
            return Err(Error::LengthMismatch { what: "the columns", found, expected });
        }
        if self.rows == 0 {
            return Ok(());
        }
        let span = |steps: usize, step: usize| (steps - 1).checked_mul(step);
        let last = span(self.rows, self.row_step).zip(span(self.columns, self.column_step));
        match last.and_then(|(row, column)| row.checked_add(column)) {
            Some(last) if last < self.items.len() => Ok(()),
            _ => Err(Error::parameter("row_step", self.row_step, "give steps within the buffer")),
        }
    }

    fn program(&self, device: &OpenCl) -> Result<ocl::core::Program> {
        device.program(VOXELS, &[("BITS", W::BITS)])
    }
}

impl Voxels {
    /// The voxels of points whose first three columns are x, y and z; `W` holds the bits of a float. Returns at most
    /// `most` voxels. Points outside of the grid are skipped, and so are points with a NaN or an infinity.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if the grid is unbounded and a point is too far from 0; [`Error::OutOfMemory`], or
    /// what the device reports.
    pub fn of<W: Word>(device: &OpenCl, points: &Matrix<'_, W>, grid: &Grid, most: usize) -> Result<Voxels> {
        points.check(3)?;
        let (program, rows) = (points.program(device)?, points.rows);
        let (keys, too_far) = (Buffer::<u64>::allocate(device, rows)?, device.filled(1, 0_u32)?);
        let four = |[x, y, z]: [f64; 3]| Double4::new(x, y, z, 1.0);
        let [x, y, z] = grid.cells.unwrap_or_default();
        let launch = device.kernel(&program, "cells_of_points")?.buffer(points.items).value(rows as u64);
        let launch = launch.value(points.row_step as u64).value(points.column_step as u64).value(four(grid.size));
        let launch = launch.value(four(grid.least)).value(Long4::new(x, y, z, 0));
        launch.buffer(&keys).buffer(&too_far).over(rows)?;
        if device.download(&too_far)? != [0] {
            let advice = "give a range, larger voxels, or points nearer to 0";
            return Err(Error::parameter("points", "more than 2^20 voxels from 0", advice));
        }
        let bits = Buffer::<u32>::allocate(device, bitmap_words(rows))?;
        let launch = device.kernel(&program, "inside")?.buffer(&keys).value(rows as u64);
        launch.buffer(&bits).over(bitmap_words(rows))?;
        let keys = device.select(&bits, true, &keys)?;
        let rows = device.select(&bits, true, &device.iota(rows)?)?;
        let (cells, ids) = group::wide::factorize_on::<OpenCl, u64>(device, &keys, IdOrder::FirstSeen)?;
        let (ids, rows) = device.sort_pairs(&ids, &rows)?;
        let starts = device.select(&device.heads(&ids)?, true, &device.iota(ids.len())?)?;
        let (len, from) = (cells.len().min(most), if grid.cells.is_some() { 0 } else { FAR });
        Ok(Voxels { device: device.clone(), cells, starts, rows, len, from })
    }

    /// The number of voxels.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no voxels.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes the places of the voxels as z, y, x, three `i32` each.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::WrongDevice`], or what the device reports.
    pub fn places(&self, to: &mut Buffer<u32>) -> Result<()> {
        Error::check_length("the places", to.len(), 3 * self.len)?;
        let program = self.device.program(VOXELS, &[("BITS", u32::BITS)])?;
        let launch = self.device.kernel(&program, "places_of_keys")?.buffer(&self.cells).value(to.len() as u64);
        launch.value(self.from).buffer(to).over(to.len())
    }

    /// Writes the first `most` points of each voxel in the order of the input, followed by zeros, and their number.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::WrongDevice`], or what the device reports.
    pub fn points<W: Word>(
        &self,
        points: &Matrix<'_, W>,
        most: usize,
        to: &mut Buffer<W>,
        counts: &mut Buffer<u32>,
    ) -> Result<()> {
        points.check(3)?;
        Error::check_length("the counts", counts.len(), self.len)?;
        let len = self.len.saturating_mul(most).saturating_mul(points.columns);
        Error::check_length("the points", to.len(), len)?;
        let (device, program) = (&self.device, points.program(&self.device)?);
        let launch = device.kernel(&program, "points_of_voxels")?.buffer(&self.starts).value(self.starts.len() as u64);
        let launch = launch.value(self.rows.len() as u64).value(most as u64).value(self.len as u64);
        launch.buffer(counts).over(self.len)?;
        let launch = device.kernel(&program, "gather_points")?.buffer(points.items).value(points.row_step as u64);
        let launch = launch.value(points.column_step as u64).value(points.columns as u64).buffer(&self.starts);
        let launch = launch.buffer(counts).buffer(&self.rows).value(most as u64).value(len as u64);
        launch.buffer(to).over(len)
    }
}

/// Writes the number of the voxel at each of the `span`^3 cells around each place, x fastest, or -1 if there is none.
/// Places are three integers, z, y, x, and `to` has `span`^3 `i32` for each.
///
/// # Errors
/// [`Error::InvalidParameter`] if `span` is even or above 15, if a place is a duplicate, or beyond 2^20 from 0;
/// [`Error::LengthMismatch`], [`Error::WrongDevice`], [`Error::OutOfMemory`], or what the device reports.
pub fn neighbours<W: Word>(device: &OpenCl, places: &Matrix<'_, W>, span: u32, to: &mut Buffer<u32>) -> Result<()> {
    if span.is_multiple_of(2) || span > 15 {
        return Err(Error::parameter("kernel", span, "give an odd number up to 15"));
    }
    places.check(3)?;
    let (rows, cube, program) = (places.rows, span.pow(3) as usize, places.program(device)?);
    Error::check_length("the neighbours", to.len(), rows.saturating_mul(cube))?;
    let too_far = device.filled(1, 0_u32)?;
    let keys = |first: usize, rows: usize, span: u32| {
        let keys = Buffer::<u64>::allocate(device, rows * span.pow(3) as usize)?;
        let launch = device.kernel(&program, "keys_around_places")?.buffer(places.items).value(places.row_step as u64);
        let launch = launch.value(places.column_step as u64).value(first as u64).value(span);
        launch.value(keys.len() as u64).buffer(&keys).buffer(&too_far).over(keys.len())?;
        Result::Ok(keys)
    };
    let index = FirstRows::<OpenCl, u64>::build_on(device, &keys(0, rows, 1)?)?;
    if device.download(&too_far)? != [0] {
        return Err(Error::parameter("places", "beyond 2^20", "give places from -2^20 to 2^20 - 1"));
    }
    if index.distinct_len() < rows {
        return Err(Error::parameter("places", "a duplicate", "give each place once (koel.unique)"));
    }
    let step = (PIECE / cube).max(1);
    for first in (0..rows).step_by(step) {
        let found = index.find_on(&keys(first, step.min(rows - first), span)?)?;
        device.copy(&found, 0, to, first * cube, found.len())?;
    }
    Ok(())
}
