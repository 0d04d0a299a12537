//! Pictures in memory, from and to PNG files: what two of the examples share.
#![allow(dead_code, unreachable_pub, reason = "each example uses its own part of it")]

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;

use png::{BitDepth, ColorType, Decoder, Encoder, Transformations};

/// Red, green, blue, opacity.
pub type Colour = [u8; 4];

pub const WHITE: Colour = [255; 4];

/// Pixels in rows.
#[derive(Clone, PartialEq)]
pub struct Picture {
    pub width: u32,
    pub height: u32,
    pub pixels: Vec<Colour>,
}

impl Picture {
    /// A picture whose pixels are given by their coordinates.
    pub fn from_fn(width: u32, height: u32, colour: impl Fn(u32, u32) -> Colour) -> Picture {
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| colour(x, y)).collect();
        Picture { width, height, pixels }
    }

    /// Reads a PNG file of any colour type and depth; 16 bits become 8.
    pub fn open(path: &Path) -> Result<Picture, Box<dyn Error>> {
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

    /// Writes a PNG file.
    pub fn save(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        let mut encoder = Encoder::new(BufWriter::new(File::create(path)?), self.width, self.height);
        encoder.set_color(ColorType::Rgba);
        encoder.set_depth(BitDepth::Eight);
        encoder.write_header()?.write_image_data(self.pixels.as_flattened())?;
        Ok(())
    }
}
