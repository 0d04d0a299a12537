//! Painting on a texture that is too large to store: the table has only the pixels that a brush touched (Garcia et al.
//! 2011, Section 4.3).
//!
//! ```sh
//! cargo run --release -p koel-examples -- sparse-painting picture.png --strokes 200
//! ```
//!
//! A brush moves over a texture of 4096 x 4096 pixels and paints the colours of a picture (default: generated colours).
//! Each stroke is one batch: pixels that were painted before are updated in place, new ones are inserted, and the table
//! is rebuilt when it must grow. After each stroke a window of 1024 x 1024 pixels is drawn. At the end the table is
//! rebuilt at other loads, which trade memory for drawing time. The result is compared with a plain array of all
//! pixels.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use crate::picture::Picture;
use koel::backend::{HashBackend, Probe, bitmap_words};
use koel::device::{Any, choose};
use koel::layout::morton2;
use koel::{HashTable, RobinHood};

/// Paint a sparse texture with a brush
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A PNG file whose colours are painted [default: colours of its own]
    picture: Option<PathBuf>,
    /// Strokes of the brush
    #[arg(long, default_value_t = 60)]
    strokes: u32,
    /// Its radius, in pixels, 1 to 500
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=500))]
    radius: u32,
    /// Pairs per slot while painting
    #[arg(long, default_value_t = 0.8)]
    load: f64,
    /// auto, cpu, opencl, opencl:N or opencl:NAME
    #[arg(long, default_value = "auto")]
    device: String,
}

/// The sides of the texture and of the window.
const TEXTURE: u32 = 4096;
const WINDOW: u32 = 1024;

pub(crate) fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let picture = args.picture.as_deref().map(Picture::open).transpose()?;
    let device = choose(&args.device, None)?.swap_remove(0);
    println!("a texture of {TEXTURE} x {TEXTURE}, {} strokes, load {}, {}", args.strokes, args.load, device.info());
    let builder = |load: f64| HashTable::builder(RobinHood::canonical().max_ages(4)).load_factor(load);
    let mut table = builder(args.load).build(&device, &[], &[])?;
    let mut canvas = vec![None; (TEXTURE * TEXTURE) as usize];
    let (mut painted, mut again, mut rebuilt) = (0, 0, 0);
    let (mut painting, mut drawing) = (Duration::ZERO, Duration::ZERO);
    for stroke in 0..args.strokes {
        let (x, y) = brush(stroke);
        let batch = disc(x, y, args.radius, |x, y| colour(picture.as_ref(), stroke, x, y));
        let (keys, colours): (Vec<u32>, Vec<u32>) = batch.iter().copied().unzip();
        let (keys_there, colours_there) = (device.upload(&keys)?, device.upload(&colours)?);
        let (done, time) = device.timed(|| table.upsert_on(&keys_there, &colours_there))?;
        painting += time;
        (painted, again, rebuilt) = (painted + done.added, again + done.overwritten, rebuilt + u32::from(done.rebuilt));
        batch.into_iter().for_each(|(key, colour)| canvas[key as usize] = Some(colour));
        drawing += draw(&device, &table, x, y, &canvas)?;
    }
    let strokes = f64::from(args.strokes.max(1));
    println!(
        "{painted} pixels painted and {again} painted over in {:.3} ms a stroke; {rebuilt} times the table grew; drawn in {:.3} \
         ms a stroke, as the plain array shows it",
        1e3 * painting.as_secs_f64() / strokes,
        1e3 * drawing.as_secs_f64() / strokes
    );
    let (keys, colours): (Vec<u32>, Vec<u32>) = table.iter()?.unzip();
    let (x, y) = brush(args.strokes / 2);
    for load in [0.5, 0.8, 0.99] {
        let (keys, colours) = (device.upload(&keys)?, device.upload(&colours)?);
        let (table, build) = device.timed(|| builder(load).build_on(&device, &keys, &colours))?;
        let window = draw(&device, &table, x, y, &canvas)?;
        println!(
            "rebuilt at load {load}: {:.1} MB, built in {:.3} ms, the window drawn in {:.3} ms",
            8.0 * table.slots() as f64 / 1e6,
            1e3 * build.as_secs_f64(),
            1e3 * window.as_secs_f64()
        );
    }
    Ok(())
}

/// Looks up all pixels of the window around a point, compares them with the plain array, and returns the time of the
/// lookup.
fn draw(
    device: &Any,
    table: &HashTable<Any, RobinHood>,
    x: u32,
    y: u32,
    canvas: &[Option<u32>],
) -> Result<Duration, Box<dyn Error>> {
    let corner = |at: u32| at.saturating_sub(WINDOW / 2).min(TEXTURE - WINDOW);
    let (left, top) = (corner(x), corner(y));
    let keys: Vec<u32> = (0..WINDOW * WINDOW).map(|i| key(left + i % WINDOW, top + i / WINDOW)).collect();
    let there = device.upload(&keys)?;
    let (mut colours, mut found) = (device.filled(keys.len(), 0)?, device.filled(bitmap_words(keys.len()), 0)?);
    let ((), time) = device.timed(|| table.get_on_into(&there, &mut colours, &mut found))?;
    let (colours, found) = (device.download(&colours)?, device.download(&found)?);
    let shown = |i: usize| (found[i / 32] >> (i % 32) & 1 == 1).then_some(colours[i]);
    match (0..keys.len()).find(|&i| shown(i) != canvas[keys[i] as usize]) {
        None => Ok(time),
        Some(i) => Err(format!("pixel {} is {:?} and not {:?}", keys[i], shown(i), canvas[keys[i] as usize]).into()),
    }
}

/// In Morton order, so that neighbours in both directions are near each other in the table.
fn key(x: u32, y: u32) -> u32 {
    morton2(x as u16, y as u16)
}

/// The position of the brush at a stroke: on a curve that crosses itself, so that parts are painted again.
fn brush(stroke: u32) -> (u32, u32) {
    let (a, b) = (f64::from(stroke) * 0.13, f64::from(stroke) * 0.19 + 1.0);
    let middle = f64::from(TEXTURE) / 2.0;
    ((middle * (1.0 + 0.7 * a.sin())) as u32, (middle * (1.0 + 0.7 * b.sin())) as u32)
}

/// The pixels of a disc, with their colours.
fn disc(x: u32, y: u32, radius: u32, colour: impl Fn(u32, u32) -> u32) -> Vec<(u32, u32)> {
    let span = |at: u32| at.saturating_sub(radius)..(at + radius + 1).min(TEXTURE);
    let inside = |&(px, py): &(u32, u32)| {
        let (dx, dy) = (u64::from(px.abs_diff(x)), u64::from(py.abs_diff(y)));
        dx * dx + dy * dy <= u64::from(radius) * u64::from(radius)
    };
    let pixels = span(y).flat_map(|py| span(x).map(move |px| (px, py)));
    pixels.filter(inside).map(|(x, y)| (key(x, y), colour(x, y))).collect()
}

/// The colour of a stroke at a pixel: that of the picture, stretched over the texture, or one per stroke.
fn colour(picture: Option<&Picture>, stroke: u32, x: u32, y: u32) -> u32 {
    let along = |at: u32, of: u32| (u64::from(at) * u64::from(of) / u64::from(TEXTURE)) as u32;
    match picture {
        Some(picture) if !picture.pixels.is_empty() => {
            let (x, y) = (along(x, picture.width), along(y, picture.height));
            u32::from_le_bytes(picture.pixels[(y * picture.width + x) as usize])
        }
        _ => stroke.wrapping_mul(0x0045_d9f3) ^ (x / 16 + y / 16) | 0xff00_0000,
    }
}
