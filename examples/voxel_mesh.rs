//! The surface of a mesh as voxels in a hash table, and lookups of the six neighbours of each voxel (Garcia et al.
//! 2011, Section 4.2, "3D data"; the voxelised Lucy of Alcantara et al. 2009).
//!
//! ```sh
//! cargo run --release -p koel-examples -- voxel-mesh lucy.obj --grid 512
//! ```
//!
//! The voxels of the last table are drawn in colours by their values: `voxel_mesh.png` in `target/pictures`, or in the
//! folder given by `--out`.
//!
//! Without a mesh, the example generates a torus. The table is a Robin Hood table, with each of its two sequences, or
//! with
//! `--scheme two-level` that of Alcantara et al. 2009. Every triangle is sampled more densely than the grid, so voxels
//! are duplicated, and the table keeps the first. The value is the number of the triangle. Then every neighbour of
//! every voxel is looked up, which finds exposed faces, and the answers are compared with those of a `HashSet`.

use std::collections::HashSet;
use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use koel::backend::{HashBackend, Probe, Runs, bitmap_words};
use koel::device::{Any, choose};
use koel::layout::{Rows3, morton3, morton3_cell};
use koel::scheme::robin_hood::Sequence;
use koel::{Duplicates, Fks, HashTable, RobinHood, Scheme};
use ply_rs_bw::parser;
use ply_rs_bw::ply::{DefaultElement, Property};

use crate::picture::voxels::{Cube, Scene};
use crate::picture::{Out, hue};

/// Voxelise the surface of a mesh, and ask the six neighbours of every voxel
#[derive(clap::Args)]
pub(crate) struct Args {
    /// An OBJ or PLY file [default: a torus]
    mesh: Option<PathBuf>,
    /// Cells along each side of the grid, 8 to 1024
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=1024))]
    grid: u32,
    /// Which table holds the voxels
    #[arg(long, default_value = "robin-hood")]
    scheme: Which,
    /// Pairs per slot [default: 0.8; two-level tables 0.71]
    #[arg(long)]
    load: Option<f64>,
    /// Which axis of the mesh goes up in the picture
    #[arg(long, default_value = "z")]
    up: Axis,
    #[command(flatten)]
    out: Out,
    /// auto, cpu, opencl, opencl:N or opencl:NAME
    #[arg(long, default_value = "auto")]
    device: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    RobinHood,
    TwoLevel,
}

#[derive(Clone, Copy, ValueEnum)]
enum Axis {
    X,
    Y,
    Z,
}

type Point = [f32; 3];

struct Mesh {
    points: Vec<Point>,
    triangles: Vec<[u32; 3]>,
}

pub(crate) fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let mesh = match &args.mesh {
        Some(path) => read(path).map_err(|error| format!("{}: {error}", path.display()))?,
        None => torus(96, 48),
    };
    let (cells, triangles) = surface(&mesh, args.grid)?;
    let device = choose(&args.device, None)?.swap_remove(0);
    println!(
        "{} triangles, {} samples of the surface in a grid of {}^3, {}",
        mesh.triangles.len(),
        cells.len(),
        args.grid,
        device.info()
    );
    let rows = Rows3::new(args.grid, args.grid, args.grid)?;
    let by_rows = |[x, y, z]: [u32; 3]| rows.key(x, y, z);
    let by_morton = |[x, y, z]: [u32; 3]| morton3(x, y, z);
    let layouts = [
        Layout { name: "row-major", key_of: &by_rows, cell_of: &|key| rows.cell(key).map(|(x, y, z)| [x, y, z]) },
        Layout { name: "Morton", key_of: &by_morton, cell_of: &|key| morton3_cell(key).map(|(x, y, z)| [x, y, z]) },
    ];
    let surface = (cells, triangles);
    let mut held = Surface::default();
    match args.scheme {
        Which::RobinHood => {
            for sequence in [Sequence::Coherent, Sequence::Random] {
                let scheme = RobinHood::canonical().sequence(sequence);
                for layout in &layouts {
                    let table = (&scheme, sequence.name(), args.load.or(Some(0.8)));
                    held = explore(&device, &surface, &args, table, layout)?;
                }
            }
        }
        Which::TwoLevel => {
            for layout in &layouts {
                held = explore(&device, &surface, &args, (&Fks::canonical(), "two-level", args.load), layout)?;
            }
        }
    }
    let numbers = mesh.triangles.len() as f32;
    let colours = held.1.into_iter().map(|number| hue(number as f32 / numbers));
    let cubes: Vec<Cube> = held.0.into_iter().zip(colours).collect();
    let picture = Scene::of(&cubes, args.grid, args.up as usize).draw(&cubes, true);
    args.out.show(
        &picture,
        "voxel_mesh.png",
        "the voxels in the table, coloured by the number of the triangle, their value",
    )
}

/// Converts cells to keys, and keys to cells.
struct Layout<'a> {
    name: &'a str,
    key_of: &'a dyn Fn([u32; 3]) -> Option<u32>,
    cell_of: &'a dyn Fn(u32) -> Option<[u32; 3]>,
}

/// Builds a table of the voxels with one layout of keys, and looks up all neighbours. Returns the contents of the
/// table.
fn explore<S: Scheme<Key = u32, Value = u32>>(
    device: &Any,
    (cells, triangles): &Surface,
    args: &Args,
    (scheme, name, load): (&S, &str, Option<f64>),
    &Layout { name: layout, key_of, cell_of }: &Layout<'_>,
) -> Result<Surface, Box<dyn Error>>
where
    Any: Runs<S>,
{
    let keys: Vec<u32> = cells.iter().filter_map(|&cell| key_of(cell)).collect();
    let mut builder = HashTable::builder(scheme.clone()).duplicates(Duplicates::KeepFirst);
    if let Some(load) = load {
        builder = builder.load_factor(load);
    }
    let table = builder.build(device, &keys, triangles)?;
    // In ascending order of keys, as a grid is traversed, with the six neighbours of each voxel in turn.
    let mut voxels: Vec<u32> = table.iter()?.map(|(key, _)| key).collect();
    voxels.sort_unstable();
    let beside = |key: u32, axis: usize, step: u32| {
        let mut cell = cell_of(key)?;
        cell[axis] = cell[axis].wrapping_add(step);
        (cell[axis] < args.grid).then_some(cell).and_then(key_of)
    };
    let mut faces = Vec::new();
    for axis in 0..3 {
        for step in [1, u32::MAX] {
            faces.push(voxels.iter().filter_map(|&key| beside(key, axis, step)).collect::<Vec<u32>>());
        }
    }
    let queries = faces.concat();
    let on_device = device.upload(&queries)?;
    let mut values = device.filled(queries.len(), 0)?;
    let mut found = device.filled(bitmap_words(queries.len()), 0)?;
    table.get_on_into(&on_device, &mut values, &mut found)?;
    let ((), time) = device.timed(|| table.get_on_into(&on_device, &mut values, &mut found))?;
    let found = device.download(&found)?;
    let solid: HashSet<u32> = voxels.iter().copied().collect();
    if (0..queries.len()).any(|i| (found[i / 32] >> (i % 32) & 1 == 1) != solid.contains(&queries[i])) {
        return Err("an answer differs from that of a HashSet".into());
    }
    let joined: u32 = found.iter().map(|word| word.count_ones()).sum();
    println!(
        "{name:>9}, {layout:<9}: {} voxels at load {:.2}; {} neighbours queried in {:.3} ms, {joined} of them voxels, as a HashSet says",
        voxels.len(),
        table.load_factor(),
        queries.len(),
        1e3 * time.as_secs_f64()
    );
    Ok(table.iter()?.filter_map(|(key, number)| Some((cell_of(key)?, number))).unzip())
}

/// Voxels, and for each the triangle it was sampled from.
type Surface = (Vec<[u32; 3]>, Vec<u32>);

/// Every cell of the grid that a triangle passes through, once per sample in it, with the triangle's number. The mesh
/// is scaled to fill the grid.
fn surface(mesh: &Mesh, grid: u32) -> Result<Surface, Box<dyn Error>> {
    let (mut low, mut high) = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
    for point in &mesh.points {
        for axis in 0..3 {
            (low[axis], high[axis]) = (low[axis].min(point[axis]), high[axis].max(point[axis]));
        }
    }
    let extent = (0..3).map(|axis| high[axis] - low[axis]).fold(0.0, f32::max);
    if !(extent.is_finite() && extent > 0.0) {
        return Err("the mesh has no extent: there is nothing to voxelise".into());
    }
    let scale = (grid as f32 - 0.01) / extent;
    let place = |point: Point| -> Point { std::array::from_fn(|axis| (point[axis] - low[axis]) * scale) };
    let (mut cells, mut numbers) = (Vec::new(), Vec::new());
    for (number, corners) in (0u32..).zip(&mesh.triangles) {
        let [a, b, c] = corners.map(|i| place(mesh.points[i as usize]));
        let between = |from: Point, to: Point| -> Point { std::array::from_fn(|axis| to[axis] - from[axis]) };
        let length = |v: Point| v.iter().map(|x| x * x).sum::<f32>().sqrt();
        // At least two samples per side of a cell.
        let steps = (2.0 * length(between(a, b)).max(length(between(a, c))).max(length(between(b, c)))).ceil().max(1.0);
        let steps = steps as u32;
        let mut last = None;
        for i in 0..=steps {
            for j in 0..=steps - i {
                let (u, v) = (i as f32 / steps as f32, j as f32 / steps as f32);
                let point: Point =
                    std::array::from_fn(|axis| a[axis] + u * (b[axis] - a[axis]) + v * (c[axis] - a[axis]));
                let cell = point.map(|x| (x as u32).min(grid - 1));
                if last.replace(cell) != Some(cell) {
                    cells.push(cell);
                    numbers.push(number);
                }
            }
        }
    }
    Ok((cells, numbers))
}

/// Reads a mesh from a file, in the format of the file's extension.
fn read(path: &Path) -> Result<Mesh, Box<dyn Error>> {
    let mesh = match path.extension().and_then(|ending| ending.to_str()) {
        Some("obj") => obj(path)?,
        Some("ply") => ply(path)?,
        _ => return Err("the file is neither .obj nor .ply".into()),
    };
    let points = mesh.points.len();
    if mesh.triangles.iter().flatten().any(|&corner| corner as usize >= points) {
        return Err(format!("a face names a point beyond the {points} that there are").into());
    }
    Ok(mesh)
}

fn obj(path: &Path) -> Result<Mesh, Box<dyn Error>> {
    let (models, _) = tobj::load_obj(path, &tobj::LoadOptions { triangulate: true, ..Default::default() })?;
    let mut mesh = Mesh { points: Vec::new(), triangles: Vec::new() };
    for model in models {
        let first = mesh.points.len() as u32;
        mesh.points.extend(model.mesh.positions.as_chunks::<3>().0);
        mesh.triangles.extend(model.mesh.indices.as_chunks::<3>().0.iter().map(|corners| corners.map(|i| first + i)));
    }
    Ok(mesh)
}

fn ply(path: &Path) -> Result<Mesh, Box<dyn Error>> {
    let ply = parser::Parser::<DefaultElement>::new().read_ply(&mut BufReader::new(File::open(path)?))?;
    let element = |name: &str| ply.payload.get(name).ok_or(format!("it has no {name}"));
    let coordinate = |point: &DefaultElement, name: &str| match point.get(name) {
        Some(Property::Float(x)) => Ok(*x),
        Some(Property::Double(x)) => Ok(*x as f32),
        _ => Err(format!("a vertex has no {name}")),
    };
    let points = element("vertex")?
        .iter()
        .map(|point| Ok([coordinate(point, "x")?, coordinate(point, "y")?, coordinate(point, "z")?]))
        .collect::<Result<Vec<_>, String>>()?;
    let mut triangles = Vec::new();
    for face in element("face")? {
        let corners: Vec<u32> = match face.get("vertex_indices").or_else(|| face.get("vertex_index")) {
            Some(Property::ListInt(list)) => list.iter().map(|&i| i as u32).collect(),
            Some(Property::ListUInt(list)) => list.clone(),
            Some(Property::ListShort(list)) => list.iter().map(|&i| i as u32).collect(),
            Some(Property::ListUShort(list)) => list.iter().map(|&i| i.into()).collect(),
            Some(Property::ListUChar(list)) => list.iter().map(|&i| i.into()).collect(),
            _ => return Err("a face has no vertex_indices".into()),
        };
        // A fan, for faces of more than three corners.
        triangles.extend(corners.windows(2).skip(1).map(|pair| [corners[0], pair[0], pair[1]]));
    }
    Ok(Mesh { points, triangles })
}

/// A torus of `around` times `across` quadrangles, each cut into two triangles.
fn torus(around: u32, across: u32) -> Mesh {
    let angle = |i: u32, of: u32| i as f32 / of as f32 * std::f32::consts::TAU;
    let points = (0..around * across).map(|i| {
        let (a, b) = (angle(i / across, around), angle(i % across, across));
        let radius = 1.0 + 0.4 * b.cos();
        [radius * a.cos(), radius * a.sin(), 0.4 * b.sin()]
    });
    let corner = |i: u32, j: u32| i % around * across + j % across;
    let triangles = (0..around * across).flat_map(|at| {
        let (i, j) = (at / across, at % across);
        let [a, b, c, d] = [corner(i, j), corner(i + 1, j), corner(i + 1, j + 1), corner(i, j + 1)];
        [[a, b, c], [a, c, d]]
    });
    Mesh { points: points.collect(), triangles: triangles.collect() }
}
