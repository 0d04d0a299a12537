//! Lines and rings on a picture, with smooth edges.

use super::plane::{Point, distance, minus};
use super::{Colour, Picture, mixed};

/// Draws a line from one point to another, `width` pixels wide.
pub(crate) fn line(picture: &mut Picture, [from, to]: [Point; 2], width: f32, colour: Colour) {
    let along = minus(to, from);
    let square = along[0] * along[0] + along[1] * along[1];
    stroke(picture, [from, to], width, colour, |point| {
        let from_start = minus(point, from);
        let share = ((from_start[0] * along[0] + from_start[1] * along[1]) / square.max(1e-9)).clamp(0.0, 1.0);
        distance(point, [from[0] + share * along[0], from[1] + share * along[1]])
    });
}

/// Draws a ring around a point.
pub(crate) fn ring(picture: &mut Picture, middle: Point, radius: f32, width: f32, colour: Colour) {
    let corners = [-radius, radius].map(|by| [middle[0] + by, middle[1] + by]);
    stroke(picture, corners, width, colour, |point| (distance(point, middle) - radius).abs());
}

/// Colours the pixels within half the width of a curve inside a box; `from` returns the distance of a point from the
/// curve.
fn stroke(picture: &mut Picture, [one, other]: [Point; 2], width: f32, colour: Colour, from: impl Fn(Point) -> f32) {
    let reach = 0.5 * width + 1.0;
    let span = |axis: usize, size: u32| {
        let (low, high) = (one[axis].min(other[axis]) - reach, one[axis].max(other[axis]) + reach);
        // A float that is not a valid pixel index becomes the nearest one.
        low as u32..(high.ceil() as u32).min(size)
    };
    for y in span(1, picture.height) {
        for x in span(0, picture.width) {
            let cover = (0.5 + 0.5 * width - from([x as f32 + 0.5, y as f32 + 0.5])).clamp(0.0, 1.0);
            let pixel = &mut picture.pixels[y as usize * picture.width as usize + x as usize];
            *pixel = mixed(*pixel, colour, (cover * f32::from(colour[3])) as u8);
        }
    }
}
