//! Voxels as a picture: cubes on a floor, seen obliquely from above by parallel rays, with light and shadow.
//!
//! ```text
//! light    each cell of a shadow map: how near to the light the nearest face is; points farther away are in shadow
//! eye      each pixel: the nearest face, in the colour of its cube, lit by its direction, darker in corners and shadow
//! shrink   four pixels become one, so that edges are smooth
//! ```

use super::{Colour, Picture};

type Vector = [f32; 3];

/// The cell of a voxel, and its colour.
pub(crate) type Cube = ([u32; 3], [u8; 3]);

pub(crate) const FLOOR: Colour = [246, 245, 242, 255];

/// The length of the longer side of a finished picture, in pixels.
const SIDE: f32 = 960.0;
/// The number of pixels per side that are shrunk to one.
const SHRINK: u32 = 2;
/// The maximum number of shadow-map cells per side of a voxel; large grids have fewer.
const SHADOWS: f32 = 4.0;

/// The positions of eye and light, for cubes of one grid.
pub(crate) struct Scene {
    grid: u32,
    /// The axis that goes up, and the height of the floor on it.
    up: usize,
    floor: f32,
    eye: View,
    light: View,
}

impl Scene {
    /// A scene that contains these cubes, in a grid of `grid` cells along each side.
    pub(crate) fn of(cubes: &[Cube], grid: u32, up: usize) -> Scene {
        let floor = cubes.iter().map(|(cell, _)| cell[up]).min().unwrap_or(0) as f32;
        // The components along the axis that goes up, and along the two axes after it.
        let along = |parts: Vector| -> Vector { std::array::from_fn(|axis| parts[(axis + 3 - up) % 3]) };
        let (eye, light) = (along([0.62, 0.6, 0.5]), along([0.85, 0.22, 0.5]));
        let eye = View::of(cubes, eye, up, |extent| SHRINK as f32 * SIDE / extent);
        let light = View::of(cubes, light, up, |extent| SHADOWS.min(2.0 * SIDE / extent));
        Scene { grid, up, floor, eye, light }
    }

    /// Draws the cubes, on the floor or on nothing (with opacity 0).
    pub(crate) fn draw(&self, cubes: &[Cube], on_floor: bool) -> Picture {
        let solid = Solid::of(cubes, self.grid);
        let mut shadows = vec![f32::NEG_INFINITY; self.light.pixels()];
        for (cell, _) in cubes {
            for axis in 0..3 {
                self.light.face(&solid, *cell, axis, |at, depth, _| shadows[at] = shadows[at].max(depth));
            }
        }
        let lit = |point: Vector| self.lit(&shadows, point);

        let mut nearest = vec![f32::NEG_INFINITY; self.eye.pixels()];
        let mut pixels = vec![if on_floor { FLOOR } else { [FLOOR[0], FLOOR[1], FLOOR[2], 0] }; self.eye.pixels()];
        for &(cell, colour) in cubes {
            for axis in 0..3 {
                let corners = solid.corners(cell, axis);
                let facing = self.light.toward[axis].max(0.0);
                self.eye.face(&solid, cell, axis, |at, depth, [u, v]| {
                    if depth <= nearest[at] {
                        return;
                    }
                    nearest[at] = depth;
                    let mut point = cell.map(|at| at as f32);
                    // Slightly in front of the face, so that it is not in its own shadow.
                    point[axis] += 1.4;
                    (point[(axis + 1) % 3], point[(axis + 2) % 3]) =
                        (point[(axis + 1) % 3] + u, point[(axis + 2) % 3] + v);
                    let low = corners[0] + u * (corners[1] - corners[0]);
                    let open = low + v * (corners[2] + u * (corners[3] - corners[2]) - low);
                    let light = open * (0.42 + 0.75 * facing * lit(point));
                    let shade = |part: u8| (f32::from(part) * light).min(255.0) as u8;
                    pixels[at] = [shade(colour[0]), shade(colour[1]), shade(colour[2]), 255];
                });
            }
        }
        if on_floor {
            for (at, pixel) in pixels.iter_mut().enumerate().filter(|&(at, _)| nearest[at] == f32::NEG_INFINITY) {
                let light = 0.76 + 0.24 * lit(self.eye.on_floor(at, self.up, self.floor));
                *pixel = FLOOR.map(|part| (f32::from(part) * light) as u8);
                pixel[3] = 255;
            }
        }
        let (width, height) = (self.eye.width as u32, self.eye.height as u32);
        Picture { width, height, pixels }.shrunk(SHRINK)
    }

    /// The share of the light that reaches a point, by the nine cells of the map around it.
    fn lit(&self, shadows: &[f32], point: Vector) -> f32 {
        let ([x, y], depth) = self.light.seen(point);
        let mut lit = 0.0;
        for (dx, dy) in (0..9).map(|i| (i % 3 - 1, i / 3 - 1)) {
            let at = self.light.index(x as i32 + dx, y as i32 + dy);
            lit += if at.is_some_and(|at| shadows[at] > depth) { 0.0 } else { 1.0 / 9.0 };
        }
        lit
    }
}

/// Which cells contain a voxel, with a bit for each.
struct Solid {
    grid: u32,
    words: Vec<u64>,
}

impl Solid {
    fn of(cubes: &[Cube], grid: u32) -> Solid {
        let mut solid = Solid { grid, words: vec![0; (grid as usize).pow(3).div_ceil(64)] };
        for &(cell, _) in cubes {
            if let Some(at) = solid.number(cell.map(|at| at as i32)) {
                solid.words[at / 64] |= 1 << (at % 64);
            }
        }
        solid
    }

    fn number(&self, cell: [i32; 3]) -> Option<usize> {
        let inside = cell.iter().all(|at| (0..self.grid as i32).contains(at));
        inside.then(|| cell.iter().rev().fold(0, |number, &at| number * self.grid as usize + at as usize))
    }

    fn has(&self, cell: [i32; 3]) -> bool {
        self.number(cell).is_some_and(|at| self.words[at / 64] >> (at % 64) & 1 == 1)
    }

    /// How open the four corners of a face are: each has three cells in front of it that may cover the sky.
    fn corners(&self, cell: [u32; 3], axis: usize) -> [f32; 4] {
        let beside = |u: i32, v: i32| {
            let mut cell = cell.map(|at| at as i32);
            cell[axis] += 1;
            cell[(axis + 1) % 3] += u;
            cell[(axis + 2) % 3] += v;
            self.has(cell)
        };
        [[-1, -1], [1, -1], [-1, 1], [1, 1]].map(|[u, v]| match (beside(u, 0), beside(0, v), beside(u, v)) {
            (true, true, _) => 0.55,
            (one, other, corner) => 1.0 - 0.15 * (u8::from(one) + u8::from(other) + u8::from(corner)) as f32,
        })
    }
}

/// Parallel rays, and pixels across them.
struct View {
    right: Vector,
    down: Vector,
    /// The direction against the rays: greater is nearer.
    toward: Vector,
    /// Pixels per side of a cell.
    scale: f32,
    /// The coordinates of the pixel 0, 0.
    origin: [f32; 2],
    width: usize,
    height: usize,
}

impl View {
    /// A view of cubes from a direction whose components are all positive, so that the upper faces are visible.
    fn of(cubes: &[Cube], toward: Vector, up: usize, scale: impl Fn(f32) -> f32) -> View {
        let mut vertical = [0.0; 3];
        vertical[up] = 1.0;
        let toward = unit(toward);
        let right = unit(cross(vertical, toward));
        let down = cross(right, toward);
        let (mut low, mut high) = ([f32::INFINITY; 2], [f32::NEG_INFINITY; 2]);
        for (cell, _) in cubes {
            let middle = cell.map(|at| at as f32 + 0.5);
            for (side, axis) in [right, down].into_iter().enumerate() {
                (low[side], high[side]) = (low[side].min(dot(middle, axis)), high[side].max(dot(middle, axis)));
            }
        }
        // Space for the extent of cubes around their middles, and for shadows.
        let around = 1.0 + 0.1 * (high[0] - low[0]).max(high[1] - low[1]).max(0.0);
        let [wide, tall] = [0, 1].map(|side| (high[side] - low[side]).max(0.0) + 2.0 * around);
        let scale = scale(wide.max(tall));
        let [width, height] = [wide, tall].map(|extent| (extent * scale).ceil() as usize);
        let origin = low.map(|low| if low.is_finite() { low - around } else { 0.0 });
        View { right, down, toward, scale, origin, width, height }
    }

    fn pixels(&self) -> usize {
        self.width * self.height
    }

    fn index(&self, x: i32, y: i32) -> Option<usize> {
        let inside = (0..self.width as i32).contains(&x) && (0..self.height as i32).contains(&y);
        inside.then(|| y as usize * self.width + x as usize)
    }

    /// The pixel of a point, and its nearness.
    fn seen(&self, point: Vector) -> ([f32; 2], f32) {
        let place = |axis: Vector, side: usize| (dot(point, axis) - self.origin[side]) * self.scale;
        ([place(self.right, 0), place(self.down, 1)], dot(point, self.toward))
    }

    /// The point of the floor that a pixel shows.
    fn on_floor(&self, at: usize, up: usize, floor: f32) -> Vector {
        let [x, y] = [(at % self.width, 0), (at / self.width, 1)]
            .map(|(at, side)| (at as f32 + 0.5) / self.scale + self.origin[side]);
        let point: Vector = std::array::from_fn(|axis| x * self.right[axis] + y * self.down[axis]);
        let back = (point[up] - floor) / self.toward[up];
        std::array::from_fn(|axis| point[axis] - back * self.toward[axis])
    }

    /// Paints the upper face of a cube on one axis, if no other cube covers it: the index of the pixel, its nearness,
    /// and its position in the face.
    fn face(&self, solid: &Solid, cell: [u32; 3], axis: usize, mut paint: impl FnMut(usize, f32, [f32; 2])) {
        let mut before = cell.map(|at| at as i32);
        before[axis] += 1;
        if solid.has(before) {
            return;
        }
        let ([x, y], depth) = self.seen(before.map(|at| at as f32));
        let [u, v] = [(axis + 1) % 3, (axis + 2) % 3]
            .map(|side| [self.right[side] * self.scale, self.down[side] * self.scale, self.toward[side]]);
        let area = u[0] * v[1] - u[1] * v[0];
        let span = |from: f32, u: f32, v: f32| {
            let (low, high) = (from + u.min(0.0) + v.min(0.0), from + u.max(0.0) + v.max(0.0));
            low.floor() as i32..=high.ceil() as i32
        };
        for row in span(y, u[1], v[1]) {
            for column in span(x, u[0], v[0]) {
                let (dx, dy) = (column as f32 + 0.5 - x, row as f32 + 0.5 - y);
                let place = [(dx * v[1] - dy * v[0]) / area, (dy * u[0] - dx * u[1]) / area];
                if place.iter().all(|part| (-1e-4..=1.0001).contains(part))
                    && let Some(at) = self.index(column, row)
                {
                    paint(at, depth + place[0] * u[2] + place[1] * v[2], place);
                }
            }
        }
    }
}

fn dot(a: Vector, b: Vector) -> f32 {
    (0..3).map(|axis| a[axis] * b[axis]).sum()
}

fn cross(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3])
}

fn unit(a: Vector) -> Vector {
    let length = dot(a, a).sqrt();
    a.map(|part| part / length)
}
