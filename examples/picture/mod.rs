//! Pictures in memory, from and to PNG files: shared by the examples that draw.
//!
//! ```text
//! voxels.rs   cubes with light and shadow
//! marks.rs    lines and rings on a picture
//! plane.rs    points of a plane
//! stars.rs    skies: drawn, and read from pictures
//! ```

pub(crate) mod marks;
pub(crate) mod plane;
pub(crate) mod stars;
pub(crate) mod voxels;

use std::error::Error;
use std::fs::{File, create_dir_all};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use clap::Args;
use png::{BitDepth, ColorType, Compression, Decoder, Encoder, Transformations};

/// Red, green, blue, opacity.
pub(crate) type Colour = [u8; 4];

pub(crate) const WHITE: Colour = [255; 4];

/// Where pictures go: an option of every example that draws.
#[derive(Args)]
pub(crate) struct Out {
    /// The folder for pictures
    #[arg(long, default_value = "target/pictures")]
    out: PathBuf,
}

impl Out {
    /// Writes a picture into the folder, and prints what it shows.
    pub(crate) fn show(&self, picture: &Picture, name: &str, what: &str) -> Result<(), Box<dyn Error>> {
        let path = self.out.join(name);
        let write = || create_dir_all(&self.out).map_err(Into::into).and_then(|()| picture.save(&path));
        write().map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}: {what}", path.display());
        Ok(())
    }
}

/// Pixels in rows.
#[derive(Clone, PartialEq)]
pub(crate) struct Picture {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) pixels: Vec<Colour>,
}

impl Picture {
    /// A picture whose pixels are given by their coordinates.
    pub(crate) fn from_fn(width: u32, height: u32, colour: impl Fn(u32, u32) -> Colour) -> Picture {
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| colour(x, y)).collect();
        Picture { width, height, pixels }
    }

    /// Reads a PNG file of any colour type and depth; 16 bits become 8.
    pub(crate) fn open(path: &Path) -> Result<Picture, Box<dyn Error>> {
        let read = || -> Result<Picture, Box<dyn Error>> {
            let mut decoder = Decoder::new(BufReader::new(File::open(path)?));
            decoder.set_transformations(Transformations::normalize_to_color8() | Transformations::ALPHA);
            let mut reader = decoder.read_info()?;
            let size = reader.output_buffer_size().ok_or("it is too large for this machine")?;
            let mut bytes = vec![0; size];
            let info = reader.next_frame(&mut bytes)?;
            let samples = &bytes[..info.buffer_size()];
            let pixels = match info.color_type {
                ColorType::Rgba => samples.as_chunks::<4>().0.to_vec(),
                ColorType::GrayscaleAlpha => samples.as_chunks::<2>().0.iter().map(|&[g, a]| [g, g, g, a]).collect(),
                other => return Err(format!("its colour type {other:?} is unknown").into()),
            };
            Ok(Picture { width: info.width, height: info.height, pixels })
        };
        read().map_err(|error| format!("{}: {error}", path.display()).into())
    }

    /// Writes a PNG file; without opacity, if all of it is opaque.
    pub(crate) fn save(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        let mut encoder = Encoder::new(BufWriter::new(File::create(path)?), self.width, self.height);
        encoder.set_depth(BitDepth::Eight);
        encoder.set_compression(Compression::High);
        if self.pixels.iter().all(|&[.., opacity]| opacity == 255) {
            encoder.set_color(ColorType::Rgb);
            let samples: Vec<u8> = self.pixels.iter().flat_map(|&[red, green, blue, _]| [red, green, blue]).collect();
            encoder.write_header()?.write_image_data(&samples)?;
        } else {
            encoder.set_color(ColorType::Rgba);
            encoder.write_header()?.write_image_data(self.pixels.as_flattened())?;
        }
        Ok(())
    }

    /// Replaces each square of `side` by `side` pixels by one pixel, their mean.
    pub(crate) fn shrunk(&self, side: u32) -> Picture {
        let (width, height) = (self.width / side, self.height / side);
        Picture::from_fn(width, height, |x, y| {
            let mut sum = [0u32; 4];
            for i in 0..side * side {
                let (x, y) = (x * side + i % side, y * side + i / side);
                let pixel = self.pixels[y as usize * self.width as usize + x as usize];
                sum.iter_mut().zip(pixel).for_each(|(sum, part)| *sum += u32::from(part));
            }
            sum.map(|sum| (sum / (side * side)) as u8)
        })
    }

    /// This picture with another one of equal size over it, according to the opacity of the other one.
    pub(crate) fn under(&self, other: &Picture) -> Picture {
        let pixels = self.pixels.iter().zip(&other.pixels).map(|(&below, &above)| mixed(below, above, above[3]));
        Picture { width: self.width, height: self.height, pixels: pixels.collect() }
    }

    /// This picture, faded to one colour.
    pub(crate) fn faded(&self, to: Colour, by: u8) -> Picture {
        let pixels = self.pixels.iter().map(|&pixel| mixed(pixel, to, by)).collect();
        Picture { width: self.width, height: self.height, pixels }
    }

    /// Copies another picture into this one, with its upper left corner at x, y; parts outside are cut off.
    pub(crate) fn put(&mut self, other: &Picture, x: u32, y: u32) {
        for (row, pixels) in (y..self.height).zip(other.pixels.chunks(other.width.max(1) as usize)) {
            let from = row as usize * self.width as usize;
            let places = self.pixels[from..from + self.width as usize].iter_mut().skip(x as usize);
            places.zip(pixels).for_each(|(place, &pixel)| *place = pixel);
        }
    }
}

/// One colour mixed with a share, of 255, of another; the opacity is the greater one.
pub(crate) fn mixed(below: Colour, above: Colour, share: u8) -> Colour {
    let share = u32::from(share);
    let mix = |below: u8, above: u8| ((u32::from(below) * (255 - share) + u32::from(above) * share + 127) / 255) as u8;
    let [red, green, blue] = [0, 1, 2].map(|part| mix(below[part], above[part]));
    [red, green, blue, below[3].max(above[3])]
}

/// A colour of the rainbow, by its position on the circle from 0 to 1.
pub(crate) fn hue(place: f32) -> [u8; 3] {
    // Three waves a third of the circle apart, so that no position is much darker than others.
    [0.0, 1.0 / 3.0, 2.0 / 3.0].map(|shift| {
        let wave = (std::f32::consts::TAU * (place - shift)).cos();
        (160.0 + 85.0 * wave) as u8
    })
}
