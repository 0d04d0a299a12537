//! The Boolean intersection of two moving point clouds (Alcantara et al. 2011, Figure 4.1; the poster of 2009).
//!
//! Two rings rotate, drift through each other, grow and shrink. In each frame both are sampled as points, the points
//! are mapped to cells of a grid, and the cells of each ring are inserted into a hash set. Then
//!
//! ```text
//! crossing    look up each ring's cells in the other set: cells in both are where the surfaces cross
//! outside     flood fill from a corner of the grid, one wave at a time: each wave is looked up in the set of walls
//! inside      cells of one ring that the flood around the other did not reach and that are not its walls
//! ```
//!
//! The surface of the intersection is the crossing cells and the cells of each ring inside the other.
//!
//! ```sh
//! cargo run --release -p koel-examples -- intersection --grid 128 --scheme two-level
//! ```
//!
//! `intersection.png` shows the frame with the most crossing cells, in `target/pictures` or the folder given by
//! `--out`: the rings, and next to them their intersection.
//!
//! Crossings are checked with a `HashSet`, and each cell of the grid by its analytic distance from the rings.

use std::collections::HashSet;
use std::error::Error;
use std::f32::consts::TAU;
use std::time::{Duration, Instant};

use crate::picture::voxels::{Cube, FLOOR, Scene};
use crate::picture::{Out, Picture};
use clap::ValueEnum;
use koel::backend::{HashBackend, Runs};
use koel::device::{Any, choose};
use koel::layout::Rows3;
use koel::{CuckooSet, Fks, Scheme};

/// Intersect two moving rings by the cells of their surfaces
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Cells along each side of the grid, 32 to 512
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(32..=512))]
    grid: u32,
    /// Frames of the movement
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    frames: u32,
    /// Which table holds the cells
    #[arg(long, default_value = "cuckoo")]
    scheme: Which,
    #[command(flatten)]
    out: Out,
    /// auto, cpu, opencl, opencl:N or opencl:NAME
    #[arg(long, default_value = "auto")]
    device: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    /// The cuckoo set of 2011
    Cuckoo,
    /// The two-level table of 2009
    TwoLevel,
}

type Point = [f32; 3];

/// A torus, in cells of the grid.
struct Ring {
    centre: Point,
    /// Its axes; the last one passes through the hole.
    axes: [Point; 3],
    around: f32,
    across: f32,
}

/// Slightly more than half the diagonal of a cell: nearer to a surface than this, a cell may be a wall or not.
const NEAR: f32 = 0.88;

pub(crate) fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let device = choose(&args.device, None)?.swap_remove(0);
    println!("two rings in a grid of {}^3, {} frames, {}", args.grid, args.frames, device.info());
    match args.scheme {
        Which::Cuckoo => animate(&device, &args, &CuckooSet::canonical(4)),
        Which::TwoLevel => animate(&device, &args, &Fks::canonical()),
    }
}

fn animate<S: Scheme<Key = u32, Value = u32>>(device: &Any, args: &Args, scheme: &S) -> Result<(), Box<dyn Error>>
where
    Any: Runs<S>,
{
    let rows = Rows3::new(args.grid, args.grid, args.grid)?;
    let (mut met, mut best) = (0, Meeting::default());
    for frame in 0..args.frames {
        let rings = [0, 1].map(|which| Ring::of(which, frame as f32 / args.frames as f32, args.grid as f32));
        let mut building = Duration::ZERO;
        let mut models = Vec::new();
        for ring in &rings {
            let keys: Vec<u32> = ring.points().into_iter().filter_map(|point| cell(rows, point)).collect();
            let started = Instant::now();
            let walls = koel::HashSet::builder(scheme.clone()).build(device, &keys)?;
            building += started.elapsed();
            let cells = walls.to_keys()?;
            models.push((walls, cells));
        }
        let started = Instant::now();
        let met_by = |set: &koel::HashSet<Any, S>, cells: &[u32]| -> koel::Result<Vec<u32>> {
            Ok(cells.iter().zip(set.contains(cells)?).filter(|(_, hit)| *hit).map(|(&cell, _)| cell).collect())
        };
        let crossing = met_by(&models[1].0, &models[0].1)?;
        let crossing_too = met_by(&models[0].0, &models[1].1)?;
        let query_time = started.elapsed();
        let started = Instant::now();
        let outside = [flood(&models[0].0, rows)?, flood(&models[1].0, rows)?];
        let flooding = started.elapsed();
        let inside = [0, 1].map(|which| {
            let other: HashSet<u32> = crossing.iter().copied().collect();
            let is_inside = |key: &&u32| !outside[1 - which][**key as usize] && !other.contains(*key);
            models[which].1.iter().filter(is_inside).copied().collect::<Vec<u32>>()
        });
        for (ring, (outside, (_, walls))) in rings.iter().zip(outside.iter().zip(&models)) {
            check_flood(ring, outside, walls, rows)?;
        }
        check_crossing([&models[0].1, &models[1].1], [&crossing, &crossing_too])?;
        met += usize::from(!crossing.is_empty());
        println!(
            "frame {frame:>2}: {} and {} cells; {} where the surfaces cross, {} and {} inside the other; \
             built in {:.2} ms, queried in {:.2} ms, flooded in {:.1} ms",
            models[0].1.len(),
            models[1].1.len(),
            crossing.len(),
            inside[0].len(),
            inside[1].len(),
            ms(building),
            ms(query_time),
            ms(flooding)
        );
        if crossing.len() > best.crossing.len() {
            best = Meeting { surfaces: [0, 1].map(|which| std::mem::take(&mut models[which].1)), crossing, inside };
        }
    }
    println!("the rings met in {met} of {} frames; every cell is as its distance says", args.frames);
    if met == 0 {
        return Err("the rings never met".into());
    }
    let what = "the frame in which most cells cross: the rings, orange and blue, and in red where their surfaces cross; \
                beside them what they share, each part in the colour of the ring that it is of";
    args.out.show(&best.drawn(rows), "intersection.png", what)
}

/// The cells of one frame.
#[derive(Default)]
struct Meeting {
    surfaces: [Vec<u32>; 2],
    crossing: Vec<u32>,
    inside: [Vec<u32>; 2],
}

impl Meeting {
    /// Both rings, and next to them their intersection, with the rings as shadows behind it.
    fn drawn(&self, rows: Rows3) -> Picture {
        const COLOURS: [[u8; 3]; 3] = [[250, 160, 50], [70, 140, 230], [215, 40, 50]];
        let cube = |colour: [u8; 3]| move |&key: &u32| rows.cell(key).map(|(x, y, z)| ([x, y, z], colour));
        let cubes = |parts: &[Vec<u32>; 2]| -> Vec<Cube> {
            // A cell of both surfaces has only the colour of the crossing.
            let crossing: HashSet<u32> = self.crossing.iter().copied().collect();
            let parts = parts.iter().zip(COLOURS);
            let alone = parts.flat_map(|(keys, colour)| {
                keys.iter().filter(|key| !crossing.contains(key)).filter_map(cube(colour)).collect::<Vec<Cube>>()
            });
            alone.chain(self.crossing.iter().filter_map(cube(COLOURS[2]))).collect()
        };
        let (rings, shared) = (cubes(&self.surfaces), cubes(&self.inside));
        let scene = Scene::of(&rings, rows.width(), 2);
        let left = scene.draw(&rings, true);
        let right = left.faded(FLOOR, 190).under(&scene.draw(&shared, false));
        let mut both = Picture::from_fn(2 * left.width, left.height, |_, _| FLOOR);
        both.put(&left, 0, 0);
        both.put(&right, left.width, 0);
        both
    }
}

impl Ring {
    /// The position of one of the rings, at a time from 0 to 1.
    fn of(which: u32, time: f32, grid: f32) -> Ring {
        let angle = TAU * (time + 0.1);
        let side = if which == 0 { 1.0 } else { -1.0 };
        let (sin, cos) = (angle.sin(), angle.cos());
        // One ring is horizontal and tips, the other is vertical and rotates.
        let axes = if which == 0 {
            [[1.0, 0.0, 0.0], [0.0, cos, sin], [0.0, -sin, cos]]
        } else {
            [[cos, 0.0, sin], [0.0, 1.0, 0.0], [-sin, 0.0, cos]]
        };
        let drift = 0.1 * grid * cos * side;
        Ring {
            centre: [0.5 * grid + drift, 0.5 * grid, 0.5 * grid - 0.3 * drift],
            axes,
            around: grid * (0.24 + 0.02 * sin * side),
            across: grid * (0.08 + 0.01 * cos),
        }
    }

    /// Points of its surface, such that every point of the surface is within half a cell of one of them.
    fn points(&self) -> Vec<Point> {
        let steps = |radius: f32| (2.0 * TAU * radius).ceil() as u32;
        let (around, across) = (steps(self.around + self.across), steps(self.across));
        let angle = |i: u32, of: u32| TAU * i as f32 / of as f32;
        let point = |i: u32| {
            let (a, b) = (angle(i / across, around), angle(i % across, across));
            let out = self.around + self.across * b.cos();
            let own = [out * a.cos(), out * a.sin(), self.across * b.sin()];
            std::array::from_fn(|at| self.centre[at] + (0..3).map(|axis| own[axis] * self.axes[axis][at]).sum::<f32>())
        };
        (0..around * across).map(point).collect()
    }

    /// The distance of a point from the surface, in cells; negative inside.
    fn distance(&self, point: Point) -> f32 {
        let from: Point = std::array::from_fn(|at| point[at] - self.centre[at]);
        let own = self.axes.map(|axis| (0..3).map(|at| axis[at] * from[at]).sum::<f32>());
        (own[0].hypot(own[1]) - self.around).hypot(own[2]) - self.across
    }
}

/// The key of the cell that contains a point.
fn cell(rows: Rows3, point: Point) -> Option<u32> {
    let [x, y, z] = point.map(|at| at as u32);
    rows.key(x, y, z)
}

/// The cells that are reachable from a corner, through faces of cells, without passing a wall.
fn flood<S: Scheme<Key = u32, Value = u32>>(walls: &koel::HashSet<Any, S>, rows: Rows3) -> koel::Result<Vec<bool>>
where
    Any: Runs<S>,
{
    let mut reached = vec![false; rows.cells() as usize];
    let mut queried = reached.clone();
    let mut wave = vec![0u32];
    queried[0] = true;
    while !wave.is_empty() {
        let answers = walls.contains(&wave)?;
        let mut next = Vec::new();
        for (&key, _) in wave.iter().zip(answers).filter(|(_, wall)| !wall) {
            reached[key as usize] = true;
            for key in beside(rows, key) {
                if !std::mem::replace(&mut queried[key as usize], true) {
                    next.push(key);
                }
            }
        }
        wave = next;
    }
    Ok(reached)
}

/// The cells that share a face with this one.
fn beside(rows: Rows3, key: u32) -> impl Iterator<Item = u32> {
    const STEPS: [[i32; 3]; 6] = [[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]];
    rows.cell(key).into_iter().flat_map(move |(x, y, z)| {
        STEPS.into_iter().filter_map(move |[dx, dy, dz]| {
            let to = |at: u32, step: i32| at.checked_add_signed(step);
            rows.key(to(x, dx)?, to(y, dy)?, to(z, dz)?)
        })
    })
}

/// Checks that every cell that is not near a ring's surface is not a wall, and was reached if it is outside the ring.
fn check_flood(ring: &Ring, outside: &[bool], walls: &[u32], rows: Rows3) -> Result<(), Box<dyn Error>> {
    let walls: HashSet<u32> = walls.iter().copied().collect();
    for (key, &reached) in (0u32..).zip(outside) {
        let Some((x, y, z)) = rows.cell(key) else { return Err("a cell has no place".into()) };
        let distance = ring.distance([x, y, z].map(|at| at as f32 + 0.5));
        let wrong = match walls.contains(&key) {
            true => distance.abs() > NEAR,
            false => distance.abs() > NEAR && reached != (distance > 0.0),
        };
        if wrong {
            return Err(format!("cell {x} {y} {z} is {distance} from the ring, and reached: {reached}").into());
        }
    }
    Ok(())
}

/// Checks that both lookups find the same cells, which are those that a `HashSet` finds in both.
fn check_crossing(cells: [&[u32]; 2], found: [&[u32]; 2]) -> Result<(), Box<dyn Error>> {
    let [one, other] = cells.map(|cells| cells.iter().copied().collect::<HashSet<u32>>());
    let right: HashSet<u32> = one.intersection(&other).copied().collect();
    if found.iter().any(|found| found.len() != right.len() || !found.iter().all(|cell| right.contains(cell))) {
        return Err("the cells of both are not those that a HashSet finds".into());
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}
