//! A sparse image in a hash table, as in Garcia et al. 2011, Figures 1 and 4.
//!
//! The pixels that are not background are inserted into a Robin Hood table. Then every pixel of the picture is looked
//! up, and the picture is drawn from the answers: it must be the same, pixel by pixel. This is done with the coherent
//! sequence, which keeps neighbours together, and with a random one, and both tables are drawn.
//!
//! ```sh
//! cargo run --release -p koel-examples -- sparse-image picture.png --out folder
//! ```
//!
//! Without a picture, the example draws one. It writes these files to the folder (default: `target/pictures`):
//!
//! ```text
//! image.png         the picture, drawn from the answers
//! table-*.png       a table's slots in rows as long as the picture's, coloured by their pixels' positions (red: x,
//!                   green: y), for each sequence
//! ages-*.png        the length of the probe sequence from each slot (black 0, blue 1, green 2, yellow 3, red more)
//! sparse_image.png  the picture, and under it the slots of the coherent table in the colours that they store
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use crate::picture::{Colour, Out, Picture, WHITE};
use koel::backend::{HashBackend, Probe, bitmap_words};
use koel::device::{Any, choose};
use koel::layout::Rows2;
use koel::scheme::robin_hood::Sequence;
use koel::scheme::{Plan, Scheme};
use koel::{HashTable, RobinHood};

/// Put the pixels of a picture that are not background into a hash table, and draw the picture from it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A PNG file [default: a picture of its own]
    picture: Option<PathBuf>,
    #[command(flatten)]
    out: Out,
    /// Pairs per slot
    #[arg(long, default_value_t = 0.85)]
    load: f64,
    /// auto, cpu, opencl, opencl:N or opencl:NAME
    #[arg(long, default_value = "auto")]
    device: String,
}

pub(crate) fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let picture = match &args.picture {
        Some(path) => Picture::open(path)?,
        None => rings(480, 320),
    };
    let device = choose(&args.device, None)?.swap_remove(0);
    let cells = Rows2::new(picture.width, picture.height)?;
    let background = most_frequent(&picture);
    let (keys, values): (Vec<u32>, Vec<u32>) =
        (0u32..).zip(&picture.pixels).filter(|&(_, &colour)| colour != background).map(pair).unzip();
    println!(
        "{} x {} pixels, {} of them not background, load {}, {}",
        picture.width,
        picture.height,
        keys.len(),
        args.load,
        device.info()
    );
    for sequence in [Sequence::Coherent, Sequence::Random] {
        let builder = HashTable::builder(RobinHood::canonical().sequence(sequence).max_ages(4)).load_factor(args.load);
        // The first build also compiles the kernels.
        builder.build(&device, &keys, &values)?;
        let (there, values_there) = (device.upload(&keys)?, device.upload(&values)?);
        let (table, build) = device.timed(|| builder.build_on(&device, &there, &values_there))?;
        let (drawn, draw) = drawn(&device, &table, cells, background)?;
        if drawn != picture {
            return Err(format!("the picture drawn from the {} table is another one", sequence.name()).into());
        }
        let stats = table.stats()?;
        println!(
            "{:>9}: built in {:.3} ms, all pixels queried in {:.3} ms, the same picture; {:.2} slots read a hit, {:.2} a miss, \
             oldest pair {}",
            sequence.name(),
            1e3 * build.as_secs_f64(),
            1e3 * draw.as_secs_f64(),
            stats.reads_per_hit,
            stats.reads_per_miss,
            stats.ages.len().saturating_sub(1)
        );
        let slots = show_table(&table, cells, sequence, &args.out)?;
        if sequence == Sequence::Coherent {
            args.out.show(&drawn, "image.png", "the picture, drawn from the answers")?;
            const GAP: u32 = 16;
            let mut both = Picture::from_fn(drawn.width, drawn.height + GAP + slots.height, |_, _| WHITE);
            both.put(&drawn, 0, 0);
            both.put(&slots, 0, drawn.height + GAP);
            args.out.show(
                &both,
                "sparse_image.png",
                "the picture, and under it the slots of the coherent table in the colours that they hold",
            )?;
        }
    }
    Ok(())
}

/// Looks up every pixel, row by row, and draws the answers.
fn drawn(
    device: &Any,
    table: &HashTable<Any, RobinHood>,
    cells: Rows2,
    background: Colour,
) -> koel::Result<(Picture, Duration)> {
    let count = cells.cells() as usize;
    let pixels = device.iota(count)?;
    let (mut colours, mut found) = (device.filled(count, 0)?, device.filled(bitmap_words(count), 0)?);
    // A warm-up: the first lookup compiles its kernel.
    table.get_on_into(&pixels, &mut colours, &mut found)?;
    let ((), time) = device.timed(|| table.get_on_into(&pixels, &mut colours, &mut found))?;
    let (colours, found) = (device.download(&colours)?, device.download(&found)?);
    let shown = |i: usize| if found[i / 32] >> (i % 32) & 1 == 1 { colours[i].to_le_bytes() } else { background };
    let pixels = (0..count).map(shown).collect();
    Ok((Picture { width: cells.width(), height: cells.height(), pixels }, time))
}

/// The key of a pixel is its index in row order, and the value is its colour.
fn pair((number, colour): (u32, &Colour)) -> (u32, u32) {
    (number, u32::from_le_bytes(*colour))
}

/// Draws a table's slots in colours by the positions of their pixels, and its maximum ages. Returns the slots in the
/// colours that they store.
fn show_table(
    table: &HashTable<Any, RobinHood>,
    cells: Rows2,
    sequence: Sequence,
    out: &Out,
) -> Result<Picture, Box<dyn Error>> {
    let (plan, words) = (table.plan(), table.backend().download(table.image())?);
    let rule = plan.rule();
    let slots = plan.slots();
    let (width, height) = (cells.width(), slots.div_ceil(u64::from(cells.width())) as u32);
    let mut places = Picture::from_fn(width, height, |_, _| WHITE);
    let mut held = places.clone();
    let mut greatest = vec![0u32; slots as usize];
    for slot in 0..slots {
        let Some((key, colour)) = RobinHood::pair(plan, &words, slot) else { continue };
        held.pixels[slot as usize] = colour.to_le_bytes();
        let home = &mut greatest[rule.aim(key).0 as usize];
        *home = (*home).max(RobinHood::age(plan, &words, slot));
        if let Some((x, y)) = cells.cell(key) {
            let part = |at: u32, of: u32| (u64::from(at) * 255 / u64::from(of.max(2) - 1)) as u8;
            places.pixels[slot as usize] = [part(x, cells.width()), part(y, cells.height()), 0, 255];
        }
    }
    let ages = Picture::from_fn(width, height, |x, y| match greatest.get((y * width + x) as usize) {
        None => WHITE,
        Some(0) => [0, 0, 0, 255],
        Some(1) => [0, 0, 255, 255],
        Some(2) => [0, 160, 0, 255],
        Some(3) => [255, 220, 0, 255],
        Some(_) => [220, 0, 0, 255],
    });
    let name = sequence.name();
    let what = "the table's slots, coloured by where their pixels are in the picture (red: x, green: y)";
    out.show(&places, &format!("table-{name}.png"), what)?;
    let what = "how far a lookup that begins at a slot must go (black 0, blue 1, green 2, yellow 3, red more)";
    out.show(&ages, &format!("ages-{name}.png"), what)?;
    Ok(held)
}

/// The colour of most pixels; the least of several colours, so that results are reproducible.
fn most_frequent(picture: &Picture) -> Colour {
    let mut counts: HashMap<Colour, u32> = HashMap::new();
    picture.pixels.iter().for_each(|&colour| *counts.entry(colour).or_default() += 1);
    let most = counts.into_iter().max_by_key(|&(colour, count)| (count, std::cmp::Reverse(colour)));
    most.map_or(WHITE, |(colour, _)| colour)
}

/// Rings of changing colours on white.
fn rings(width: u32, height: u32) -> Picture {
    Picture::from_fn(width, height, |x, y| {
        let (dx, dy) = (f64::from(x) - f64::from(width) / 2.0, f64::from(y) - f64::from(height) / 2.0);
        let radius = dx.hypot(dy);
        if radius > f64::from(height) * 0.48 || ((radius / 23.0) as u32).is_multiple_of(3) {
            return WHITE;
        }
        [(x * 255 / width) as u8, (y * 255 / height) as u8, (radius as u32 % 256) as u8, 255]
    })
}
